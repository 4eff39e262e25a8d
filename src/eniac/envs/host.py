"""Environments that run on the host: gymnasium's, EnvPool's, and those a user hands over.

A `HostEnv` says where environments come from; `HostEnv.open` gives `HostEnvs`, a number of them
that are stepped together. Vector environments reset by themselves in three ways (gymnasium's
`AutoresetMode`), and learners get them wrong in as many. Here is the one place that knows them: a
`HostStep` means the same whatever it came from.

NumPy only. gymnasium is imported with this module, EnvPool when it is asked for.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from multiprocessing import get_all_start_methods
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from eniac.errors import ConfigError, EniacError, RunError

Vectorization = Literal["sync", "async"]

# Spaces whose elements are arrays of one shape, so that many of them are one array.
_ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


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
        self._no_observation = _empty(observation_space, 0)

    def begin(self, seed: int) -> Any:
        """Starts afresh; everything that follows depends on `seed` and the actions only.

        As far as the environments keep to it, which `is_deterministic` looks at.
        """
        observation = self._guard("begin", self._begin, _env_seeds(seed, self.num_envs))
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
        return all(_equal(one, other) for one, other in zip(first, second, strict=True))

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
        self._observation = _empty(self.observation_space, len(envs))
        self._final = _empty(self.observation_space, len(envs))
        self._reward = np.zeros(len(envs))
        # An array of actions is iterated over as it is; a dict or tuple of arrays is not.
        plain = isinstance(action_space, _ARRAY_SPACES)
        self._actions_space = None if plain else batch_space(action_space, len(envs))

    def _begin(self, seeds: list[int]) -> Any:
        for i, (reset, seed) in enumerate(zip(self._resets, seeds, strict=True)):
            observation = reset(seed=seed)[0]
            self._check(observation, self.observation_space, "its observation")
            _write(self._observation, i, observation)
        return self._observation

    def _reset(self) -> Any:
        for i, reset in enumerate(self._resets):
            _write(self._observation, i, reset()[0])
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
                    _write(self._final, i, observation)
                observation = self._resets[i]()[0]
            if one_array:
                observations[i] = observation
            else:
                _write(observations, i, observation)
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
        final = _take(self._final, index) if len(index) else self._no_observation
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
        self._pick = _picker(observation_space)
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
        for leaf in _leaves(observation):
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
                final = _take(observation, index)
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
                    self.observation_space, rows, _empty(self.observation_space, len(rows))
                )
            return _take(self._pick(final), index)
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
            before = _take(before, ~ended)
        observation = self._pick(self._vector.reset(options={"reset_mask": ended.copy()})[0])
        if look:
            if not _equal(before, _take(observation, ~ended)):
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
        self._pick = _picker(observation_space)
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


class HostEnv(ABC):
    """Where environments come from: a name, the spaces of one of them, and a way to make many.

    - `horizon`: the time limit in steps, None if it is not known.
    - `num_envs`: how many there are, if it is fixed: 1 for an environment that was given
      ready-made, a vector environment's own number. None if as many as wanted can be made.
    - `observation_keys`: the keys that are kept of a Dict observation; none for all.
    - `vectorization`: how `open` has them stepped, unless it is told otherwise.

    `eniac.envs.names` makes these.
    """

    num_envs: int | None = None

    def __init__(
        self,
        name: str,
        observation_space: Any,
        action_space: Any,
        horizon: int | None,
        observation_keys: Sequence[str] = (),
    ):
        self.name = name
        self.observation_keys = tuple(observation_keys)
        self.observation_space = select_keys(name, observation_space, self.observation_keys)
        self.action_space = action_space
        self.horizon = horizon
        self.vectorization: Vectorization = "sync"

    @property
    def time_limit(self) -> int | None:
        """`horizon`, under the name that our own environments have for it."""
        return self.horizon

    def open(self, num_envs: int, vectorization: Vectorization | None = None) -> HostEnvs:
        """`num_envs` environments, stepped one after the other or each in a process ("async").

        Processes pay only where a step is expensive, a millisecond and more. They are started
        afresh, not forked (forking a process in which JAX runs can hang), so a script that asks
        for them must do so under `if __name__ == "__main__":`.

        **Raises** ConfigError for a number that cannot be had, RunError if they cannot be made.
        """
        vectorization = self.vectorization if vectorization is None else vectorization
        if num_envs < 1 or num_envs != int(num_envs):
            raise ConfigError(f"num_envs is {num_envs!r}; it must be a whole number of 1 or more.")
        if self.num_envs not in (None, num_envs):
            raise ConfigError(
                f"num_envs is {num_envs}, but {self.name} has {self.num_envs}: it was given "
                f"ready-made. Set num_envs to {self.num_envs}, or give a function that makes one "
                "environment."
            )
        if vectorization not in get_args(Vectorization):
            raise ConfigError(f"vectorization is {vectorization!r}; it must be 'sync' or 'async'.")
        _check_arrays(self.name, self.observation_space)
        try:
            return self._open(num_envs, vectorization)
        except EniacError:
            raise
        except Exception as error:
            raise RunError(f"{self.name} could not be made: {one_line(error)}") from error

    def single(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """One environment, to play or draw an episode in; with the time limit and keys of all.

        One that was given ready-made is returned itself: playing in it moves it.

        **Raises** RunError where there is none, or none that draws in this way.
        """
        try:
            env = self._single(render_mode)
        except EniacError:
            raise
        except Exception as error:
            raise RunError(f"{self.name} could not be made: {one_line(error)}") from error
        if render_mode is not None and env.render_mode != render_mode:
            raise RunError(
                f"{self.name} cannot be drawn: its render_mode is {env.render_mode!r}, "
                f"{render_mode!r} is wanted. {self._how_to_draw(render_mode)}"
            )
        return filter_keys(env, self.observation_keys)

    def close(self) -> None:  # noqa: B027, most have nothing to end
        """Ends what was made to learn the spaces and never opened."""

    def _needs_sync(self, vectorization: str) -> None:
        if vectorization != "sync":
            raise ConfigError(
                f"vectorization is {vectorization!r}, but {self.name} is stepped as it is; use "
                "'sync', or an id or a function that makes one environment."
            )

    def _how_to_draw(self, render_mode: str) -> str:
        return f"Make it with render_mode={render_mode!r}."

    @abstractmethod
    def _open(self, num_envs: int, vectorization: str) -> HostEnvs: ...

    @abstractmethod
    def _single(self, render_mode: str | None) -> gymnasium.Env[Any, Any]: ...


class MadeEnv(HostEnv):
    """Environments that `make(render_mode)` makes one by one, each with its time limit.

    `first` is one of them, made already to learn the spaces. It is the first of those that are
    opened first: making an environment can be expensive, or print, or take a licence.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[str | None], gymnasium.Env[Any, Any]],
        first: gymnasium.Env[Any, Any],
        observation_keys: Sequence[str] = (),
    ):
        super().__init__(
            name, first.observation_space, first.action_space, env_horizon(first), observation_keys
        )
        self._make = make
        self._first: gymnasium.Env[Any, Any] | None = first

    def _open(self, num_envs: int, vectorization: str) -> HostEnvs:
        if vectorization == "async":
            return self._open_async(num_envs)
        envs = [self._take_first() or self._make(None)]
        envs += [self._make(None) for _ in range(num_envs - 1)]
        if len({id(env.unwrapped) for env in envs}) < num_envs:
            raise RunError(
                f"{self.name} returned the same environment twice. It is called once for every "
                "environment and must make a new one each time."
            )
        return LoopEnvs(self.name, envs, self.observation_keys, owned=True)

    def _open_async(self, num_envs: int) -> HostEnvs:
        make, keys = self._make, self.observation_keys
        try:
            vector = AsyncVectorEnv(
                [lambda: _CopyLast(filter_keys(make(None), keys))] * num_envs,
                copy=False,  # a step's arrays hold until the next call
                context="forkserver" if "forkserver" in get_all_start_methods() else "spawn",
                autoreset_mode=AutoresetMode.SAME_STEP,  # every step is real
            )
        except Exception as error:
            raise RunError(
                f"the processes of {self.name} did not start ({one_line(error)}). In a script, "
                "start them under `if __name__ == '__main__':`; or use vectorization='sync'."
            ) from error
        return VectorEnvs(self.name, vector, self.observation_space, self.action_space, owned=True)

    def _single(self, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        return self._make(render_mode)

    def _how_to_draw(self, render_mode: str) -> str:
        return f"Let what makes it take render_mode={render_mode!r} and hand it on."

    def _take_first(self) -> gymnasium.Env[Any, Any] | None:
        first, self._first = self._first, None
        return first

    def close(self) -> None:
        if (first := self._take_first()) is not None:
            first.close()


class _CopyLast(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Copies an episode's last observation.

    gymnasium puts it aside without a copy and then resets, so that an environment which returns one
    array again and again would overwrite it.
    """

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            observation = deepcopy(observation)
        return observation, reward, terminated, truncated, info


class GivenEnv(HostEnv):
    """One environment that was given ready-made. It stays its owner's: it is never closed."""

    num_envs = 1

    def __init__(
        self, name: str, env: gymnasium.Env[Any, Any], observation_keys: Sequence[str] = ()
    ):
        super().__init__(
            name, env.observation_space, env.action_space, env_horizon(env), observation_keys
        )
        self._env = env

    def _open(self, num_envs: int, vectorization: str) -> HostEnvs:
        self._needs_sync(vectorization)
        return LoopEnvs(self.name, [self._env], self.observation_keys, owned=False)

    def _single(self, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        return self._env


class VectorEnvSource(HostEnv):
    """Vector environments that `make(num_envs)` makes; `first`, if there is one, is used first.

    With `given` there is only `first`, which stays its owner's. `num_envs` is fixed unless `make`
    heeds its argument, which only an id's does.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[int], Any],
        first: Any,
        num_envs: int | None,
        given: bool = False,
        observation_keys: Sequence[str] = (),
    ):
        super().__init__(
            name,
            first.single_observation_space,
            first.single_action_space,
            vector_horizon(first),
            observation_keys,
        )
        self.num_envs = num_envs
        self._make, self._first, self._given = make, first, given

    def _open(self, num_envs: int, vectorization: str) -> HostEnvs:
        self._needs_sync(vectorization)
        vector = self._first
        if not self._given:
            self._first = None
        if vector is None or vector.num_envs != num_envs:
            if vector is not None:
                vector.close()
            vector = self._make(num_envs)
        if vector.num_envs != num_envs:
            raise RunError(
                f"{self.name} made {vector.num_envs} environments where {num_envs} were wanted."
            )
        return VectorEnvs(
            self.name,
            vector,
            self.observation_space,
            self.action_space,
            owned=not self._given,
        )

    def _single(self, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        raise RunError(
            f"{self.name} is a vector environment, in which no single episode can be played or "
            "drawn. Give an id, or a function that makes one environment."
        )

    def close(self) -> None:
        first, self._first = self._first, self._first if self._given else None
        if first is not None and not self._given:
            first.close()


class EnvPoolSource(HostEnv):
    """EnvPool's environments: `make(num_envs, seeds)` makes a pool; `spec` is EnvPool's own."""

    def __init__(
        self,
        name: str,
        make: Callable[[int, list[int]], Any],
        spec: Any,
        num_envs: int | None = None,
        observation_keys: Sequence[str] = (),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            observation_space = spec.gymnasium_observation_space
            action_space = spec.gymnasium_action_space
        limit = getattr(spec.config, "max_episode_steps", None)
        super().__init__(
            name,
            observation_space,
            action_space,
            limit if limit and limit < 2**31 - 1 else None,
            observation_keys,
        )
        self.num_envs = num_envs
        self._make = make

    def _open(self, num_envs: int, vectorization: str) -> HostEnvs:
        self._needs_sync(vectorization)
        return EnvPoolEnvs(
            self.name,
            lambda seeds: self._make(num_envs, seeds),
            num_envs,
            self.observation_space,
            self.action_space,
        )

    def _single(self, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        id = self.name.removeprefix("envpool:")
        also = f" gymnasium has one of this name: use 'gymnasium:{id}'."
        raise RunError(
            f"{self.name} steps many environments at once, and no single episode can be played or "
            f"drawn in it.{also if id in gymnasium.registry else ''}"
        )


def one_line(error: BaseException) -> str:
    """What an exception says, in one line and with its kind."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def env_horizon(env: gymnasium.Env[Any, Any]) -> int | None:
    """The time limit of an environment: the smallest of its `TimeLimit`s, or its spec's."""
    limits, inner = [], env
    while isinstance(inner, gymnasium.Wrapper):
        if isinstance(inner, gymnasium.wrappers.TimeLimit):
            limits.append(inner._max_episode_steps)
        inner = inner.env
    if limits:
        return min(limits)
    with suppress(Exception):  # a wrapper that cannot say its spec raises
        return env.spec.max_episode_steps if env.spec is not None else None
    return None


def vector_horizon(vector: Any) -> int | None:
    """The time limit of a vector environment, where it is known."""
    base = vector.unwrapped
    with suppress(Exception):
        if isinstance(base, SyncVectorEnv):
            return env_horizon(base.envs[0])
        spec = base.get_attr("spec")[0] if isinstance(base, AsyncVectorEnv) else base.spec
        if spec is not None:
            return spec.kwargs.get("max_episode_steps", spec.max_episode_steps)
    return None


def select_keys(name: str, space: Any, keys: Sequence[str]) -> Any:
    """A Dict space with only these keys; any space as it is if there are none."""
    if not keys:
        return space
    if not isinstance(space, spaces.Dict):
        raise ConfigError(
            f"observation_keys is {list(keys)}, but the observation of {name} is no dict: it is "
            f"{type(space).__name__}. Leave observation_keys out."
        )
    unknown = [key for key in keys if key not in space.spaces]
    if unknown:
        raise ConfigError(
            f"observation_keys has {', '.join(map(repr, unknown))}, but the observation of {name} "
            f"has the keys {', '.join(map(repr, space.spaces))}."
        )
    return spaces.Dict({key: inner for key, inner in space.spaces.items() if key in keys})


def filter_keys(env: gymnasium.Env[Any, Any], keys: Sequence[str]) -> gymnasium.Env[Any, Any]:
    """`env` with only these keys of its observation; as it is if there are none."""
    return gymnasium.wrappers.FilterObservation(env, list(keys)) if keys else env


def _env_seeds(seed: int, num_envs: int) -> list[int]:
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


def _check_arrays(name: str, space: Any) -> None:
    """Raises unless an observation is made of arrays of one shape."""
    bad = _not_array(space)
    if bad is None:
        return
    keys = (
        [key for key, inner in space.items() if _not_array(inner) is None]
        if isinstance(space, spaces.Dict)
        else []
    )
    advice = (
        f"Choose among its other keys with observation_keys: {', '.join(keys)}."
        if keys
        else "Wrap the environment so that it observes a Box, Discrete, MultiDiscrete or "
        "MultiBinary space, or a Dict or Tuple of such."
    )
    raise ConfigError(f"the observation of {name} has a {bad}, which is no array. {advice}")


def _not_array(space: Any) -> str | None:
    """The kind of the first part of a space that is no array, None if there is none."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.values() if isinstance(space, spaces.Dict) else space
        return next((bad for part in parts if (bad := _not_array(part)) is not None), None)
    return None if isinstance(space, _ARRAY_SPACES) else type(space).__name__


# Observations as trees. jax.tree does the same, but this module must run in processes without JAX.


def _empty(space: Any, num: int) -> Any:
    """Zeros for `num` elements of a space."""
    if isinstance(space, spaces.Dict):
        return {key: _empty(inner, num) for key, inner in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_empty(inner, num) for inner in space)
    return np.zeros((num, *(space.shape or ())), space.dtype)


def _write(batch: Any, i: int, observation: Any) -> None:
    if isinstance(batch, dict):
        for key, inner in batch.items():
            _write(inner, i, observation[key])
    elif isinstance(batch, tuple):
        for inner, part in zip(batch, observation, strict=True):
            _write(inner, i, part)
    else:
        batch[i] = observation


def _take(batch: Any, index: np.ndarray) -> Any:
    """Rows of a batch, copied."""
    if isinstance(batch, dict):
        return {key: _take(inner, index) for key, inner in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_take(inner, index) for inner in batch)
    return np.asarray(batch)[index]


def _leaves(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        return [leaf for inner in batch.values() for leaf in _leaves(inner)]
    if isinstance(batch, tuple):
        return [leaf for inner in batch for leaf in _leaves(inner)]
    return [batch]


def _equal(one: Any, other: Any) -> bool:
    pairs = list(zip(_leaves(one), _leaves(other), strict=True))
    # NaN equals NaN here: it is the same stream.
    return all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in pairs)


def _picker(space: Any) -> Callable[[Any], Any]:
    """Makes an observation, of one or many, plain dicts and tuples with the keys of `space`."""
    if isinstance(space, spaces.Dict):
        parts = {key: _picker(inner) for key, inner in space.items()}
        return lambda observation: {key: pick(observation[key]) for key, pick in parts.items()}
    if isinstance(space, spaces.Tuple):
        picks = [_picker(inner) for inner in space]
        return lambda observation: tuple(
            pick(part) for pick, part in zip(picks, observation, strict=True)
        )
    return lambda observation: observation


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
