"""What a bonus b^n is, and how the loop asks for one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.buffer import Buffer, Pairs
from eniac.policies import ActorCritic
from eniac.sampling.base import Trajectory
from eniac.spaces import Spaces

Metrics = dict[str, Array]


class Bonus(eqx.Module):
    """A fitted bonus: b(s, a) of one pair, finite and 0 or more."""

    @abstractmethod
    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]: ...

    def along(self, seen: Trajectory) -> Float[Array, "time envs"]:
        """What the steps of a rollout earn: the bonus of each pair, whatever came before it.

        A bonus that looks at the episode so far (`episodic`) says so here. What it gives a pair
        that an episode begins with is the bonus of that pair.
        """
        return jax.vmap(jax.vmap(self))(seen.observation, seen.action)


def scaled(
    share: Float[Array, ""], coefficient: float, threshold: float | None
) -> Float[Array, ""]:
    """The bonus of a pair of which the data leave a `share` undecided: 1 where they say nothing.

    `coefficient` times the share, or with a `threshold` all or nothing (Equation 12).
    """
    if threshold is not None:
        return coefficient * (share >= threshold).astype(jnp.float32)
    return coefficient * jnp.clip(share, 0.0, 1.0)


class BonusRule(ABC):
    """How a bonus comes about. A subclass is a frozen dataclass of hyper-parameters.

    Only `init` has to be written; a rule that does no more has the same bonus for ever. `fit` is
    for those that are made of Z^n (the width, PC-PG's kernel), `update_online` for those that learn
    from what the exploring policy walks through (RND), `with_critic` for those whose features are
    the critic's. All run inside a compiled program: what they return has the structure, shapes and
    types of the bonus that they were given.

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

    def check(self, spaces: Spaces, finite: bool) -> None:
        """Raises `ConfigError` where there is no such bonus: in these spaces, in an environment
        that is `finite` if its states can be listed. It may be left out."""
        del spaces, finite

    @abstractmethod
    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> Any:
        """The bonus before anything was seen. `hidden` are the layers of the policy's network."""

    def with_critic(self, bonus: Any, critic: ActorCritic) -> Any:
        """The bonus that a fit begins with, given the critic of the exploring policy as it is."""
        del critic
        return bonus

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
