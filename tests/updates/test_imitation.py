"""Learning from the steps of a roll-in that did better than the critic thought."""

from dataclasses import replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.policies import actor_critic
from eniac.sampling.base import Trajectory
from eniac.updates.ppo import PPO

SEES = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
TIME, ENVS, THEIRS = 6, 8, 2
RULE = PPO(optimizer="adam", learning_rate=1e-2, minibatch=16, passes=2, imitate=True, entropy=0.0)
POLICY = actor_critic(jax.random.key(0), SEES, gymnasium.spaces.Discrete(4), (8,))
learn = jax.jit(PPO.learn, static_argnums=0)


def rolled(reward, rolled_in):
    """A rollout in which action `THEIRS` was taken everywhere, and paid `reward`."""
    shape = (TIME, ENVS)
    observation = jax.random.uniform(jax.random.key(1), (*shape, 3), minval=-1.0)
    action = jnp.full(shape, THEIRS, jnp.int32)
    law, value = jax.vmap(jax.vmap(POLICY))(observation)
    log_prob = jax.vmap(jax.vmap(lambda d, a: d.log_prob(a)))(law, action)
    nothing = jnp.zeros(shape, bool)
    return Trajectory(
        observation=observation,
        action=action,
        log_prob=log_prob,
        value=value,
        next_value=jnp.zeros(shape),
        reward=jnp.full(shape, reward),
        terminated=~nothing,
        truncated=nothing,
        on_policy=~rolled_in,
        num_steps=jnp.asarray(TIME * ENVS, jnp.int32),
        rolled_in=rolled_in,
    )


ALL = jnp.ones((TIME, ENVS), bool)


def probability(policy, seen):
    law, _ = jax.vmap(jax.vmap(policy))(seen.observation)
    return np.exp(jax.vmap(jax.vmap(lambda d, a: d.log_prob(a)))(law, seen.action)).mean()


def after(seen, rule=RULE):
    return learn(rule, jax.random.key(3), POLICY, rule.init(POLICY), seen)[0]


def same(a, b):
    return all(
        np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def test_what_a_roll_in_did_well_becomes_more_likely():
    seen = rolled(1.0, ALL)
    assert probability(after(seen), seen) > 1.1 * probability(POLICY, seen)


def test_what_a_roll_in_did_badly_is_not_learned_from():
    assert same(after(rolled(-1.0, ALL)), POLICY)


def test_without_imitation_roll_ins_are_not_learned_from():
    assert same(after(rolled(1.0, ALL), replace(RULE, imitate=False)), POLICY)


def test_the_critic_does_not_learn_from_what_is_imitated():
    before, now = POLICY.value_head, after(rolled(1.0, ALL)).value_head
    assert same(before, now)


def test_the_clip_limits_how_far_imitation_moves_the_policy():
    seen = rolled(1.0, ALL)
    many = replace(RULE, passes=50)
    # Adam goes on for some steps when the gradient is cut.
    assert probability(after(seen, many), seen) < 2 * (1 + many.clip) * probability(POLICY, seen)


@pytest.mark.parametrize("imitate", [False, True])
def test_a_rollout_without_a_roll_in_is_learned_from_as_ever(imitate):
    own = rolled(1.0, ~ALL)
    noise = jax.random.normal(jax.random.key(5), own.reward.shape)
    own = own._replace(reward=noise)
    rule = replace(RULE, imitate=imitate)
    got, expected = after(own, rule), after(own._replace(rolled_in=None), rule)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_the_exploring_policy_has_an_entropy_of_its_own():
    rule = replace(RULE, entropy=0.0, explore_entropy=10.0, passes=20)
    own = rolled(1.0, ~ALL)
    own = own._replace(reward=jax.random.normal(jax.random.key(5), own.reward.shape))
    entropies = []
    for explores in (False, True):
        memory = rule.init(POLICY)
        policy = learn(rule, jax.random.key(3), POLICY, memory, own, jnp.asarray(explores))[0]
        law, _ = jax.vmap(jax.vmap(policy))(own.observation)
        entropies.append(float(jnp.mean(jax.vmap(jax.vmap(lambda d: d.entropy()))(law))))
    least, most = np.log(4) - np.array(entropies)[::-1]
    assert least < most / 2
