"""Stepping many environments of the host's together: gymnasium's, EnvPool's, and the user's.

A `HostStep` means the same whatever it came from: single environments (`loop_envs.py`) or vector
environments (`vector_envs.py`). Where the environments come from is in `sources.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array

from eniac.envs import faults
from eniac.envs.faults import FAILURES, Fault, Hangs, Patience
from eniac.envs.observations import empty, equal
from eniac.errors import ConfigError, EniacError, RunError

MOST_RESTARTS = 10
"""Environments that are replaced in one rollout, if they are; more of them are an error."""


class HostStep(NamedTuple):
    """What one step of `num_envs` environments reports.

    The arrays may be the environments' own memory: they hold until the next call of `begin`,
    `reset` or `step`, so copy what is to be kept, and write into none of them.

    - `observation`: what the next action is for. Where an episode has ended and the next has
      begun already, it is the first one of the next.
    - `reward`, `terminated`, `truncated`: of shape [num_envs]. A step that terminates is not
      truncated as well.
    - `real`: False where this step was only a reset, as in gymnasium's NEXT_STEP mode the one
      after an end. Its action and its reward do not count; leave it out of what is learned from.
    - `final_index`: which environments' episodes were truncated at this step, in rising order.
    - `final_observation`: the last observations of these episodes, before any reset, with an axis
      of `len(final_index)` in front: their values are to be bootstrapped from. Episodes that
      terminated need none: nothing can be earned after them.
    - `failed`: which environments failed in this step and were replaced. The step is not real, the
      episode before it is not to be trusted, and `observation` is the first one of the new.
    """

    observation: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    real: np.ndarray
    final_index: np.ndarray
    final_observation: Any
    failed: tuple[int, ...] = ()


class HostEnvs(ABC):
    """`num_envs` environments that are stepped together. Made by `HostEnv.open`; a context manager.

    Call `begin` first. Actions are in the environments' own form, batched as gymnasium's vector
    environments want them. Observations are arrays, or plain dicts and tuples of arrays, with an
    axis of `num_envs` in front, in the environment's own dtypes.

    `timeout` is how many seconds a step or reset of all of them together may take; `steps` counts
    them since `begin`. What was replaced after a failure, where that was asked for, is told in
    `restarts`, which whoever steps them empties at times: more than `MOST_RESTARTS` are an error.

    **Raises** RunError, in one line that names the environment, the copy of it and the step, for
    whatever goes wrong in it.
    """

    def __init__(
        self,
        name: str,
        num_envs: int,
        observation_space: Any,
        action_space: Any,
        timeout: float | None = None,
    ):
        self.name = name
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self.steps = 0
        self.seeds: list[int] = []
        self.copies: tuple[int, int] = (0, num_envs)  # how many there are before these, and in all
        self.restarts: list[str] = []
        self._patience = None if timeout is None else Patience(timeout)
        self._begun = self._hangs = False
        # What a step reports if nothing ended, made once. Read-only, for they are handed out.
        self._all = frozen(np.ones(num_envs, bool))
        self._none = frozen(np.zeros(num_envs, bool))
        self._no_index = frozen(np.zeros(0, np.int64))
        self._no_observation = empty(observation_space, 0)

    def begin(self, seed: int) -> Any:
        """Starts afresh; everything that follows depends on `seed` and the actions only.

        As far as the environments keep to it, which `is_deterministic` looks at.
        """
        return self.begin_with(env_seeds(seed, self.num_envs))

    def begin_with(self, seeds: list[int]) -> Any:
        """As `begin`, with a seed for each environment."""
        self.seeds, self.steps = list(seeds), 0
        observation = self._guard("reset", self._begin, seeds)
        self._begun = True
        return observation

    def reset(self) -> Any:
        """Puts all environments to a start, without seeding them again."""
        self._need_begin()
        return self._guard("reset", self._reset)

    def step(self, actions: Any) -> HostStep:
        """Takes one action in every environment."""
        if not self._begun:
            self._need_begin()
        self.steps += 1
        if self._patience is not None:
            return self._guard("step", self._step, actions)
        try:
            return self._step(actions)
        except EniacError:
            raise
        except FAILURES as error:
            raise self.told(faults.raised(error, "step")) from error

    def close(self) -> None:
        """Ends the environments, unless they were given ready-made: those are their owner's."""
        self._begun = False
        if self._patience is not None:
            self._patience.end()
        if not self._hangs:
            self._close()

    def __enter__(self) -> HostEnvs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_deterministic(self, seed: int = 0, steps: int = 8) -> bool:
        """Whether beginning twice with one seed and taking the same actions gives the same.

        A few steps cannot prove it, but find what is common: an environment that ignores
        `reset(seed=...)`. Afterwards call `begin`.
        """
        space = deepcopy(self.action_space)
        space.seed(seed)
        actions = [self._sample(space) for _ in range(steps)]
        first, second = (self._trace(seed, actions) for _ in range(2))
        return all(equal(one, other) for one, other in zip(first, second, strict=True))

    def told(
        self, fault: BaseException, copy: int | None = None, step: int | None = None
    ) -> RunError:
        """What went wrong, with the environment's name, the copy of it and the step in front."""
        before, total = self.copies
        which = f"{total} copies" if copy is None else f"copy {before + copy + 1} of {total}"
        seed = f", seed {self.seeds[copy]}" if copy is not None and self.seeds else ""
        when = self.steps if step is None else step
        return RunError(f"{self.name} ({which}{seed}, step {when}) {fault}")

    def _trace(self, seed: int, actions: list[Any]) -> list[Any]:
        return [deepcopy(self.begin(seed)), *(deepcopy(tuple(self.step(a))) for a in actions)]

    def _sample(self, space: Any) -> Any:
        samples = [space.sample() for _ in range(self.num_envs)]
        return concatenate(space, samples, create_empty_array(space, self.num_envs))

    def _need_begin(self) -> None:
        if not self._begun:
            raise RunError(f"{self.name} has not begun, or is closed: call begin(seed) first.")

    def _guard(self, doing: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            if self._patience is None:
                return call(*arguments)
            return self._patience(call, *arguments)
        except EniacError:
            raise
        except Hangs as hangs:
            self._begun, self._hangs = False, True
            raise self.told(
                Fault(
                    f"{hangs} In this process it cannot be ended; with --vectorization async each "
                    "environment has a process, which can."
                )
            ) from None
        except FAILURES as error:
            raise self.told(faults.raised(error, doing)) from error

    def _replaced(self, told: RunError) -> None:
        """Takes note of a failure after which an environment is replaced."""
        self.restarts.append(str(told))
        if len(self.restarts) > MOST_RESTARTS:
            raise RunError(
                f"{told} No more are replaced: {MOST_RESTARTS} in one rollout were (restart_failed"
                "_envs)."
            ) from told

    def _fresh_seed(self, copy: int) -> int:
        """A seed for the one that takes the place of a copy, unlike all others."""
        words = (self.seeds[copy], self.steps, len(self.restarts))
        self.seeds[copy] = int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)
        return self.seeds[copy]

    @abstractmethod
    def _begin(self, seeds: list[int]) -> Any: ...

    @abstractmethod
    def _reset(self) -> Any: ...

    @abstractmethod
    def _step(self, actions: Any) -> HostStep: ...

    @abstractmethod
    def _close(self) -> None: ...


def env_seeds(seed: int, num_envs: int) -> list[int]:
    """A seed for each environment, all different, and unlike those of the next seed.

    gymnasium's own `seed + i` lets runs with seeds 0 and 1 share all environments but one. 31 bits
    are what every environment takes.
    """
    if seed < 0:
        raise ConfigError(f"seed is {seed}; it must be 0 or more.")
    words = np.random.SeedSequence(seed).generate_state(2 * num_envs + 2) >> 1
    return [int(word) for word in dict.fromkeys(words.tolist())][:num_envs]


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, which nobody can write into any more."""
    array.flags.writeable = False
    return array
