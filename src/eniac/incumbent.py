"""The incumbent: the best policy of a run by external return, whichever policy that was.

Look: each policy that is improved plays a few fresh episodes after every round, once with random
actions and once by its most likely ones. Challenge: the one with the largest mean challenges the
incumbent, if that mean is above the incumbent's. Duel: then both play as many episodes again. Those
alone count for the challenger, because the first ones chose it and were lucky; all that the
incumbent has played since it was chosen count for the incumbent. The larger mean stays, or takes
its place. Hand-over: an exploiting policy that earns clearly less goes on from the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.actors import Actor, put, take
from eniac.errors import require
from eniac.policies import ActorCritic
from eniac.sampling.base import AnyArray, Evaluation, Metrics, Sampler


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
    def of(cls, returns: AnyArray) -> Record:
        """That of all returns in the last axis."""
        returns = jnp.asarray(returns)
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
    def variance_of_mean(self) -> Float[Array, "*policies"]:
        """That of the mean as an estimate: the square of its standard error."""
        return self.variance / jnp.maximum(self.episodes - 1, 1)


def clearly_above(a: Record, b: Record) -> Bool[Array, "*policies"]:
    """Whether the mean of `a` exceeds that of `b` by two standard errors of the difference."""
    return a.mean > b.mean + 2.0 * jnp.sqrt(a.variance_of_mean + b.variance_of_mean)


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
    rollouts: bool = False
    """let the exploiting policy go on from the exploring one, if the best trajectories that they
    learned from in a round earned that one clearly more: it has found what the other does not
    know"""

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


class Contest:
    """The rule in a run of some `roles`, whose policies are stacked in that order: a single one, or
    an exploring and an exploiting one.

    The `sampler` plays the episodes that decide, by the time limit of `evaluation`. `start` is what
    an update remembers of a policy that it has not improved yet.
    """

    def __init__(
        self,
        sampler: Sampler,
        rule: IncumbentRule,
        evaluation: Evaluation,
        roles: Sequence[str],
        start: Callable[[ActorCritic], Any],
    ):
        self.sampler, self.rule, self.roles, self.start = sampler, rule, roles, start
        self.deciding = replace(
            evaluation, episodes=max(rule.episodes, 1), first=None, deterministic=False
        )

    def begin(self, policy: ActorCritic) -> Incumbent | None:
        """The run's first policy, of which nothing is known; None if nothing is compared."""
        if not self.rule.episodes:
            return None
        none = Record.empty()
        return Incumbent(Acting(policy, jnp.asarray(False)), none, none, jnp.asarray(False))

    def look(self, key: PRNGKeyArray, policy: ActorCritic) -> tuple[Record, Any]:
        """A first look at how a policy does, with random actions and with its most likely ones;
        and the steps that it took."""
        found = self.sampler.evaluate_each(key, both_ways(policy), self.deciding)
        return Record.of(found.returns), found.num_steps

    def hold(
        self,
        key: PRNGKeyArray,
        incumbent: Incumbent,
        actors: Actor,
        looks: Record,
        rollouts: Record,
        active: Bool[Array, " roles"],
    ) -> tuple[Actor, Incumbent, Metrics, Any]:
        """All that follows the `looks` at the policies of a round, of which the `active` ones
        learn, and their `rollouts`: who goes on, and from where; what is reported of it, and the
        steps that it took."""
        acting, looked = self.sampler.pure(challenger)(actors.policy, looks, active)
        incumbent, steps = self.duel(key, incumbent, acting, looked)
        actors, incumbent, told = self.sampler.pure(self.hand_over)(
            actors, incumbent, looks, rollouts, active
        )
        return actors, incumbent, told, steps

    def duel(
        self, key: PRNGKeyArray, incumbent: Incumbent, challenger: Acting, looked: Float[Array, ""]
    ) -> tuple[Incumbent, Any]:
        """Fresh episodes of both, if the challenger looked better, and their steps. The larger mean
        is the incumbent's, from then on."""
        first = incumbent.record.episodes == 0

        def play(incumbent: Incumbent) -> tuple[Incumbent, Metrics]:
            pair = jax.tree.map(lambda *x: jnp.stack(x), incumbent.acting, challenger)
            found = self.sampler.evaluate_each(key, pair, self.deciding)
            settled = self.sampler.pure(settle)(incumbent, challenger, Record.of(found.returns))
            return settled, {"steps": found.num_steps}

        due = first | (looked > incumbent.record.mean) | self.rule.always
        incumbent, played = self.sampler.when(due, play, incumbent)
        return incumbent, played.get("steps", jnp.zeros((), jnp.int32))

    def hand_over(
        self,
        actors: Actor,
        incumbent: Incumbent,
        looks: Record,
        rollouts: Record,
        active: Bool[Array, " roles"],
    ) -> tuple[Actor, Incumbent, Metrics]:
        """The exploiting policy goes on from the incumbent, if it earns clearly less; or else from
        the exploring policy, if its best trajectories earned clearly more."""
        told = self.report(incumbent, looks, active)
        if len(self.roles) == 1:
            return actors, incumbent, told
        exploring, exploiting = take(looks, 0), take(looks, 1)
        # Of its two ways the better one.
        better = take(exploiting, jnp.argmax(exploiting.mean))
        less = ~active[1] | clearly_above(incumbent.record, better)
        more = clearly_above(take(rollouts, 0), take(rollouts, 1))
        ahead = jnp.all(active) & more & self.rule.rollouts
        policy = jax.tree.map(
            lambda a, b: jnp.where(less, a, b), incumbent.acting.policy, take(actors.policy, 0)
        )
        actor = take(actors, 1)
        copy = actor._replace(policy=policy, memory=self.start(policy))
        moved = less | ahead
        actor = jax.tree.map(lambda a, b: jnp.where(moved, a, b), copy, actor)
        earns = active[0] & clearly_above(take(exploring, 0), incumbent.first)
        found = incumbent.found | earns
        told["exploit/handed_over"], told["explore/ahead"] = moved, ahead
        return put(actors, 1, actor), incumbent._replace(found=found), told

    def report(self, incumbent: Incumbent, looks: Record, active: Bool[Array, " roles"]) -> Metrics:
        told = {
            "incumbent/estimate": incumbent.record.mean,
            "incumbent/episodes": incumbent.record.episodes,
            "incumbent/greedy": incumbent.acting.greedy,
        }
        for place, role in enumerate(self.roles):
            prefix = "" if len(self.roles) == 1 else f"{role}/"
            # Nothing is known of a policy that does not learn yet: NaN, which logs leave out.
            mean = jnp.where(active[place], looks.mean[place], jnp.nan)
            told[f"{prefix}sampled_return"], told[f"{prefix}greedy_return"] = mean[0], mean[1]
        return told


def challenger(
    policies: ActorCritic, looks: Record, active: Bool[Array, " roles"]
) -> tuple[Acting, Float[Array, ""]]:
    """The policy that looked best, with its way to act, and how good it looked."""
    means = jnp.where(active[:, None], looks.mean, -jnp.inf)
    role, way = jnp.divmod(jnp.argmax(means), 2)
    return Acting(take(policies, role), way == 1), jnp.max(means)


def settle(incumbent: Incumbent, challenger: Acting, found: Record) -> Incumbent:
    """What a duel comes to, in which incumbent and challenger have `found` their returns."""
    defended, fresh = take(found, 0), take(found, 1)
    first = incumbent.record.episodes == 0
    record = incumbent.record + defended
    wins = fresh.mean > record.mean
    acting, record = jax.tree.map(
        lambda a, b: jnp.where(wins, a, b),
        (challenger, fresh),
        (incumbent.acting, record),
    )
    baseline = jax.tree.map(lambda a, b: jnp.where(first, a, b), defended, incumbent.first)
    return Incumbent(acting, record, baseline, incumbent.found)
