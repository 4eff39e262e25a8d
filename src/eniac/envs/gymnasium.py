"""Our environments, offered to gymnasium: `gymnasium.make("eniac/CombinationLock-v0")`."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import gymnasium
import jax
import numpy as np

from eniac.envs.base import Environment
from eniac.envs.registry import find


# Module-level, so that two wrappers of equal environments share one compilation.
@eqx.filter_jit
def _reset(env: Environment, key: jax.Array) -> Any:
    key, reset_key = jax.random.split(key)
    return key, env.reset(reset_key)


@eqx.filter_jit
def _step(env: Environment, key: jax.Array, state: Any, action: Any) -> Any:
    key, step_key = jax.random.split(key)
    return key, env.step(step_key, state, action)


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """An environment of ours with gymnasium's interface, its functions compiled.

    `env` is an environment, or the id of a registered one, whose `parameters` then follow. By id
    it comes without a time limit: `gymnasium.make` puts its own around it, `max_episode_steps`. An
    environment that is given truncates as it does.

    All randomness comes from `reset(seed=...)`.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, env: Environment | str, render_mode: str | None = None, **parameters: Any):
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(
                f"render_mode is {render_mode!r}; expected None or one of "
                f"{self.metadata['render_modes']}."
            )
        if isinstance(env, str):
            entry, parameters = find(env, parameters)
            env = entry.factory(**parameters)
        elif parameters:
            raise TypeError(
                f"{', '.join(parameters)} cannot be set on an environment that is made already; "
                "give its id instead, or set them where you make it."
            )
        self.env = env
        self.observation_space = env.observation_space
        self.action_space = env.action_space
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": env.render_fps}
        self._key: jax.Array | None = None
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        key = jax.random.key(int(self.np_random.integers(2**31)))
        self._key, (self._state, observation) = _reset(self.env, key)
        return self._to_host(observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._key is None:
            raise gymnasium.error.ResetNeeded("Call reset before step: there is no state yet.")
        self._key, step = _step(self.env, self._key, self._state, self._to_action(action))
        self._state = step.state
        observation = self._to_host(step.observation)
        return observation, float(step.reward), bool(step.terminated), bool(step.truncated), {}

    def render(self) -> Any:
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render was called without a render mode, so there is no picture. Make the "
                'environment with render_mode="rgb_array".'
            )
            return None
        if self._key is None:
            raise gymnasium.error.ResetNeeded("Call reset before render: there is no state yet.")
        return self.env.render(jax.device_get(self._state))

    def _to_host(self, observation: Any) -> Any:
        if isinstance(self.observation_space, gymnasium.spaces.Discrete):
            return np.int64(observation)
        return np.array(observation)  # a copy, which the caller may keep and change

    def _to_action(self, action: Any) -> np.ndarray:
        # Inside a compiled program an index out of range is clamped silently, so look here.
        space, given = self.action_space, np.asarray(action)
        if isinstance(space, gymnasium.spaces.Discrete):
            whole = given.ndim == 0 and np.issubdtype(given.dtype, np.integer)
            if not whole or not space.start <= given < space.start + space.n:
                raise ValueError(f"action is {action!r}; expected a whole number in {space}.")
            return given.astype(np.int32)
        if given.shape != space.shape or not np.all(np.isfinite(given)):
            raise ValueError(f"action is {action!r}; expected finite numbers in {space}.")
        return given.astype(space.dtype)
