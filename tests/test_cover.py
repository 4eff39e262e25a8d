"""The policy cover: what is in it, how it is drawn from, and PC-PG's weights."""

import functools

import cvxpy as cp
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from eniac.buffer import Pairs
from eniac.cover import COVERS, Cover, LogDet, Uniform, log_det, uniform
from eniac.errors import ConfigError
from eniac.policies import actor_critic
from eniac.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from eniac.runs.identity import Origin
from eniac.runs.progress import Progress
from eniac.spaces import Spaces

SPACES = Spaces(Box(-1.0, 1.0, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32))
CAPACITY = 4


@eqx.filter_jit
def policy(seed):
    return actor_critic(jax.random.key(seed), *SPACES, (4,))


def same(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


def cover_of(*seeds, capacity=CAPACITY):
    cover = Cover.empty(policy(0), capacity)
    for seed in seeds:
        cover = cover.add(policy(seed))
    return cover


def test_an_empty_cover_has_no_policy_and_no_weight():
    cover = Cover.empty(policy(0), CAPACITY)
    assert cover.capacity == CAPACITY
    assert int(cover.count) == 0
    np.testing.assert_array_equal(cover.weights, np.zeros(CAPACITY))


def test_a_cover_without_room_is_refused():
    with pytest.raises(ValueError, match="the capacity of the cover is 0; it must be 1 or more"):
        Cover.empty(policy(0), 0)


def test_policies_are_taken_as_they_were_added_and_share_the_weight_equally():
    cover = cover_of(5, 6, 7)
    assert int(cover.count) == 3
    for place, seed in enumerate((5, 6, 7)):
        assert same(cover.take(jnp.asarray(place)), policy(seed))
    np.testing.assert_allclose(cover.weights, [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)


def test_many_are_taken_in_the_shape_that_their_places_have():
    stack = cover_of(5, 6, 7).take(jnp.asarray([[2, 0], [1, 1]]))
    assert jax.tree.leaves(stack)[0].shape[:2] == (2, 2)
    assert same(jax.tree.map(lambda x: x[0, 0], stack), policy(7))
    assert same(jax.tree.map(lambda x: x[1, 1], stack), policy(6))


def test_a_full_cover_stays_as_it_is():
    full = cover_of(1, 2, capacity=2).reweighted(jnp.asarray([0.9, 0.1]))
    assert same(full.add(policy(3)), full)


def test_policies_are_drawn_as_often_as_their_weights_say():
    weights = np.array([0.5, 0.3, 0.2, 0.0])
    cover = cover_of(1, 2, 3).reweighted(jnp.asarray(weights))
    drawn = np.asarray(cover.places(jax.random.uniform(jax.random.key(0), (100, 200))))
    assert drawn.shape == (100, 200)
    counts = np.bincount(drawn.ravel(), minlength=CAPACITY)
    assert counts[3] == 0
    assert scipy.stats.chisquare(counts[:3], weights[:3] * drawn.size).pvalue > 1e-3


@pytest.mark.parametrize("count", [1, 3, 4])
def test_uniform_weights_are_one_over_the_count_and_zero_beyond(count):
    expected = np.where(np.arange(CAPACITY) < count, 1 / count, 0)
    np.testing.assert_allclose(uniform(CAPACITY, jnp.asarray(count)), expected, rtol=1e-6)


def test_a_cover_comes_back_from_a_checkpoint_bit_for_bit(tmp_path):
    cover = cover_of(1, 2).reweighted(jnp.asarray([0.25, 0.75, 0, 0]))
    progress = Progress(np.array([1]), np.array([1]), np.zeros(1), np.zeros(1), 0.0)
    path = save_checkpoint(
        tmp_path, Checkpoint(cover, progress, {}, Origin("run", "settings", {})), keep=1
    )
    loaded = load_checkpoint(path, jax.eval_shape(lambda: cover)).state
    assert jax.tree.structure(loaded) == jax.tree.structure(cover)
    assert same(loaded, cover)


# PC-PG's weights

NUM, DIM = 5, 3
solve = jax.jit(log_det, static_argnums=2)


def covariances(seed, ranks=(3, 3, 1, 2, 3)):
    """Random ones, some of them singular, as those of a policy that visits little are."""
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.1, 3, NUM)
    parts = [s * rng.normal(size=(DIM, r)) for s, r in zip(scales, ranks, strict=True)]
    return np.stack([x @ x.T for x in parts])


def best(covariances):
    """The weights and the value of largest log det, by cvxpy."""
    weights = cp.Variable(len(covariances), nonneg=True)
    mixed = sum(w * c for w, c in zip(weights, covariances, strict=True))
    problem = cp.Problem(cp.Maximize(cp.log_det(mixed)), [cp.sum(weights) == 1])
    value = problem.solve(solver=cp.SCS, eps=1e-8, max_iters=50_000)
    return weights.value, value


def value_of(weights, covariances):
    return np.linalg.slogdet(np.tensordot(np.asarray(weights, np.float64), covariances, 1))[1]


@pytest.mark.parametrize("seed", range(4))
def test_log_det_weights_are_the_maximiser_that_cvxpy_finds(seed):
    data = covariances(seed)
    weights, value = best(data)
    ours = solve(jnp.asarray(data, jnp.float32), jnp.asarray(NUM))
    # Steps shrink near a weight that goes to zero, so the value is the sharper comparison.
    assert value_of(ours, data) == pytest.approx(value, abs=1e-3)
    np.testing.assert_allclose(ours, weights, atol=0.01)
    np.testing.assert_allclose(np.sum(ours), 1, rtol=1e-6)


def test_log_det_weights_satisfy_the_optimality_conditions_of_the_equivalence_theorem():
    # Kiefer and Wolfowitz: tr(S^-1 Sigma_n) <= d everywhere, with equality where there is weight.
    data = covariances(7)
    weights = np.asarray(solve(jnp.asarray(data, jnp.float32), jnp.asarray(NUM)), np.float64)
    gain = np.einsum("ij,nji->n", np.linalg.inv(np.tensordot(weights, data, 1)), data)
    assert np.all(gain <= DIM * 1.01)
    np.testing.assert_allclose(gain[weights > 0.01], DIM, rtol=0.01)


def test_log_det_weights_of_an_incomplete_cover_are_those_of_its_policies():
    data = jnp.asarray(covariances(1), jnp.float32)
    masked = solve(data, jnp.asarray(3))
    np.testing.assert_array_equal(masked[3:], [0, 0])
    np.testing.assert_allclose(masked[:3], solve(data[:3], jnp.asarray(3)), atol=1e-4)
    np.testing.assert_array_equal(solve(data, jnp.asarray(1)), [1, 0, 0, 0, 0])


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_log_det_weights_do_not_depend_on_a_common_factor(factor):
    data = covariances(2)
    plain, scaled = (
        solve(jnp.asarray(c * data, jnp.float32), jnp.asarray(NUM)) for c in (1.0, factor)
    )
    np.testing.assert_allclose(plain, scaled, atol=1e-4)


def test_log_det_prefers_the_policy_that_covers_all_directions():
    data = jnp.asarray([np.diag([1, 0.01, 0.01]), np.eye(3)], jnp.float32)
    np.testing.assert_allclose(solve(data, jnp.asarray(2)), [0, 1], atol=1e-3)


# The rules


RULES = {"uniform": Uniform(), "log-det": LogDet(features=16)}
ROWS = 40
weigh = jax.jit(lambda rule, *args: rule.weigh(*args), static_argnums=0)


def visits(seed, scale=1.0, num=ROWS):
    rng = np.random.default_rng(seed)
    return Pairs(
        jnp.asarray(scale * rng.normal(size=(num, 2)), jnp.float32),
        jnp.asarray(rng.uniform(-1, 1, (num, 1)), jnp.float32),
    )


def weighed(rule, *visited, num=ROWS):
    """What the rule knows, and the weights, after policies with these visits."""
    memory, weights = rule.init(jax.random.key(0), SPACES, CAPACITY), None
    for place, pairs in enumerate(visited):
        args = memory, pairs, jnp.asarray(num), jnp.asarray(place + 1)
        memory, weights = weigh(rule, jax.random.key(1), *args)
    return memory, np.asarray(weights)


def test_the_table_has_every_rule_and_each_has_defaults():
    assert {name: type(rule) for name, rule in RULES.items()} == COVERS
    for rule in COVERS.values():
        assert rule() == rule()


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=15, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 50), min_size=1, max_size=CAPACITY),
    scale=st.sampled_from([0.0, 0.1, 10.0]),
    num=st.integers(0, ROWS),
)
def test_weights_are_a_distribution_over_the_policies_there_are(name, seeds, scale, num):
    memory, weights = weighed(RULES[name], *(visits(seed, scale) for seed in seeds), num=num)
    assert weights.shape == (CAPACITY,)
    assert np.all(np.isfinite(weights))
    assert np.all(weights >= 0)
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)
    np.testing.assert_array_equal(weights[len(seeds) :], 0)
    for leaf in jax.tree.leaves(memory):
        assert np.all(np.isfinite(leaf))


