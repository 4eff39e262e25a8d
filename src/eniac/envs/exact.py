"""What tabular environments share: constant arrays, checked distributions, drawing from them."""

from __future__ import annotations

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.errors import shown
from eniac.memory import require_memory

# Rows may come from float32 arithmetic, whose sums miss one by about 1e-7.
SUM_TOLERANCE = 1e-6


@final
class StaticArrays:
    """Read-only NumPy arrays, compared and hashed by content.

    This is what lets a module carry them as static data: `jit` hashes static data and compares it
    with `==`. As leaves of the module they would become float32 inside a trace, and
    `jax.jit(env.step)` would fail because JAX arrays have no hash.
    """

    def __init__(self, **arrays: np.ndarray):
        self._arrays = arrays
        for array in arrays.values():
            array.setflags(write=False)
        self._hash = hash(tuple((k, a.shape, a.tobytes()) for k, a in arrays.items()))

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StaticArrays)
            and self._hash == other._hash
            and self._arrays.keys() == other._arrays.keys()
            and all(np.array_equal(a, other._arrays[k]) for k, a in self._arrays.items())
        )

    def __repr__(self) -> str:
        return f"StaticArrays({', '.join(f'{k}{a.shape}' for k, a in self._arrays.items())})"


def check_distributions(name: str, rows: np.ndarray) -> None:
    """Raise unless every row along the last axis of `rows` is a probability distribution."""
    if not np.all(np.isfinite(rows)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(rows))[0])
        raise ValueError(f"{name}{list(where)} is {rows[where]}; every entry must be finite.")
    if np.any(rows < 0):
        where = tuple(int(i) for i in np.unravel_index(np.argmin(rows), rows.shape))
        raise ValueError(f"{name}{list(where)} is {rows[where]}; a probability is not negative.")
    sums = rows.sum(-1)
    worst = np.unravel_index(np.argmax(np.abs(sums - 1)), sums.shape)
    if abs(sums[worst] - 1) > SUM_TOLERANCE:
        row = f"row {[int(i) for i in worst]} of {name}" if sums.ndim else name
        raise ValueError(f"{row} sums to {float(sums[worst])!r}; probabilities must sum to one.")


def cumulative(rows: np.ndarray) -> np.ndarray:
    """Cumulative probabilities in float32, made so that nothing impossible is ever drawn.

    Outcome j is drawn when c[j-1] <= u < c[j] for a uniform u in [0, 1). Outcomes of probability
    zero then have an empty interval; from the last possible outcome on, c is exactly one, lest
    rounding leave a gap below one.
    """
    sums = np.cumsum(rows, -1)
    remaining = np.flip(np.cumsum(np.flip(rows, -1), -1), -1) - rows
    return np.where(remaining > 0, np.minimum(sums, 1.0), 1.0).astype(np.float32)


def draw(key: PRNGKeyArray, cumulative_row: Float[Array, "outcomes"]) -> Int[Array, ""]:
    """One outcome by inversion: the number of cumulative probabilities that u has passed."""
    u = jax.random.uniform(key, (), jnp.float32)
    return jnp.sum(u >= cumulative_row, dtype=jnp.int32)


def check_table(num_states: int, num_actions: int) -> None:
    """Raise, before it is made, if the table of so many states and actions fits no memory."""
    # transition[s, a, s'] as it is made, as it is kept, and its sums in float32
    size = num_states * num_actions * num_states * (8 + 8 + 4)
    require_memory({"its transitions": size}, f"a table of {shown(num_states)} states")


def check_count(name: str, given: int, least: int) -> None:
    """Raise unless `given` is a whole number of `least` or more."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < least:
        raise ValueError(f"{name} is {shown(given)}; expected a whole number of {least} or more.")
