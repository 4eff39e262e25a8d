import itertools
import math

import numpy as np
import pytest

from eniac.theory import eluder
from eniac.widths.exact import finite_widths


def is_independent_sequence(values, points, scale):
    """Definition 1, word by word, for a finite class at one scale."""
    for i, x in enumerate(points):
        before = list(points[:i])
        if not any(
            np.sqrt(np.sum((f[before] - g[before]) ** 2)) <= scale < abs(f[x] - g[x])
            for f, g in itertools.combinations(values, 2)
        ):
            return False
    return True


def brute_force_dimension(values, epsilon):
    """All sequences without repetition, at every scale where independence can begin."""
    num_points = values.shape[1]
    scales = {epsilon}
    for f, g in itertools.combinations(values, 2):
        for size in range(num_points + 1):
            for subset in itertools.combinations(range(num_points), size):
                norm = np.sqrt(np.sum((f[list(subset)] - g[list(subset)]) ** 2))
                if norm >= epsilon:
                    scales.add(norm)
    for size in range(num_points, 0, -1):
        for points in itertools.permutations(range(num_points), size):
            if any(is_independent_sequence(values, points, scale) for scale in scales):
                return size
    return 0


def test_exact_dimension_of_finite_classes_equals_brute_force():
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(60):
        values = rng.integers(0, 4, size=(rng.integers(1, 5), rng.integers(1, 5))).astype(float)
        epsilon = rng.choice([0.0, 0.5, 1.0, 1.5])
        found = eluder.finite_eluder_dimension(values, epsilon)
        assert found.dimension == brute_force_dimension(values, epsilon)
        assert found.scale >= epsilon
        # The square of a root misses by an ulp, so the witness is checked a hair above its scale.
        assert is_independent_sequence(values, found.points, found.scale * (1 + 1e-12))
        seen.add(found.dimension)
    assert seen == {0, 1, 2, 3, 4}


def test_a_larger_scale_can_allow_a_longer_sequence():
    # Every pair of functions differs by 1 or more on both points, so at scale 0.5 one point settles
    # everything. At scale 1 the first two functions still agree on the first point.
    values = np.array([[0.0, 0.0], [1.0, 3.0], [2.5, 5.0]])
    at_half = eluder.longest_independent_sequence(
        lambda points: finite_widths(values[:, list(points)], values, 0.5), 2, 0.5
    )
    anywhere = eluder.finite_eluder_dimension(values, 0.5)
    assert (at_half.dimension, anywhere.dimension) == (1, 2)
    assert anywhere.scale == 1.0


def test_tabular_classes_have_one_dimension_a_pair():
    values = np.array(list(itertools.product([0.0, 1.0], repeat=4)))
    assert eluder.finite_eluder_dimension(values, 0.9).dimension == 4
    assert eluder.finite_eluder_dimension(values, 1.0).dimension == 0  # more than, not at least
    assert eluder.tabular_eluder_dimension(4, 0.9, bound=0.5) == 4
    assert eluder.tabular_eluder_dimension(4, 1.0, bound=0.5) == 0


def test_linear_dimension_equals_a_search_over_all_orders():
    rng = np.random.default_rng(1)
    for _ in range(6):
        features = rng.normal(size=(4, 2)) * 10 ** rng.uniform(-1, 0.5, size=(4, 1))
        found = eluder.linear_eluder_dimension(features, 0.3, 1.0)
        widths = eluder._linear_oracle(features, 0.3, 1.0)
        lengths = [0]
        for size in range(1, 5):
            for points in itertools.permutations(range(4), size):
                if all(widths(points[:i])[x] > 0.3 for i, x in enumerate(points)):
                    lengths.append(size)
        assert found.dimension == max(lengths)


def test_linear_independence_at_a_scale_is_independence_at_every_smaller_one():
    rng = np.random.default_rng(2)
    for _ in range(50):
        data, phi = rng.normal(size=(rng.integers(0, 4), 3)), rng.normal(size=(20, 3))
        radii = np.geomspace(0.01, 10, 12)
        ratios = [eluder.linear_widths(phi, data.T @ data, r, 1.0) / r for r in radii]
        assert np.all(np.diff(ratios, axis=0) <= 1e-12 * np.array(ratios)[:-1])


