"""Values on the host that cannot be: told with the environment, the copy of it and the step.

A rollout is looked at once, when it is complete, all together: that costs next to nothing. An agent
sees, acts and is paid; what came first is to blame for what follows.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from eniac.envs.faults import Fault
from eniac.envs.stepping import HostEnvs
from eniac.envs.value_check import ValueCheck
from eniac.errors import NonFiniteError, RunError
from eniac.sampling.columns import Columns, Final


class Watch:
    """Looks for values that the environments of a space cannot give, or a policy choose."""

    def __init__(self, observation_space: Any):
        self._values = ValueCheck(observation_space)

    def check_rollout(
        self, envs: HostEnvs, seen: Columns, final: Final | None, last: Any, num: int, paid: int
    ) -> None:
        """Raises RunError for the first wrong value in `num` decisions and `paid` rewards of a
        rollout, in what is `final` in it, and in the `last` observations (None: not there yet)."""
        found: list[tuple[int, int, RunError]] = []

        def note(time: int, order: int, copy: int, fault: Fault, step: int) -> None:
            found.append((time, order, _told(envs, fault, int(copy), seen.start + step)))

        before = jax.tree.map(lambda x: x[:num], seen.observation)
        if (wrong := self._values.first(before, 2)) is not None:
            (t, copy), fault = wrong
            note(t, 0, copy, fault, t)
        if final is not None and (wrong := self._values.first(final.observation, 1)) is not None:
            (row,), fault = wrong
            t = int(final.times[row]) + 1
            note(t, 0, final.envs[row], fault, t)
        if last is not None and (wrong := self._values.first(last, 1)) is not None:
            (copy,), fault = wrong
            note(num, 0, copy, fault, num)
        if (where := _first_nonfinite(seen.action[:num])) is not None:
            note(where[0], 1, where[1], SPOILT, where[0] + 1)
        if (where := _first_nonfinite(seen.reward[:paid])) is not None:
            note(where[0], 2, where[1], _unpaid(seen.reward[where]), where[0] + 1)
        if found:
            raise min(found, key=lambda one: one[:2])[2]

    def check_step(self, envs: HostEnvs, observation: Any, reward: np.ndarray) -> None:
        """As `check_rollout`, for what one step gave."""
        if (where := _first_nonfinite(reward)) is not None:
            raise _told(envs, _unpaid(reward[where]), where[0], envs.steps)
        if (wrong := self._values.first(observation, 1)) is not None:
            raise _told(envs, wrong[1], wrong[0][0], envs.steps)

    def check_action(self, envs: HostEnvs, action: np.ndarray) -> None:
        """The same for the actions of one step."""
        if (where := _first_nonfinite(action)) is not None:
            raise _told(envs, SPOILT, where[0], envs.steps)


SPOILT = Fault(
    "was to be given an action that is NaN or infinite, though all that the policy had seen was "
    "finite: an update has spoilt its weights. Often a smaller learning rate helps.",
    nonfinite=True,
)


def _unpaid(reward: Any) -> Fault:
    return Fault(
        f"returned a reward that is {reward}; expected a finite number. Find out where the "
        "environment makes it.",
        nonfinite=True,
    )


def _told(envs: HostEnvs, fault: Fault, copy: int, step: int) -> RunError:
    told = envs.told(fault, copy, step)
    return NonFiniteError(str(told)) if fault.nonfinite else told


def _first_nonfinite(x: np.ndarray) -> tuple[int, ...] | None:
    """The place of the first NaN or infinity in an array."""
    if x.dtype.kind != "f" or np.isfinite(x).all():
        return None
    return tuple(np.argwhere(~np.isfinite(x))[0].tolist())
