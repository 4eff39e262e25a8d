"""What a policy update is: how a deep learner makes a better policy out of a rollout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Array, Bool, PRNGKeyArray

from eniac.policies import ActorCritic
from eniac.sampling.base import Metrics, Trajectory


class UpdateRule(ABC):
    """A frozen dataclass of hyper-parameters; all that changes is in the policy and a memory.

    The memory is any pytree of arrays: the state of an optimiser, or a store of all transitions for
    an update that learns from more than the last rollout.
    """

    gamma: Any
    """discount factor, a float; None only until the settings are resolved"""

    imitate: bool = False
    """whether the steps of a roll-in are learned from too: then it may take a whole rollout"""

    def resolve(self, longest: int | None) -> UpdateRule:
        """These settings with nothing left open, for episodes of at most `longest` steps, None if
        that is not known. It may be left out."""
        del longest
        return self

    def working_memory(self, row: int, hidden: tuple[int, ...]) -> dict[str, int]:
        """Bytes that learning takes at least, beside the rollout and the memory, by setting: for
        rows of `row` bytes and a network of these layers. It may be left out."""
        del row, hidden
        return {}

    @abstractmethod
    def init(self, policy: ActorCritic) -> Any:
        """The memory for a fresh `policy`."""

    @abstractmethod
    def learn(
        self,
        key: PRNGKeyArray,
        policy: ActorCritic,
        memory: Any,
        seen: Trajectory,
        explores: Bool[Array, ""] | bool = False,
    ) -> tuple[ActorCritic, Any, Metrics]:
        """The policy after a rollout, whose rewards are those to learn from, bonus included.

        `explores` says whether it is the exploring policy, for whom to try is as good as to earn.
        Rows of `seen` that are not `on_policy` are there for what their neighbours need only.
        Metrics are scalars, and their names the same every time.
        """
