"""The bidirectional combination lock of PC-PG (Agarwal, Henaff, Kakade and Sun, 2020)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.envs.base import Environment, Step
from eniac.envs.exact import StaticArrays, check_count, check_table
from eniac.envs.mdp import TabularMDP
from eniac.envs.pictures import draw_lock
from eniac.errors import shown
from eniac.memory import require_memory

NUM_ACTIONS = 10
DEAD = 2
GOOD_PRIZE, POOR_PRIZE = 5.0, 2.0


class LockState(NamedTuple):
    """`elapsed` is 0 while the lock is to be chosen, and t + 1 at time t inside it."""

    elapsed: Int[Array, ""]
    lock: Int[Array, ""]
    cell: Int[Array, ""]


class CombinationLock(Environment):
    """Two locks of `length` digits; one pays 5 when it opens, the other 2.

    The first action chooses: below 5 lock 0, from 5 on lock 1. A lock starts in one of two good
    cells at random. The one right action of ten, different for each lock, time and cell, keeps to
    the good cells, swapping them with probability 1/2; every other leads to the dead cell, for
    good. Each right action costs 1/(length - 1), the last pays the prize instead, and dying pays
    nothing: the best return is 4, the other lock's is 1, and giving up at once, 0, is the local
    optimum that a timid learner finds. An episode terminates after length + 1 steps.

    The observation, 2 length + 5 numbers, is zero at the choice, and then: one-hot cell (3),
    one-hot time (length + 1), zeros (length), number of the lock (1).

    The codes of the two locks are independent and drawn with `seed`. The good lock is lock 0
    where `seed` is even and lock 1 where it is odd.
    """

    length: int = eqx.field(static=True)
    good_lock: int = eqx.field(static=True)
    exact: StaticArrays = eqx.field(static=True)

    def __init__(self, length: int = 10, seed: int = 0):
        check_count("length", length, 2)
        check_count("seed", seed, 0)
        self.length = int(length)
        require_memory({"length": 4 * 8 * self.length}, f"a lock of length {shown(length)}")
        self.good_lock = int(seed) % 2
        streams = np.random.SeedSequence(int(seed)).spawn(2)
        codes = [np.random.default_rng(s).integers(NUM_ACTIONS, size=(length, 2)) for s in streams]
        prize = np.full(2, POOR_PRIZE, np.float32)
        prize[self.good_lock] = GOOD_PRIZE
        self.exact = StaticArrays(code=np.stack(codes).astype(np.int32), prize=prize)

    @property
    def code(self) -> np.ndarray:
        """The right actions: int32, [lock, time, good cell] of shape (2, length, 2), read-only."""
        return self.exact["code"]

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (2 * self.length + 5,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(NUM_ACTIONS)

    @property
    def longest_episode(self) -> int:
        return self.length + 1

    def observe(self, state: LockState) -> Float[Array, "features"]:
        features = jnp.concatenate(
            [
                jnp.arange(3) == state.cell,
                jnp.arange(self.length + 1) == state.elapsed - 1,
                jnp.zeros(self.length, bool),
                (state.lock == 1)[None],
            ]
        )
        return jnp.where(state.elapsed == 0, 0.0, features.astype(jnp.float32))

    def reset(self, key: PRNGKeyArray) -> tuple[LockState, Float[Array, "features"]]:
        del key  # the start is always the choice
        zero = jnp.zeros((), jnp.int32)
        state = LockState(zero, zero, zero)
        return state, self.observe(state)

    def step(self, key: PRNGKeyArray, state: LockState, action: Int[Array, ""]) -> Step:
        choosing = state.elapsed == 0
        right = self._is_right(state, action) & ~choosing
        coin = jax.random.bernoulli(key).astype(jnp.int32)
        # A fair coin for the good cell is the random start, and the swap with probability 1/2.
        cell = jnp.where(choosing | right, coin, DEAD)
        lock = jnp.where(choosing, jnp.asarray(action >= 5, jnp.int32), state.lock)
        prize = jnp.asarray(self.exact["prize"])[state.lock]
        pay = jnp.where(state.elapsed >= self.length, prize, -1 / (self.length - 1))
        reward = jnp.where(right, pay, 0.0).astype(jnp.float32)
        state = LockState(state.elapsed + 1, lock, cell)
        return Step(
            state, self.observe(state), reward, state.elapsed > self.length, jnp.zeros((), bool)
        )

    def _is_right(self, state: LockState, action: Int[Array, ""]) -> Bool[Array, ""]:
        digit = jnp.asarray(self.code)[state.lock, state.elapsed - 1, jnp.minimum(state.cell, 1)]
        return (state.cell != DEAD) & (action == digit)

    def render(self, state: LockState) -> np.ndarray:
        elapsed, lock, cell = int(state.elapsed), int(state.lock), int(state.cell)
        return draw_lock(elapsed, lock, cell, self.code, self.good_lock)

    def index(self, state: LockState) -> Int[Array, ""]:
        """0 is the choice; then lock by lock, time by time, cell by cell; the last is the end."""
        inside = 1 + (state.lock * self.length + state.elapsed - 1) * 3 + state.cell
        end = 1 + 6 * self.length
        index = jnp.where(state.elapsed > self.length, end, inside)
        return jnp.where(state.elapsed == 0, 0, index)

    def tabular(self) -> TabularMDP:
        """The 6 length + 2 states with exact probabilities, and rewards in their own units."""
        length, end = self.length, 1 + 6 * self.length
        check_table(end + 1, NUM_ACTIONS)
        transition = np.zeros((end + 1, NUM_ACTIONS, end + 1))
        reward = np.zeros((end + 1, NUM_ACTIONS))
        first = 1 + 3 * length * (np.arange(NUM_ACTIONS) >= 5)
        for cell in (0, 1):
            transition[0, np.arange(NUM_ACTIONS), first + cell] = 0.5
        for lock in (0, 1):
            prize = GOOD_PRIZE if lock == self.good_lock else POOR_PRIZE
            for time in range(length):
                here = 1 + (lock * length + time) * 3
                last = time == length - 1
                good, dead = ([end], end) if last else ([here + 3, here + 4], here + 3 + DEAD)
                transition[here : here + 3, :, dead] = 1
                for cell in (0, 1):
                    digit = self.code[lock, time, cell]
                    transition[here + cell, digit] = 0
                    transition[here + cell, digit, good] = 1 / len(good)
                    reward[here + cell, digit] = prize if last else -1 / (length - 1)
        transition[end, :, end] = 1
        return TabularMDP(transition, reward, np.eye(end + 1)[0], np.arange(end + 1) == end)
