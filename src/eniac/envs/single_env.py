"""One environment of the host's, to play or draw an episode in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np

from eniac.envs import faults
from eniac.envs.faults import FAILURES, first_observation
from eniac.envs.observations import empty, take, writer
from eniac.errors import RunError


class SingleEnv:
    """One environment, to play or draw an episode in. What it gives is looked at as everywhere:
    **raises** RunError, in one line that names it, for whatever goes wrong."""

    def __init__(self, name: str, env: gymnasium.Env[Any, Any], observation_space: Any):
        self.name, self.env, self.steps = name, env, 0
        self._row = empty(observation_space, 1)
        self._put = writer(observation_space, self._row)

    def reset(self, seed: int) -> Any:
        """The first observation of an episode, copied."""
        self.steps = 0
        with self._telling("reset"):
            return self._observed(first_observation(self.env.reset(seed=seed)))

    def step(self, action: Any) -> tuple[Any, float, bool, bool]:
        """Observation, reward, whether it terminated and whether it was truncated."""
        self.steps += 1
        with self._telling("step"):
            result = self.env.step(action)
            faults.check_step(result)
            observation, reward, terminated, truncated, _ = result
            return (
                self._observed(observation),
                faults.number(reward),
                faults.flag("terminated", terminated),
                faults.flag("truncated", truncated),
            )

    def render(self) -> np.ndarray:
        """A picture: bytes of shape (height, width, 3)."""
        with self._telling("render"):
            return faults.picture(self.env.render())

    @property
    def fps(self) -> float:
        """How many pictures a second make a film that can be followed."""
        return float((self.env.metadata or {}).get("render_fps") or 30)

    def _observed(self, observation: Any) -> Any:
        self._put(0, observation)
        return deepcopy(take(self._row, 0))

    @contextmanager
    def _telling(self, doing: str) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            fault = faults.raised(error, doing)
            raise RunError(f"{self.name} (step {self.steps}) {fault}") from error