@pytest.mark.parametrize("name", RULES)
def test_what_a_rule_knows_keeps_its_structure_shapes_and_types(name):
    rule = RULES[name]
    before = rule.init(jax.random.key(0), SPACES, CAPACITY)
    after, _ = weighed(rule, visits(0), visits(1))
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)  # noqa: E731
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert shapes(before) == shapes(after)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_weighs_policies_of_nested_observations(name):
    spaces = Spaces(Dict(at=Box(-1.0, 1.0, (2,), np.float32), room=Discrete(3)), Discrete(2))
    rng = np.random.default_rng(0)
    seen = Pairs(
        {
            "at": jnp.asarray(rng.uniform(-1, 1, (ROWS, 2)), jnp.float32),
            "room": jnp.asarray(rng.integers(0, 3, ROWS), jnp.int32),
        },
        jnp.asarray(rng.integers(0, 2, ROWS), jnp.int32),
    )
    memory = RULES[name].init(jax.random.key(0), spaces, CAPACITY)
    args = memory, seen, jnp.asarray(ROWS), jnp.asarray(1)
    _, weights = weigh(RULES[name], jax.random.key(1), *args)
    np.testing.assert_allclose(weights, [1, 0, 0, 0], atol=1e-6)


def test_the_papers_cover_is_uniform_whatever_its_policies_visit():
    _, weights = weighed(Uniform(), visits(0, 0.01), visits(1), visits(2, 30.0))
    np.testing.assert_allclose(weights, [1 / 3, 1 / 3, 1 / 3, 0], rtol=1e-6)
    assert jax.tree.leaves(Uniform().init(jax.random.key(0), SPACES, CAPACITY)) == []


