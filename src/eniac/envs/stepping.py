"""Stepping many environments of the host's together: gymnasium's, EnvPool's, and the user's.

Vector environments reset by themselves in three ways (gymnasium's `AutoresetMode`), and learners
get them wrong in as many. Here is the one place that knows them: a `HostStep` means the same
whatever it came from. Where the environments come from is in `sources.py`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from eniac.envs.observations import (
    ARRAY_SPACES,
    empty,
    equal,
    leaves,
    picker,
    select_keys,
    take,
    write,
)
from eniac.errors import ConfigError, EniacError, RunError, one_line


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
    """

    observation: Any
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    real: np.ndarray
    final_index: np.ndarray
    final_observation: Any


class HostEnvs(ABC):
    """`num_envs` environments that are stepped together. Made by `HostEnv.open`; a context manager.

    Call `begin` first. Actions are in the environments' own form, batched as gymnasium's vector
    environments want them. Observations are arrays, or plain dicts and tuples of arrays, with an
    axis of `num_envs` in front, in the environment's own dtypes.

    **Raises** RunError, in one line that names the environment, for whatever goes wrong in it.
    """

    def __init__(self, name: str, num_envs: int, observation_space: Any, action_space: Any):
        self.name = name
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self._begun = False
        # What a step reports if nothing ended, made once. Read-only, for they are handed out.
        self._all = _frozen(np.ones(num_envs, bool))
        self._none = _frozen(np.zeros(num_envs, bool))
        self._no_index = _frozen(np.zeros(0, np.int64))
        self._no_observation = empty(observation_space, 0)

    def begin(self, seed: int) -> Any:
        """Starts afresh; everything that follows depends on `seed` and the actions only.

        As far as the environments keep to it, which `is_deterministic` looks at.
        """
        observation = self._guard("begin", self._begin, env_seeds(seed, self.num_envs))
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
        try:
            return self._step(actions)
        except EniacError:
            raise
        except Exception as error:
            raise self._told("step", error) from error

    def close(self) -> None:
        """Ends the environments, unless they were given ready-made: those are their owner's."""
        self._begun = False
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
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
            return call(*arguments)
        except EniacError:
            raise
        except Exception as error:
            raise self._told(doing, error) from error

    def _told(self, doing: str, error: Exception) -> RunError:
        return RunError(f"{self.name} failed in {doing}: {one_line(error)}")

    @abstractmethod
    def _begin(self, seeds: list[int]) -> Any: ...

    @abstractmethod
    def _reset(self) -> Any: ...

    @abstractmethod
    def _step(self, actions: Any) -> HostStep: ...

    @abstractmethod
    def _close(self) -> None: ...


