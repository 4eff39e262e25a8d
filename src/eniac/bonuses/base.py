"""What a bonus b^n is, and how the loop asks for one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.buffer import Buffer, Pairs
from eniac.spaces import Spaces

Metrics = dict[str, Array]


class Bonus(eqx.Module):
    """A fitted bonus: b(s, a) of one pair, finite and 0 or more."""

    @abstractmethod
    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]: ...


class BonusRule(ABC):
    """How a bonus comes about. A subclass is a frozen dataclass of hyper-parameters.

    Only `init` has to be written; a rule that does no more has the same bonus for ever. `fit` is
    for those that are made of Z^n (the width, PC-PG's kernel), `update_online` for those that learn
    from what the exploring policy walks through (RND). Both run inside a compiled program: what
    they return has the structure, shapes and types of the bonus that they were given.

        class CountBonus(Bonus):
            visits: Array

            def __call__(self, observation, action):
                return 1 / jnp.sqrt(1 + self.visits[observation, action])

        @dataclass(frozen=True)
        class Count(BonusRule):
            coefficient: float = 1.0

            def init(self, key, spaces, hidden):
                return CountBonus(jnp.zeros((spaces.observation.n, spaces.action.n)))

            def fit(self, key, bonus, buffer, queries):
                visits = jnp.zeros_like(bonus.visits).at[*buffer.pairs].add(buffer.weight)
                return CountBonus(visits)
    """

    coefficient: float
    """factor of the bonus"""

    query_size: int = 1
    """query pairs Z_Q^n that a fit asks for"""

    @property
    def reads_buffer(self) -> bool:
        """Whether the bonus is made of Z^n, and so needs a cover."""
        return type(self).fit is not BonusRule.fit

    @property
    def learns_online(self) -> bool:
        """Whether a rollout of the exploring policy changes the bonus."""
        return type(self).update_online is not BonusRule.update_online

    def working_memory(self, row: int, hidden: tuple[int, ...]) -> dict[str, int]:
        """Bytes that a fit takes at least, beside the buffer and the bonus, by setting: for pairs
        of `row` bytes and a network of these layers. It may be left out."""
        del row, hidden
        return {}

    @abstractmethod
    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> Any:
        """The bonus before anything was seen. `hidden` are the layers of the policy's network."""

    def fit(self, key: PRNGKeyArray, bonus: Any, buffer: Buffer, queries: Pairs) -> Any:
        """b^n (Algorithm 1, line 9) from Z^n and the query pairs Z_Q^n (Section 5.1)."""
        del key, buffer, queries
        return bonus

    def update_online(
        self, key: PRNGKeyArray, bonus: Any, pairs: Pairs, num: Int[Array, ""]
    ) -> Any:
        """The bonus after the exploring policy walked through the first `num` of `pairs`."""
        del key, pairs, num
        return bonus

    def metrics(self, bonus: Any) -> Metrics:
        """What the last fit was like: scalars, under the same names in every epoch."""
        del bonus
        return {}