def test_log_det_weights_are_those_of_the_covariances_of_the_visits_and_the_ridge():
    # As sums over the visits plus the ridge: means differ from them by a common factor.
    rule, seen = LogDet(features=8, bandwidth="paper"), [visits(0), visits(1, 3.0), visits(2, 0.2)]
    memory, weights = weighed(rule, *seen)
    assert float(memory.features.inverse_width) == 1
    phi = [np.asarray(jax.vmap(memory.features)(*pairs), np.float64) for pairs in seen]
    sums = np.stack([x.T @ x + rule.ridge * np.eye(8) for x in phi])
    np.testing.assert_allclose(memory.sigma[:3], sums / ROWS, rtol=1e-4, atol=1e-6)
    exact = solve(jnp.asarray(sums, jnp.float32), jnp.asarray(3))
    np.testing.assert_allclose(weights[:3], exact, atol=2e-3)


def test_log_det_weights_do_not_grow_with_the_number_of_visits():
    # The same visits twice over: the mean is the same, but for half the ridge.
    rule = LogDet(features=8, ridge=1e-4, bandwidth="paper")
    twice = jax.tree.map(lambda x: jnp.concatenate([x, x]), visits(0))
    pad = lambda pairs: jax.tree.map(lambda x: jnp.concatenate([x, 0 * x]), pairs)  # noqa: E731
    other = pad(visits(1, 3.0))
    memory = rule.init(jax.random.key(0), SPACES, CAPACITY)
    found = []
    for pairs, num in ((pad(visits(0)), ROWS), (twice, 2 * ROWS)):
        now, _ = weigh(rule, jax.random.key(1), memory, pairs, jnp.asarray(num), jnp.asarray(1))
        _, weights = weigh(rule, jax.random.key(1), now, other, jnp.asarray(ROWS), jnp.asarray(2))
        found.append(weights)
    np.testing.assert_allclose(found[0], found[1], atol=5e-3)


