import cvxpy as cp
import numpy as np
import pytest

from eniac.widths.exact import (
    bonus_from_unknown,
    bonus_from_widths,
    finite_widths,
    in_few_dimensions,
    linear_widths,
    tabular_widths,
)


def judge(phi, data, epsilon, norm_bound):
    """The width by an independent conic solver, straight from its definition."""
    u = cp.Variable(len(phi))
    constraints = [cp.norm(u) <= 2 * norm_bound]
    if len(data):
        constraints.append(cp.norm(data @ u) <= epsilon)
    return cp.Problem(cp.Maximize(phi @ u), constraints).solve(solver=cp.CLARABEL)


def zoom(phi, gram, epsilon, norm_bound):
    """The scalar dual by brute force: a grid in log lambda, refined around its best point."""
    spectrum, basis = np.linalg.eigh(gram)
    weights = (phi @ basis) ** 2
    low, high = -80.0, 80.0
    best = 4 * norm_bound**2 * weights.sum()
    for _ in range(8):
        grid = np.linspace(low, high, 1001)
        ridge = np.exp(grid)[:, None]
        objective = (weights / (np.maximum(spectrum, 0) + ridge)).sum(1)
        objective *= epsilon**2 + 4 * norm_bound**2 * ridge[:, 0]
        i = objective.argmin()
        best = min(best, objective[i])
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, 1000)]
    return np.sqrt(best)


def random_linear_case(rng):
    dim, num = rng.integers(1, 7), rng.integers(0, 10)
    data = rng.normal(size=(num, dim)) * 10 ** rng.uniform(-1, 1, size=dim)
    phi = rng.normal(size=dim)
    return phi, data, 10 ** rng.uniform(-1, 1), 10 ** rng.uniform(-1, 1)


def test_linear_widths_equal_a_conic_solvers():
    rng = np.random.default_rng(0)
    at_the_ball = 0
    for _ in range(60):
        phi, data, epsilon, norm_bound = random_linear_case(rng)
        width = linear_widths(phi[None], data.T @ data, epsilon, norm_bound)[0]
        assert width == pytest.approx(judge(phi, data, epsilon, norm_bound), rel=2e-6)
        at_the_ball += width == pytest.approx(2 * norm_bound * np.linalg.norm(phi), rel=1e-12)
    assert 5 < at_the_ball < 55  # both kinds of case were met


def test_linear_widths_equal_a_brute_force_search_to_rounding():
    rng = np.random.default_rng(1)
    for _ in range(300):
        phi, data, epsilon, norm_bound = random_linear_case(rng)
        gram = data.T @ data
        width = linear_widths(phi[None], gram, epsilon, norm_bound)[0]
        assert width == pytest.approx(zoom(phi, gram, epsilon, norm_bound), rel=1e-11)


def test_many_queries_at_once_equal_one_at_a_time():
    rng = np.random.default_rng(2)
    data, queries = rng.normal(size=(30, 5)), rng.normal(size=(5000, 5))
    together = linear_widths(queries, data.T @ data, 1.0, 0.3)
    apart = [linear_widths(q[None], data.T @ data, 1.0, 0.3)[0] for q in queries[::500]]
    np.testing.assert_allclose(together[::500], apart, rtol=1e-12)


def test_without_data_the_width_is_the_norm_balls():
    phi = np.random.default_rng(3).normal(size=(50, 4))
    widths = linear_widths(phi, np.zeros((4, 4)), 0.7, 1.5)
    np.testing.assert_allclose(widths, 3.0 * np.linalg.norm(phi, axis=1), rtol=1e-13)


def test_with_a_vast_ball_the_width_is_the_ellipsoid_norm():
    rng = np.random.default_rng(4)
    data, phi = rng.normal(size=(20, 4)), rng.normal(size=(50, 4))
    gram = data.T @ data
    ellipsoid = 0.7 * np.sqrt(np.einsum("qi,ij,qj->q", phi, np.linalg.inv(gram), phi))
    for norm_bound in (1e6, np.inf):
        np.testing.assert_allclose(linear_widths(phi, gram, 0.7, norm_bound), ellipsoid, rtol=1e-10)


def test_singular_grams_use_ball_and_ellipsoid_each_in_its_own_directions():
    gram = np.diag([4.0, 0.0])
    phi = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(linear_widths(phi, gram, 0.5, 3.0), [0.25, 6.0, 0.0], atol=1e-14)
    np.testing.assert_array_equal(linear_widths(phi, gram, 0.5, np.inf), [0.25, np.inf, 0.0])
    np.testing.assert_allclose(linear_widths(phi, gram, 0.0, 3.0), [0.0, 6.0, 0.0])


