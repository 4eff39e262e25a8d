"""Policies on a finite domain, as tables of probabilities (Section 3.2).

The domain is finite, so every critic is a table, and a sum of critics is the table of sums: the
softmax of an accumulated critic needs no stack of functions, whatever the class. Mixtures over
iterations and epochs do need their stack: they are drawn once an episode, and the average of their
tables is another policy with another value.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from eniac.envs.base import Environment, Step
from eniac.envs.mdp import TabularMDP

Table = Float[np.ndarray, "states actions"]
Unknown = Bool[np.ndarray, "states actions"]


def softmax(logits: Table) -> Table:
    """pi(a|s) proportional to exp(logits(s, a)); uniform where all logits are equal."""
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def known_set_policy(logits: Table, unknown: Unknown) -> Table:
    """The SAMPLE versions' policy: Equations 6 (logits 0), 9 and, as the appendix has it, 14.

    The softmax on known states, those with no unknown action; uniform over the *unknown* actions
    elsewhere. (The main text's NPG actor is uniform over all actions there, which is a mistake:
    docs/errata.md.)
    """
    explores = unknown.any(axis=1, keepdims=True)
    targets = unknown / np.maximum(unknown.sum(axis=1, keepdims=True), 1)
    return np.where(explores, targets, softmax(logits))


def mixed_policy(logits: Table, alpha: float) -> Table:
    """The COMPUTE versions' policy, Equation 10: (1 - alpha) softmax + alpha uniform."""
    return (1 - alpha) * softmax(logits) + alpha / logits.shape[1]


class TablePolicy(eqx.Module):
    """A table of probabilities as a policy that evaluation, export and play understand.

    It observes the number of the state: see `StateIndexEnv`.
    """

    probabilities: Float[Array, "states actions"]

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """The randomness of `shape` actions."""
        return jax.random.gumbel(key, (*shape, self.probabilities.shape[-1]))

    def action(
        self, noise: Float[Array, " actions"], observation: Int[ArrayLike, ""]
    ) -> Int[Array, ""]:
        """The action that this draw of `noise` leads to."""
        return jnp.argmax(jnp.log(self.probabilities[observation]) + noise).astype(jnp.int32)

    def mode(self, observation: Int[ArrayLike, ""]) -> Int[Array, ""]:
        return jnp.argmax(self.probabilities[observation]).astype(jnp.int32)


class TableBonus(eqx.Module):
    """A table of bonuses as a function of a state's number and an action."""

    worth: Float[Array, "states actions"]

    def __call__(
        self, observation: Int[ArrayLike, ""], action: Int[ArrayLike, ""]
    ) -> Float[Array, ""]:
        return self.worth[observation, action]


class StateIndexEnv(Environment):
    """`env`, observed by the number that its state has in the tabular view."""

    env: Environment
    num_states: int = eqx.field(static=True)

    @property
    def observation_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(self.num_states)

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.env.action_space

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Int[Array, ""]]:
        state, _ = self.env.reset(key)
        return state, self.env.index(state)

    def step(self, key: PRNGKeyArray, state: Any, action: Array) -> Step:
        step = self.env.step(key, state, action)
        return step._replace(observation=self.env.index(step.state))

    @property
    def time_limit(self) -> int | None:
        return self.env.time_limit

    @property
    def render_fps(self) -> int:
        return self.env.render_fps

    def render(self, state: Any) -> np.ndarray:
        return self.env.render(state)

    def tabular(self) -> TabularMDP:
        return self.env.tabular()

    def index(self, state: Any) -> Int[Array, ""]:
        return self.env.index(state)
