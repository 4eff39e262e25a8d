"""Probe environments: each can be failed in one way only, so a failing learner names its fault.

All of them observe a Box of one number and, but for `ContinuousActionMatters`, take one of two
actions. `discount` in a docstring is the learner's.
"""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from eniac.envs import Environment, Step, TimeLimit


class Probe(Environment):
    @property
    def observation_space(self):
        return gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        del key
        return jnp.zeros((), jnp.float32), jnp.zeros(1, jnp.float32)


def end(observation, reward, terminated=True):
    """A step whose state is the observation's one number."""
    observation = jnp.asarray(observation, jnp.float32)
    return Step(
        observation,
        observation[None],
        jnp.asarray(reward, jnp.float32),
        jnp.asarray(terminated, bool),
        jnp.zeros((), bool),
    )


class ConstantValue(Probe):
    """One step, reward 1: the value is 1. Fails if values cannot be fitted at all."""

    def step(self, key, state, action):
        del key, action
        return end(state, 1.0)


class ValueOneStepAhead(Probe):
    """Observes 0, then 1; only the second step pays. The values are `discount` and 1.

    Fails if reward does not travel back through time, or by the wrong discount.
    """

    def step(self, key, state, action):
        del key, action
        return end(1.0, state, terminated=state > 0)


class ActionMatters(Probe):
    """One step; action 1 pays 1, action 0 costs 1. Fails if the policy does not improve."""

    def step(self, key, state, action):
        del key
        return end(state, jnp.where(action == 1, 1.0, -1.0))


class ContinuousActionMatters(Probe):
    """One step that pays -(action - 0.5)^2: the best action is 0.5, its value 0."""

    @property
    def action_space(self):
        return gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def step(self, key, state, action):
        del key
        return end(state, -((jnp.clip(action[0], -1.0, 1.0) - 0.5) ** 2))


class ObservationMatters(Probe):
    """One step; observes -1 or 1 at random, and pays 1 for action 0 or 1 respectively, else -1.

    The best value is 1 in both cases, any policy that does not look earns 0 on average. Fails if
    observations are ignored, or matched with somebody else's action or reward.
    """

    def reset(self, key):
        state = jax.random.rademacher(key, dtype=jnp.float32)
        return state, state[None]

    def step(self, key, state, action):
        del key
        return end(state, jnp.where((action == 1) == (state > 0), 1.0, -1.0))


class Endless(Probe):
    """Pays 1 a step for ever and always looks the same: the value is 1 / (1 - discount)."""

    def step(self, key, state, action):
        del key, action
        return end(state, 1.0, terminated=False)


def endless_but_watched_for(horizon=5):
    """`Endless`, truncated every `horizon` steps: the value must be 1 / (1 - discount) still.

    Fails if a time limit is taken for death.
    """
    return TimeLimit(Endless(), horizon)


PROBES = {
    "constant value": ConstantValue,
    "value one step ahead": ValueOneStepAhead,
    "action matters": ActionMatters,
    "continuous action matters": ContinuousActionMatters,
    "observation matters": ObservationMatters,
    "time limit is not death": endless_but_watched_for,
}
