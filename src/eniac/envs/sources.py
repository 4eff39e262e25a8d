"""Where environments on the host come from: ids of gymnasium's and EnvPool's, functions, objects.

`eniac.envs.names` makes a `HostEnv` of a name or of what a user hands over; `HostEnv.open` gives
`HostEnvs`, a number of environments that are stepped together (`stepping.py`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from multiprocessing import get_all_start_methods
from typing import Any, Literal, get_args

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from eniac.envs.observations import check_arrays, select_keys
from eniac.envs.stepping import EnvPoolEnvs, HostEnvs, LoopEnvs, VectorEnvs
from eniac.errors import ConfigError, EniacError, RunError, one_line

Vectorization = Literal["sync", "async"]


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
        check_arrays(self.name, self.observation_space)
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


def filter_keys(env: gymnasium.Env[Any, Any], keys: Sequence[str]) -> gymnasium.Env[Any, Any]:
    """`env` with only these keys of its observation; as it is if there are none."""
    return gymnasium.wrappers.FilterObservation(env, list(keys)) if keys else env
