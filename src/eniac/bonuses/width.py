"""The width bonus of the deep algorithm: Section 5.1 and Algorithm 5.

w(s, a) = max f(s, a) - f'(s, a) over functions that agree on the data (Equation width-loss-ideal):
where it is large, the data leave the critic undecided. Here f is a network trained to differ from
its fixed twin f' on query pairs while it stays close to it on the visited ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.bonuses.base import Bonus, BonusRule, Metrics
from eniac.buffer import Buffer, Pairs
from eniac.draws import permutation
from eniac.errors import require, require_choices
from eniac.minibatches import clipped, rmsprop
from eniac.networks import Body, Linear
from eniac.spaces import PairEncoder, Spaces

DIVERGED = 1e6
"""A width above this is not used: its maximum is one extreme state, and next to it the bonus of
every other state is nothing."""
COLLAPSED = 2.0
"""A width whose 95 % quantile on the query pairs is below this many times the 5 % one tells
nothing apart."""
LOST = 10.0
"""A width whose root mean square on the data is more than this many times what it may be is as
large there as anywhere: it tells nothing apart either."""
LARGEST_LOG = 40.0
"""The multiplier's logarithm stays within this: a bound that cannot be kept would drive it on,
beyond what float32 holds."""
NUM_JUDGED = 20_000
"""Visited pairs on which the quality of a width is measured."""
MAX_FLOATS = 2**26
"""Encodings that a fit holds, of visited pairs and again of queries: 256 MiB each. Where there are
more, pictures mostly, it works with a random part of them."""


class WidthNetwork(eqx.Module):
    """A critic, f(x) = W tanh(head) if `bound` W is given, else f(x) = head."""

    body: Body
    head: Linear
    bound: float | None = eqx.field(static=True)

    def __call__(self, x: Float[Array, " size"]) -> Float[Array, ""]:
        value = self.head(self.body(x))[0]
        return value if self.bound is None else self.bound * jnp.tanh(value)


class WidthQuality(NamedTuple):
    """What a training came to: quantiles of the width on query and visited pairs, the root mean
    square of f - f' on the data (what epsilon bounds) and the multiplier of that bound."""

    query_max: Float[Array, ""]
    query_median: Float[Array, ""]
    query_low: Float[Array, ""]
    visited_max: Float[Array, ""]
    visited_median: Float[Array, ""]
    visited_low: Float[Array, ""]
    constraint: Float[Array, ""]
    multiplier: Float[Array, ""]
    collapsed: Bool[Array, ""]
    diverged: Bool[Array, ""]


class WidthBonus(Bonus):
    """b(s, a) = coefficient |f - f'| / normaliser, or the thresholded one of Equation 12."""

    encoder: PairEncoder
    center: Float[Array, " size"]
    spread: Float[Array, " size"]
    f: WidthNetwork
    twin: WidthNetwork
    normaliser: Float[Array, ""]
    quality: WidthQuality
    hidden: tuple[int, ...] = eqx.field(static=True)
    coefficient: float = eqx.field(static=True)
    clip: bool = eqx.field(static=True)
    threshold: float | None = eqx.field(static=True)

    def width(self, observation: Any, action: Any) -> Float[Array, ""]:
        x = (self.encoder(observation, action) - self.center) / self.spread
        return jnp.abs(self.f(x) - self.twin(x))

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        width = self.width(observation, action)
        if self.threshold is not None:
            return self.coefficient * (width >= self.threshold)
        share = width / self.normaliser
        return self.coefficient * (jnp.minimum(share, 1.0) if self.clip else share)


