"""Where environments on the host come from: ids of gymnasium's and EnvPool's, functions, objects.

`eniac.envs.names` makes a `HostEnv` of a name or of what a user hands over; `HostEnv.open` gives
`HostEnvs`, a number of environments that are stepped together (`stepping.py`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args

import gymnasium
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from eniac.envs import faults
from eniac.envs.faults import FAILURES, impatient
from eniac.envs.loop_envs import LoopEnvs
from eniac.envs.observations import check_arrays, select_keys
from eniac.envs.processes import ProcessEnvs
from eniac.envs.stepping import HostEnvs
from eniac.envs.vector_envs import EnvPoolEnvs, VectorEnvs
from eniac.errors import ConfigError, EniacError, RunError, one_line

Vectorization = Literal["sync", "async"]


class HostEnv(ABC):
    """Where environments come from: a name, the spaces of one of them, and a way to make many.

    - `horizon`: the time limit in steps, None if it is not known.
    - `num_envs`: how many there are, if it is fixed: 1 for an environment that was given
      ready-made, a vector environment's own number. None if as many as wanted can be made.
    - `observation_keys`: the keys that are kept of a Dict observation; none for all.
    - `vectorization`: how `open` has them stepped, unless it is told otherwise.
    - `timeout`: how many seconds making one, or a step or reset of all, may take; None for ever.
    - `restart_failed`: whether one that fails is replaced by another.

    `eniac.envs.names` makes these.
    """

    num_envs: int | None = None
    made_singly = False  # one by one, so that each can have a process
    given = False  # ready-made, so that nobody here can make another

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
        self.timeout: float | None = None
        self.restart_failed = False

    @property
    def time_limit(self) -> int | None:
        """`horizon`, under the name that our own environments have for it."""
        return self.horizon

    @property
    def longest_episode(self) -> int | None:
        """The same: nothing more is known of them."""
        return self.horizon

    def configure(
        self,
        vectorization: Vectorization = "sync",
        timeout: float | None = None,
        restart_failed: bool = False,
    ) -> None:
        """How `open` is to have them stepped. **Raises** ConfigError for what cannot be done."""
        if vectorization not in get_args(Vectorization):
            raise ConfigError(f"vectorization is {vectorization!r}; it must be 'sync' or 'async'.")
        if vectorization == "async" and not self.made_singly:
            raise ConfigError(
                f"vectorization is {vectorization!r}, but {self.name} is stepped as it is; use "
                "'sync', or an id or a function that makes one environment."
            )
        if restart_failed and self.given:
            raise ConfigError(
                f"restart_failed_envs is on, but {self.name} was given ready-made, and nobody here "
                "can make another. Give a function that makes it, or leave restart_failed_envs off."
            )
        self.vectorization, self.timeout = vectorization, timeout
        self.restart_failed = restart_failed

    def open(self, num_envs: int, vectorization: Vectorization | None = None) -> HostEnvs:
        """`num_envs` environments, stepped one after the other or each in a process ("async").

        Processes pay only where a step is expensive, a millisecond and more. They are started
        afresh, not forked: forking a process in which JAX runs can hang.

        **Raises** ConfigError for a number that cannot be had, RunError if they cannot be made.
        """
        if vectorization is not None:
            self.configure(vectorization, self.timeout, self.restart_failed)
        if num_envs < 1 or num_envs != int(num_envs):
            raise ConfigError(f"num_envs is {num_envs!r}; it must be a whole number of 1 or more.")
        if self.num_envs not in (None, num_envs):
            raise ConfigError(
                f"num_envs is {num_envs}, but {self.name} has {self.num_envs}: it was given "
                f"ready-made. Set num_envs to {self.num_envs}, or give a function that makes one "
                "environment."
            )
        check_arrays(self.name, self.observation_space)
        try:
            return self._open(num_envs)
        except EniacError:
            raise
        except FAILURES as error:
            raise RunError(f"{self.name} {faults.raised(error, 'make')}") from error

    def single(self, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
        """One environment, to play or draw an episode in; with the time limit and keys of all.

        One that was given ready-made is returned itself: playing in it moves it.

        **Raises** RunError where there is none, or none that draws in this way.
        """
        try:
            env = self._single(render_mode)
        except EniacError:
            raise
        except FAILURES as error:
            raise RunError(f"{self.name} {faults.raised(error, 'make')}") from error
        if render_mode is not None and env.render_mode != render_mode:
            raise RunError(
                f"{self.name} cannot be drawn: its render_mode is {env.render_mode!r}, "
                f"{render_mode!r} is wanted. {self._how_to_draw(render_mode)}"
            )
        keys = list(self.observation_keys)
        return gymnasium.wrappers.FilterObservation(env, keys) if keys else env

    def close(self) -> None:  # noqa: B027, most have nothing to end
        """Ends what was made to learn the spaces and never opened."""

    def _how_to_draw(self, render_mode: str) -> str:
        return f"Make it with render_mode={render_mode!r}."

    @abstractmethod
    def _open(self, num_envs: int) -> HostEnvs: ...

    @abstractmethod
    def _single(self, render_mode: str | None) -> gymnasium.Env[Any, Any]: ...


class MadeEnv(HostEnv):
    """Environments that `make(render_mode)` makes one by one, each with its time limit.

    `first` is one of them, made already to learn the spaces. It is the first of those that are
    opened first: making an environment can be expensive, or print, or take a licence.
    """

    made_singly = True

    def __init__(
        self,
        name: str,
        make: Callable[[str | None], gymnasium.Env[Any, Any]],
        first: gymnasium.Env[Any, Any],
        observation_keys: Sequence[str] = (),
    ):
        super().__init__(
            name, *spaces_of(name, first), env_horizon(first), observation_keys=observation_keys
        )
        self._make = make
        self._first: gymnasium.Env[Any, Any] | None = first

    def _open(self, num_envs: int) -> HostEnvs:
        if self.vectorization == "async":
            return self._open_async(num_envs)
        envs = [self._take_first() or self._made(1, num_envs)]
        envs += [self._made(copy, num_envs) for copy in range(2, num_envs + 1)]
        if len({id(env.unwrapped) for env in envs}) < num_envs:
            raise RunError(
                f"{self.name} returned the same environment twice. It is called once for every "
                "environment and must make a new one each time."
            )
        return LoopEnvs(
            self.name,
            envs,
            self.observation_keys,
            True,
            self.timeout,
            (lambda: impatient(self.timeout, self._make, None)) if self.restart_failed else None,
        )

    def _made(self, copy: int, num_envs: int) -> gymnasium.Env[Any, Any]:
        try:
            return impatient(self.timeout, self._make, None)
        except FAILURES as error:
            fault = faults.raised(error, "make")
            raise RunError(f"{self.name} (copy {copy} of {num_envs}) {fault}") from error

    def _open_async(self, num_envs: int) -> HostEnvs:
        make = self._make
        try:
            return ProcessEnvs(
                self.name,
                lambda: make(None),
                num_envs,
                self.observation_keys,
                self.observation_space,
                self.action_space,
                self.timeout,
                self.restart_failed,
            )
        except EniacError:
            raise
        except Exception as error:
            raise RunError(
                f"the processes of {self.name} did not start ({one_line(error)}). What makes it "
                "must be something that can be sent to a process; or use vectorization='sync'."
            ) from error

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


class GivenEnv(HostEnv):
    """One environment that was given ready-made. It stays its owner's: it is never closed."""

    num_envs = 1
    given = True

    def __init__(
        self, name: str, env: gymnasium.Env[Any, Any], observation_keys: Sequence[str] = ()
    ):
        super().__init__(
            name, *spaces_of(name, env), env_horizon(env), observation_keys=observation_keys
        )
        self._env = env

    def _open(self, num_envs: int) -> HostEnvs:
        return LoopEnvs(self.name, [self._env], self.observation_keys, False, self.timeout)

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
            *spaces_of(name, first, "single_"),
            vector_horizon(first),
            observation_keys=observation_keys,
        )
        self.num_envs = num_envs
        self._make, self._first, self.given = make, first, given

    def _open(self, num_envs: int) -> HostEnvs:
        vector = self._first
        if not self.given:
            self._first = None
        if vector is None or vector.num_envs != num_envs:
            if vector is not None:
                vector.close()
            vector = impatient(self.timeout, self._make, num_envs)
        if vector.num_envs != num_envs:
            raise RunError(
                f"{self.name} made {vector.num_envs} environments where {num_envs} were wanted."
            )
        return VectorEnvs(
            self.name,
            vector,
            self.observation_space,
            self.action_space,
            not self.given,
            self.timeout,
            (lambda: self._make(num_envs)) if self.restart_failed else None,
        )

    def _single(self, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        raise RunError(
            f"{self.name} is a vector environment, in which no single episode can be played or "
            "drawn. Give an id, or a function that makes one environment."
        )

    def close(self) -> None:
        first, self._first = self._first, self._first if self.given else None
        if first is not None and not self.given:
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

    def _open(self, num_envs: int) -> HostEnvs:
        return EnvPoolEnvs(
            self.name,
            lambda seeds: self._make(num_envs, seeds),
            num_envs,
            self.observation_space,
            self.action_space,
            self.timeout,
            self.restart_failed,
        )

    def _single(self, render_mode: str | None) -> gymnasium.Env[Any, Any]:
        id = self.name.removeprefix("envpool:")
        also = f" gymnasium has one of this name: use 'gymnasium:{id}'."
        raise RunError(
            f"{self.name} steps many environments at once, and no single episode can be played or "
            f"drawn in it.{also if id in gymnasium.registry else ''}"
        )


def spaces_of(name: str, env: Any, kind: str = "") -> tuple[Any, Any]:
    """The spaces of an environment, or of one in a vector. **Raises** ConfigError for none."""
    found = []
    for attribute in (f"{kind}observation_space", f"{kind}action_space"):
        try:
            space = getattr(env, attribute)
        except FAILURES as error:
            raise ConfigError(
                f"{name} has no {attribute} ({one_line(error)}): set it to a space of gymnasium's "
                "when the environment is made."
            ) from error
        if not isinstance(space, gymnasium.Space):
            raise ConfigError(
                f"the {attribute} of {name} is {space!r:.60}, a {type(space).__name__}; expected a "
                "space of gymnasium's."
            )
        found.append(space)
    return found[0], found[1]


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
