"""The spread of an ensemble: networks that agree where there are data, and nowhere else.

Each member f_m learns a random function p_m of its own (a "prior") on the visited pairs. What is
left, e_m = f_m - p_m, is small where the data are; elsewhere it is whatever the weights happened to
be, another thing for every member (Osband et al. 2018, with targets of zero). Its spread over the
members is the bonus. With one member it would be random network distillation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.bonuses.base import Bonus, BonusRule, Metrics, scaled
from eniac.buffer import Buffer, Pairs, take
from eniac.errors import require
from eniac.features import map_rows, sum_rows
from eniac.networks import Body, Linear
from eniac.spaces import PairEncoder, Spaces

NUM_JUDGED = 4096
"""Visited pairs on which the spread is measured before training, to scale it, and after."""


class Member(eqx.Module):
    body: Body
    head: Linear

    def __init__(
        self, key: PRNGKeyArray, encoder: PairEncoder, hidden: tuple[int, ...], outputs: int
    ):
        body_key, head_key = jax.random.split(key)
        self.body = Body(body_key, encoder, hidden, math.sqrt(2))
        self.head = Linear(head_key, hidden[-1], outputs)

    def __call__(self, x: Float[Array, " size"]) -> Float[Array, " outputs"]:
        return self.head(self.body(x))


class EnsembleBonus(Bonus):
    """b(s, a) = coefficient (spread of e_m(s, a) over m) / normaliser."""

    encoder: PairEncoder
    center: Float[Array, " size"]
    unit: Float[Array, " size"]
    members: Member
    """of all m, stacked, and so are the priors"""
    priors: Member
    normaliser: Float[Array, ""]
    visited: Float[Array, ""]
    """spread that training has left on the visited pairs, on average"""
    coefficient: float = eqx.field(static=True)
    threshold: float | None = eqx.field(static=True)

    def inputs(self, observation: Any, action: Any) -> Float[Array, " size"]:
        return (self.encoder(observation, action) - self.center) / self.unit

    def spread(self, observation: Any, action: Any) -> Float[Array, ""]:
        x = self.inputs(observation, action)
        errors = jax.vmap(lambda f, p: f(x) - p(x))(self.members, self.priors)
        return jnp.sqrt(jnp.mean(jnp.var(errors, axis=0)))

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        share = self.spread(observation, action) / self.normaliser
        return scaled(share, self.coefficient, self.threshold)


@dataclass(frozen=True)
class Ensemble(BonusRule):
    """How the members are trained. They have the policy's hidden layers."""

    members: int = 5
    """networks, each with a prior of its own"""
    outputs: int = 16
    """numbers that each predicts: the more, the less the spread hangs on luck"""
    steps: int = 2000
    """steps of Adam in a fit, which starts from new members and the same priors"""
    learning_rate: float = 1e-3
    """their size at first; it falls to zero"""
    minibatch: int = 160
    """visited pairs in a step, others for each member"""
    coefficient: float = 0.5
    """the bonus of a pair at which the spread is as large as before training"""
    threshold: float | None = None
    """if given, the bonus is `coefficient` where the spread is at least this share of that before
    training, else 0 (Eq. 12)"""

    def __post_init__(self):
        require(self.members >= 2, "ensemble.members", self.members, "2 or more")
        for name in ("outputs", "steps", "minibatch"):
            require(getattr(self, name) >= 1, f"ensemble.{name}", getattr(self, name), "1 or more")
        require(self.learning_rate > 0, "ensemble.learning_rate", self.learning_rate, "above 0")
        require(self.coefficient >= 0, "ensemble.coefficient", self.coefficient, "0 or more")
        fits = self.threshold is None or self.threshold > 0
        require(fits, "ensemble.threshold", self.threshold, "above 0, or left out")

    def working_memory(self, row: int, hidden: tuple[int, ...]) -> dict[str, int]:
        each = row + 8 * sum(hidden)
        return {
            "bonus.steps x bonus.members x bonus.minibatch": 4
            * self.steps
            * self.members
            * self.minibatch,
            "bonus.members x bonus.minibatch": self.members * self.minibatch * each,
        }

    def networks(self, key: PRNGKeyArray, encoder: PairEncoder, hidden: tuple[int, ...]) -> Member:
        keys = jax.random.split(key, self.members)
        return jax.vmap(lambda key: Member(key, encoder, hidden, self.outputs))(keys)

    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> EnsembleBonus:
        member_key, prior_key = jax.random.split(key)
        encoder = PairEncoder(spaces, with_action=True)
        return EnsembleBonus(
            encoder=encoder,
            center=jnp.zeros(encoder.size),
            unit=jnp.ones(encoder.size),
            members=self.networks(member_key, encoder, hidden),
            priors=self.networks(prior_key, encoder, hidden),
            normaliser=jnp.ones(()),
            visited=jnp.zeros(()),
            coefficient=self.coefficient,
            threshold=self.threshold,
        )

    def fit(
        self, key: PRNGKeyArray, bonus: EnsembleBonus, buffer: Buffer, queries: Pairs
    ) -> EnsembleBonus:
        """New members, trained on Z^n."""
        del queries
        new_key, judge_key, rows_key = jax.random.split(key, 3)
        encoder = bonus.encoder
        hidden = tuple(layer.bias.shape[-1] for layer in bonus.members.body.layers)
        center, unit = units(encoder, buffer)
        bonus = eqx.tree_at(
            lambda b: (b.center, b.unit, b.members),
            bonus,
            (center, unit, self.networks(new_key, encoder, hidden)),
        )
        judged = take(buffer.pairs, buffer.sample_rows(judge_key, (NUM_JUDGED,)))
        size = max(encoder.size, self.members * sum(hidden))

        def mean_spread(bonus: EnsembleBonus) -> Array:
            return jnp.sqrt(jnp.mean(map_rows(bonus.spread, tuple(judged), size) ** 2))

        before = mean_spread(bonus)
        rows = buffer.sample_rows(rows_key, (self.steps, self.members, self.minibatch))
        members = self.train(bonus, buffer.pairs, rows)
        bonus = eqx.tree_at(lambda b: b.members, bonus, members)
        normaliser = jnp.where(before > 0, before, 1.0)
        return eqx.tree_at(
            lambda b: (b.normaliser, b.visited), bonus, (normaliser, mean_spread(bonus))
        )

    def train(
        self, bonus: EnsembleBonus, pairs: Pairs, rows: Int[Array, "steps members minibatch"]
    ) -> Member:
        schedule = optax.linear_schedule(self.learning_rate, 0.0, self.steps)
        # All weights of all members as one vector: a few operations to compile.
        optimiser = optax.flatten(optax.adam(schedule))

        def loss(members: Member, rows: Array) -> Array:
            def of_member(member: Member, prior: Member, rows: Array) -> Array:
                x = jax.vmap(bonus.inputs)(*take(pairs, rows))
                return jnp.mean((jax.vmap(member)(x) - jax.vmap(prior)(x)) ** 2)

            return jnp.sum(jax.vmap(of_member)(members, bonus.priors, rows))

        def step(carry: tuple[Member, Any], rows: Array):
            members, state = carry
            change, state = optimiser.update(eqx.filter_grad(loss)(members, rows), state)
            return (eqx.apply_updates(members, change), state), None

        start = optimiser.init(eqx.filter(bonus.members, eqx.is_inexact_array))
        (members, _), _ = jax.lax.scan(step, (bonus.members, start), rows)
        return members

    def metrics(self, bonus: EnsembleBonus) -> Metrics:
        return {
            "ensemble/normaliser": bonus.normaliser,
            "ensemble/visited": bonus.visited / bonus.normaliser,
        }


