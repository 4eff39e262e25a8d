"""Values that an observation cannot have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from eniac.boxes import box_bounds
from eniac.envs.faults import Fault
from eniac.envs.observations import leaves


class ValueCheck:
    """Looks for values that an observation cannot have: NaN, infinity, and what is outside its
    space; in many observations at once, which costs next to nothing.

    A number may lie outside a Box by as much as the box is wide: many an environment oversteps its
    bounds a little, and nobody is hurt. Bounds that mean nothing (`box_bounds`) are none.
    """

    def __init__(self, space: Any):
        self._leaves = list(_value_bounds(space, ""))

    def first(self, batch: Any, num_axes: int) -> tuple[tuple[int, ...], Fault] | None:
        """Where in a batch, with so many axes before those of an observation, the first such value
        is, and what is wrong with it; None if nothing is."""
        found = None
        for leaf, (part, space, low, high) in zip(leaves(batch), self._leaves, strict=True):
            if low is None or leaf.size == 0 or _all_within(leaf, low, high, num_axes):
                continue
            where = tuple(np.argwhere(~((leaf >= low) & (leaf <= high)))[0].tolist())
            if found is None or where[:num_axes] < found[0]:
                entry = f"{part}{list(where[num_axes:])}" if where[num_axes:] else part
                found = where[:num_axes], _wrong_value(entry, leaf[where], space)
        return found


def _all_within(x: np.ndarray, low: Any, high: Any, num_axes: int) -> bool:
    # NaN is neither above nor below: it fails both comparisons.
    if np.ndim(low) == 0:
        return bool(x.min() >= low and x.max() <= high)
    least, largest = x, x
    for _ in range(num_axes):  # one axis after the other, which NumPy does many times faster
        least, largest = least.min(axis=0), largest.max(axis=0)
    return bool((least >= low).all() and (largest <= high).all())


def _value_bounds(space: Any, part: str) -> Iterator[tuple[str, Any, Any, Any]]:
    """(which part, its space, least and largest value that is let pass) of each array."""
    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces):
            yield from _value_bounds(space.spaces[key], f"{part}[{key!r}]")
        return
    if isinstance(space, spaces.Tuple):
        for k, inner in enumerate(space):
            yield from _value_bounds(inner, f"{part}[{k}]")
        return
    if isinstance(space, spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n) - 1
    elif isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    elif isinstance(space, spaces.MultiBinary):
        low, high = 0, 1
    else:
        low, high = _box_with_slack(space)
    if low is not None and np.size(low) and np.ptp(low) == np.ptp(high) == 0:
        low, high = np.ravel(low)[0], np.ravel(high)[0]  # which is quicker to compare with
    yield part, space, low, high


def _box_with_slack(space: spaces.Box) -> tuple[Any, Any]:
    low, high = box_bounds(space)
    bounded = np.isfinite(low) & np.isfinite(high)
    width = np.subtract(high, low, out=np.zeros_like(low), where=bounded)
    slack = np.where(width > 0, width, 1.0)
    # Observations are kept as 32-bit floats, in which a larger number is infinite.
    most = float(np.finfo(np.float32).max) if space.dtype.kind == "f" else np.inf
    low, high = np.where(bounded, low - slack, -most), np.where(bounded, high + slack, most)
    if space.dtype.kind != "f":
        limits = (0, 1) if space.dtype.kind == "b" else _limits(space.dtype)
        if np.all(low <= limits[0]) and np.all(high >= limits[1]):
            return None, None  # every value of the type will do: pictures, for instance
    return low, high


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _wrong_value(entry: str, value: Any, space: Any) -> Fault:
    came = f"returned an observation that is {value}{f' at {entry}' if entry else ''}"
    if not np.isfinite(value):
        return Fault(
            f"{came}; expected a finite number. Find out where the environment makes it.",
            nonfinite=True,
        )
    return Fault(
        f"{came}, which its observation_space does not have: {space!s:.200}. Correct the "
        "environment, or its observation_space."
    )
