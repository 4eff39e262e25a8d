"""The incumbent: the best policy of a run by external return, whichever policy that was.

Each policy that is improved plays a few fresh episodes after every round, once with random actions
and once by its most likely ones. The one with the largest mean challenges the incumbent, if that
mean is above the incumbent's. Then both play as many episodes again. Those alone count for the
challenger, because the first ones chose it and were lucky; all that the incumbent has played since
it was chosen count for the incumbent. The larger mean stays, or takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.errors import require
from eniac.sampling.base import AnyArray, Episodes


class Acting(eqx.Module):
    """A policy, and how it acts: by its most likely action if `greedy`, else by a random one."""

    policy: Any
    """an `ActorCritic`, or a table of probabilities"""
    greedy: Bool[AnyArray, "*policies"]

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return self.policy.noise(key, shape)

    def action(self, noise: Array, observation: Any) -> Array:
        # Every distribution of ours has its mode where the noise is zero.
        return self.policy.action(jnp.where(self.greedy, jnp.zeros_like(noise), noise), observation)

    def mode(self, observation: Any) -> Array:
        return self.policy.mode(observation)

    def acts(self, deterministic: bool | None) -> Acting:
        """The same policy with its most likely actions, or with random ones; None: as it is."""
        greedy = self.greedy if deterministic is None else jnp.asarray(deterministic)
        return Acting(self.policy, greedy)


def both_ways(policy: Any) -> Acting:
    """`policy` with random actions, and with its most likely ones, stacked."""
    return Acting(jax.tree.map(lambda x: jnp.stack([x, x]), policy), jnp.asarray([False, True]))


class Record(NamedTuple):
    """What the episodes of a policy came to: their number, the mean of their returns, and the
    variance."""

    episodes: Int[Array, "*policies"]
    mean: Float[Array, "*policies"]
    variance: Float[Array, "*policies"]

    @classmethod
    def empty(cls) -> Record:
        return cls(jnp.zeros((), jnp.int32), jnp.zeros(()), jnp.zeros(()))

    @classmethod
    def of(cls, episodes: Episodes) -> Record:
        """That of all episodes in the last axis."""
        returns = jnp.asarray(episodes.returns)
        num = jnp.full(returns.shape[:-1], returns.shape[-1], jnp.int32)
        return cls(num, jnp.mean(returns, axis=-1), jnp.var(returns, axis=-1))

    def __add__(self, other: Record) -> Record:  # pyright: ignore[reportIncompatibleMethodOverride]
        """That of the episodes of both."""
        num = self.episodes + other.episodes
        share = other.episodes / jnp.maximum(num, 1)
        gap = other.mean - self.mean
        variance = (1 - share) * self.variance + share * other.variance
        return Record(num, self.mean + share * gap, variance + share * (1 - share) * gap**2)

    @property
    def error(self) -> Float[Array, "*policies"]:
        """The variance of the mean."""
        return self.variance / jnp.maximum(self.episodes - 1, 1)


def clearly_above(a: Record, b: Record, errors: float = 1.0) -> Bool[Array, "*policies"]:
    """Whether the mean of `a` exceeds that of `b` by so many standard errors of the difference."""
    return a.mean > b.mean + errors * jnp.sqrt(a.error + b.error)


class Incumbent(NamedTuple):
    """The best policy so far and its record; and the record of the run's first policy."""

    acting: Acting
    record: Record
    first: Record
    found: Bool[Array, ""]
    """whether an exploring policy has earned clearly more than the first policy"""


@dataclass(frozen=True)
class IncumbentRule:
    """How the best policy of a run is chosen."""

    episodes: int = 5
    """episodes that each policy plays after a round, with random actions and with its most likely
    ones, and again to take the incumbent's place; all their steps count. 0: nothing is compared,
    and the exploiting policy is the result, as in the paper"""
    share: float = 0.0
    """where episodes are short there are more of them, up to 100: as many as take this share of a
    round's steps (in a vector environment of your own also as many as it has environments, which
    all step anyway)"""
    always: bool = False
    """let incumbent and challenger play again after every round, and not only if the challenger
    looked better: an incumbent whose few episodes were lucky is found out"""

    def __post_init__(self):
        require(
            0 <= self.episodes <= 10_000,
            "incumbent.episodes",
            self.episodes,
            "in 0..10000: the steps of a round are counted in 32 bits",
        )
        require(0 <= self.share <= 1, "incumbent.share", self.share, "in [0, 1]")

    def resolve(self, round_steps: int, longest: int | None, num_envs: int) -> IncumbentRule:
        """These settings with the number of episodes that they come to, in rounds of so many steps
        and episodes of at most `longest`; `num_envs` is the number of environments if it is fixed
        by the user, else 0."""
        if not self.share or not self.episodes:
            return self
        affordable = 0 if longest is None else round(self.share * round_steps / longest)
        # Two ways to act are looked at side by side.
        more = min(max(affordable, num_envs // 2), 100)
        return replace(self, episodes=max(self.episodes, more))
