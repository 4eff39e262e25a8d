"""The bonus within the episode, against a slow loop that inverts a matrix at every step."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import eniac
from eniac.algorithms.deep import RollInRule
from eniac.bonuses.episodic import Episodic, EpisodicWidth
from eniac.buffer import Pairs
from eniac.errors import ConfigError
from eniac.runs.log import read_records
from eniac.sampling.base import flat
from eniac.spaces import Spaces
from pairs import rollout

SPACES = Spaces(Box(-1.0, 1.0, (2,), np.float32), Discrete(3))
RULE = Episodic(features=12, ridge=0.3, coefficient=2.0)
TIME, ENVS = 40, 5


def visits(seed, on_policy=None):
    """States of a small grid, so that some come back; episodes that end and are cut."""
    rng = np.random.default_rng(seed)
    observation = jnp.asarray(rng.integers(-1, 2, (TIME, ENVS, 2)), jnp.float32)
    action = jnp.asarray(rng.integers(0, 3, (TIME, ENVS)), jnp.int32)
    return rollout(observation, action, rng.random((2, TIME, ENVS)) < 0.08, on_policy)


def slowly(bonus, seen, coefficient, ridge):
    """The same in 64 bits, by inverting the matrix of the episode at every step."""
    phi = np.asarray(jax.vmap(jax.vmap(bonus.features))(seen.observation, seen.action), np.float64)
    phi /= np.linalg.norm(phi, axis=-1, keepdims=True)
    ended = np.asarray(seen.terminated | seen.truncated)
    earned = np.zeros((TIME, ENVS))
    for env in range(ENVS):
        before = []
        for t in range(TIME):
            begins = t > 0 and ended[t - 1, env]
            if begins:
                before = []
            x = phi[t, env]
            matrix = ridge * np.eye(len(x)) + sum((np.outer(y, y) for y in before), 0 * np.eye(12))
            earned[t, env] = coefficient * ridge * x @ np.linalg.inv(matrix) @ x
            # A step of a reset sees the end of the episode before, and is none of the next.
            if not (begins and not seen.on_policy[t, env]):
                before.append(x)
    return earned


@pytest.fixture(scope="module")
def bonus():
    return RULE.init(jax.random.key(0), SPACES, (8,))


@pytest.mark.parametrize("rolls_in", [False, True])
def test_it_is_the_elliptical_norm_of_the_episode_so_far(bonus, rolls_in):
    on_policy = None
    if rolls_in:
        on_policy = np.arange(TIME)[:, None] >= np.random.default_rng(1).integers(0, TIME, ENVS)
    seen = visits(0, on_policy)
    earned = jax.jit(lambda b, s: b.along(s))(bonus, seen)
    exact = slowly(bonus, seen, 2.0, 0.3)
    np.testing.assert_allclose(earned, exact, rtol=2e-3, atol=1e-5)
    assert exact.min() < 0.3
    assert np.asarray(seen.terminated | seen.truncated).sum() > 20


def test_compiled_and_not_compiled_are_the_same(bonus):
    seen = visits(2)
    numpys = jax.tree.map(np.asarray, seen)
    np.testing.assert_allclose(
        bonus.along(numpys), jax.jit(lambda b, s: b.along(s))(bonus, seen), rtol=1e-4, atol=1e-6
    )


def test_the_first_state_of_an_episode_pays_the_coefficient_and_the_same_one_again_little(bonus):
    seen = visits(3)
    still = seen._replace(observation=jnp.zeros_like(seen.observation))
    earned = np.asarray(bonus.along(still))
    ended = np.asarray(seen.terminated | seen.truncated)
    times = np.zeros((TIME, ENVS))
    for t in range(1, TIME):
        times[t] = np.where(ended[t - 1], 0, times[t - 1] + 1)
    np.testing.assert_allclose(earned, 2 * 0.3 / (times + 0.3), rtol=1e-3)


def test_after_thousands_of_steps_in_one_episode_it_is_still_right(bonus):
    """C^-1 is changed step by step in 32 bits, and errors could add up."""
    rng = np.random.default_rng(5)
    length = 3000
    seen = visits(0)
    long = jax.tree.map(lambda x: jnp.zeros((length, 1, *x.shape[2:]), x.dtype), seen._replace(
        num_steps=jnp.zeros((1, 1))))  # fmt: skip
    long = long._replace(
        observation=jnp.asarray(rng.uniform(-1, 1, (length, 1, 2)), jnp.float32),
        on_policy=jnp.ones((length, 1), bool),
    )
    earned = np.asarray(bonus.along(long))[:, 0]
    phi = np.asarray(jax.vmap(bonus.phi)(long.observation[:, 0], long.action[:, 0]), np.float64)
    last = np.linalg.inv(0.3 * np.eye(12) + phi[:-1].T @ phi[:-1])
    np.testing.assert_allclose(earned[-1], 2 * 0.3 * phi[-1] @ last @ phi[-1], rtol=0.02)


def test_the_kernel_is_as_wide_as_the_first_rollout_and_stays(bonus):
    first, second = (
        Pairs(flat(visits(seed).observation) * scale, flat(visits(seed).action))
        for seed, scale in ((0, 1.0), (1, 7.0))
    )
    update = jax.jit(RULE.update_online)
    none = update(jax.random.key(0), bonus, first, jnp.asarray(0))
    assert not bool(none.features.chosen)
    once = update(jax.random.key(0), bonus, first, jnp.asarray(TIME * ENVS))
    again = update(jax.random.key(1), once, second, jnp.asarray(TIME * ENVS))
    # The median distance between points of the grid that differ is between 1 and 2.
    assert 1 / 4 <= float(once.features.inverse_width) < 1
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, once, again)))


def test_the_product_is_that_of_the_two_bonuses():
    rule = EpisodicWidth(outer=2, inner=2, episodic_features=12, episodic_ridge=0.3)
    bonus = rule.init(jax.random.key(0), SPACES, (8,))
    # A width that has not been trained is zero: give it something to say.
    twin = rule.init(jax.random.key(1), SPACES, (8,)).width.f
    bonus = eqx.tree_at(lambda b: b.width.twin, bonus, twin)
    seen = visits(0)
    width = jax.vmap(jax.vmap(bonus.width))(seen.observation, seen.action)
    np.testing.assert_allclose(
        bonus.along(seen), width * slowly(bonus.episodic, seen, 1.0, 0.3), rtol=5e-3, atol=1e-6
    )
    assert float(jnp.max(width)) > 0
    one = (seen.observation[0, 0], seen.action[0, 0])
    np.testing.assert_allclose(bonus(*one), bonus.width(*one), rtol=1e-6)


SMALL = {
    "num_envs": 4,
    "rollout_length": 12,
    "updates_per_round": 2,
    "rounds": 1,
    "hidden": (8,),
    "visit_steps": 40,
    "visit_envs": 4,
    "roll_in": RollInRule(group=2),
}


def test_it_learns_on_the_host_with_roll_ins(tmp_path):
    algorithm = replace(eniac.ALGORITHMS["eniac"].default, bonus=Episodic(), **SMALL)
    evaluation = eniac.Evaluation(episodes=2, horizon=20)
    config = eniac.Config(
        algorithm, env="FrozenLake-v1", epochs=2, evaluation=evaluation, out=tmp_path / "run"
    )
    eniac.train(config)
    run = eniac.load_run(tmp_path / "run")
    bonus = run.learner.bonus(jax.tree.map(lambda x: x[0], run.states))
    assert bool(bonus.features.chosen)
    for record in read_records(tmp_path / "run" / "metrics.jsonl"):
        assert 0 < record["explore/bonus"] < 0.5
    # To an audit it is what it is: the same everywhere, whatever the run has visited.
    found = eniac.audit_bonus(run)
    # Eleven of sixteen fields are walked on; four are holes and one is the goal.
    assert (found["how"], found["visited"] + found["unvisited"]) == ("finite", 11)
    assert found["correlation"] is None
    assert any("the same everywhere" in note for note in found["notes"])


def test_in_a_compiled_environment_and_without_a_cover_it_is_a_bonus_of_ppo(tmp_path):
    names = ("num_envs", "rollout_length", "updates_per_round", "hidden")
    small = {name: SMALL[name] for name in names}
    algorithm = replace(eniac.ALGORITHMS["ppo"].default, bonus=Episodic(), combine="add", **small)
    config = eniac.Config(algorithm, env="DeepSea-4", epochs=1, out=tmp_path / "run")
    config = replace(config, evaluation=eniac.Evaluation(episodes=2))
    eniac.train(config)
    (record,) = read_records(tmp_path / "run" / "metrics.jsonl")
    assert 0 < record["bonus"] < 0.5
    found = eniac.audit_bonus(eniac.load_run(tmp_path / "run"), pairs=50)
    assert (found["how"], found["fit_seconds"], found["auc"]) == ("held-out", None, 0.5)
    assert any("no buffer" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (lambda: Episodic(features=0), r"episodic\.features is 0"),
        (lambda: Episodic(ridge=0.0), r"episodic\.ridge is 0.0"),
        (lambda: EpisodicWidth(episodic_ridge=-1.0), r"episodic-width\.episodic_ridge is -1.0"),
        (lambda: EpisodicWidth(outer=0), r"width\.outer is 0"),
    ],
)
def test_a_bad_setting_is_refused(rule, name):
    with pytest.raises(ConfigError, match=rf"{name}; it must be "):
        rule()