def test_visits_beyond_the_count_do_not_matter():
    rule, num = RULES["log-det"], ROWS // 2
    seen = visits(0)
    garbage = jax.tree.map(lambda x: x.at[num:].set(99.0), seen)
    a, b = (weighed(rule, pairs, visits(1), num=num)[1] for pairs in (seen, garbage))
    np.testing.assert_array_equal(a, b)


def test_the_median_sets_the_width_at_the_first_policy_and_never_again():
    first, _ = weighed(RULES["log-det"], visits(0))
    later, _ = weighed(RULES["log-det"], visits(0), visits(1, 50.0))
    assert float(first.features.inverse_width) != 1
    np.testing.assert_array_equal(later.features.inverse_width, first.features.inverse_width)


def test_the_order_in_which_policies_came_does_not_matter_but_for_their_places():
    rule = LogDet(features=8, bandwidth="paper")
    seen = [visits(0), visits(1, 3.0), visits(2, 0.2)]
    _, forth = weighed(rule, *seen)
    _, back = weighed(rule, *reversed(seen))
    np.testing.assert_allclose(forth[:3], back[:3][::-1], atol=2e-3)


def test_log_det_prefers_the_policy_that_goes_everywhere_to_one_that_stays():
    _, weights = weighed(RULES["log-det"], visits(0, 0.0), visits(1, 1.0))
    assert weights[1] > 0.8


@pytest.mark.parametrize("name", RULES)
def test_a_cover_is_weighed_by_a_rule_with_what_the_rule_knows_in_it(name):
    rule = RULES[name]
    memory = rule.init(jax.random.key(0), SPACES, CAPACITY)
    cover = Cover.empty(policy(0), CAPACITY, memory)

    @functools.partial(jax.jit, static_argnums=0)
    def extend(rule, cover, policy, pairs):
        return cover.add(policy).weighed_by(rule, jax.random.key(1), pairs, ROWS)

    seen = [visits(0), visits(1, 3.0)]
    for seed, pairs in enumerate(seen):
        cover = extend(rule, cover, policy(seed), pairs)
    expected, weights = weighed(rule, *seen)
    np.testing.assert_allclose(cover.weights, weights, atol=2e-3)
    assert jax.tree.structure(cover.memory) == jax.tree.structure(expected)
    assert same(cover.take(jnp.asarray(1)), policy(1))


@pytest.mark.parametrize(
    ("name", "value"), [("features", 0), ("ridge", 0.0), ("bandwidth", "mean")]
)
@pytest.mark.usefixtures("unchecked")
def test_a_bad_setting_is_refused(name, value):
    with pytest.raises(ConfigError, match=rf"log-det\.{name} is {value!r}; it must be "):
        LogDet(**{name: value})
