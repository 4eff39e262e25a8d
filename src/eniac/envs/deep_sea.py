"""Deep sea: a treasure that only one sequence of N moves finds (Osband et al., bsuite)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.envs.base import Environment, Step
from eniac.envs.exact import StaticArrays, check_count, check_table
from eniac.envs.mdp import TabularMDP
from eniac.envs.pictures import draw_deep_sea
from eniac.errors import shown
from eniac.memory import require_memory

MOVE_COST = 0.01


class DiverState(NamedTuple):
    row: Int[Array, ""]
    column: Int[Array, ""]


class DeepSea(Environment):
    """A diver in an N x N grid, from the top left; every step goes one row down.

    Each step also goes one column right, for 0.01 / N, or left, for nothing. Going right in the
    bottom right cell pays 1. After N steps the episode terminates, and the observation, otherwise
    a flattened one-hot of the cell, is zero. Only N rights in a row find the treasure: the best
    return is 0.99, and random play finds it with probability 2^-N.

    In which cells it is action 1 that goes right, and in which action 0, is drawn with `seed`;
    with `randomize_actions=False` it is action 1 everywhere.
    """

    size: int = eqx.field(static=True)
    exact: StaticArrays = eqx.field(static=True)

    def __init__(self, size: int = 10, seed: int = 0, randomize_actions: bool = True):
        check_count("size", size, 1)
        check_count("seed", seed, 0)
        self.size = int(size)
        require_memory({"size": 4 * self.size**2}, f"a sea of size {shown(size)}")
        mapping = np.ones((size, size), np.int32)
        if randomize_actions:
            mapping = np.random.default_rng(seed).integers(2, size=(size, size), dtype=np.int32)
        self.exact = StaticArrays(right_action=mapping)

    @property
    def right_action(self) -> np.ndarray:
        """Which action goes right: int32, [rows, columns], read-only."""
        return self.exact["right_action"]

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return gymnasium.spaces.Box(0.0, 1.0, (self.size**2,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    @property
    def longest_episode(self) -> int:
        return self.size

    def observe(self, state: DiverState) -> Float[Array, "cells"]:
        """One-hot of the cell; zero below the sea floor, where the index is N^2 or more."""
        cell = state.row * self.size + state.column
        return (jnp.arange(self.size**2) == cell).astype(jnp.float32)

    def reset(self, key: PRNGKeyArray) -> tuple[DiverState, Float[Array, "cells"]]:
        del key  # every dive starts at the top left
        state = DiverState(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: PRNGKeyArray, state: DiverState, action: Int[Array, ""]) -> Step:
        del key  # the sea is deterministic
        right = self._goes_right(state, action)
        treasure = right & (state.column == self.size - 1) & (state.row == self.size - 1)
        cost = jnp.where(right, MOVE_COST / self.size, 0.0).astype(jnp.float32)
        reward = jnp.where(treasure, 1.0, 0.0) - cost
        column = jnp.clip(state.column + jnp.where(right, 1, -1), 0, self.size - 1)
        state = DiverState(state.row + 1, column)
        return Step(state, self.observe(state), reward, state.row >= self.size, jnp.zeros((), bool))

    def _goes_right(self, state: DiverState, action: Int[Array, ""]) -> Bool[Array, ""]:
        return action == jnp.asarray(self.right_action)[state.row, state.column]

    def render(self, state: DiverState) -> np.ndarray:
        return draw_deep_sea(int(state.row), int(state.column), self.right_action)

    def index(self, state: DiverState) -> Int[Array, ""]:
        """Cells row by row; the last number, N^2, is the end."""
        return jnp.minimum(state.row * self.size + state.column, self.size**2)

    def tabular(self) -> TabularMDP:
        """All N^2 cells, those that no dive reaches included, and an absorbing end.

        Above the bottom row the last column is out of reach, and going right there pays nothing.
        """
        size, end = self.size, self.size**2
        check_table(end + 1, 2)
        transition = np.zeros((end + 1, 2, end + 1))
        reward = np.zeros((end + 1, 2))
        mapping = self.right_action
        for row in range(size):
            for column in range(size):
                cell, right = row * size + column, mapping[row, column]
                for action, move in ((right, 1), (1 - right, -1)):
                    below = (row + 1) * size + min(max(column + move, 0), size - 1)
                    transition[cell, action, min(below, end)] = 1
                reward[cell, right] = -MOVE_COST / size
        reward[end - 1, mapping[-1, -1]] += 1
        transition[end, :, end] = 1
        return TabularMDP(transition, reward, np.eye(end + 1)[0], np.arange(end + 1) == end)