class LoopEnvs(HostEnvs):
    """Single environments in a plain loop; one that ends is reset at once, so every step is real.

    gymnasium's `SyncVectorEnv` does the same and gathers infos, which nobody reads here. Measured
    with 64 environments, this loop takes a quarter less time on MountainCarContinuous; on CartPole
    a sixth less than SAME_STEP and as much as NEXT_STEP, whose resets take steps of their own.
    """

    def __init__(
        self, name: str, envs: Sequence[gymnasium.Env[Any, Any]], keys: tuple[str, ...], owned: bool
    ):
        whole, action_space = envs[0].observation_space, envs[0].action_space
        for env in envs[1:]:
            if env.observation_space != whole or env.action_space != action_space:
                raise RunError(
                    f"{name} makes environments with different spaces: {whole} and "
                    f"{action_space}, then {env.observation_space} and {env.action_space}. All "
                    "must have the same."
                )
        super().__init__(name, len(envs), select_keys(name, whole, keys), action_space)
        self._envs = list(envs)
        self._owned = owned
        self._steps = [env.step for env in envs]
        self._resets = [env.reset for env in envs]
        self._observation = empty(self.observation_space, len(envs))
        self._final = empty(self.observation_space, len(envs))
        self._reward = np.zeros(len(envs))
        # An array of actions is iterated over as it is; a dict or tuple of arrays is not.
        plain = isinstance(action_space, ARRAY_SPACES)
        self._actions_space = None if plain else batch_space(action_space, len(envs))

    def _begin(self, seeds: list[int]) -> Any:
        for i, (reset, seed) in enumerate(zip(self._resets, seeds, strict=True)):
            observation = reset(seed=seed)[0]
            self._check(observation, self.observation_space, "its observation")
            write(self._observation, i, observation)
        return self._observation

    def _reset(self) -> Any:
        for i, reset in enumerate(self._resets):
            write(self._observation, i, reset()[0])
        return self._observation

    def _step(self, actions: Any) -> HostStep:
        if self._actions_space is not None:
            actions = tuple(iterate(self._actions_space, actions))
        if len(actions) != self.num_envs:
            raise RunError(
                f"{len(actions)} actions were given to {self.num_envs} environments of {self.name}."
            )
        observations, rewards = self._observation, self._reward
        one_array = type(observations) is np.ndarray
        terminated = truncated = None
        for i, (step, action) in enumerate(zip(self._steps, actions, strict=True)):
            observation, rewards[i], terminates, truncates, _ = step(action)
            if terminates or truncates:
                if terminated is None or truncated is None:
                    terminated, truncated = self._none.copy(), self._none.copy()
                if terminates:
                    terminated[i] = True
                else:
                    truncated[i] = True
                    # Before the reset: an environment may reuse the array it returned.
                    write(self._final, i, observation)
                observation = self._resets[i]()[0]
            if one_array:
                observations[i] = observation
            else:
                write(observations, i, observation)
        if terminated is None or truncated is None:
            return HostStep(
                observations,
                rewards,
                self._none,
                self._none,
                self._all,
                self._no_index,
                self._no_observation,
            )
        index = np.flatnonzero(truncated)
        final = take(self._final, index) if len(index) else self._no_observation
        return HostStep(observations, rewards, terminated, truncated, self._all, index, final)

    def _close(self) -> None:
        for env in self._envs if self._owned else ():
            env.close()

    def _check(self, observation: Any, space: Any, what: str) -> None:
        # NumPy would stretch a wrong shape and cut floats to whole numbers without a word.
        if isinstance(space, spaces.Dict):
            for key, inner in space.items():
                self._check(observation[key], inner, f"{what} {key!r}")
        elif isinstance(space, spaces.Tuple):
            for i, inner in enumerate(space):
                self._check(observation[i], inner, f"{what} [{i}]")
        else:
            given = np.asarray(observation)
            loses = given.dtype.kind == "f" and np.dtype(space.dtype).kind != "f"
            if given.shape != space.shape or loses:
                raise RunError(
                    f"{self.name} does not keep to its observation_space: {what} has shape "
                    f"{given.shape} and dtype {given.dtype}, the space says {space.shape} and "
                    f"{space.dtype}. Correct the environment's observation_space."
                )