def units(
    encoder: PairEncoder, buffer: Buffer
) -> tuple[Float[Array, " size"], Float[Array, " size"]]:
    """What inputs are shifted and divided by: the mean of the visited pairs, and a spread.

    The spread is a quarter of the way between bounds, where there are any, since a coordinate that
    has hardly moved yet, such as the code of a state that was met once, would be blown up by its
    standard deviation; but between one and ten of these.
    """

    def weighted(f: Any) -> Array:
        def of_chunk(pairs: Pairs, weight: Array) -> Array:
            return jnp.tensordot(weight, jax.vmap(lambda *pair: f(encoder(*pair)))(*pairs), 1)

        total = jnp.maximum(jnp.sum(buffer.weight), 1.0)
        return sum_rows(of_chunk, buffer.pairs, buffer.weight, buffer.count, encoder.size) / total

    center = weighted(lambda x: x)
    deviation = jnp.sqrt(weighted(lambda x: (x - center) ** 2))
    low, high = encoder.bounds
    quarter = (high - low) / 4
    bounded = jnp.isfinite(quarter) & (quarter > 0)
    unit = jnp.where(bounded, jnp.clip(quarter, deviation, 10 * deviation), deviation)
    still = jnp.where(bounded, quarter, 1.0)
    return center, jnp.where(deviation > 1e-6, unit, still)
