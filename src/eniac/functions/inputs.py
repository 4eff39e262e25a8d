"""Input vectors of pairs (s, a), for classes that do not take a pair's number."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from eniac.memory import require_memory

Inputs = Float[np.ndarray, "states actions features"]


def check_inputs(inputs: Inputs) -> Inputs:
    """A float64 copy, or ValueError."""
    inputs = np.array(inputs, dtype=np.float64)
    if inputs.ndim != 3 or 0 in inputs.shape or not np.all(np.isfinite(inputs)):
        raise ValueError(
            f"inputs have shape {inputs.shape}; expected finite numbers of shape "
            "(states, actions, features), none of them 0."
        )
    return inputs


def group_equal(inputs: Inputs) -> Int[np.ndarray, "states actions"]:
    """Numbers from 0 on, the same for pairs with equal inputs, which no function tells apart."""
    flat = inputs.reshape(-1, inputs.shape[2])
    groups = np.unique(flat, axis=0, return_inverse=True)[1]
    return groups.reshape(inputs.shape[:2])


def one_hot_pairs(num_states: int, num_actions: int) -> Inputs:
    """A coordinate a pair: classes on these inputs are as rich as tables."""
    pairs = num_states * num_actions
    require_memory({"inputs": 8 * pairs**2}, f"a coordinate for each of {pairs:,} pairs")
    return np.eye(pairs).reshape(num_states, num_actions, -1)


def with_actions(states: Float[np.ndarray, "states numbers"], num_actions: int) -> Inputs:
    """The features of the state beside a one-hot of the action."""
    num_states, features = states.shape
    size = 8 * num_states * num_actions * (features + num_actions)
    require_memory({"inputs": size}, f"the features of {num_states:,} states")
    return np.concatenate(
        [
            np.broadcast_to(states[:, None], (num_states, num_actions, states.shape[1])),
            np.broadcast_to(np.eye(num_actions), (num_states, num_actions, num_actions)),
        ],
        axis=2,
    )


def grid_coordinates(size: int) -> Float[np.ndarray, "states 3"]:
    """Row and column in [0, 1], and a mark for the end, for the cells of a `size` x `size` sea."""
    row, column = np.divmod(np.arange(size**2), size)
    cells = np.stack([row, column], axis=1) / max(size - 1, 1)
    cells = np.concatenate([cells, np.zeros((len(cells), 1))], axis=1)
    return np.concatenate([cells, [[1.0, 0.0, 1.0]]])


def lock_coordinates(length: int) -> Float[np.ndarray, "states 4"]:
    """Lock, time in [0, 1], cell (two good, one dead), and a mark: -1 the choice, 1 the end."""
    lock, inside = np.divmod(np.arange(6 * length), 3 * length)
    time, cell = np.divmod(inside, 3)
    rows = np.stack([lock, time / max(length - 1, 1), cell / 2, np.zeros(6 * length)], axis=1)
    return np.concatenate([[[0.0, 0.0, 0.0, -1.0]], rows, [[0.0, 1.0, 0.0, 1.0]]])