class VectorEnvs(HostEnvs):
    """A vector environment, of whichever way of resetting itself.

    In SAME_STEP mode the last observations are as good as its infos: gymnasium's `SyncVectorEnv`
    and `AsyncVectorEnv` hold those of an environment that reuses its array after the reset has
    overwritten it. Environments that are made here, not given as a vector, are free of that.
    """

    def __init__(
        self, name: str, vector: Any, observation_space: Any, action_space: Any, owned: bool
    ):
        super().__init__(name, vector.num_envs, observation_space, action_space)
        self._owned = owned
        self._pick = picker(observation_space)
        self._resets_only_the_mask = False
        self._use(vector)

    def _use(self, vector: Any) -> None:
        self._vector = vector
        self._mode = _autoreset_mode(self.name, vector)
        self._pending = None  # NEXT_STEP: whose next step is only a reset; None for nobody

    def _begin(self, seeds: list[int]) -> Any:
        many = isinstance(self._vector.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        return self._started(self._vector.reset(seed=seeds if many else seeds[0])[0])

    def _reset(self) -> Any:
        return self._started(self._vector.reset()[0])

    def _started(self, observation: Any) -> Any:
        self._pending = None
        observation = self._pick(observation)
        for leaf in leaves(observation):
            if np.ndim(leaf) < 1 or len(leaf) != self.num_envs:
                raise RunError(
                    f"{self.name} has {self.num_envs} environments but observations of shape "
                    f"{np.shape(leaf)}; the first number must be {self.num_envs}."
                )
        return observation

    def _step(self, actions: Any) -> HostStep:
        observation, reward, terminated, truncated, infos = self._vector.step(actions)
        observation = self._pick(observation)
        if (
            self._pending is None
            and not np.count_nonzero(terminated)
            and not np.count_nonzero(truncated)
        ):
            return HostStep(
                observation,
                reward,
                self._none,
                self._none,
                self._all,
                self._no_index,
                self._no_observation,
            )
        terminated, truncated = np.asarray(terminated, bool), np.asarray(truncated, bool)
        ended, real = terminated | truncated, self._all
        if self._pending is not None:
            real = ~self._pending
            reward = np.where(real, reward, 0)
            terminated, truncated = terminated & real, truncated & real
        truncated = truncated & ~terminated
        index = np.flatnonzero(truncated)
        final = self._no_observation
        if self._mode is AutoresetMode.SAME_STEP:
            if len(index):
                final = self._final_observations(infos, index)
        else:
            if len(index):
                final = take(observation, index)
            if self._mode is AutoresetMode.NEXT_STEP:
                self._pending = ended if ended.any() else None
            elif ended.any():
                observation = self._reset_some(ended, observation)
        return HostStep(observation, reward, terminated, truncated, real, index, final)

    def _final_observations(self, infos: dict[str, Any], index: np.ndarray) -> Any:
        """The last observations that a SAME_STEP environment puts aside before it resets.

        gymnasium's own hold an array of objects, None where nothing ended; native ones often hold
        a batch like an observation's.
        """
        final = infos.get("final_obs", infos.get("final_observation"))
        try:
            if isinstance(final, list) or (
                isinstance(final, np.ndarray) and final.dtype.kind == "O"
            ):
                rows = [self._pick(final[i]) for i in index]
                return concatenate(
                    self.observation_space, rows, empty(self.observation_space, len(rows))
                )
            return take(self._pick(final), index)
        except (TypeError, KeyError, IndexError, ValueError, AttributeError) as error:
            raise RunError(
                f"{self.name} declares SAME_STEP autoreset, but where environments "
                f"{index.tolist()} were truncated infos['final_obs'] has no last observation "
                f"({'it is missing' if final is None else one_line(error)}). Let it hold one for "
                "each episode that ends, or use gymnasium's NEXT_STEP."
            ) from error

    def _reset_some(self, ended: np.ndarray, before: Any) -> Any:
        # Environments that do not know the mask reset all: looked for at the first partial reset.
        look = not self._resets_only_the_mask and not ended.all()
        if look:
            before = take(before, ~ended)
        observation = self._pick(self._vector.reset(options={"reset_mask": ended.copy()})[0])
        if look:
            if not equal(before, take(observation, ~ended)):
                raise RunError(
                    f"{self.name} declares DISABLED autoreset, but reset(options={{'reset_mask': "
                    "mask}) changed environments outside the mask. Let it reset only those in the "
                    "mask and return all observations, or use gymnasium's NEXT_STEP."
                )
            self._resets_only_the_mask = True
        return observation

    def _close(self) -> None:
        if self._owned:
            self._vector.close()


class EnvPoolEnvs(VectorEnvs):
    """EnvPool's environments. It cannot be seeded again, so `begin` makes it anew, which is quick.

    EnvPool reports an episode that terminates at its very last allowed step as truncated.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[list[int]], Any],
        num_envs: int,
        observation_space: Any,
        action_space: Any,
    ):
        HostEnvs.__init__(self, name, num_envs, observation_space, action_space)
        self._owned = True
        self._pick = picker(observation_space)
        self._resets_only_the_mask = False
        self._make = make
        self._vector: Any = None

    def _begin(self, seeds: list[int]) -> Any:
        self._close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it tells that float64 bounds become float32
            self._use(self._make(seeds))
            return self._started(self._vector.reset()[0])

    def _close(self) -> None:
        if self._vector is not None:
            self._vector.close()
            self._vector = None


def env_seeds(seed: int, num_envs: int) -> list[int]:
    """A seed for each environment, all different, and unlike those of the next seed.

    gymnasium's own `seed + i` lets runs with seeds 0 and 1 share all environments but one. 31 bits
    are what every environment takes.
    """
    if seed < 0:
        raise ConfigError(f"seed is {seed}; it must be 0 or more.")
    words = np.random.SeedSequence(seed).generate_state(2 * num_envs + 2) >> 1
    return [int(word) for word in dict.fromkeys(words.tolist())][:num_envs]


def _autoreset_mode(name: str, vector: Any) -> AutoresetMode:
    given = (vector.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(given)
    except ValueError:
        raise RunError(
            f"{name} does not say how it resets itself: metadata['autoreset_mode'] is {given!r}. "
            "Set it to one of gymnasium.vector.AutoresetMode: NEXT_STEP, SAME_STEP or DISABLED."
        ) from None


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