@dataclass(frozen=True)
class Width(BonusRule):
    """How the width is trained, and how a bonus is made of it."""

    training: Literal["constrained", "lagrangian"] = "constrained"
    """constrained: the problem of Equation (width-loss-ideal), in a bounded class on standardised
    inputs, with a multiplier that adapts; lagrangian: the paper's Equation (width-loss-train)"""
    of: Literal["state", "state-action"] = "state"
    """what f is a function of: the state, as in the paper's program, or the pair, as in its text"""
    outer: int = 1000
    """query minibatches ("I")"""
    inner: int = 10
    """steps with each of them ("J")"""
    learning_rate: float = 1e-3
    """step size of RMSprop"""
    query_size: int = 20_000
    """query pairs gathered at a fit ("|Z_Q|")"""
    query_batch: int = 20
    """query pairs in a step ("|D_Q|")"""
    uniform_share: float = 0.5
    """share of the query pairs that is not where the exploring policy went, but has some of its
    coordinates, from one to all, uniform in a box around all pairs seen, or over all elements of a
    discrete space; 0 is the paper's"""
    box_scale: float = 2.0
    """how many times as wide that box is as the pairs seen, within the bounds of the spaces"""
    buffer_batch: int = 160
    """visited pairs in a step ("|D_j|")"""
    max_gradient_norm: float = 5.0
    """gradients longer than this are shortened to it"""
    weight: float = 0.1
    """lagrangian: weight of the squared difference on the query pairs ("lambda")"""
    push: float = 0.01
    """lagrangian: weight of the linear term that moves f away from f' ("lambda_1")"""
    epsilon: float = 0.01
    """constrained: largest root mean square of f - f' on the visited pairs"""
    dual_step: float = 0.01
    """constrained: step of the logarithm of the multiplier"""
    bound: float = 1.0
    """constrained: |f| is at most this ("W")"""
    reinitialise: bool = True
    """whether every fit starts from new networks, or from those of the last fit"""
    twin: Literal["copy", "fresh"] = "copy"
    """f' is a copy of f (the paper), or has initial weights of its own, and training pulls them
    together on the data (the paper's remark)"""
    normaliser: Literal["quantile", "max"] = "quantile"
    """what the width is divided by: a high quantile of it over the query pairs, at least `floor`,
    with the ratio clipped at 1; or its maximum (the paper)"""
    quantile: float = 0.99
    """the quantile of the normaliser"""
    floor: float = 0.05
    """the least normaliser: widths far below it stay small"""
    coefficient: float = 0.5
    """the bonus of a pair whose width is the normaliser"""
    threshold: float | None = None
    """if given, the bonus is `coefficient` where the width is at least this, else 0 (Eq. 12)"""

    def __post_init__(self):
        require_choices(self, "width.")
        for name in ("outer", "inner", "query_size", "query_batch", "buffer_batch"):
            require(getattr(self, name) >= 1, f"width.{name}", getattr(self, name), "1 or more")
        for name in ("learning_rate", "max_gradient_norm", "epsilon", "bound", "coefficient"):
            require(getattr(self, name) > 0, f"width.{name}", getattr(self, name), "above 0")
        for name in ("weight", "push", "dual_step", "floor"):
            require(getattr(self, name) >= 0, f"width.{name}", getattr(self, name), "0 or more")
        share = self.uniform_share
        require(0 <= share <= 1, "width.uniform_share", share, "in [0, 1]")
        require(self.box_scale > 0, "width.box_scale", self.box_scale, "above 0")
        require(
            self.threshold is None or self.threshold > 0,
            "width.threshold",
            self.threshold,
            "above 0, or left out",
        )
        require(0 < self.quantile <= 1, "width.quantile", self.quantile, "in (0, 1]")

    def network(
        self, key: PRNGKeyArray, encoder: PairEncoder, hidden: tuple[int, ...]
    ) -> WidthNetwork:
        body_key, head_key = jax.random.split(key)
        if self.training == "lagrangian":
            head = Linear(head_key, hidden[-1], 1, scale=1e-3)
            return WidthNetwork(Body(body_key, encoder, hidden), head, None)
        head = Linear(head_key, hidden[-1], 1)
        return WidthNetwork(Body(body_key, encoder, hidden, math.sqrt(2)), head, self.bound)

    def working_memory(self, row: int, hidden: tuple[int, ...]) -> dict[str, int]:
        del row  # the query pairs are part of the state
        # The rows of all minibatches are drawn ahead.
        steps, batch = self.outer * self.inner, self.buffer_batch + self.query_batch
        return {
            "bonus.outer x bonus.inner x bonus.buffer_batch": 4 * steps * self.buffer_batch,
            "bonus.outer x bonus.query_batch": 4 * self.outer * self.query_batch,
            "bonus.buffer_batch + bonus.query_batch": batch * 8 * sum(hidden),
        }

    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> WidthBonus:
        encoder = PairEncoder(spaces, with_action=self.of == "state-action")
        network = self.network(key, encoder, hidden)
        zero, no = jnp.zeros(()), jnp.zeros((), bool)
        return WidthBonus(
            encoder=encoder,
            center=jnp.zeros(encoder.size),
            spread=jnp.ones(encoder.size),
            f=network,
            twin=network,
            normaliser=jnp.ones(()),
            quality=WidthQuality(zero, zero, zero, zero, zero, zero, zero, zero, no, no),
            hidden=hidden,
            coefficient=self.coefficient,
            clip=self.normaliser == "quantile",
            threshold=self.threshold,
        )

    def metrics(self, bonus: WidthBonus) -> Metrics:
        quality = {f"width/{name}": x for name, x in bonus.quality._asdict().items()}
        return quality | {"width/normaliser": bonus.normaliser}

    def fit(
        self, key: PRNGKeyArray, bonus: WidthBonus, buffer: Buffer, queries: Pairs
    ) -> WidthBonus:
        """Algorithm 5. A width that diverged is reported, and the one before is kept."""
        before, encoder = bonus, bonus.encoder
        wide_key, start_key, train_key, judge_key = jax.random.split(key, 4)
        most = max(MAX_FLOATS // encoder.size, 1)
        if buffer.capacity > most:
            buffer = buffer.resampled(jax.random.fold_in(key, most), most)
        queries = jax.tree.map(lambda x: x[:most], queries)
        visited = jax.vmap(encoder)(*buffer.pairs)
        query_inputs = jax.vmap(encoder)(*queries)
        query_inputs = self.widened(wide_key, encoder, visited, buffer.weight > 0, query_inputs)
        if self.training == "constrained":
            center, spread = moments(visited, buffer.weight, query_inputs)
            bonus = eqx.tree_at(lambda b: (b.center, b.spread), bonus, (center, spread))
            visited, query_inputs = (
                (x - center[None]) / spread[None] for x in (visited, query_inputs)
            )
        f, twin = self.start(start_key, bonus)
        query_key, buffer_key = jax.random.split(train_key)
        rows = buffer.sample_rows(buffer_key, (self.outer, self.inner, self.buffer_batch))
        f, multiplier = self.train(query_key, f, twin, visited, rows, query_inputs)

        judged = visited[buffer.sample_rows(judge_key, (min(NUM_JUDGED, most),))]
        width_queries, width_visited = (
            jnp.abs(jax.vmap(f)(x) - jax.vmap(twin)(x)) for x in (query_inputs, judged)
        )
        quality = judge(width_queries, width_visited, multiplier)
        if self.training == "constrained":
            lost = quality.constraint > LOST * self.epsilon
            quality = quality._replace(collapsed=quality.collapsed | lost)
        normaliser = quality.query_max
        if self.normaliser == "quantile":
            normaliser = jnp.maximum(jnp.quantile(width_queries, self.quantile), self.floor)
        fitted = eqx.tree_at(
            lambda b: (b.f, b.twin, b.normaliser),
            bonus,
            (f, twin, jnp.where(normaliser > 0, normaliser, 1.0)),
        )
        kept = jax.tree.map(lambda new, old: jnp.where(quality.diverged, old, new), fitted, before)
        return eqx.tree_at(lambda b: b.quality, kept, quality)

    def widened(
        self,
        key: PRNGKeyArray,
        encoder: PairEncoder,
        visited: Float[Array, "buffer size"],
        used: Bool[Array, " buffer"],
        queries: Float[Array, "query size"],
    ) -> Float[Array, "query size"]:
        """The query pairs, a share `uniform_share` of them changed in some coordinates, which are
        then uniform in a box around all pairs seen.

        A width trained on pairs from where the data are only says nothing of any other place, and
        it is there that the bonus has to draw the policy. How many coordinates change, from one to
        all of them, is drawn for each pair anew: what is one number away from the data, as another
        cell in a one-hot code, is then asked for as well as what is far from it.
        """
        num_wide = round(self.uniform_share * queries.shape[0])
        seen = jnp.where(used[:, None], visited, queries[:1])
        low = jnp.minimum(jnp.min(seen, axis=0), jnp.min(queries, axis=0))
        high = jnp.maximum(jnp.max(seen, axis=0), jnp.max(queries, axis=0))
        middle, half = (low + high) / 2, self.box_scale * (high - low) / 2
        bound_low, bound_high = map(jnp.asarray, encoder.bounds)
        # Of a coordinate that has never changed only its bounds say how far it might.
        still = (half == 0) & jnp.isfinite(bound_high - bound_low)
        low = jnp.where(still, bound_low, jnp.maximum(middle - half, bound_low))
        high = jnp.where(still, bound_high, jnp.minimum(middle + half, bound_high))
        uniform_key, rate_key, mask_key = jax.random.split(key, 3)
        wide = encoder.uniform(uniform_key, num_wide, low, high)
        size = queries.shape[1]
        # Uniform in its logarithm, from one coordinate on average to all.
        rate = size ** -jax.random.uniform(rate_key, (num_wide, 1))
        changed = jax.random.uniform(mask_key, wide.shape) < rate
        for start, num in encoder.discrete:
            changed = changed.at[:, start : start + num].set(True)
        return queries.at[:num_wide].set(jnp.where(changed, wide, queries[:num_wide]))

    def start(self, key: PRNGKeyArray, bonus: WidthBonus) -> tuple[WidthNetwork, WidthNetwork]:
        """f and f' before training."""
        new_key, fresh_key, nudge_key = jax.random.split(key, 3)
        f = self.network(new_key, bonus.encoder, bonus.hidden) if self.reinitialise else bonus.f
        if self.twin == "fresh":
            return f, self.network(fresh_key, bonus.encoder, bonus.hidden)
        if self.training == "lagrangian":
            return f, f
        # f = f' is a stationary point of the squared difference: a nudge leaves it.
        leaves, structure = jax.tree.flatten(f)
        keys = jax.random.split(nudge_key, len(leaves))
        nudged = [
            x + 0.01 * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)
        ]
        return jax.tree.unflatten(structure, nudged), f

    def loss(
        self,
        on_data: Float[Array, " data"],
        on_query: Float[Array, " query"],
        multiplier: Float[Array, ""],
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """What is made small, of the values of f - f' on visited and on query pairs, and the mean
        square on the visited ones.

        lagrangian: the negative of Equation (width-loss-train). constrained: the Lagrangian of
        Equation (width-loss-ideal), over 1 + multiplier so that its size stays that of the
        differences.
        """
        agreement = jnp.mean(on_data**2)
        if self.training == "lagrangian":
            gain = self.weight * jnp.mean(on_query**2) - self.push * jnp.mean(on_query)
            return agreement - gain, agreement
        total = multiplier * agreement - jnp.mean(on_query**2)
        return total / (1 + multiplier), agreement

    def train(
        self,
        key: PRNGKeyArray,
        f: WidthNetwork,
        twin: WidthNetwork,
        visited: Float[Array, "buffer size"],
        buffer_rows: Int[Array, "outer inner batch"],
        queries: Float[Array, "query size"],
    ) -> tuple[WidthNetwork, Float[Array, ""]]:
        """I x J steps: a query minibatch for J of them, a minibatch of the data for each.

        `buffer_rows` are the rows of `visited` in each of these.
        """
        optimiser = clipped(rmsprop(self.learning_rate), self.max_gradient_norm)
        # f' is fixed, so that its values are looked up, not computed again.
        visited_twin, queries_twin = jax.vmap(twin)(visited), jax.vmap(twin)(queries)
        order = permutation(key, queries.shape[0])
        turns = jnp.arange(self.outer * self.query_batch) % queries.shape[0]
        query_rows = order[turns].reshape(self.outer, self.query_batch)

        def loss_of(f: WidthNetwork, log_multiplier: Array, rows: Array, rows_q: Array):
            x = jnp.concatenate([visited[rows], queries[rows_q]])
            fixed = jnp.concatenate([visited_twin[rows], queries_twin[rows_q]])
            difference = jax.vmap(f)(x) - fixed
            on_data, on_query = jnp.split(difference, [self.buffer_batch])
            return self.loss(on_data, on_query, jnp.exp(log_multiplier))

        def one_step(carry: tuple[Any, ...], rows: Array, rows_q: Array):
            f, state, log_multiplier = carry
            gradient, agreement = eqx.filter_grad(loss_of, has_aux=True)(
                f, log_multiplier, rows, rows_q
            )
            step, state = optimiser.update(gradient, state)
            violation = jnp.clip(agreement / self.epsilon**2 - 1, -1, 1)
            log_multiplier = log_multiplier + self.dual_step * violation
            log_multiplier = jnp.clip(log_multiplier, -LARGEST_LOG, LARGEST_LOG)
            return eqx.apply_updates(f, step), state, log_multiplier

        def one_query(carry: tuple[Any, ...], rows: tuple[Array, Array]):
            buffer_rows, query_rows = rows
            inner = jax.lax.scan(
                lambda c, r: (one_step(c, r, query_rows), None), carry, buffer_rows
            )
            return inner[0], None

        # Near where it comes to settle. From 1 on, f has left f' on the data as well before it is
        # large enough, and where outputs are at their bound no gradient brings them back.
        multiplier = jnp.asarray(-math.log(self.epsilon))
        start = (f, optimiser.init(eqx.filter(f, eqx.is_inexact_array)), multiplier)
        (f, _, log_multiplier), _ = jax.lax.scan(one_query, start, (buffer_rows, query_rows))
        multiplier = 1 / self.weight if self.training == "lagrangian" and self.weight else None
        return f, jnp.exp(log_multiplier) if multiplier is None else jnp.asarray(multiplier)


def moments(
    visited: Float[Array, "buffer size"],
    weight: Float[Array, " buffer"],
    queries: Float[Array, "query size"],
) -> tuple[Float[Array, " size"], Float[Array, " size"]]:
    """Mean and standard deviation of all inputs, visited and queries in equal parts, a visited one
    as often as its weight says."""
    share = (weight / jnp.maximum(jnp.sum(weight), 1))[:, None]

    def mean(of_visited: Array, of_queries: Array) -> Array:
        return (jnp.sum(share * of_visited, axis=0) + jnp.mean(of_queries, axis=0)) / 2

    center = mean(visited, queries)
    spread = jnp.sqrt(mean((visited - center[None]) ** 2, (queries - center[None]) ** 2))
    return center, jnp.where(spread > 1e-6, spread, 1.0)


def judge(
    queries: Float[Array, " query"], visited: Float[Array, " judged"], multiplier: Float[Array, ""]
) -> WidthQuality:
    """The quality of a width from its values on query and visited pairs."""
    low, median, high = jnp.quantile(queries, jnp.asarray([0.05, 0.5, 0.95]))
    visited_low, visited_median = jnp.quantile(visited, jnp.asarray([0.05, 0.5]))
    largest = jnp.max(queries)
    finite = jnp.all(jnp.isfinite(queries)) & jnp.all(jnp.isfinite(visited))
    quality = WidthQuality(
        query_max=largest,
        query_median=median,
        query_low=low,
        visited_max=jnp.max(visited),
        visited_median=visited_median,
        visited_low=visited_low,
        constraint=jnp.sqrt(jnp.mean(visited**2)),
        multiplier=multiplier,
        collapsed=finite & (high <= COLLAPSED * low),
        diverged=~finite | (largest > DIVERGED),
    )
    # A width that diverged is told by its flag. NaN and infinity in the numbers beside it would
    # only stop the run, which has a width to go on with.
    return WidthQuality(
        *(
            jnp.nan_to_num(x, nan=jnp.finfo(x.dtype).max)
            if jnp.issubdtype(x.dtype, jnp.inexact)
            else x
            for x in quality
        )
    )
