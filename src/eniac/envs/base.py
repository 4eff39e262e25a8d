"""What an agent acts in: two pure functions and two spaces."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

if TYPE_CHECKING:
    from eniac.envs.mdp import TabularMDP


class Step(NamedTuple):
    """What one step of an environment reports.

    `terminated` says that the MDP has ended: nothing can be earned after it, and the value of
    `observation` is zero. `truncated` says that somebody stopped watching, a time limit for
    instance: the MDP goes on, and the value of `observation` must be bootstrapped.
    """

    state: Any
    observation: Array
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class Environment(eqx.Module):
    """A Markov decision process as pure functions of one state, so that `vmap` makes many of it.

    States are pytrees of arrays. Nothing resets by itself: the sampler does that.
    """

    @property
    @abstractmethod
    def observation_space(self) -> gymnasium.Space[Any]: ...

    @property
    @abstractmethod
    def action_space(self) -> gymnasium.Space[Any]: ...

    @abstractmethod
    def reset(self, key: PRNGKeyArray) -> tuple[Any, Array]:
        """A start state drawn with `key`, and its observation."""

    @abstractmethod
    def step(self, key: PRNGKeyArray, state: Any, action: Array) -> Step:
        """One transition from `state`. Actions outside a Box are clipped into it."""

    @property
    def time_limit(self) -> int | None:
        """Steps after which an episode is cut; None if it ends by itself."""
        return None

    @property
    def longest_episode(self) -> int | None:
        """Steps after which every episode is over, cut or not; None if that is not known."""
        return self.time_limit

    @property
    def render_fps(self) -> int:
        """How many pictures a second make a film that can be followed."""
        return 4

    def render(self, state: Any) -> np.ndarray:
        """A picture of `state`: uint8 of shape (height, width, 3). Runs on the host."""
        raise NotImplementedError(
            f"{type(self).__name__} has no picture: give it a render(state) method that returns a "
            "uint8 array of shape (height, width, 3)."
        )

    def tabular(self) -> TabularMDP:
        """This environment as a table: exact transition probabilities and rewards, in float64."""
        raise NotImplementedError(
            f"{type(self).__name__} has no exact tabular view: its states cannot be listed. Use an "
            "environment with finitely many states, such as DeepSea-v0, CombinationLock-v0 or "
            "RiverSwim-v0."
        )

    def index(self, state: Any) -> Int[Array, ""]:
        """The number that `state` has in the tabular view."""
        raise NotImplementedError(
            f"{type(self).__name__} has no exact tabular view, so its states have no numbers."
        )


class TimeLimitState(NamedTuple):
    inner: Any
    elapsed: Int[Array, ""]


class TimeLimit(Environment):
    """`env`, truncated after `horizon` steps. A step that terminates is not truncated as well."""

    env: Environment
    horizon: int = eqx.field(static=True)

    def __check_init__(self):
        if self.horizon < 1:
            raise ValueError(f"horizon is {self.horizon}; a time limit is 1 step or more.")

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self.env.observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.env.action_space

    def reset(self, key: PRNGKeyArray) -> tuple[TimeLimitState, Array]:
        state, observation = self.env.reset(key)
        return TimeLimitState(state, jnp.zeros((), jnp.int32)), observation

    def step(self, key: PRNGKeyArray, state: TimeLimitState, action: Array) -> Step:
        inner = self.env.step(key, state.inner, action)
        elapsed = state.elapsed + 1
        late = (elapsed >= self.horizon) & ~inner.terminated
        return inner._replace(
            state=TimeLimitState(inner.state, elapsed), truncated=inner.truncated | late
        )

    @property
    def time_limit(self) -> int | None:
        return self.horizon

    @property
    def longest_episode(self) -> int:
        return min(self.horizon, self.env.longest_episode or self.horizon)

    @property
    def render_fps(self) -> int:
        return self.env.render_fps

    def render(self, state: TimeLimitState) -> np.ndarray:
        return self.env.render(state.inner)

    def tabular(self) -> TabularMDP:
        """The table of `env`. The limit is not in it: it ends the watching, not the MDP."""
        return self.env.tabular()

    def index(self, state: TimeLimitState) -> Int[Array, ""]:
        return self.env.index(state.inner)
