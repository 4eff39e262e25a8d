"""The policy cover: what is in it, how it is drawn from, and PC-PG's weights."""

import cvxpy as cp
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium.spaces import Box

from eniac.cover import Cover, log_det, uniform
from eniac.policies import actor_critic
from eniac.runs.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from eniac.runs.progress import Progress

SPACES = (Box(-1.0, 1.0, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32))
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
    drawn = np.asarray(cover.sample(jax.random.key(0), (100, 200)))
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
    progress = Progress(np.array([1]), np.array([1]), np.array([0.0]), 0.0)
    path = save_checkpoint(tmp_path, Checkpoint(cover, progress, {}), keep=1)
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
