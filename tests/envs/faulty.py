"""Environments that misbehave, each in one way; importable, so that processes can make them."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

BOX = spaces.Box(-1, 1, (2,), np.float32)
WHEN = 3
"""The step in which what is to go wrong goes wrong."""


class Faulty(gymnasium.Env[Any, Any]):
    """Well-behaved but for `fault`: what it does in its third step, or elsewhere if that says so.

    With `first` it is only the first so many environments of a process that do it. In steps, all
    are well-behaved for the first `quiet` steps of the process.
    """

    made = 0
    steps = quiet = 0
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, fault: str = "", first: int = 10**9, render_mode: str | None = None):
        Faulty.made += 1
        self.fault = fault if Faulty.made <= first else ""
        self.render_mode = render_mode
        self.observation_space = SPACES.get(fault, BOX)
        self.action_space = spaces.Discrete(2)
        self.time = self.episode = 0
        if self.fault == "make raises":
            raise OSError("no licence")
        if self.fault == "make exits":
            sys.exit("no screen")
        if self.fault == "make hangs":
            time.sleep(60)
        if self.fault == "no spaces":
            del self.observation_space
        if self.fault == "spaces of somebody else":
            self.action_space = (0, 1)
        if self.fault == "spaces differ" and Faulty.made % 2 == 0:
            self.observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.episode = 0, self.episode + 1
        observation = self.observe()
        if self.fault == "reset raises":
            raise ValueError("no\nstart")
        if self.fault == "second reset raises" and self.episode > 1:
            raise ValueError("no second start")
        if self.fault == "reset hangs":
            time.sleep(60)
        if self.fault == "reset gives an observation only":
            return observation
        if self.fault == "reset gives three":
            return observation, {}, 1
        if self.fault == "reset gives another shape":
            return np.zeros(3, np.float32), {}
        if self.fault == "reset changes spaces":
            self.action_space = spaces.Discrete(5)
        return observation, {}

    def observe(self) -> Any:
        return SEEN.get(self.fault, np.full(2, self.time / 100, np.float32))

    def step(self, action: Any) -> Any:
        self.time += 1
        Faulty.steps += 1
        result = [self.observe(), 1.0, False, self.time == 2 * WHEN, {}]
        if self.time != WHEN or Faulty.steps <= Faulty.quiet:
            return tuple(result)
        if self.fault in OBSERVATIONS:
            result[0] = OBSERVATIONS[self.fault]
        elif self.fault in REWARDS:
            result[1] = REWARDS[self.fault]
        elif self.fault in FLAGS:
            place, flag = FLAGS[self.fault]
            result[place] = flag
        elif self.fault in RESULTS:
            return RESULTS[self.fault](result)
        elif self.fault in DEEDS:
            DEEDS[self.fault]()
        return tuple(result)

    def render(self) -> Any:
        if self.fault == "render raises":
            raise OSError("no screen")
        return np.zeros((3, 3)) if self.fault == "render draws no picture" else _PICTURE

    def close(self) -> None:
        if self.fault == "close raises":
            raise OSError("already closed")


_PICTURE = np.zeros((2, 2, 3), np.uint8)


def _raise() -> None:
    raise ZeroDivisionError("the motor\nis broken")


DEEDS = {
    "step raises": _raise,
    "step exits": lambda: sys.exit(3),
    "step hangs": lambda: time.sleep(60),
    "dies": lambda: os.kill(os.getpid(), signal.SIGKILL),
}
OBSERVATIONS = {
    "observation is NaN": np.array([0, np.nan], np.float32),
    "observation is infinite": np.array([np.inf, 0], np.float32),
    "observation has another shape": np.zeros(3, np.float32),
    "observation is a number": 0.5,
    "observation has an axis too many": np.zeros((1, 2), np.float32),
    "observation is None": None,
    "observation is a text": "far left",
    "observation is complex": np.zeros(2, complex),
    "observation is ragged": [[1.0], [1.0, 2.0]],
    "observation is far outside its box": np.array([0, 1e6], np.float32),
    "choice does not exist": 7,
    "choice is a float": 2.5,
    "choice is an array": np.array([1]),
    "bits are not binary": np.array([0, 3], np.int8),
    "bytes do not fit": np.array([1, 300]),
    "a key is missing": {"a": np.zeros(2, np.float32)},
    "a key has another shape": {"a": np.zeros(2, np.float32), "b": np.zeros(2)},
    "dict is no dict": np.zeros(2, np.float32),
    "tuple is too short": (1,),
}
REWARDS = {
    "reward is None": None,
    "reward is an array": np.zeros(1),
    "reward is a text": "1.0",
    "reward is NaN": float("nan"),
    "reward is infinite": np.float64("-inf"),
}
FLAGS = {
    "terminated is a text": (2, "no"),
    "terminated is a number": (2, 1),
    "terminated is None": (2, None),
    "truncated is an array": (3, np.array([True])),
}
RESULTS = {
    "step gives four": lambda result: (*result[:2], False, {}),
    "step gives six": lambda result: (*result, None),
    "step gives nothing": lambda result: None,
}
_TWO = spaces.Dict({"a": BOX, "b": spaces.Discrete(3)})
SPACES = {
    "choice does not exist": spaces.Discrete(5),
    "choice is a float": spaces.Discrete(5),
    "choice is an array": spaces.Discrete(5),
    "bits are not binary": spaces.MultiBinary(2),
    "bytes do not fit": spaces.Box(0, 255, (2,), np.uint8),
    "a key is missing": _TWO,
    "a key has another shape": _TWO,
    "dict is no dict": _TWO,
    "tuple is too short": spaces.Tuple((spaces.Discrete(3), spaces.Discrete(3))),
}
SEEN: dict[str, Any] = {
    "choice does not exist": 1,
    "choice is a float": 1,
    "choice is an array": 1,
    "bits are not binary": np.zeros(2, np.int8),
    "bytes do not fit": np.zeros(2, np.uint8),
    "a key is missing": {"a": np.zeros(2, np.float32), "b": 1},
    "a key has another shape": {"a": np.zeros(2, np.float32), "b": 1},
    "dict is no dict": {"a": np.zeros(2, np.float32), "b": 1},
    "tuple is too short": (1, 1),
}


class FaultyVector(VectorEnv[Any, Any, Any]):
    """A vector environment of two that does `fault` in its third step."""

    def __init__(self, fault: str = ""):
        self.fault, self.num_envs, self.time = fault, 2, 0
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space, self.single_action_space = BOX, spaces.Discrete(2)
        self.observation_space = batch_space(BOX, 2)
        self.action_space = batch_space(self.single_action_space, 2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.time = 0
        observation = np.zeros((2, 2), np.float32)
        return observation if self.fault == "reset gives an observation only" else (observation, {})

    def step(self, actions: Any) -> Any:
        self.time += 1
        no = np.zeros(2, bool)
        result = [np.zeros((2, 2), np.float32), np.zeros(2), no, no, {}]
        if self.time == WHEN and self.fault:
            if self.fault == "step raises":
                _raise()
            if self.fault == "step gives four":
                return tuple(result[:4])
            place, value = VECTOR_FAULTS[self.fault]
            result[place] = value
        return tuple(result)


VECTOR_FAULTS = {
    "observations of one": (0, np.zeros((1, 2), np.float32)),
    "observations of another type": (0, np.zeros((2, 2), complex)),
    "an observation is NaN": (0, np.array([[0, 0], [np.nan, 0]], np.float32)),
    "an observation is far outside": (0, np.array([[0, 0], [0, -99]], np.float32)),
    "rewards of one": (1, np.zeros(1)),
    "a reward is None": (1, [1.0, None]),
    "a reward is NaN": (1, np.array([0, np.nan])),
    "terminated are numbers": (2, np.zeros(2)),
    "truncated is one for all": (3, False),
}


def dies_once(folder: str) -> Faulty:
    """An environment of which the first that is made in a process of its own dies in a step.

    The test makes one too, to learn the spaces; that one is not stepped.
    """
    env = Faulty()
    if len(os.listdir(folder)) < 2:
        try:
            os.close(os.open(f"{folder}/{len(os.listdir(folder))}", os.O_CREAT | os.O_EXCL))
            env.fault = "dies"
        except FileExistsError:  # another was quicker
            pass
    return env
