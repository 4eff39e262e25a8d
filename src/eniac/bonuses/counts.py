"""One over the square root of the visits: the width of a table, exact where spaces are discrete.

b(s, a) = coefficient sqrt(ridge / (n(s, a) + ridge)). Pairs are counted by a hash of their encoding
in a table of fixed size, so that any discrete space will do, without a list of its elements, and so
will the one-hot observations of deep sea or the lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from eniac.bonuses.base import Bonus, BonusRule, Metrics, scaled
from eniac.buffer import Buffer, Pairs
from eniac.errors import ConfigError, require, shown
from eniac.features import sum_rows
from eniac.spaces import PairEncoder, Space, Spaces, emitted, empty

ROWS = 4
"""Places in which a pair is counted, one in each row of the table."""


class CountsBonus(Bonus):
    """The counts, as the count-min sketch of Cormode and Muthukrishnan (2005).

    A pair has one place in each row of the table, and its count is the least that stands there:
    never too small, and too large only where other pairs share all of its places. That is as
    likely as (pairs / slots)^4: a thousand distinct pairs and 65,536 slots make it 5e-8.
    """

    encoder: PairEncoder
    visits: Float[Array, "rows slots"]
    cell: float | None = eqx.field(static=True)
    ridge: float = eqx.field(static=True)
    coefficient: float = eqx.field(static=True)
    threshold: float | None = eqx.field(static=True)

    def places(self, observation: Any, action: Any) -> Int[Array, " rows"]:
        """Where a pair is counted in each row."""
        x = self.encoder(observation, action)
        if self.cell is not None:
            x = jnp.floor(x / self.cell)
        # Minus zero is zero, and has other bits.
        words = jax.lax.bitcast_convert_type(jnp.where(x == 0, 0.0, x), jnp.uint32)
        first, second = (hashed(words, salt) for salt in (1, 2))
        rows = jnp.arange(ROWS, dtype=jnp.uint32)
        return (mixed(first + rows * second) % self.visits.shape[1]).astype(jnp.int32)

    def count(self, observation: Any, action: Any) -> Float[Array, ""]:
        """n(s, a)."""
        return jnp.min(self.visits[jnp.arange(ROWS), self.places(observation, action)])

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        share = jnp.sqrt(self.ridge / (self.count(observation, action) + self.ridge))
        return scaled(share, self.coefficient, self.threshold)


@dataclass(frozen=True)
class Counts(BonusRule):
    """Counts of the pairs in the whole buffer."""

    coefficient: float = 0.5
    """the bonus of a pair that was never visited"""
    ridge: float = 1.0
    """what is added to each count: after so many visits the bonus is 0.7 of that"""
    cell: float | None = None
    """if given, boxes of floats are cut into cells of this side, and visits of a cell counted;
    without it they are counted only in our finite environments, number by number"""
    slots: int = 2**16
    """places in each of the four rows of the table: many more than there are distinct pairs"""
    threshold: float | None = None
    """if given, the bonus is `coefficient` where sqrt(ridge / (n + ridge)) is at least this, else
    0 (Eq. 12)"""

    def __post_init__(self):
        require(self.coefficient >= 0, "counts.coefficient", self.coefficient, "0 or more")
        require(self.ridge > 0, "counts.ridge", self.ridge, "above 0")
        fits = self.cell is None or self.cell > 0
        require(fits, "counts.cell", self.cell, "above 0, or left out")
        require(1 <= self.slots <= 2**24, "counts.slots", self.slots, "in 1..2**24")
        fits = self.threshold is None or self.threshold > 0
        require(fits, "counts.threshold", self.threshold, "above 0, or left out")

    def check(self, spaces: Spaces, finite: bool) -> None:
        if self.cell is not None or finite:
            return
        for what, space in (
            ("observation", spaces.observation),
            ("action", emitted(spaces.action)),
        ):
            if has_floats(space):
                raise ConfigError(
                    f"bonus is counts, and the {what} space is {shown(space)}: of numbers that are "
                    "never the same twice every pair is new for ever. Use --bonus width, "
                    "last-layer, ensemble or kernel, or --bonus.cell SIZE to count cells."
                )

    def working_memory(self, row: int, hidden: tuple[int, ...]) -> dict[str, int]:
        del row, hidden
        return {"bonus.slots": 4 * ROWS * self.slots}

    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> CountsBonus:
        del key, hidden
        return CountsBonus(
            encoder=PairEncoder(spaces, with_action=True),
            visits=jnp.zeros((ROWS, self.slots)),
            cell=self.cell,
            ridge=self.ridge,
            coefficient=self.coefficient,
            threshold=self.threshold,
        )

    def fit(
        self, key: PRNGKeyArray, bonus: CountsBonus, buffer: Buffer, queries: Pairs
    ) -> CountsBonus:
        """All of Z^n counted anew, a row as often as it stands for visits."""
        del key, queries

        def of_chunk(pairs: Pairs, weight: Array) -> Array:
            places = jax.vmap(bonus.places)(*pairs)
            none = jnp.zeros_like(bonus.visits)
            return none.at[jnp.arange(ROWS)[None], places].add(weight[:, None])

        size = bonus.encoder.size
        visits = sum_rows(of_chunk, buffer.pairs, buffer.weight, buffer.count, size)
        return eqx.tree_at(lambda b: b.visits, bonus, visits)

    def metrics(self, bonus: CountsBonus) -> Metrics:
        """Above a half or so pairs are taken for others: more `slots` mend that."""
        return {"counts/filled": jnp.mean(bonus.visits > 0, dtype=jnp.float32)}


def has_floats(space: Space) -> bool:
    """Whether a space has a box of numbers that are not whole."""
    return any(jnp.issubdtype(x.dtype, jnp.floating) for x in jax.tree.leaves(empty(space, 0)))


def hashed(words: UInt32[Array, " size"], salt: int) -> UInt32[Array, ""]:
    """A hash of a vector: a random number for each word at each place, and their sum (Zobrist)."""
    place = jnp.arange(words.shape[0], dtype=jnp.uint32)
    return jnp.sum(mixed(mixed(place + jnp.uint32(salt * 0x9E3779B9 % 2**32)) + words))


def mixed(x: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """The last step of MurmurHash3: every bit of the result hangs on every bit of `x`."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
