"""The probes themselves pay what their docstrings say: a wrong probe would blame the learner."""

import jax
import jax.numpy as jnp
import numpy as np

from probes import (
    ActionMatters,
    ConstantValue,
    ContinuousActionMatters,
    ObservationMatters,
    ValueOneStepAhead,
    endless_but_watched_for,
)

KEY = jax.random.key(0)


def test_constant_value_pays_one_and_ends():
    env = ConstantValue()
    step = env.step(KEY, env.reset(KEY)[0], jnp.int32(0))
    assert (float(step.reward), bool(step.terminated)) == (1, True)


def test_value_one_step_ahead_pays_at_the_second_step_only():
    env = ValueOneStepAhead()
    state, observation = env.reset(KEY)
    first = env.step(KEY, state, jnp.int32(0))
    second = env.step(KEY, first.state, jnp.int32(0))
    assert observation.tolist() == [0]
    assert first.observation.tolist() == [1]
    assert [(float(s.reward), bool(s.terminated)) for s in (first, second)] == [(0, 0), (1, 1)]


def test_actions_matter():
    env, continuous = ActionMatters(), ContinuousActionMatters()
    state, _ = env.reset(KEY)
    assert [float(env.step(KEY, state, jnp.int32(a)).reward) for a in (0, 1)] == [-1, 1]
    rewards = [float(continuous.step(KEY, state, jnp.array([a])).reward) for a in (0.0, 0.5, 9.0)]
    assert rewards == [-0.25, 0, -0.25]


def test_observations_matter_and_are_fair():
    env = ObservationMatters()
    states, observations = jax.vmap(env.reset)(jax.random.split(KEY, 1000))
    assert 400 < np.sum(np.asarray(observations) > 0) < 600
    for action in (0, 1):
        rewards = jax.vmap(lambda s, a: env.step(KEY, s, a).reward, (0, None))(states, action)
        np.testing.assert_array_equal(rewards, (2 * action - 1) * observations[:, 0])


def test_endless_is_truncated_and_never_dies():
    env = endless_but_watched_for(3)
    state, _ = env.reset(KEY)
    for t in range(3):
        step = env.step(KEY, state, jnp.int32(0))
        state = step.state
        assert step.reward == 1
        assert not step.terminated
        assert bool(step.truncated) == (t == 2)