def test_few_dimensions_keep_all_inner_products_and_widths():
    rng = np.random.default_rng(0)
    rows, counts = rng.normal(size=(6, 40)), rng.integers(0, 9, size=6)
    reduced, basis = in_few_dimensions(rows)
    assert reduced.shape == (6, 6)
    np.testing.assert_allclose(reduced @ basis.T, rows, atol=1e-12)
    np.testing.assert_allclose(basis.T @ basis, np.eye(6), atol=1e-12)
    widths = [linear_widths(r, (r.T * counts) @ r, 0.5, 2.0) for r in (rows, reduced)]
    np.testing.assert_allclose(*widths, rtol=1e-7)
    same, unit = in_few_dimensions(rows.T)
    assert same.shape == (40, 6)
    np.testing.assert_array_equal(unit, np.eye(6))


def test_one_hot_linear_widths_are_tabular_widths():
    counts = np.array([0, 1, 3, 50])
    tabular = tabular_widths(counts, 0.9, 0.4)
    np.testing.assert_allclose(tabular, [0.8, 0.8, 0.9 / np.sqrt(3), 0.9 / np.sqrt(50)])
    # One-hot features share one norm ball, which for a single query is the same interval.
    linear = linear_widths(np.eye(4), np.diag(counts.astype(float)), 0.9, 0.4)
    np.testing.assert_allclose(linear, tabular, rtol=1e-12)


def test_finite_widths_equal_a_loop_over_pairs():
    rng = np.random.default_rng(5)
    for _ in range(20):
        values = rng.integers(-2, 3, size=(rng.integers(1, 8), 6)).astype(float)
        counts, epsilon = rng.integers(0, 3, size=6), rng.uniform(0, 6)
        expected = np.zeros(6)
        for f in values:
            for g in values:
                if np.sqrt(counts @ (f - g) ** 2) <= epsilon:
                    expected = np.maximum(expected, f - g)
        np.testing.assert_array_equal(finite_widths(values, values, epsilon, counts), expected)
        data = np.repeat(np.arange(6), counts)
        np.testing.assert_array_equal(finite_widths(values[:, data], values, epsilon), expected)


def test_a_finite_linear_class_approaches_the_ball_from_below():
    rng = np.random.default_rng(6)
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vectors = np.concatenate([r * vectors for r in (0.0, 0.5, 1.0)])
    data, queries = rng.normal(size=(4, 2)), rng.normal(size=(10, 2))
    finite = finite_widths(vectors @ data.T, vectors @ queries.T, 0.8)
    ball = linear_widths(queries, data.T @ data, 0.8, 1.0)
    assert np.all(finite <= ball + 1e-12)
    np.testing.assert_allclose(finite, ball, rtol=0.1)


def test_known_sets_of_all_exact_methods_agree_on_a_tabular_class():
    counts, epsilon, beta = np.array([0, 1, 4, 9, 16]), 3.0, 1.0
    # An explicit list that contains the extreme functions of the table, one pair at a time.
    levels = np.linspace(0, 2, 401)
    values = np.concatenate([np.outer(levels, row) for row in np.eye(5)])
    by_count = tabular_widths(counts, epsilon, 1.0) >= beta
    by_dual = linear_widths(np.eye(5), np.diag(counts.astype(float)), epsilon, 1.0) >= beta
    by_list = finite_widths(values, values, epsilon, counts) >= beta
    assert by_count.tolist() == by_dual.tolist() == by_list.tolist() == [True] * 4 + [False]


def test_the_bonus_is_a_threshold_times_the_horizon():
    widths = np.array([[0.5, 0.2], [0.49, 0.0]])
    np.testing.assert_allclose(bonus_from_widths(widths, 0.5, 0.9), [[10, 0], [0, 0]])
    np.testing.assert_allclose(bonus_from_widths(widths, 0.2, 0.9, 0.1), [[200, 200], [200, 0]])
    np.testing.assert_allclose(bonus_from_unknown(widths > 1, 0.9), 0.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear_widths(np.eye(2), np.eye(3), 1, 1), "features have shape"),
        (lambda: linear_widths(np.eye(2), -np.eye(2), 1, 1), "eigenvalue -1"),
        (lambda: linear_widths(np.eye(2), np.eye(2), -1, 1), "epsilon is -1"),
        (lambda: linear_widths(np.eye(2), np.eye(2), 1, 0), "norm_bound is 0"),
        (lambda: linear_widths(np.eye(2) * np.nan, np.eye(2), 1, 1), "finite"),
        (lambda: tabular_widths(np.array([-1]), 1, 1), "counts"),
        (lambda: tabular_widths(np.array([1]), 1, np.inf), "bound is inf"),
        (lambda: finite_widths(np.zeros((2, 3)), np.zeros((3, 3)), 1), "same functions"),
        (lambda: finite_widths(np.zeros((0, 3)), np.zeros((0, 3)), 1), "class is empty"),
        (lambda: bonus_from_widths(np.zeros((1, 1)), 0, 0.9), "beta is 0"),
        (lambda: bonus_from_unknown(np.zeros((1, 1), bool), 1.0), "gamma is 1.0"),
        (lambda: bonus_from_unknown(np.zeros((1, 1), bool), 0.9, 0.0), "alpha is 0.0"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
