"""Random Fourier features of pairs (Rahimi and Recht 2007), and sums over rows in chunks.

PC-PG's bonus and its log-det weights, and the sensitivities of the buffer, all look at Gram
matrices of features over very many pairs. Here they are computed a chunk of rows at a time, so that
pictures, whose encodings would not fit into memory all at once, need no code of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.spaces import PairEncoder

if TYPE_CHECKING:
    from eniac.buffer import Pairs

Bandwidth = Literal["median", "paper"]
Total = TypeVar("Total")

CHUNK_FLOATS = 2**22
"""Numbers (16 MiB of them) that a chunk of rows may come to."""
NUM_MEDIAN = 1000
"""Pairs of visited pairs between which the median distance is taken."""


class RandomFeatures(eqx.Module):
    """phi(s, a), with E phi(x)' phi(y) = exp(-inverse_width |x - y|^2) over encodings x, y."""

    encoder: PairEncoder
    frequency: Float[Array, "size features"]
    phase: Float[Array, " features"]
    inverse_width: Float[Array, ""]
    chosen: Bool[Array, ""]
    """whether `inverse_width` was set from data"""

    @classmethod
    def draw(cls, key: PRNGKeyArray, encoder: PairEncoder, num: int) -> RandomFeatures:
        """`num` features of the kernel of width 1."""
        frequency_key, phase_key = jax.random.split(key)
        return cls(
            encoder=encoder,
            frequency=jax.random.normal(frequency_key, (encoder.size, num)),
            phase=jax.random.uniform(phase_key, (num,), maxval=2 * math.pi),
            inverse_width=jnp.ones(()),
            chosen=jnp.zeros((), bool),
        )

    @property
    def num(self) -> int:
        return self.phase.shape[0]

    def __call__(self, observation: Any, action: Any) -> Float[Array, " features"]:
        return fourier(
            self.encoder(observation, action), self.frequency, self.phase, self.inverse_width
        )

    def with_median(self, pairs: Pairs, rows: Int[Array, "2 n"]) -> RandomFeatures:
        """The features of width 1 / (median distance)^2, unless their width was chosen before.

        Once and for all, because Gram matrices of features that changed meanwhile could not be
        compared. `rows` are rows of `pairs` drawn at random; distances are between `rows[0]` and
        `rows[1]`.
        """
        found = 1 / median_distance(self.encoder, pairs, rows) ** 2
        inverse_width = jnp.where(self.chosen, self.inverse_width, found)
        return eqx.tree_at(
            lambda f: (f.inverse_width, f.chosen), self, (inverse_width, jnp.ones((), bool))
        )

    def gram(
        self, pairs: Pairs, weight: Float[Array, " rows"], count: Int[Array, ""]
    ) -> Float[Array, "features features"]:
        """sum_i weight_i phi_i phi_i' over the first `count` rows of `pairs`."""

        def of_chunk(pairs: Pairs, weight: Array) -> Array:
            phi = jax.vmap(self)(*pairs)
            return (weight[:, None] * phi).T @ phi

        return sum_rows(of_chunk, pairs, weight, count, max(self.encoder.size, self.num))


def fourier(
    x: Float[Array, " size"],
    frequency: Float[Array, "size features"],
    phase: Float[Array, " features"],
    inverse_width: Float[Array, ""] | float,
) -> Float[Array, " features"]:
    """sqrt(2 / features) cos(sqrt(2 inverse_width) frequency' x + phase)."""
    angle = jnp.sqrt(2 * jnp.asarray(inverse_width)) * (x @ frequency) + phase
    return math.sqrt(2 / phase.shape[0]) * jnp.cos(angle)


def median_distance(
    encoder: PairEncoder, pairs: Pairs, rows: Int[Array, "2 n"]
) -> Float[Array, ""]:
    """The median Euclidean distance between pairs of (s, a) that differ; 1 if none do.

    Where most pairs are equal, as in a small discrete world, the median of all is zero, and a
    kernel of width zero is rounding errors.
    """

    def apart(first: Array, second: Array) -> Array:
        x = encoder(*jax.tree.map(lambda rows: rows[first], pairs))
        y = encoder(*jax.tree.map(lambda rows: rows[second], pairs))
        return jnp.linalg.norm(x - y)

    distance = map_rows(apart, (rows[0], rows[1]), encoder.size)
    median = jnp.nanmedian(jnp.where(distance > 0, distance, jnp.nan))
    return jnp.where(jnp.isnan(median), 1.0, median)


def map_rows(f: Callable[..., Array], rows: tuple[Any, ...], size: int) -> Array:
    """`jax.vmap(f)(*rows)`, in chunks where rows that come to `size` numbers are too many."""
    num, chunk = jax.tree.leaves(rows)[0].shape[0], max(CHUNK_FLOATS // size, 1)
    if num <= chunk:
        return jax.vmap(f)(*rows)
    return jax.lax.map(lambda row: f(*row), tuple(rows), batch_size=chunk)


def sum_rows(
    f: Callable[[Any, Float[Array, " chunk"]], Total],
    rows: Any,
    weight: Float[Array, " rows"],
    count: Int[Array, ""] | int,
    size: int,
) -> Total:
    """`f(rows, weight)`, which is a weighted sum over rows, of the first `count` rows.

    It takes as long as `count` says, not as there are rows. `size` is how many numbers `f` makes of
    one row.
    """
    num = weight.shape[0]
    chunk = min(max(CHUNK_FLOATS // size, 1), num)

    def of_chunk(i: Array | int) -> Total:
        # The last chunk starts early enough to be whole. What it has in common with the one before
        # counts nothing in it.
        start = jnp.minimum(i * chunk, num - chunk)
        here, some = jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, start, chunk), (rows, weight)
        )
        row = start + jnp.arange(chunk)
        return f(here, jnp.where((row >= i * chunk) & (row < count), some, 0.0))

    if chunk == num:
        return f(rows, jnp.where(jnp.arange(num) < count, weight, 0.0))
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(of_chunk, 0))
    return jax.lax.fori_loop(
        0,
        -(-jnp.asarray(count) // chunk),
        lambda i, total: jax.tree.map(jnp.add, total, of_chunk(i)),
        zero,
    )
