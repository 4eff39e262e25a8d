"""Vector environments: gymnasium's, EnvPool's, and the user's.

They reset by themselves in three ways (gymnasium's `AutoresetMode`), and learners get them wrong in
as many. Here is the one place that knows them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from eniac.envs import faults
from eniac.envs.faults import FAILURES, Fault, close_quietly, first_observation
from eniac.envs.observations import empty, equal, reader, take, writer
from eniac.envs.stepping import HostEnvs, HostStep, frozen
from eniac.errors import RunError, one_line


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
        self._no_reward = frozen(np.zeros(self.num_envs))

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


def _autoreset_mode(name: str, vector: Any) -> AutoresetMode:
    given = (vector.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(given)
    except ValueError:
        raise RunError(
            f"{name} does not say how it resets itself: metadata['autoreset_mode'] is {given!r}. "
            "Set it to one of gymnasium.vector.AutoresetMode: NEXT_STEP, SAME_STEP or DISABLED."
        ) from None