def test_orthogonal_features_have_the_dimension_of_the_space():
    assert eluder.linear_eluder_dimension(np.eye(5), 0.5, 1.0).dimension == 5
    assert eluder.linear_eluder_dimension(np.eye(5), 2.0, 1.0).dimension == 0
    assert eluder.linear_eluder_dimension(np.ones((6, 1)), 0.5, 1.0).dimension == 1


def test_greedy_sequences_are_valid_and_never_longer_than_the_exact_ones():
    rng = np.random.default_rng(3)
    for _ in range(10):
        features = rng.normal(size=(8, 2)) * 10 ** rng.uniform(-1.5, 0, size=(8, 1))
        exact = eluder.linear_eluder_dimension(features, 0.1, 1.0)
        greedy = eluder.greedy_linear_eluder_dimension(features, 0.1, 1.0)
        assert 1 <= greedy.dimension <= exact.dimension
        widths = eluder._linear_oracle(features, 0.1, 1.0)
        for i, x in enumerate(greedy.points):
            assert widths(greedy.points[:i])[x] > 0.1


def test_bounds_lie_above_what_is_found():
    rng = np.random.default_rng(4)
    for dim in (1, 2, 4):
        for epsilon in (1.0, 0.1, 0.01):
            features = rng.normal(size=(400, dim))
            features *= (rng.uniform(0, 1, size=400) ** 4 / np.linalg.norm(features, axis=1))[
                :, None
            ]
            found = eluder.greedy_linear_eluder_dimension(features, epsilon, 1.0).dimension
            assert dim < found <= eluder.linear_eluder_bound(dim, epsilon, 1.0)


def test_bounds_have_the_published_value():
    # 3 d e/(e-1) log(3 + 3 (2S/eps)^2) + 1 at d = 2, S = 1, eps = 2: log 6.
    expected = 6 * math.e / (math.e - 1) * math.log(6) + 1
    assert eluder.linear_eluder_bound(2, 2.0, 1.0) == pytest.approx(expected)
    assert eluder.linear_eluder_bound(2, 4.0, 1.0, feature_bound=2.0) == pytest.approx(expected)
    # r = 2, high slope 1: 4 times as many dimensions, log(12 + 12).
    expected = 24 * math.e / (math.e - 1) * math.log(24) + 1
    assert eluder.glm_eluder_bound(2, 2.0, 1.0, slopes=(0.5, 1.0)) == pytest.approx(expected)


def test_a_glm_on_a_list_stays_below_its_bound():
    grid = np.linspace(-1, 1, 9)
    values = 1 / (1 + np.exp(-grid[:, None] * np.array([0.2, 0.4, 0.6, 0.8, 1.0])))
    slope = lambda z: np.exp(-z) / (1 + np.exp(-z)) ** 2  # noqa: E731
    bound = eluder.glm_eluder_bound(1, 0.05, 1.0, slopes=(slope(1.0), 0.25))
    assert 1 <= eluder.finite_eluder_dimension(values, 0.05).dimension <= bound


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: eluder.finite_eluder_dimension(np.zeros((2, 17)), 0.1), "limited to 16"),
        (lambda: eluder.finite_eluder_dimension(np.zeros((1001, 2)), 0.1), "1001 functions"),
        (lambda: eluder.finite_eluder_dimension(np.zeros((0, 2)), 0.1), "functions, points"),
        (lambda: eluder.finite_eluder_dimension(np.zeros((2, 2)), -0.1), "epsilon is -0.1"),
        (lambda: eluder.linear_eluder_dimension(np.zeros((2, 2)), 0.0, 1.0), "epsilon is 0.0"),
        (lambda: eluder.linear_eluder_bound(0, 0.1, 1.0), "dim is 0"),
        (lambda: eluder.glm_eluder_bound(1, 0.1, 1.0, slopes=(0.0, 1.0)), "smaller slope is 0.0"),
        (lambda: eluder.glm_eluder_bound(1, 0.1, 1.0, slopes=(2.0, 1.0)), "low <= high"),
        (lambda: eluder.tabular_eluder_dimension(0), "num_pairs is 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
