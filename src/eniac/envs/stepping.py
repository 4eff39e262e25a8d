"""Stepping many environments of the host's together: gymnasium's, EnvPool's, and the user's.

Vector environments reset by themselves in three ways (gymnasium's `AutoresetMode`), and learners
get them wrong in as many. Here is the one place that knows them: a `HostStep` means the same
whatever it came from. Where the environments come from is in `sources.py`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from eniac.envs import faults
from eniac.envs.faults import (
    BOOLS,
    FAILURES,
    Fault,
    Hangs,
    Patience,
    close_quietly,
    first_observation,
)
from eniac.envs.observations import (
    ARRAY_SPACES,
    empty,
    equal,
    reader,
    select_keys,
    take,
    writer,
)
from eniac.errors import ConfigError, EniacError, RunError, one_line

MOST_RESTARTS = 10
"""Environments that are replaced in one rollout, if they are; more of them are an error."""


_NOTHING: Any = object()
"""In the place of a result that there is not yet."""


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
        self._all = _frozen(np.ones(num_envs, bool))
        self._none = _frozen(np.zeros(num_envs, bool))
        self._no_index = _frozen(np.zeros(0, np.int64))
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


class LoopEnvs(HostEnvs):
    """Single environments in a plain loop; one that ends is reset at once, so every step is real.

    gymnasium's `SyncVectorEnv` does the same and gathers infos, which nobody reads here. Measured
    with 64 environments, this loop takes a quarter less time on MountainCarContinuous; on CartPole
    a sixth less than SAME_STEP and as much as NEXT_STEP, whose resets take steps of their own.

    With `remake`, an environment that fails is replaced by one that it makes.
    """

    def __init__(
        self,
        name: str,
        envs: Sequence[gymnasium.Env[Any, Any]],
        keys: tuple[str, ...],
        owned: bool,
        timeout: float | None = None,
        remake: Callable[[], gymnasium.Env[Any, Any]] | None = None,
    ):
        self._spaces = envs[0].observation_space, envs[0].action_space
        action_space = envs[0].action_space
        super().__init__(
            name, len(envs), select_keys(name, self._spaces[0], keys), action_space, timeout
        )
        self._owned, self._remake = owned, remake
        self._envs: list[Any] = [None] * len(envs)
        self._steps: list[Any] = [None] * len(envs)
        self._resets: list[Any] = [None] * len(envs)
        self._known: list[Any] = [(None, None)] * len(envs)
        for i, env in enumerate(envs):
            self._use(i, env)
            self._same_spaces(i, env)
        self._observation = empty(self.observation_space, len(envs))
        self._put = writer(self.observation_space, self._observation)
        self._final = empty(self.observation_space, len(envs))
        self._put_final = writer(self.observation_space, self._final)
        self._paid: list[Any] = [0.0] * len(envs)
        # What an observation usually is: a vector, which can be looked at without a function. NumPy
        # itself refuses arrays of more axes then.
        shape = self.observation_space.shape
        size = shape[0] if shape is not None and len(shape) == 1 else -1
        self._usual = (np.ndarray, getattr(self._observation, "dtype", None), size)
        # An array of actions is iterated over as it is; a dict or tuple of arrays is not.
        plain = isinstance(action_space, ARRAY_SPACES)
        self._actions_space = None if plain else batch_space(action_space, len(envs))

    def _use(self, i: int, env: gymnasium.Env[Any, Any]) -> None:
        self._envs[i], self._steps[i], self._resets[i] = env, env.step, env.reset

    def _same_spaces(self, i: int, env: gymnasium.Env[Any, Any]) -> None:
        now = env.observation_space, env.action_space
        # Two spaces take long to compare: those that were looked at need it no more.
        if now[0] is self._known[i][0] and now[1] is self._known[i][1]:
            return
        self._known[i] = now
        for space, first, kind in zip(now, self._spaces, ("observation", "action"), strict=True):
            if space != first:
                raise self.told(
                    Fault(
                        f"has another {kind}_space than the first copy had when it was made: "
                        f"{space!s:.100}, not {first!s:.100}. All must have the same, and keep it."
                    ),
                    i,
                )

    def _begin(self, seeds: list[int]) -> Any:
        for i, seed in enumerate(seeds):
            try:
                self._put(i, first_observation(self._resets[i](seed=seed)))
                self._same_spaces(i, self._envs[i])
            except FAILURES as error:
                self._recover(i, error, "reset")
        return self._observation

    def _reset(self) -> Any:
        for i, reset in enumerate(self._resets):
            try:
                self._put(i, first_observation(reset()))
            except FAILURES as error:
                self._recover(i, error, "reset")
        return self._observation

    def _step(self, actions: Any) -> HostStep:
        if self._actions_space is not None:
            actions = tuple(iterate(self._actions_space, actions))
        if len(actions) != self.num_envs:
            raise RunError(
                f"{len(actions)} actions were given to {self.num_envs} environments of {self.name}."
            )
        observations, paid, put = self._observation, self._paid, self._put
        array, dtype, size = self._usual
        terminated = truncated = None
        doing, result, failed = "step", _NOTHING, ()
        for i, (step, action) in enumerate(zip(self._steps, actions, strict=True)):
            try:
                result = step(action)
                observation, paid[i], terminates, truncates, _ = result
                if terminates is not False or truncates is not False:
                    if type(terminates) not in BOOLS or type(truncates) not in BOOLS:
                        terminates = faults.flag("terminated", terminates)
                        truncates = faults.flag("truncated", truncates)
                    if terminates or truncates:
                        if terminated is None or truncated is None:
                            terminated, truncated = self._none.copy(), self._none.copy()
                        if terminates:
                            terminated[i] = True
                        else:
                            # Before the reset: an environment may reuse the array it returned.
                            self._put_final(i, observation)
                            truncated[i] = True
                        doing = "reset"
                        observation = first_observation(self._resets[i]())
                        put(i, observation)
                        doing = "step"
                        continue
                if (
                    type(observation) is array
                    and observation.dtype is dtype
                    and len(observation) == size
                ):
                    observations[i] = observation
                else:
                    put(i, observation)
            except FAILURES as error:
                self._recover(i, error, doing, result)
                doing, failed, paid[i] = "step", (*failed, i), 0.0
        rewards, unpaid = self._rewards(paid)
        real = self._all
        if failed or unpaid:
            failed = tuple(sorted({*failed, *unpaid}))
            real = self._all.copy()
            real[list(failed)] = False
        if terminated is None or truncated is None:
            return HostStep(
                self._observation,
                rewards,
                self._none,
                self._none,
                real,
                self._no_index,
                self._no_observation,
                failed,
            )
        terminated &= real
        truncated &= real
        index = np.flatnonzero(truncated)
        final = take(self._final, index) if len(index) else self._no_observation
        return HostStep(
            self._observation, rewards, terminated, truncated, real, index, final, failed
        )

    def _rewards(self, paid: list[Any]) -> tuple[np.ndarray, tuple[int, ...]]:
        """The rewards of a step, and whose was none. Looked at together, which is quicker."""
        try:
            rewards = np.array(paid)
        except ValueError:  # arrays among them
            rewards = self._none.astype(object)
        if rewards.dtype.kind in "biuf" and rewards.ndim == 1:
            return rewards, ()
        unpaid = ()
        for i, reward in enumerate(paid):
            try:
                paid[i] = faults.number(reward)
            except Fault as fault:
                self._recover(i, fault, "step")
                paid[i], unpaid = 0.0, (*unpaid, i)
        return np.array(paid, np.float64), unpaid

    def _recover(self, i: int, error: BaseException, doing: str, result: Any = _NOTHING) -> None:
        """Puts a new environment in the place of one that failed, if that was asked for."""
        told = self._fault(i, error, doing, result)
        if self._remake is None:
            raise told from error
        while True:
            self._replaced(told)
            if self._owned:
                close_quietly(self._envs[i].close)
            doing = "make"
            try:
                env = self._remake()
                self._same_spaces(i, env)
                self._use(i, env)
                doing = "reset"
                self._put(i, first_observation(env.reset(seed=self._fresh_seed(i))))
                return
            except FAILURES as again:
                told = self._fault(i, again, doing)

    def _fault(self, i: int, error: BaseException, doing: str, result: Any = _NOTHING) -> RunError:
        if isinstance(error, RunError):
            return error
        if doing == "step" and result is not _NOTHING:
            try:
                faults.check_step(result)
                self._put(i, result[0])
            except Fault as fault:
                return self.told(fault, i)
        return self.told(faults.raised(error, doing), i)

    def _close(self) -> None:
        for env in self._envs if self._owned else ():
            close_quietly(env.close)


class VectorEnvs(HostEnvs):
    """A vector environment, of whichever way of resetting itself.

    In SAME_STEP mode the last observations are as good as its infos: gymnasium's `SyncVectorEnv`
    and `AsyncVectorEnv` hold those of an environment that reuses its array after the reset has
    overwritten it. Environments that are made here, not given as a vector, are free of that.

    With `remake`, all of it is replaced by what that makes if one of its environments fails in a
    step.
    """

    def __init__(
        self,
        name: str,
        vector: Any,
        observation_space: Any,
        action_space: Any,
        owned: bool,
        timeout: float | None = None,
        remake: Callable[[], Any] | None = None,
    ):
        super().__init__(name, vector.num_envs, observation_space, action_space, timeout)
        self._remake = remake
        self._prepare(owned, remake is not None)
        self._use(vector)

    def _prepare(self, owned: bool, restart: bool) -> None:
        self._owned, self._restart = owned, restart
        self._read = reader(self.observation_space, self.num_envs)
        self._resets_only_the_mask = False
        self._no_reward = _frozen(np.zeros(self.num_envs))

    def _use(self, vector: Any) -> None:
        self._vector = vector
        self._mode = _autoreset_mode(self.name, vector)
        self._pending = None  # NEXT_STEP: whose next step is only a reset; None for nobody

    def _begin(self, seeds: list[int]) -> Any:
        many = isinstance(self._vector.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        return self._started(self._vector.reset(seed=seeds if many else seeds[0]))

    def _reset(self) -> Any:
        return self._started(self._vector.reset())

    def _started(self, result: Any) -> Any:
        self._pending = None
        return self._read(first_observation(result))

    def _step(self, actions: Any) -> HostStep:
        try:
            return self._one_step(actions)
        except FAILURES as error:
            if not self._restart:
                raise
            told = error if isinstance(error, RunError) else None
            observation = self._recover(told or self.told(faults.raised(error, "step")))
            return HostStep(
                observation,
                self._no_reward,
                self._none,
                self._none,
                self._none,
                self._no_index,
                self._no_observation,
                tuple(range(self.num_envs)),
            )

    def _recover(self, told: RunError) -> Any:
        """Makes all environments anew, because one of them has failed."""
        while True:
            self._replaced(told)
            self._close()
            try:
                return self._anew([self._fresh_seed(i) for i in range(self.num_envs)])
            except FAILURES as error:
                told = self.told(faults.raised(error, "reset"))

    def _anew(self, seeds: list[int]) -> Any:
        assert self._remake is not None
        self._use(self._remake())
        return self._begin(seeds)

    def _one_step(self, actions: Any) -> HostStep:
        result = self._vector.step(actions)
        faults.check_step(result)
        observation, reward, terminated, truncated, infos = result
        observation = self._read(observation)
        num = self.num_envs
        reward = faults.rewards(reward, num)
        terminated = faults.flags("terminated", terminated, num)
        truncated = faults.flags("truncated", truncated, num)
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
                batch = empty(self.observation_space, len(index))
                put = writer(self.observation_space, batch)
                for row, i in enumerate(index):
                    put(row, final[i])
                return batch
            return take(self._read(final), index)
        except (Fault, TypeError, KeyError, IndexError, ValueError, AttributeError) as error:
            raise self.told(
                Fault(
                    f"declares SAME_STEP autoreset, but where environments {index.tolist()} were "
                    "truncated infos['final_obs'] has no last observation "
                    f"({'it is missing' if final is None else one_line(error)}). Let it hold one "
                    "for each episode that ends, or use gymnasium's NEXT_STEP."
                )
            ) from error

    def _reset_some(self, ended: np.ndarray, before: Any) -> Any:
        # Environments that do not know the mask reset all: looked for at the first partial reset.
        look = not self._resets_only_the_mask and not ended.all()
        if look:
            before = take(before, ~ended)
        result = self._vector.reset(options={"reset_mask": ended.copy()})
        observation = self._read(first_observation(result))
        if look:
            if not equal(before, take(observation, ~ended)):
                raise self.told(
                    Fault(
                        "declares DISABLED autoreset, but reset(options={'reset_mask': mask}) "
                        "changed environments outside the mask. Let it reset only those in the "
                        "mask and return all observations, or use gymnasium's NEXT_STEP."
                    )
                )
            self._resets_only_the_mask = True
        return observation

    def _close(self) -> None:
        if not self._owned:
            return
        base = self._vector.unwrapped
        if not isinstance(base, AsyncVectorEnv):
            close_quietly(self._vector.close)
            return
        # If one of its processes has died, it would wait for all of them without an end.
        close_quietly(lambda: self._vector.close(terminate=True))
        if not base.closed:
            for process in base.processes:
                process.kill()
            base.closed = True  # or it tries again when it is forgotten, and says so


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
        timeout: float | None = None,
        restart: bool = False,
    ):
        HostEnvs.__init__(self, name, num_envs, observation_space, action_space, timeout)
        self._prepare(True, restart)
        self._make = make
        self._vector: Any = None

    def _begin(self, seeds: list[int]) -> Any:
        self._close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it tells that float64 bounds become float32
            self._use(self._make(seeds))
            return self._started(self._vector.reset())

    def _anew(self, seeds: list[int]) -> Any:
        return self._begin(seeds)

    def _close(self) -> None:
        if self._vector is not None:
            close_quietly(self._vector.close)
            self._vector = None


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
