"""Environments that count: an observation says who made it, when, and after which action."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

NUM_ACTIONS = 5
_NUMBERS = spaces.Box(-1, 2**31, (4,), np.int64)
_SPACES = {
    "box": spaces.Box(-1, 2**31, (4,), np.float64),
    "dict": spaces.Dict(
        {"numbers": _NUMBERS, "inner": spaces.Dict({"image": spaces.Box(0, 255, (2, 3), np.uint8)})}
    ),
    "tuple": spaces.Tuple((_NUMBERS, spaces.Discrete(100))),
    "text": spaces.Dict({"numbers": _NUMBERS, "mission": spaces.Text(9)}),
}


class Counting(gymnasium.Env[Any, Any]):
    """Observes (a number drawn from its seed, the episode, the step in it, the last action).

    An episode's length and the way it ends follow from the number and the episode: it terminates,
    is truncated, or both at once. With `reuse` one array is returned again and again, as a hasty
    environment would, so whoever forgets to copy is found out.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, kind: str = "box", render_mode: str | None = None, reuse: bool = True):
        self.kind = kind
        self.reuse = reuse
        self.render_mode = render_mode
        self.observation_space = _SPACES[kind]
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._array = np.zeros(4, np.int64 if kind != "box" else np.float64)
        self._image = np.zeros((2, 3), np.uint8)
        self.number = self.episode = self.time = 0
        self.closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is None:
            self.episode += 1
        else:
            self.number, self.episode = int(self.np_random.integers(10**6)), 0
        self.time = 0
        return self._observe(-1), {"number": self.number}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.time < length(self.number, self.episode), "stepped after an end"
        assert action in self.action_space, action
        self.time += 1
        ends = self.time == length(self.number, self.episode)
        way = (self.number + self.episode) % 3
        reward = 100.0 * self.episode + self.time + 0.1 * int(action)
        return self._observe(action), reward, ends and way != 1, ends and way != 0, {"n": 1}

    def render(self) -> Any:
        return np.zeros((2, 2, 3), np.uint8)

    def close(self) -> None:
        self.closed = True

    def _observe(self, action: Any) -> Any:
        if not self.reuse:
            self._array, self._image = self._array.copy(), self._image.copy()
        self._array[:] = self.number, self.episode, self.time, action
        self._image[:] = self.time
        return {
            "box": self._array,
            "dict": {"numbers": self._array, "inner": {"image": self._image}},
            "tuple": (self._array, self.time),
            "text": {"numbers": self._array, "mission": "go"},
        }[self.kind]


def length(number: int, episode: int) -> int:
    return 2 + (number // 3 + episode) % 4


class NativeCounting(VectorEnv[Any, Any, Any]):
    """The same, as a vector environment of its own in any mode; its final_obs is a batch."""

    def __init__(self, num_envs: int, mode: AutoresetMode, kind: str = "box"):
        self.envs = [Counting(kind) for _ in range(num_envs)]
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": mode}
        self.mode = mode
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.rows: list[Any] = [None] * num_envs
        self.ended = np.zeros(num_envs, bool)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        for i in np.flatnonzero(mask):
            self.rows[i] = self.envs[i].reset(seed=None if seed is None else seed + int(i))[0]
        self.ended = self.ended & ~mask
        return self._batch(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        rewards = np.zeros(self.num_envs, np.float32)
        terminated, truncated = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        for i, env in enumerate(self.envs):
            if self.mode is AutoresetMode.NEXT_STEP and self.ended[i]:
                self.rows[i] = env.reset()[0]
                rewards[i] = -77  # which must not be counted
            else:
                self.rows[i], rewards[i], terminated[i], truncated[i], _ = env.step(actions[i])
        self.ended = terminated | truncated
        infos = {}
        if self.mode is AutoresetMode.SAME_STEP and self.ended.any():
            infos["final_obs"] = self._batch()
            for i in np.flatnonzero(self.ended):
                self.rows[i] = self.envs[i].reset()[0]
        return self._batch(), rewards, terminated, truncated, infos

    def _batch(self) -> Any:
        space = self.single_observation_space
        return concatenate(space, self.rows, create_empty_array(space, self.num_envs))


class Unseeded(Counting):
    """Ignores its seed."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed)
        self.number = int(np.random.default_rng().integers(10**6))
        return observation, info


class Failing(Counting):
    """Raises in its second step."""

    def step(self, action: Any) -> Any:
        if self.time == 1:
            raise ZeroDivisionError("the motor\nis broken")
        return super().step(action)


class Broken(Counting):
    """Observes something else than its space says."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros((1,)), {}
