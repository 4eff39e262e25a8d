"""Spaces in files: plain data that JSON can hold, read with care."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces as gym

from eniac.errors import ConfigError, require, shown
from eniac.spaces.base import DEEPEST, LARGEST, Path, Space, place

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", "float16", "float32", "float64", *INTEGERS)
"""The types a Box may have."""
INFINITE = ("inf", "-inf")


def to_json(space: Space) -> dict[str, Any]:
    """The space as plain data that JSON can hold, and `from_json` read."""
    if isinstance(space, gym.Dict):
        parts = {key: to_json(space.spaces[key]) for key in sorted(space.spaces)}
        return {"type": "Dict", "spaces": parts}
    if isinstance(space, gym.Tuple):
        return {"type": "Tuple", "spaces": [to_json(part) for part in space.spaces]}
    if isinstance(space, gym.Discrete):
        dtype = np.dtype(space.dtype).name
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": dtype}
    if isinstance(space, gym.MultiBinary):
        n = space.n if isinstance(space.n, int) else [int(side) for side in space.n]
        return {"type": "MultiBinary", "n": n}
    if isinstance(space, gym.MultiDiscrete):
        return {
            "type": "MultiDiscrete",
            "shape": list(space.shape),
            "dtype": space.dtype.name,
            "nvec": _compact(space.nvec.ravel().tolist()),
            "start": _compact(space.start.ravel().tolist()),
        }
    if isinstance(space, gym.Box) and space.dtype.name in DTYPES:
        return {
            "type": "Box",
            "shape": list(space.shape),
            "dtype": space.dtype.name,
            "low": _bound_to_json(space.low, np.asarray(space.bounded_below), "-inf"),
            "high": _bound_to_json(space.high, np.asarray(space.bounded_above), "inf"),
        }
    raise ConfigError(
        f"the space {shown(space)} cannot be written to a file; spaces that can are Box, Discrete, "
        "MultiDiscrete, MultiBinary, and Dict and Tuple of these."
    )


def from_json(data: Any, most: int = LARGEST) -> Space:
    """The space that `to_json` wrote, of at most so many entries. Anything else is refused with a
    `ConfigError`, before any memory is asked for."""
    return _Reader(min(most, LARGEST)).space(data, ())


def _compact(values: list[Any]) -> Any:
    """One value for a list of equal ones."""
    return values[0] if values and all(x == values[0] for x in values) else values


def _bound_to_json(bound: np.ndarray, bounded: np.ndarray, unbounded: str) -> Any:
    if bound.size and np.all(bound == bound.flat[0]) and np.all(bounded == bounded.flat[0]):
        bound, bounded = bound.ravel()[:1], bounded.ravel()[:1]

    def plain(x: Any, is_bounded: bool) -> Any:
        if not is_bounded:
            return unbounded
        # A low of +inf counts as bounded.
        return str(x) if isinstance(x, float) and math.isinf(x) else x

    pairs = zip(bound.ravel().tolist(), bounded.ravel().tolist(), strict=True)
    return _compact([plain(x, is_bounded) for x, is_bounded in pairs])


class _Reader:
    """Reads a space from plain data, and counts its entries before it makes any, so that a small
    file cannot ask for a lot of memory."""

    def __init__(self, most: int):
        self.most = self.room = most

    def space(self, data: Any, path: Path) -> Space:
        require(len(path) <= DEEPEST, "the depth of a space", len(path), f"at most {DEEPEST}")
        kinds = {
            "Box": (self.box, {"shape", "dtype", "low", "high"}),
            "Discrete": (self.discrete, {"n", "start", "dtype"}),
            "MultiDiscrete": (self.multi_discrete, {"shape", "dtype", "nvec", "start"}),
            "MultiBinary": (self.multi_binary, {"n"}),
            "Dict": (self.dict_of, {"spaces"}),
            "Tuple": (self.tuple_of, {"spaces"}),
        }
        kind = data.get("type") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind not in kinds:
            allowed = ", ".join(kinds)
            raise wrong(path, f"{shown(data)} is no space; its type must be one of {allowed}")
        read, fields = kinds[kind]
        if set(data) != fields | {"type"}:
            given = ", ".join(sorted(map(str, set(data) - {"type"})))
            needed = ", ".join(sorted(fields))
            raise wrong(path, f"a {kind} has the fields {needed}, and this one {shown(given)}")
        try:
            return read(data, path)
        except ConfigError:
            raise
        except (ValueError, TypeError, OverflowError, AssertionError) as error:
            raise wrong(path, f"{shown(data)} is no {kind}: {error}") from error

    def dict_of(self, data: dict[str, Any], path: Path) -> Space:
        parts = data["spaces"]
        if not isinstance(parts, dict) or not all(isinstance(key, str) for key in parts):
            raise wrong(path, f"spaces is {shown(parts)}, and must have a space for each key")
        return gym.Dict({key: self.space(part, (*path, key)) for key, part in parts.items()})

    def tuple_of(self, data: dict[str, Any], path: Path) -> Space:
        parts = data["spaces"]
        if not isinstance(parts, list):
            raise wrong(path, f"spaces is {shown(parts)}, and must be a list of spaces")
        return gym.Tuple([self.space(part, (*path, i)) for i, part in enumerate(parts)])

    def discrete(self, data: dict[str, Any], path: Path) -> Space:
        dtype = _dtype(data["dtype"], INTEGERS, path)
        n, start = (_integer(data[name], name, path) for name in ("n", "start"))
        limits = np.iinfo(dtype)
        if n < 1 or start < limits.min or start + n - 1 > limits.max or n > limits.max:
            raise wrong(path, f"{n} elements from {start} on do not fit {dtype}")
        # The other types came to gymnasium's Discrete after 1.2.
        if dtype == np.int64:
            return gym.Discrete(n, start=start)
        return gym.Discrete(n, start=start, dtype=dtype.type)

    def multi_discrete(self, data: dict[str, Any], path: Path) -> Space:
        dtype = _dtype(data["dtype"], INTEGERS, path)
        shape = self.shape(data["shape"], path)
        nvec, start = (_array(data[x], x, shape, dtype, path) for x in ("nvec", "start"))
        pairs = zip(start.ravel().tolist(), nvec.ravel().tolist(), strict=True)
        if max((a + n - 1 for a, n in pairs), default=0) > np.iinfo(dtype).max:
            raise wrong(path, f"the elements of {shown(data)} do not fit {dtype}")
        return gym.MultiDiscrete(nvec, dtype=dtype.type, start=start)

    def multi_binary(self, data: dict[str, Any], path: Path) -> Space:
        n = data["n"]
        shape = self.shape(n if isinstance(n, list) else [n], path)
        return gym.MultiBinary(list(shape) if isinstance(n, list) else shape[0])

    def box(self, data: dict[str, Any], path: Path) -> Space:
        dtype = _dtype(data["dtype"], DTYPES, path)
        shape = self.shape(data["shape"], path)
        low, high = (_array(data[x], x, shape, dtype, path) for x in ("low", "high"))
        space = gym.Box(low, high, shape, dtype.type)
        if dtype.kind == "i":
            # An unbounded box of integers has the limits of its type as low and high.
            space.bounded_below, space.bounded_above = (
                _array([x not in INFINITE for x in given], name, shape, np.dtype(bool), path)
                if isinstance(given := data[name], list)
                else np.full(shape, given not in INFINITE)
                for name in ("low", "high")
            )
        return space

    def shape(self, shape: Any, path: Path) -> tuple[int, ...]:
        if not isinstance(shape, list) or len(shape) > DEEPEST:
            raise wrong(path, f"shape is {shown(shape)}, and must be a list of sizes")
        sides = tuple(_integer(side, "shape", path) for side in shape)
        if min(sides, default=0) < 0:
            raise wrong(path, f"shape is {shown(shape)}, and a size cannot be below 0")
        # An empty side counts as 1: numpy refuses absurd sizes beside it too.
        self.room -= math.prod(max(side, 1) for side in sides)
        if self.room < 0:
            raise wrong(path, f"its shapes have more than {self.most:,} entries")
        return sides


def wrong(path: Path, what: str) -> ConfigError:
    return ConfigError(f"the description of a space{place(path)} cannot be read: {what}.")


def _dtype(name: Any, allowed: Sequence[str], path: Path) -> np.dtype[Any]:
    if not isinstance(name, str) or name not in allowed:
        raise wrong(path, f"dtype is {shown(name)}, and not one of {', '.join(allowed)}")
    return np.dtype(name)


def _integer(x: Any, name: str, path: Path) -> int:
    if not isinstance(x, int) or isinstance(x, bool) or abs(x) >= 2**64:
        raise wrong(path, f"{name} has {shown(x)}, and must have whole numbers")
    return x


def _array(
    values: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], path: Path
) -> np.ndarray:
    """One value for all entries, or a list with one for each."""
    size = math.prod(shape)
    if isinstance(values, list) and len(values) != size:
        raise wrong(path, f"{name} has {len(values)} values for {size} entries")
    listed = values if isinstance(values, list) else [values]
    array = np.asarray([_number(x, name, dtype, path) for x in listed], dtype)
    return np.broadcast_to(array, (size,)).reshape(shape).copy()


def _number(x: Any, name: str, dtype: np.dtype[Any], path: Path) -> int | float:
    if dtype.kind == "b":
        if not isinstance(x, bool):
            raise wrong(path, f"{name} has {shown(x)}, and must have true or false")
        return x
    is_infinite = isinstance(x, str) and x in INFINITE
    if dtype.kind == "f":
        if is_infinite:
            return float(x)
        if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x):
            raise wrong(path, f"{name} has {shown(x)}, and must have numbers, 'inf' or '-inf'")
        if abs(x) > float(np.finfo(dtype.name).max):
            raise wrong(path, f"{name} has {shown(x)}, which is too large for {dtype}")
        return float(x)
    limits = np.iinfo(dtype)
    if is_infinite and dtype.kind == "i":
        return int(limits.max if x == "inf" else limits.min)
    x = _integer(x, name, path)
    if not limits.min <= x <= limits.max:
        raise wrong(path, f"{name} has {x}, which does not fit {dtype}")
    return x
