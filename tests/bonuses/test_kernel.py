"""PC-PG's bonus against kernels, inverses and distances computed by NumPy and SciPy."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.spatial.distance
from gymnasium.spaces import Box, Discrete

from eniac.bonuses.kernel import Kernel
from eniac.buffer import Buffer, Pairs
from eniac.draws import integers
from eniac.features import NUM_MEDIAN, median_distance
from eniac.spaces import PairEncoder, Spaces
from pairs import add, fresh, values

SPACES = Spaces(Box(-3.0, 3.0, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32))
CAPACITY = 3
NUM = 50
RULE = Kernel(features=8, bandwidth="paper")


def some(seed, num=NUM, scale=1.0):
    rng = np.random.default_rng(seed)
    return Pairs(
        jnp.asarray(scale * rng.normal(size=(num, 2)), jnp.float32),
        jnp.asarray(rng.uniform(-1, 1, (num, 1)), jnp.float32),
    )


fit = jax.jit(Kernel.fit, static_argnums=0)


def fitted(rule, *visits):
    """The bonus after one fit for each of `visits`, and the buffer of all."""
    bonus = fresh(rule, SPACES, (8,))
    buffer = Buffer.empty(SPACES, CAPACITY * NUM)
    for place, visit in enumerate(visits):
        buffer = add(buffer, jax.random.key(0), visit, NUM, place)
        bonus = fit(rule, jax.random.key(1), bonus, buffer, some(9, 1))
    return bonus, buffer


def features(bonus, pairs):
    return values(bonus.features, pairs).astype(np.float64)


def vectors(pairs):
    return np.concatenate(pairs, axis=1)


@pytest.mark.parametrize("inverse_width", [1.0, 0.3])
def test_features_have_the_products_of_the_gaussian_kernel(inverse_width):
    pairs, rule, num_draws = some(0, 12), replace(RULE, features=1000), 16

    @jax.jit
    def drawn(key):
        bonus = rule.init(key, SPACES, (8,))
        bonus = eqx.tree_at(lambda b: b.features.inverse_width, bonus, jnp.asarray(inverse_width))
        return jax.vmap(bonus.features)(*pairs)

    phi = np.concatenate([drawn(jax.random.key(i)) for i in range(num_draws)], axis=1)
    phi = phi.astype(np.float64) / np.sqrt(num_draws)
    distance = scipy.spatial.distance.cdist(vectors(pairs), vectors(pairs))
    exact = np.exp(-inverse_width * distance**2)
    # Each product is a mean of 16,000 terms 2 cos cos, of variance at most 1.5.
    error = np.sqrt(1.5 / phi.shape[1])
    assert np.max(np.abs(phi @ phi.T - exact)) < 4 * error
    assert exact.min() < 0.1  # far pairs are among them


def test_the_precision_is_the_inverse_of_the_ridge_and_the_sum_over_all_visits():
    visits = [some(seed) for seed in range(3)]
    bonus, buffer = fitted(RULE, *visits)
    phi = features(bonus, buffer.pairs)
    exact = np.linalg.inv(RULE.ridge * np.eye(8) + phi.T @ phi)
    np.testing.assert_allclose(bonus.precision, exact, rtol=1e-3, atol=1e-4 * np.abs(exact).max())


def test_the_bonus_is_the_ellipsoid_norm_times_the_coefficient():
    bonus, buffer = fitted(replace(RULE, coefficient=3.0), some(0), some(1))
    query = some(5, 20, scale=3.0)
    phi, data = features(bonus, query), features(bonus, buffer.pairs)[: 2 * NUM]
    sigma = RULE.ridge * np.eye(8) + data.T @ data
    exact = 3 * np.sqrt(np.sum(phi * np.linalg.solve(sigma, phi.T).T, axis=1))
    np.testing.assert_allclose(values(bonus, query), exact, rtol=1e-3)


def test_more_visits_lower_the_bonus_everywhere_and_most_where_they_were():
    near, far = some(5, 20, scale=0.1), some(6, 20, scale=3.0)
    rule = replace(RULE, features=64)
    once, twice = (fitted(rule, *[some(7, scale=0.1)] * n)[0] for n in (1, 2))
    ratios = []
    for query in (near, far):
        first, then = values(once, query), values(twice, query)
        assert np.all(then <= first * (1 + 1e-4))
        ratios.append(np.mean(then / first))
        # Twice as many data can lower it by no more than that, ridge or not.
        assert np.all(then >= first / np.sqrt(2) * (1 - 1e-3))
    assert ratios[0] < 0.8
    assert ratios[1] > 0.9
    assert np.mean(values(once, far)) > 3 * np.mean(values(once, near))


def test_a_coefficient_of_zero_is_the_bonus_zero():
    zero, _ = fitted(replace(RULE, coefficient=0.0), some(0))
    np.testing.assert_array_equal(values(zero, some(1)), np.zeros(NUM))


def test_a_row_of_weight_three_is_three_visits():
    thrice = Buffer.empty(SPACES, CAPACITY * NUM)
    for place in range(3):
        thrice = thrice.add(jax.random.key(0), some(0), NUM, place)
    once = Buffer.empty(SPACES, CAPACITY * NUM).add(jax.random.key(0), some(0), NUM, 0)
    once = eqx.tree_at(lambda b: b.weight, once, 3 * once.weight)
    start = RULE.init(jax.random.key(0), SPACES, (8,))
    a, b = (fit(RULE, jax.random.key(1), start, x, some(9, 1)) for x in (thrice, once))
    np.testing.assert_allclose(a.precision, b.precision, rtol=1e-3, atol=1e-5)


def test_the_covariance_is_the_same_in_chunks(monkeypatch):
    bonus, buffer = fitted(RULE, some(0), some(1))
    whole = bonus.features.gram(buffer.pairs, buffer.weight, buffer.count)
    monkeypatch.setattr("eniac.features.CHUNK_FLOATS", 8 * 31)  # chunks of 31 of the 150 rows
    chunks = bonus.features.gram(buffer.pairs, buffer.weight, buffer.count)
    np.testing.assert_allclose(chunks, whole, rtol=1e-4, atol=1e-4)


def test_the_bonus_is_zero_before_the_first_fit():
    bonus = RULE.init(jax.random.key(0), SPACES, (8,))
    np.testing.assert_array_equal(values(bonus, some(1)), np.zeros(NUM))


def test_the_papers_kernel_has_width_one_whatever_the_data():
    assert float(fitted(RULE, some(0, scale=100.0))[0].features.inverse_width) == 1.0


def test_the_median_distance_is_that_of_all_pairs_but_for_sampling():
    pairs = some(3, 2000, scale=2.0)
    encoder = PairEncoder(SPACES, with_action=True)
    rows = jax.random.randint(jax.random.key(4), (2, NUM_MEDIAN), 0, 2000)
    got = float(median_distance(encoder, pairs, rows))
    every = scipy.spatial.distance.pdist(vectors(pairs))
    # The median of n draws lies at a quantile of standard deviation 1 / (2 sqrt n).
    assert abs(np.mean(every <= got) - 0.5) < 3.5 / (2 * np.sqrt(NUM_MEDIAN))


def test_the_median_sets_the_width_at_the_first_fit_and_never_again():
    rule = replace(RULE, bandwidth="median")
    first, _ = fitted(rule, some(0))
    rows = integers(jax.random.key(1), (2, NUM_MEDIAN), NUM)
    median = median_distance(first.features.encoder, some(0), rows)
    np.testing.assert_allclose(first.features.inverse_width, 1 / median**2, rtol=1e-5)
    later, _ = fitted(rule, some(0), some(1, scale=50.0))
    np.testing.assert_array_equal(later.features.inverse_width, first.features.inverse_width)


def test_a_fit_without_data_leaves_the_width_to_be_set():
    rule = replace(RULE, bandwidth="median")
    start = rule.init(jax.random.key(0), SPACES, (8,))
    empty = Buffer.empty(SPACES, CAPACITY * NUM)
    bonus = fit(rule, jax.random.key(1), start, empty, some(9, 1))
    assert not bool(bonus.features.chosen)
    buffer = empty.add(jax.random.key(0), some(0), NUM, 0)
    bonus = fit(rule, jax.random.key(1), bonus, buffer, some(9, 1))
    assert bool(bonus.features.chosen)
    assert float(bonus.features.inverse_width) != 1


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_points_that_are_mostly_the_same_still_have_a_kernel(share):
    moved = int(share * NUM)
    same = Pairs(jnp.ones((NUM, 2)).at[:moved].add(2.0), jnp.zeros((NUM, 1)))
    bonus, _ = fitted(replace(RULE, bandwidth="median"), same)
    # All distances that are not zero are 2 sqrt 2.
    np.testing.assert_allclose(bonus.features.inverse_width, 1 / 8 if moved else 1.0, rtol=1e-5)
    # NUM - moved visits allow no more than that, and the ridge takes a little.
    there = float(bonus(same.observation[-1], same.action[-1]))
    assert there <= 1 / np.sqrt(NUM - moved) * (1 + 1e-3)
    np.testing.assert_allclose(there, 1 / np.sqrt(NUM - moved), rtol=0.02)


def test_discrete_pairs_have_a_bonus_each():
    spaces = Spaces(Discrete(3), Discrete(2))
    rule = Kernel(features=32)
    bonus = rule.init(jax.random.key(0), spaces, (8,))
    visit = Pairs(jnp.asarray([0] * 8 + [1, 2]), jnp.asarray([0] * 8 + [1, 0]))
    buffer = Buffer.empty(spaces, 10).add(jax.random.key(0), visit, 10, 0)
    bonus = fit(rule, jax.random.key(1), bonus, buffer, visit)
    value = lambda s, a: float(bonus(jnp.asarray(s), jnp.asarray(a)))  # noqa: E731
    assert value(0, 0) < value(1, 1) < value(1, 0)


@pytest.mark.parametrize(
    ("name", "value"), [("features", 0), ("ridge", 0.0), ("coefficient", -1.0)]
)
def test_a_bad_setting_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"kernel\.{name} is {value}; it must be "):
        replace(RULE, **{name: value})


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_bandwidth_is_refused():
    with pytest.raises(ValueError, match="bandwidth is 'mean'; it must be one of 'median', 'pap"):
        replace(RULE, bandwidth="mean")
