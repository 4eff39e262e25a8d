"""Samples of a tabular MDP on the host: the d^pi sampler and the estimators of V, Q and A.

Algorithms 3 and 4 of the paper, for thousands of samples at once in NumPy. Every sample stops after
a geometric number of steps, drawn in advance and never cut short, so that the estimators are
unbiased; the samples are held in the order of these numbers, so that those still under way are
always the first ones and finished ones cost nothing.

A draw from a distribution is one uniform number and one look into an alias table (Walker 1977),
whatever the number of outcomes. States with a single successor need no draw. Probabilities are
held to float32, the resolution of the uniform numbers.

A mixture (the cover, or an inner Unif(pi_0..pi_{T-1})) is a stack of policies of which every sample
draws one, once, and keeps it for its whole episode.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from eniac.sampling.base import LONGEST_EPISODE, Episodes

Table = Float[np.ndarray, "states actions"]

# Samples handled at a time: their few arrays stay inside the second-level cache.
_BLOCK = 16_384


class Alias(NamedTuple):
    """Alias tables of many distributions over `columns` outcomes each, one after the other.

    Column j of the flat tables gives `own[j]` with probability `keep[j]`, and `other[j]` otherwise.
    Where `own` is None, a column gives its own number within its table.
    """

    keep: Float[np.ndarray, " entries"]
    own: Int[np.ndarray, " entries"] | None
    other: Int[np.ndarray, " entries"]
    columns: int


class VisitedPairs(NamedTuple):
    """Pairs s |A| + a that a sampler returned, and the environment steps it took."""

    pairs: Int[np.ndarray, " samples"]
    steps: int


class Returns(NamedTuple):
    """Pairs, an unbiased return for each, and the environment steps taken."""

    pairs: Int[np.ndarray, " samples"]
    returns: Float[np.ndarray, " samples"]
    steps: int


def alias_tables(
    rows: Float[np.ndarray, "rows columns"], outcomes: Int[np.ndarray, "rows columns"]
) -> Alias:
    """Alias tables of the distributions `rows`; column c of row r stands for `outcomes[r, c]`.

    The fullest column of a row fills up the emptiest until all are level: one pass over the columns
    for all rows at once. Outcomes of probability zero are never drawn.
    """
    num, columns = rows.shape
    level = np.array(rows, np.float64) * columns / rows.sum(1, keepdims=True)
    keep = np.ones((num, columns))
    donor = np.tile(np.arange(columns), (num, 1))
    every = np.arange(num)
    open_ = level.copy()
    for _ in range(columns - 1):
        poor = open_.argmin(1)
        rich = np.where(np.isinf(open_), -np.inf, open_).argmax(1)
        share = np.minimum(open_[every, poor], 1.0)
        keep[every, poor] = share
        donor[every, poor] = rich
        open_[every, rich] -= 1.0 - share
        open_[every, poor] = np.inf
    # What is left of each row is one column, at level one up to rounding.
    keep = keep.astype(np.float32)
    keep[rows == 0] = 0.0
    other = np.take_along_axis(outcomes, donor, axis=1)
    return Alias(
        keep.ravel(), outcomes.astype(np.int32).ravel(), other.astype(np.int32).ravel(), columns
    )


def policy_tables(policies: Float[np.ndarray, "*stack states actions"]) -> Alias:
    """Alias tables of one policy, or of a stack of them: outcomes are pairs s |A| + a."""
    *_, num_states, num_actions = policies.shape
    rows = policies.reshape(-1, num_actions)
    pairs = np.arange(num_states * num_actions).reshape(num_states, num_actions)
    # Pairs are numbered as columns are: a column that is kept need not be looked up.
    return alias_tables(rows, np.tile(pairs, (len(rows) // num_states, 1)))._replace(own=None)


def final_states(
    transition: Float[np.ndarray, "states actions states"], reward: Table
) -> Bool[np.ndarray, " states"]:
    """States that end an episode: whatever is done there, nothing is paid and nothing changes."""
    stays = np.diagonal(transition, axis1=0, axis2=2).T == 1
    return np.all(stays & (reward == 0), axis=1)


class TableSampler:
    """Draws from a tabular MDP with transition[s, a, s'] and start[s], discounted by gamma.

    `rng` is used and advanced by every call. Rewards are given to the estimators, which run on
    whatever table they get: r, or r + b.
    """

    def __init__(
        self,
        transition: Float[np.ndarray, "states actions states"],
        start: Float[np.ndarray, " states"],
        gamma: float,
    ):
        if not 0 < gamma < 1:
            raise ValueError(f"gamma is {gamma}; expected a discount strictly between 0 and 1.")
        self.num_states, self.num_actions, _ = transition.shape
        self.transition = transition
        self.gamma = float(gamma)
        self._rate = -1.0 / np.log(self.gamma)
        flat = transition.reshape(-1, self.num_states)
        # Successors are held as the first pair of their state, the row of the policy's table.
        width = int((flat > 0).sum(1).max())
        first = np.argsort(flat <= 0, axis=1, kind="stable")[:, :width]
        chances = np.take_along_axis(flat, first, axis=1)
        self._successors = alias_tables(chances, first * self.num_actions)
        self._start = alias_tables(
            np.asarray(start)[None], np.arange(self.num_states)[None] * self.num_actions
        )

    def visit(
        self,
        rng: np.random.Generator,
        policies: Alias,
        num: int,
        weights: Float[np.ndarray, " policies"] | None = None,
    ) -> VisitedPairs:
        """`num` pairs from d^pi (Algorithm 4), from the MDP's start.

        With several policies in the table each sample draws its own, by `weights` or uniformly:
        pairs from rho_cov. Returning (s_t, a_t) takes t + 1 steps, its own action included.
        """
        blocks = [self._visit(rng, policies, size, weights) for size in _sizes(num)]
        return VisitedPairs(np.concatenate([b.pairs for b in blocks]), sum(b.steps for b in blocks))

    def _visit(
        self,
        rng: np.random.Generator,
        policies: Alias,
        num: int,
        weights: Float[np.ndarray, " policies"] | None,
    ) -> VisitedPairs:
        # Samples are alike, so they may be given their lengths in falling order.
        lengths = -np.sort(-self._lengths(rng, num))
        offset = self._choose(rng, policies, num, weights)
        scratch = _Scratch(num)
        base = scratch.draw(rng, self._start, np.zeros(num, np.int32))
        pairs = scratch.draw(rng, policies, base, offset)
        for alive in _alive(lengths):
            base = self._succeed(rng, scratch, pairs[:alive])
            moved = offset if offset is None else offset[:alive]
            pairs[:alive] = scratch.draw(rng, policies, base, moved)
        return VisitedPairs(pairs, int(lengths.sum()) + num)

    def action_returns(
        self,
        rng: np.random.Generator,
        policy: Alias,
        pairs: Int[np.ndarray, " samples"],
        reward: Table,
    ) -> Returns:
        """Q-hat: from each of `pairs`, follow `policy` and add up `reward` (Algorithm 3).

        The pairs come back in another order, each beside its return.
        """
        return self._returns(rng, policy, pairs, reward)

    def state_returns(
        self,
        rng: np.random.Generator,
        policy: Alias,
        states: Int[np.ndarray, " samples"],
        reward: Table,
    ) -> Returns:
        """V-hat: from each of `states`, the first action from `policy` too (Algorithm 3).

        The order of `states` is kept; `pairs` are those of the first steps.
        """
        states = np.asarray(states, np.int32)
        scratch = _Scratch(len(states))
        pairs = scratch.draw(rng, policy, states * np.int32(self.num_actions)).copy()
        return self._returns(rng, policy, pairs, reward, in_order=True)

    def advantages(
        self,
        rng: np.random.Generator,
        policy: Alias,
        pairs: Int[np.ndarray, " samples"],
        reward: Table,
    ) -> Returns:
        """A-hat = Q-hat - V-hat, from two rollouts of their own (the paper gives no routine)."""
        found = self.action_returns(rng, policy, pairs, reward)
        values = self.state_returns(rng, policy, found.pairs // self.num_actions, reward)
        return Returns(found.pairs, found.returns - values.returns, found.steps + values.steps)

    def evaluate(
        self,
        rng: np.random.Generator,
        policy: Table,
        reward: Table,
        episodes: int,
        horizon: int | None = None,
        deterministic: bool = False,
        first: int | None = None,
    ) -> Episodes:
        """So many episodes of `policy` from the MDP's start, without discount.

        An episode ends when it enters one of the `final_states`, or after `horizon` steps; with
        neither it is cut after `LONGEST_EPISODE` of them. `deterministic` takes the most likely
        action of each state. `reward` is r(s, a), so where an environment's reward hangs on more
        than that, means are right and the spread of returns is that of the expected rewards.
        """
        if deterministic:
            policy = np.eye(self.num_actions)[np.argmax(policy, axis=1)]
        table, over = policy_tables(policy), final_states(self.transition, reward)
        reward = np.ascontiguousarray(reward, np.float64).ravel()
        returns, first_returns = np.zeros(episodes), np.zeros(episodes)
        lengths = np.zeros(episodes, np.int64)
        scratch, alive = _Scratch(episodes), np.arange(episodes)
        base = scratch.draw(rng, self._start, np.zeros(episodes, np.int32))
        for step in range(LONGEST_EPISODE if horizon is None else horizon):
            pairs = scratch.draw(rng, table, base)
            paid = reward.take(pairs)
            returns[alive] += paid
            if first is not None and step < first:
                first_returns[alive] += paid
            lengths[alive] += 1
            base = self._succeed(rng, scratch, pairs)
            goes_on = ~over.take(base // self.num_actions)
            alive, base = alive[goes_on], base[goes_on]
            if len(alive) == 0:
                break
        return Episodes(
            jnp.asarray(returns, jnp.float32),
            jnp.asarray(lengths, jnp.int32),
            jnp.asarray(first_returns, jnp.float32),
            jnp.sum(jnp.asarray(lengths, jnp.int32)),
            jnp.isin(jnp.arange(episodes), jnp.asarray(alive)) if horizon is None else None,
        )

    def _returns(
        self,
        rng: np.random.Generator,
        policy: Alias,
        pairs: Int[np.ndarray, " samples"],
        reward: Table,
        in_order: bool = False,
    ) -> Returns:
        pairs = np.asarray(pairs, np.int32)
        reward = np.ascontiguousarray(reward, np.float64).ravel()
        done, totals, orders, steps = [], [], [], 0
        first = 0
        for size in _sizes(len(pairs)):
            lengths = self._lengths(rng, size)
            # The pairs have an order of their own (by the length of their roll-in), which the
            # lengths must not share: each keeps the length that was drawn for it.
            order = np.argsort(-lengths)
            lengths = lengths[order]
            start = pairs[first : first + size][order]
            now = start.copy()
            scratch = _Scratch(size)
            total = reward.take(now)
            for alive in _alive(lengths):
                base = self._succeed(rng, scratch, now[:alive])
                now[:alive] = scratch.draw(rng, policy, base)
                total[:alive] += reward.take(now[:alive], mode="clip")
            done.append(start)
            totals.append(total)
            orders.append(order + first)
            steps += int(lengths.sum()) + size
            first += size
        if not done:
            return Returns(pairs, np.zeros(0), 0)
        done, totals = np.concatenate(done), np.concatenate(totals)
        if in_order:
            back = np.concatenate(orders)
            sorted_totals = np.empty_like(totals)
            sorted_totals[back] = totals
            return Returns(pairs, sorted_totals, steps)
        return Returns(done, totals, steps)

    def _lengths(self, rng: np.random.Generator, num: int) -> Int[np.ndarray, " samples"]:
        """Steps after the first: at least k with probability gamma^k."""
        exponential = rng.standard_exponential(num, dtype=np.float32)
        return (exponential * np.float32(self._rate)).astype(np.int32)

    def _choose(
        self,
        rng: np.random.Generator,
        policies: Alias,
        num: int,
        weights: Float[np.ndarray, " policies"] | None,
    ) -> Int[np.ndarray, " samples"] | None:
        size = self.num_states * self.num_actions
        count = len(policies.keep) // size
        if count == 1:
            return None
        if weights is None:
            chosen = rng.integers(count, size=num, dtype=np.int32)
        else:
            table = alias_tables(np.asarray(weights)[None], np.arange(count)[None])
            chosen = _Scratch(num).draw(rng, table, np.zeros(num, np.int32))
        return chosen * np.int32(size)

    def _succeed(
        self, rng: np.random.Generator, scratch: _Scratch, pairs: Int[np.ndarray, " alive"]
    ) -> Int[np.ndarray, " alive"]:
        if self._successors.columns == 1:
            return self._successors.other.take(pairs, mode="clip")
        return scratch.draw(rng, self._successors, pairs * np.int32(self._successors.columns))


class _Scratch:
    """Buffers for draws of at most `num` samples; a result is valid until the next draw."""

    def __init__(self, num: int):
        self._uniform = np.empty(num, np.float32)
        self._whole = np.empty(num, np.float32)
        self._index = np.empty(num, np.int32)
        self._moved = np.empty(num, np.int32)
        self._keep = np.empty(num, np.float32)
        self._smaller = np.empty(num, bool)

    def draw(
        self,
        rng: np.random.Generator,
        table: Alias,
        base: Int[np.ndarray, " alive"],
        offset: Int[np.ndarray, " alive"] | None = None,
    ) -> Int[np.ndarray, " alive"]:
        """One outcome from each row of `table` that begins at `base` (+ `offset`)."""
        num = len(base)
        uniform, whole, index = self._uniform[:num], self._whole[:num], self._index[:num]
        keep, smaller = self._keep[:num], self._smaller[:num]
        rng.random(out=uniform, dtype=np.float32)
        # One uniform number gives both the column and the coin that keeps it or not.
        np.multiply(uniform, np.float32(table.columns), out=uniform)
        np.floor(uniform, out=whole)
        np.subtract(uniform, whole, out=uniform)
        np.copyto(index, whole, casting="unsafe")
        np.add(index, base, out=index)
        own = index if table.own is None else table.own.take(index, mode="clip")
        if offset is not None:
            index = np.add(index, offset, out=self._moved[:num])
        np.take(table.keep, index, out=keep, mode="clip")
        np.less(uniform, keep, out=smaller)
        return np.where(smaller, own, table.other.take(index, mode="clip"))


def _sizes(num: int) -> list[int]:
    whole, rest = divmod(num, _BLOCK)
    return [_BLOCK] * whole + [rest] * (rest > 0)


def _alive(lengths: Int[np.ndarray, " samples"]):
    """For steps 1, 2, ..., how many of the samples, longest first, take it."""
    if len(lengths) == 0:
        return
    # lengths >= k, for k = 1 .. longest, by counting from the end.
    counts = np.bincount(lengths, minlength=2)
    at_least = np.cumsum(counts[::-1])[::-1]
    yield from at_least[1:].tolist()
