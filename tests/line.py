"""A world in which everything that was done can be read off, and a PPO that shows its rows."""

from dataclasses import dataclass

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from eniac.envs import Environment, Step
from eniac.policies import actor_critic
from eniac.updates.ppo import PPO, Rows


class Line(Environment):
    """Sees how many steps were taken since the reset, and a number drawn at it; pays the action.

    An episode ends after 50 steps.
    """

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0.0, 50.0, (2,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def reset(self, key):
        state = jnp.stack([jnp.zeros(()), jax.random.uniform(key)])
        return state, state

    def step(self, key, state, action):
        del key
        state = state.at[0].add(1.0)
        return Step(state, state, action[0], state[0] >= 50, jnp.zeros((), bool))


ENV = Line()


def around(mean, std=0.01):
    """A policy whose actions are all but `mean`."""
    policy = actor_critic(jax.random.key(0), ENV.observation_space, ENV.action_space, (4,))
    policy = jax.tree.map(jnp.zeros_like, policy)
    return eqx.tree_at(
        lambda p: (p.action_head.bias, p.std_parameter),
        policy,
        (jnp.arctanh(jnp.asarray([mean / 2])), jnp.log(jnp.expm1(jnp.asarray([std / 2])))),
    )


@dataclass(frozen=True)
class Recorder(PPO):
    """Learns nothing, and remembers the rows of the last update in its memory's place."""

    num_rows: int = 0

    def init(self, policy):
        size = (self.num_rows,)
        empty = Rows(jnp.zeros((*size, 2)), jnp.zeros((*size, 1)), *[jnp.zeros(size)] * 3)
        return empty, jnp.zeros((), jnp.int32)

    def update(self, key, policy, optimiser_state, rows, count=None, entropy=None):
        del key, optimiser_state, entropy
        return policy, (rows, jnp.asarray(count, jnp.int32)), {}
