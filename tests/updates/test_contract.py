"""What every policy update keeps to. A new one joins by a row in the table."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.policies import actor_critic
from eniac.sampling.base import Trajectory
from eniac.updates.ppo import PPO

SEES = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
SPACES = {
    "box": gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32),
    "discrete": gymnasium.spaces.Discrete(2),
}
TIME, NUM_ENVS = 8, 6


@dataclass(frozen=True)
class Case:
    rule: Any
    num_updates: int
    """updates in which a bandit must be learned"""


CASES = {
    "ppo": Case(PPO(optimizer="adam", learning_rate=2e-2, minibatch=24, passes=3), 6),
}


def trajectory(policy, seed=0, one_step=False):
    """What `policy` does where nothing but the first action of two pays; a part is off policy."""
    keys = jax.random.split(jax.random.key(seed), 5)
    shape = (TIME, NUM_ENVS)
    observation = jax.random.uniform(keys[0], (*shape, 2), minval=-1.0)
    act = jax.vmap(jax.vmap(policy.act))
    action, log_prob, value = act(policy.noise(keys[1], shape), observation)
    chosen = action if action.ndim == 2 else action[..., 0] > 0
    ended = jnp.ones(shape, bool) if one_step else jax.random.bernoulli(keys[2], 0.2, shape)
    truncated = jax.random.bernoulli(keys[3], 0.5, shape) & ended & (not one_step)
    last = jnp.zeros((1, NUM_ENVS))
    return Trajectory(
        observation=observation,
        action=action,
        log_prob=log_prob,
        value=value,
        next_value=jnp.concatenate([value[1:], last]),
        reward=jnp.where(chosen, 1.0, -1.0).astype(jnp.float32),
        terminated=ended & ~truncated,
        truncated=truncated,
        on_policy=jnp.arange(TIME)[:, None] >= jnp.arange(NUM_ENVS)[None] % 3,
        num_steps=jnp.asarray(TIME * NUM_ENVS, jnp.int32),
    )


class Setup:
    def __init__(self, case, space):
        self.case, self.rule = case, case.rule
        self.policy = actor_critic(jax.random.key(0), SEES, space, (8,))
        self.memory = self.rule.init(self.policy)
        self.learn = jax.jit(self.rule.learn)
        self.seen = trajectory(self.policy)
        self.key = jax.random.key(7)
        self.after = self.learn(self.key, self.policy, self.memory, self.seen)


@pytest.fixture(scope="module", params=[(name, kind) for name in CASES for kind in SPACES], ids=str)
def setup(request):
    name, kind = request.param
    return Setup(CASES[name], SPACES[kind])


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_structure_shapes_and_types_stay(setup):
    before, after = (setup.policy, setup.memory), setup.after[:2]
    assert jax.tree.structure(before) == jax.tree.structure(after)
    for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)


def test_all_is_finite_and_metrics_are_scalars(setup):
    policy, memory, metrics = setup.after
    for leaf in jax.tree.leaves((policy, memory)):
        assert np.isfinite(leaf).all()
    assert metrics
    for name, value in metrics.items():
        assert value.shape == (), name
        assert np.isfinite(value), name
    again = setup.learn(setup.key, policy, memory, setup.seen)[2]
    assert set(again) == set(metrics)


def test_something_is_learned_and_the_key_decides_what(setup):
    assert not np.array_equal(
        setup.after[0].body.layers[0].weight, setup.policy.body.layers[0].weight
    )
    assert_same(setup.learn(setup.key, setup.policy, setup.memory, setup.seen), setup.after)


def test_what_was_not_on_policy_is_not_learned_from(setup):
    """A roll-in's actions, and the rewards before the policy's own turn, change nothing."""
    seen, off = setup.seen, ~setup.seen.on_policy
    other = jnp.zeros_like(seen.action)
    changed = seen._replace(
        action=jnp.where(off if seen.action.ndim == 2 else off[..., None], other, seen.action),
        reward=jnp.where(off, 1e6, seen.reward),
        log_prob=jnp.where(off, -5.0, seen.log_prob),
    )
    assert bool(jnp.any(changed.action != seen.action))
    assert_same(setup.learn(setup.key, setup.policy, setup.memory, changed), setup.after)


def test_a_reward_that_was_earned_on_policy_is(setup):
    richer = setup.seen._replace(reward=setup.seen.reward.at[-1, 0].add(10.0))
    policy, _, _ = setup.learn(setup.key, setup.policy, setup.memory, richer)
    assert not np.array_equal(policy.body.layers[0].weight, setup.after[0].body.layers[0].weight)


def test_compiled_and_not_compiled_it_is_the_same(setup):
    plain = setup.rule.learn(setup.key, setup.policy, setup.memory, setup.seen)
    for x, y in zip(jax.tree.leaves(plain[0]), jax.tree.leaves(setup.after[0]), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


def test_the_better_of_two_actions_becomes_likelier(setup):
    policy, memory = setup.policy, setup.memory

    def pays(policy):
        return float(jnp.mean(trajectory(policy, 99, one_step=True).reward))

    before = pays(policy)
    for n in range(setup.case.num_updates):
        seen = trajectory(policy, n, one_step=True)
        policy, memory, _ = setup.learn(jax.random.key(n), policy, memory, seen)
    assert pays(policy) > before + 0.4
