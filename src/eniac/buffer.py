"""Z^n: the pairs that the policies of the cover visited, in bounded memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num, PRNGKeyArray

from eniac.draws import integers
from eniac.errors import require
from eniac.features import fourier, map_rows, sum_rows
from eniac.spaces import PairEncoder, Spaces, emitted, empty

MAX_BYTES = 256 * 2**20
"""Memory that a buffer takes if nobody says otherwise."""
NUM_FEATURES = 64
"""Random Fourier features that sensitivities are taken in, and the most directions of encodings."""
RIDGE = 0.01
"""lambda of the sensitivities: squared norms below it do not matter."""
ROUNDING = 3e-6
"""Share of its trace that a Gram matrix in float32 may be off by, added to the ridge."""
UNIFORM_SHARE = 0.1
"""Share of the rows kept that is drawn by weight alone, so that no row is given up for good."""
TARGET = 0.75
"""Share of the capacity that is used after a subsampling; the rest is room for what comes."""
SMALLEST = 8
"""Rows of the smallest buffer that can be subsampled."""
BITS = 24
"""Probabilities of keeping a row are multiples of 2^-24: sums of them in integers are exact."""


class Pairs(NamedTuple):
    """State-action pairs, a row each. Both are pytrees whose leaves have a leading axis of rows."""

    observation: Any
    action: Any


def take(pairs: Pairs, rows: int | Int[Array, "..."]) -> Pairs:
    """The pairs at `rows`."""
    return jax.tree.map(lambda x: x[rows], pairs)


class Buffer(eqx.Module):
    """Z^n (Algorithm 1, line 7) in at most `capacity` rows, each with a weight.

    The paper keeps every pair that was visited, and remarks (Section 3.3, after Equation 13) that
    the sensitivity sampling of Wang et al. (2020) "significantly subsamples the dataset". That is
    what happens here when a `bounded` buffer overflows: rows are dropped at random, each with a
    probability p that follows its sensitivity (how large a share it can have in a squared norm
    ||g||_Z^2; `eniac.widths.sensitivity` does it for finite classes), and a row that stays stands
    for weight / p visits from then on. Every weighted sum over the buffer, the norm ||f - f'||_Z
    of Equation (width-loss-ideal) and the covariance of PC-PG among them, has the expectation of
    the sum over all visits ever made. Pairs like many others are thinned out; a pair that nothing
    else stands for is kept.

    A buffer that is not `bounded` is one that never overflows. Its weights are all 1, and no
    program for subsampling is compiled.
    """

    pairs: Pairs
    weight: Float[Array, " capacity"]
    """visits that a row stands for; 0 where there is none"""
    source: Int[Array, " capacity"]
    """place in the cover of the policy that visited it"""
    count: Int[Array, ""]
    """rows in use: they are the first"""
    encoder: PairEncoder | None
    """of pairs, for sensitivities; None where they are not needed"""
    bounded: bool = eqx.field(static=True)

    @classmethod
    def empty(cls, spaces: Spaces, capacity: int, bounded: bool = False) -> Buffer:
        """Room for `capacity` pairs; `bounded` if more than these will come."""
        least = SMALLEST if bounded else 1
        require(capacity >= least, "the capacity of the buffer", capacity, f"{least} or more")
        return cls(
            pairs=room(spaces, capacity),
            weight=jnp.zeros(capacity),
            source=jnp.zeros(capacity, jnp.int32),
            count=jnp.zeros((), jnp.int32),
            encoder=PairEncoder(spaces, with_action=True) if bounded else None,
            bounded=bounded,
        )

    @property
    def capacity(self) -> int:
        return self.weight.shape[0]

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return sum(x.nbytes for x in jax.tree.leaves((self.pairs, self.weight, self.source)))

    def add(
        self,
        key: PRNGKeyArray,
        pairs: Pairs,
        num: Int[Array, ""] | int,
        source: Int[Array, ""] | int,
    ) -> Buffer:
        """Z^n = Z^{n-1} and the first `num` rows of `pairs`, visited by the policy at `source`.

        Where they do not fit, a bounded buffer is subsampled, and any other stays as it is.
        """
        num = jnp.asarray(num, jnp.int32)
        fits = self.count + num <= self.capacity
        if not self.bounded:
            return self._append(pairs, jnp.where(fits, num, 0), source)
        return jax.lax.cond(
            fits,
            lambda: self._append(pairs, num, source),
            lambda: self._subsample(key, pairs, num, source),
        )

    def sample_rows(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Int[Array, "..."]:
        """Rows drawn in proportion to their weights; row 0 if there are none."""
        if not self.bounded:
            return integers(key, shape, jnp.maximum(self.count, 1))
        below = jnp.cumsum(self.weight)
        drawn = jax.random.uniform(key, shape) * below[-1]
        rows = jnp.searchsorted(below, drawn.ravel(), side="right").reshape(shape)
        return jnp.clip(rows, 0, jnp.maximum(self.count - 1, 0)).astype(jnp.int32)

    def resampled(self, key: PRNGKeyArray, num: int) -> Buffer:
        """A buffer of `num` rows of this one, drawn by their weights, which are all the same in it.

        For those who need the encodings of all rows at once, and cannot have them of so many.
        """
        rows = self.sample_rows(key, (num,))
        some = self.count > 0
        return Buffer(
            pairs=take(self.pairs, rows),
            weight=jnp.full(num, jnp.sum(self.weight) / num),
            source=self.source[rows],
            count=jnp.where(some, num, 0).astype(jnp.int32),
            encoder=None,
            bounded=False,
        )

    def _append(self, pairs: Pairs, num: Int[Array, ""], source: Int[Array, ""] | int) -> Buffer:
        """The first `num` rows of `pairs` behind the rows in use, where they are known to fit."""
        stored = (self.pairs, self.weight, self.source)
        rows = min(num_rows(pairs), self.capacity)
        new = (
            jax.tree.map(lambda x: x[:rows], pairs),
            jnp.ones(rows),
            jnp.full(rows, source, jnp.int32),
        )
        # A window of as many rows as `pairs` has, which reaches no further than the buffer: the
        # rows in use that fall into it stay, and so does what lies behind the new ones.
        start = jnp.minimum(self.count, self.capacity - rows)
        shift = self.count - start
        place = jnp.arange(rows)
        written = (place >= shift) & (place < shift + num)

        def put(all_rows: Array, new: Array) -> Array:
            old = jax.lax.dynamic_slice_in_dim(all_rows, start, rows)
            moved = jnp.roll(new.astype(all_rows.dtype), shift, axis=0)
            mask = written.reshape(-1, *(1 for _ in new.shape[1:]))
            window = jnp.where(mask, moved, old)
            return jax.lax.dynamic_update_slice_in_dim(all_rows, window, start, 0)

        pairs, weight, sources = jax.tree.map(put, stored, new)
        return self._with(pairs, weight, sources, self.count + num)

    def _subsample(
        self, key: PRNGKeyArray, pairs: Pairs, num: Int[Array, ""], source: Int[Array, ""] | int
    ) -> Buffer:
        """About `TARGET` of the capacity, of the rows in use and the first `num` of `pairs`.

        Systematic sampling: the probabilities are laid end to end on a line, and a row is kept
        where its piece has one of the marks at u, u + 1, u + 2, ... for a uniform u. Every row is
        kept with its own probability, and their number is the sum of these, rounded up or down.
        """
        assert self.encoder is not None
        feature_key, mark_key = jax.random.split(key)
        rows = num_rows(pairs)
        old = (self.pairs, self.weight, self.source)
        ones = (jnp.arange(rows) < num).astype(jnp.float32)
        new = (pairs, ones, jnp.full(rows, source, jnp.int32))
        pairs, weight, sources = jax.tree.map(
            lambda x, y: jnp.concatenate([x, y.astype(x.dtype)]), old, new
        )
        score = sensitivities(feature_key, self.encoder, pairs, weight)
        score = score / jnp.sum(score) + UNIFORM_SHARE * weight / jnp.sum(weight)
        probability = keep_probabilities(score, math.floor(TARGET * self.capacity))
        piece = jnp.ceil(probability * 2**BITS).astype(jnp.uint32)
        # Unsigned integers that overflow do so at a multiple of 2^BITS, which is a mark like any.
        end = jnp.cumsum(piece, dtype=jnp.uint32) + (jax.random.bits(mark_key) >> (32 - BITS))
        kept = (end >> BITS) != ((end - piece) >> BITS)
        (chosen,) = jnp.nonzero(kept, size=self.capacity, fill_value=0)
        count = jnp.sum(kept, dtype=jnp.int32)
        weight = weight[chosen] * (2.0**BITS / piece[chosen].astype(jnp.float32))
        weight = jnp.where(jnp.arange(self.capacity) < count, weight, 0.0)
        return self._with(take(pairs, chosen), weight, sources[chosen], count)

    def _with(self, pairs: Pairs, weight: Array, source: Array, count: Array) -> Buffer:
        return Buffer(pairs, weight, source, count, self.encoder, self.bounded)


def sensitivities(
    key: PRNGKeyArray, encoder: PairEncoder, pairs: Pairs, weight: Float[Array, " rows"]
) -> Float[Array, " rows"]:
    """The largest share that each row can have in a squared norm over all rows, for functions
    linear in features: its ridge leverage score w phi' (sum_j w_j phi_j phi_j' + lambda I)^-1 phi.

    phi is the pair's encoding (of more than `NUM_FEATURES` numbers: random projections of it),
    standardised, a constant, and random Fourier features of it. Rows of weight 0 have none.
    """
    size = min(encoder.size, NUM_FEATURES)
    project_key, frequency_key, phase_key = jax.random.split(key, 3)
    projection = jax.random.normal(project_key, (encoder.size, size)) / math.sqrt(encoder.size)
    frequency = jax.random.normal(frequency_key, (size, NUM_FEATURES))
    phase = jax.random.uniform(phase_key, (NUM_FEATURES,), maxval=2 * math.pi)
    numbers = encoder.size + size + NUM_FEATURES
    total = jnp.maximum(jnp.sum(weight), 1e-30)

    def vector(observation: Any, action: Any) -> Array:
        x = encoder(observation, action)
        return x if encoder.size == size else x @ projection

    def weighted(f: Any) -> Array:
        """sum_i w_i f(x_i) of a chunk of rows."""
        return sum_rows(
            lambda pairs, w: jnp.tensordot(w, jax.vmap(lambda *p: f(vector(*p)))(*pairs), 1),
            pairs,
            weight,
            weight.shape[0],
            numbers,
        )

    center = weighted(lambda x: x) / total
    spread = jnp.sqrt(weighted(lambda x: (x - center) ** 2) / total)
    spread = jnp.where(spread > 1e-6 * (1 + jnp.abs(center)), spread, 1.0)

    def features(observation: Any, action: Any) -> Array:
        z = (vector(observation, action) - center) / spread
        # Standardised points are 2 `size` apart in mean square: a kernel of that width.
        waves = fourier(z, frequency, phase, 1 / (2 * size))
        return jnp.concatenate([jnp.ones(1), z / math.sqrt(size), waves])

    def gram_of_chunk(pairs: Pairs, weight: Array) -> Array:
        phi = jax.vmap(features)(*pairs)
        return (weight[:, None] * phi).T @ phi

    gram = sum_rows(gram_of_chunk, pairs, weight, weight.shape[0], numbers)
    ridge = RIDGE + ROUNDING * jnp.trace(gram)
    lower = jnp.linalg.cholesky(gram + ridge * jnp.eye(gram.shape[0]))
    whiten = jax.scipy.linalg.solve_triangular(lower, jnp.eye(gram.shape[0]), lower=True)

    def leverage(observation: Any, action: Any, weight: Array) -> Array:
        return weight * jnp.sum((whiten @ features(observation, action)) ** 2)

    score = map_rows(leverage, (*pairs, weight), numbers)
    # Features that are not finite, of pairs that are not, leave the weights to go by.
    return jnp.where(jnp.isfinite(score), jnp.clip(score, 0.0, 1.0), weight / total)


def keep_probabilities(
    score: Float[Array, " rows"], target: int | Num[Array, ""]
) -> Float[Array, " rows"]:
    """p = min(1, c score) with the c for which they sum to `target`, by bisection.

    `target` is at most the number of scores above 0.
    """
    least = jnp.min(jnp.where(score > 0, score, jnp.inf))

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        above = jnp.sum(jnp.minimum(1.0, jnp.exp(middle) * score)) > target
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    # From where they sum to less (the scores' sum times c is) to where they are all 1.
    start = jnp.log(target / jnp.sum(score)), -jnp.log(least)
    low, _ = jax.lax.fori_loop(0, 40, halve, (start[0], jnp.maximum(*start)))
    return jnp.minimum(1.0, jnp.exp(low) * score)


def room(spaces: Spaces, num: int) -> Pairs:
    """Zeros for `num` pairs. Actions are those that a policy emits."""
    return Pairs(empty(spaces.observation, num), empty(emitted(spaces.action), num))


def num_rows(pairs: Pairs) -> int:
    return jax.tree.leaves(pairs)[0].shape[0]


def row_bytes(spaces: Spaces) -> int:
    """Memory of a row of a buffer: the pair, its weight and its source."""
    one = jax.eval_shape(lambda: room(spaces, 1))
    return 8 + sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(one))


def buffer_capacity(spaces: Spaces, wanted_rows: int, max_bytes: int = MAX_BYTES) -> int:
    """`wanted_rows`, or as many as fit into `max_bytes`.

    Raises ConfigError if these are too few to be sampled from.
    """
    require(wanted_rows >= 1, "the number of rows of the buffer", wanted_rows, "1 or more")
    fit = max_bytes // row_bytes(spaces)
    require(
        fit >= min(wanted_rows, SMALLEST),
        "the memory of the buffer",
        f"{max_bytes} bytes",
        f"{SMALLEST * row_bytes(spaces)} bytes or more, for {SMALLEST} pairs of these spaces",
    )
    return min(wanted_rows, fit)
