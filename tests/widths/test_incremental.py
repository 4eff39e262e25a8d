import numpy as np
import pytest

from eniac.functions import Linear, Tabular
from eniac.widths.exact import linear_widths
from eniac.widths.incremental import GrowingGram, count_pairs


def test_counts_add_up_epoch_by_epoch():
    rng = np.random.default_rng(0)
    states, actions = rng.integers(5, size=1000), rng.integers(3, size=1000)
    together = count_pairs(states, actions, 5, 3)
    parts = [
        count_pairs(s, a, 5, 3)
        for s, a in zip(np.split(states, 10), np.split(actions, 10), strict=True)
    ]
    assert np.array_equal(sum(parts), together)
    assert together.sum() == 1000
    brute = np.zeros((5, 3), int)
    np.add.at(brute, (states, actions), 1)
    assert np.array_equal(together, brute)
    assert np.array_equal(
        Tabular(5, 3, 2.0).widths(sum(parts), 1.0), Tabular(5, 3, 2.0).widths(brute, 1.0)
    )


@pytest.mark.parametrize("refresh_every", [10, 1000])
def test_rank_one_updates_equal_recomputation(refresh_every):
    rng = np.random.default_rng(0)
    data, weights = rng.normal(size=(400, 6)), rng.integers(1, 5, size=400)
    growing = GrowingGram(6, 0.1, refresh_every)
    for phi, weight in zip(data, weights, strict=True):
        growing.add(phi, weight)
    gram = (data * weights[:, None]).T @ data
    full = gram + 0.1 * np.eye(6)
    assert growing.gram == pytest.approx(gram, rel=1e-12)
    assert growing.inverse == pytest.approx(np.linalg.inv(full), rel=1e-9)
    assert growing.log_determinant == pytest.approx(np.linalg.slogdet(full)[1], rel=1e-12)
    queries = rng.normal(size=(20, 6))
    norms = [np.sqrt(phi @ np.linalg.solve(full, phi)) for phi in queries]
    assert growing.norms(queries) == pytest.approx(norms, rel=1e-9)


@pytest.mark.parametrize("num_pairs", [2, 30])
def test_counts_added_at_once_equal_data_added_one_by_one(num_pairs):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(num_pairs // 2, 2, 4))
    counts = rng.integers(0, 4, size=(num_pairs // 2, 2))
    at_once, one_by_one = GrowingGram(4, 1.0), GrowingGram(4, 1.0)
    at_once.add_counts(features, counts)
    for s, a in np.argwhere(counts > 0):
        for _ in range(counts[s, a]):
            one_by_one.add(features[s, a])
    assert at_once.gram == pytest.approx(one_by_one.gram)
    assert at_once.inverse == pytest.approx(one_by_one.inverse)
    assert at_once.log_determinant == pytest.approx(one_by_one.log_determinant)


def test_widths_from_a_grown_gram_are_those_of_the_class():
    rng = np.random.default_rng(2)
    function_class = Linear(rng.normal(size=(5, 2, 3)), 2.0)
    growing, total = GrowingGram(3, 1.0), np.zeros((5, 2), int)
    for _ in range(4):
        counts = rng.integers(0, 5, size=(5, 2))
        total += counts
        growing.add_counts(function_class.features, counts)
    widths = linear_widths(function_class.features.reshape(-1, 3), growing.gram, 0.7, 2.0)
    assert widths == pytest.approx(function_class.widths(total, 0.7).ravel(), rel=1e-9)


def test_bad_data_are_refused():
    with pytest.raises(ValueError, match="states go from 0 to 5"):
        count_pairs(np.array([0, 5]), np.array([0, 0]), 5, 2)
    with pytest.raises(ValueError, match="shape"):
        count_pairs(np.array([0, 1]), np.array([0]), 5, 2)
    with pytest.raises(ValueError, match="ridge"):
        GrowingGram(3, 0.0)
    with pytest.raises(ValueError, match="weight"):
        GrowingGram(3, 1.0).add(np.ones(3), -1.0)
