"""Elements of a space as people write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces as gym

from eniac.errors import ConfigError, shown
from eniac.spaces.base import Path, Space, place
from eniac.spaces.stored import stored_dtype


def read(space: Space, given: Any, what: str) -> tuple[Any, int | None]:
    """One element of `space`, or a batch of them, as people write them: arrays, numbers, lists,
    and dicts and tuples of these; a batch may also be a list of dicts or tuples.

    Returns them as stored, always with a leading axis, and how many they are: None if it was one
    and no batch. **Raises** `ConfigError` for what is no element of the space, but a Box of floats
    may be left: environments do that too. `what` they are is for its text.
    """
    rows = dict(_read(space, given, what, ()))
    sizes = {batch for batch, _ in rows.values()}
    if len(sizes) > 1:
        told = ", ".join(
            f"{place(path).strip() or what} {'one' if n is None else f'a batch of {n}'}"
            for path, (n, _) in rows.items()
        )
        raise ConfigError(f"{what} is one in some parts and a batch in others, or of two: {told}.")
    [num] = sizes
    return _assembled(space, rows, ()), num


def _read(
    space: Space, given: Any, what: str, path: Path
) -> Iterator[tuple[Path, tuple[int | None, np.ndarray]]]:
    """For each leaf of the space its array, and how many rows it has if it is a batch."""
    named = f"{what}{place(path)}"
    if isinstance(space, gym.Dict):
        if isinstance(given, list | tuple) and given and all(isinstance(x, Mapping) for x in given):
            given = {
                key: [x[key] for x in given] for key in space.spaces if all(key in x for x in given)
            }
        if not isinstance(given, Mapping):
            keys = ", ".join(map(repr, sorted(space.spaces)))
            raise ConfigError(f"{named} is {shown(given)}; it must be a dict with the keys {keys}.")
        for key in sorted(space.spaces):
            if key not in given:
                found = ", ".join(map(repr, given)) or "none"
                raise ConfigError(f"{named} has not the key {key!r}; it has {found}.")
            yield from _read(space.spaces[key], given[key], what, (*path, key))
    elif isinstance(space, gym.Tuple):
        num = len(space.spaces)
        if isinstance(given, list) and given and all(isinstance(x, tuple) for x in given):
            if any(len(x) != num for x in given):
                raise ConfigError(f"{named} has tuples that are not of {num} parts.")
            given = tuple(list(part) for part in zip(*given, strict=True))
        if not isinstance(given, tuple | list) or len(given) != num:
            raise ConfigError(f"{named} is {shown(given)}; it must be a tuple of {num} parts.")
        for i, part in enumerate(space.spaces):
            yield from _read(part, given[i], what, (*path, i))
    else:
        yield path, _read_leaf(space, given, named)


def _read_leaf(space: Space, given: Any, named: str) -> tuple[int | None, np.ndarray]:
    try:
        array = np.asarray(given)
    except (ValueError, TypeError):
        array = np.asarray(None)
    shape = tuple(space.shape or ())
    if array.dtype.kind not in "biuf":
        raise ConfigError(
            f"{named} is {shown(given)}; it must be numbers of the shape {shape}, or a batch of "
            "such."
        )
    one = array.shape == shape
    if not one and (array.ndim != len(shape) + 1 or array.shape[1:] != shape):
        batch = "(n, " + ", ".join(map(str, shape)) + ")" if shape else "(n,)"
        raise ConfigError(
            f"{named} has the shape {array.shape}; it must have {shape}, or {batch} for a batch of "
            f"n: the space is {shown(space)}."
        )
    array = array[None] if one else array
    whole = stored_dtype(space).kind in "biu"
    with np.errstate(over="ignore"):
        # As stored: what is finite in 64 bits need not be in 32.
        finite = np.isfinite(array.astype(np.float64 if whole else stored_dtype(space))).all()
    fits = finite and (not whole or np.all(array == np.rint(array)))
    if fits and whole:
        low, high = _whole_bounds(space)
        fits = np.all((low <= array) & (array <= high))
    if not fits:
        raise ConfigError(
            f"{named} is {shown(given)}, which is no element of the space {shown(space)}."
        )
    return None if one else len(array), array.astype(stored_dtype(space))


def _whole_bounds(space: Space) -> tuple[Any, Any]:
    """The least and the largest element of a space of whole numbers, for a batch of them."""
    if isinstance(space, gym.Discrete):
        return int(space.start), int(space.start) + int(space.n) - 1
    if isinstance(space, gym.MultiDiscrete):
        return space.start[None], (space.start + space.nvec - 1)[None]
    if isinstance(space, gym.Box) and space.dtype != np.bool_:
        return space.low[None], space.high[None]
    return 0, 1


def _assembled(space: Space, rows: Mapping[Path, Any], path: Path) -> Any:
    if isinstance(space, gym.Dict):
        keys = sorted(space.spaces)
        return {key: _assembled(space.spaces[key], rows, (*path, key)) for key in keys}
    if isinstance(space, gym.Tuple):
        parts = enumerate(space.spaces)
        return tuple(_assembled(part, rows, (*path, i)) for i, part in parts)
    return rows[path][1]
