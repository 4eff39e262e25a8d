"""Gymnasium spaces as arrays: the one place that knows how an element of a space is stored, read
by a network, drawn, sent to an environment and written to a file.

An element of a space has three forms here. The environment's own, whatever its space says. The
stored one: arrays of JAX's 32-bit types, in plain dicts and tuples (`empty`, `canonical`). And the
encoded one: a single vector of floats (`Encoder`), which is what networks, kernels and bonuses
read. A policy emits an action as an element of `emitted(space)`, flat and counted from 0, and
`to_env` makes of it what `env.step` takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym
from jaxtyping import Array, Float, PRNGKeyArray

from eniac.boxes import box_bounds
from eniac.draws import integers
from eniac.errors import ConfigError, require, shown

Space = gymnasium.Space[Any]
Path = tuple[str | int, ...]
"""The keys and numbers that lead to a part of a nested space."""

LARGEST = 10**8
"""No space has more numbers than this, so that a wrong file, or a Discrete of two thousand million,
is refused in a sentence and not by the machine's memory."""
DEEPEST = 32
"""Spaces are not nested deeper than this."""
LONGEST_KEY = 255
"""Characters of the longest key of a Dict space."""
IMAGE_SIDE = 16
"""Below this many pixels a side, a box of bytes is a grid of codes and not a picture."""
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = ("bool", "float16", "float32", "float64", *INTEGERS)
"""The types a Box may have."""
INFINITE = ("inf", "-inf")


class Spaces(NamedTuple):
    """What an agent sees, and how it acts."""

    observation: Space
    action: Space


class Image(NamedTuple):
    """Where a picture stands in an encoding: rows, then columns, then channels."""

    start: int
    height: int
    width: int
    channels: int

    @property
    def size(self) -> int:
        return self.height * self.width * self.channels


# What is supported


def check_spaces(observation: Space, action: Space) -> None:
    """Raises `ConfigError` if no policy here can see the one or act in the other."""
    Encoder(observation)
    Encoder(emitted(action))


def emitted(space: Space) -> Space:
    """The space of the actions that a policy emits: flat, counted from 0, with 32-bit numbers.

    This is how actions are stored and encoded. `to_env` makes the environment's action of one.
    """
    if isinstance(space, gym.Box):
        # Compared as 32-bit floats: rounding must not make two bounds one.
        low, high = (bound.ravel().astype(np.float32) for bound in box_bounds(space))
        if low.size == 0 or np.any(low >= high):
            raise ConfigError(
                f"the action space is {shown(space)}; a Box of actions must have at least one "
                "entry, and low below high in each. An entry that cannot vary is no action: leave "
                "it out, with gymnasium.wrappers.TransformAction."
            )
        return gym.Box(low, high, dtype=np.float32)
    if isinstance(space, gym.Discrete):
        return gym.Discrete(int(space.n))
    if isinstance(space, gym.MultiDiscrete) and space.nvec.size > 0:
        return gym.MultiDiscrete(space.nvec.ravel().astype(np.int64))
    if isinstance(space, gym.MultiBinary):
        return gym.MultiBinary(math.prod(space.shape))
    raise ConfigError(
        f"the action space is {shown(space)}; policies act in a Box, Discrete, MultiDiscrete or "
        "MultiBinary space. gymnasium.wrappers.TransformAction can make one of these of yours."
    )


# Stored elements


def stored_dtype(space: Space) -> np.dtype[Any]:
    """The type in which the elements of a space that is no Dict or Tuple are kept."""
    if isinstance(space, gym.Discrete | gym.MultiDiscrete):
        return np.dtype(np.int32)
    if isinstance(space, gym.MultiBinary):
        return np.dtype(np.int8)
    dtype = np.dtype(space.dtype)
    return np.dtype(f"{dtype.kind}4") if dtype.itemsize > 4 else dtype


def empty(space: Space, num: int) -> Any:
    """Room for `num` elements: zeros of the stored type, in the space's dicts and tuples."""
    if isinstance(space, gym.Dict):
        return {key: empty(space.spaces[key], num) for key in sorted(space.spaces)}
    if isinstance(space, gym.Tuple):
        return tuple(empty(part, num) for part in space.spaces)
    return jnp.zeros((num, *(space.shape or ())), stored_dtype(space))


def element_bytes(space: Space) -> int:
    """Memory that one element takes as it is stored."""
    if isinstance(space, gym.Dict | gym.Tuple):
        parts = space.spaces.values() if isinstance(space, gym.Dict) else space.spaces
        return sum(map(element_bytes, parts))
    return math.prod(space.shape or ()) * stored_dtype(space).itemsize


def canonical(space: Space, batch: Any) -> Any:
    """Elements of an environment, one or a batch, as stored: numpy arrays in plain containers.

    Arrays that have the stored type already are passed on and not copied.
    """
    if isinstance(space, gym.Dict):
        return {key: canonical(space.spaces[key], batch[key]) for key in sorted(space.spaces)}
    if isinstance(space, gym.Tuple):
        return tuple(canonical(part, x) for part, x in zip(space.spaces, batch, strict=True))
    return np.asarray(batch, stored_dtype(space))


def to_env(space: Space, action: Any) -> Any:
    """What `env.step` takes, of what a policy emitted: one action, or any number of them.

    Of a numpy array it makes a numpy array of the space's own type, of a JAX array one of the
    stored type, also under `jit`. A Box action is clipped into the box, and rounded if the box
    is one of integers.
    """
    of_numpy = isinstance(action, np.ndarray | np.generic)
    lib = np if of_numpy else jnp
    dtype = np.dtype(space.dtype) if of_numpy else stored_dtype(space)
    if isinstance(space, gym.Discrete):
        return action.astype(dtype) + lib.asarray(space.start, dtype)
    rows, shape = action.shape[:-1], space.shape or ()
    action = action.reshape((*rows, *shape))
    # One axis of 1 for each axis of rows, because the tests refuse arrays of different ranks.
    beside = (1,) * len(rows) + shape
    if isinstance(space, gym.MultiBinary):
        return action.astype(dtype)
    if isinstance(space, gym.MultiDiscrete):
        return action.astype(dtype) + lib.asarray(space.start, dtype).reshape(beside)
    if not isinstance(space, gym.Box):
        raise ConfigError(f"the action space is {shown(space)}, in which no policy acts.")
    bounds = action_bounds(space, dtype, of_numpy)
    low, high = (lib.asarray(x).reshape(beside) for x in bounds)
    clipped = lib.clip(action.astype(low.dtype), low, high)
    # `asarray`: numpy makes a scalar of an array without axes, which is no element of a Box.
    return lib.asarray(clipped if dtype.kind == "f" else lib.rint(clipped), dtype)


def action_bounds(
    space: gym.Box, dtype: np.dtype[Any], wide: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The bounds that an action of `dtype` is clipped into, in the floats in which that is done:
    its own, and for integers 64-bit ones if `wide`, else JAX's 32-bit ones."""
    if dtype.kind == "f":
        low, high = box_bounds(space)
        return low.astype(dtype), high.astype(dtype)
    # The largest integers have no float of their own: stop short of them.
    number, most = (np.float64, 2.0**62) if wide else (np.float32, 2.0**30)
    low, high = space.low.astype(number), space.high.astype(number)
    return np.clip(low, -most, most), np.clip(high, -most, most)


def from_env(space: Space, actions: np.ndarray) -> np.ndarray:
    """What a policy would have emitted for `actions` of an environment, a batch of them as stored;
    `to_env` is its inverse, but for what that clips and rounds."""
    if isinstance(space, gym.Discrete):
        return (actions - int(space.start)).astype(np.int32)
    if isinstance(space, gym.MultiDiscrete):
        actions = actions - space.start[None]
    dtype = np.float32 if isinstance(space, gym.Box) else stored_dtype(space)
    return actions.reshape((len(actions), -1)).astype(dtype)


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
            f"{_place(path).strip() or what} {'one' if n is None else f'a batch of {n}'}"
            for path, (n, _) in rows.items()
        )
        raise ConfigError(f"{what} is one in some parts and a batch in others, or of two: {told}.")
    [num] = sizes
    return _assembled(space, rows, ()), num


def _read(
    space: Space, given: Any, what: str, path: Path
) -> Iterator[tuple[Path, tuple[int | None, np.ndarray]]]:
    """For each leaf of the space its array, and how many rows it has if it is a batch."""
    named = f"{what}{_place(path)}"
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


# Encoded elements


class Part(NamedTuple):
    """How one array of an observation is encoded, and where in the vector it stands.

    All is plain data, because it is part of the type of a network: compiled programs are found by
    its hash. So the bounds of a box are kept as runs of equal ones, (low, high, how many): those of
    a picture are one run and not 28,224 numbers.
    """

    kind: Literal["box", "image", "one-hot", "binary"]
    path: Path
    start: int
    size: int
    bounds: tuple[tuple[float, float, int], ...]
    sides: tuple[int, int, int] = (0, 0, 0)
    channels_first: bool = False
    largest: float = 255.0
    nvec: tuple[int, ...] = ()
    lowest: tuple[int, ...] = ()

    def __call__(self, x: Any) -> Float[Array, " size"]:
        for key in self.path:
            x = x[key]
        x = jnp.asarray(x)
        if self.kind == "one-hot":
            x = x.reshape(len(self.nvec)).astype(jnp.int32)
            return self.one_hot(x - jnp.asarray(self.lowest, jnp.int32))
        if self.kind == "image":
            x = jnp.moveaxis(x, 0, -1) if self.channels_first else x
            return x.reshape(self.size).astype(jnp.float32) / self.largest
        return x.astype(jnp.float32).reshape(self.size)

    def one_hot(self, x: Array) -> Float[Array, " size"]:
        """The one-hot codes of choices that count from 0, side by side."""
        if len(set(self.nvec)) == 1:
            return jax.nn.one_hot(x, self.nvec[0]).reshape(self.size)
        owner = np.repeat(np.arange(len(self.nvec)), self.nvec)
        element = np.concatenate([np.arange(n) for n in self.nvec])
        return (x[owner] == jnp.asarray(element, jnp.int32)).astype(jnp.float32)


class Encoder(eqx.Module):
    """Turns one observation, or one emitted action, into the vector that a network reads.

    A Box is flattened; a picture too, and divided by 255. Discrete and MultiDiscrete become
    one-hot, MultiBinary 0 and 1. Those of a Dict or Tuple are joined, in the order of the sorted
    keys. A picture is a Box of bytes with three axes and sides of 16 or more; channels may be the
    last axis or the first, and are last in the encoding.
    """

    size: int = eqx.field(static=True)
    parts: tuple[Part, ...] = eqx.field(static=True)

    def __init__(self, space: Space):
        parts, size = [], 0
        for path, leaf in leaves(space):
            parts.append(_part(leaf, path, size))
            size += parts[-1].size
            if size > LARGEST:
                raise ConfigError(
                    f"the space {shown(space)} needs a vector of {size:,} numbers or more, and "
                    f"{LARGEST:,} are the most; a Discrete space takes one for each value."
                )
        if size == 0:
            raise ConfigError(
                f"the space {shown(space)} has no entries: there is nothing to see in it."
            )
        self.size, self.parts = size, tuple(parts)

    def __call__(self, x: Any) -> Float[Array, " size"]:
        if len(self.parts) == 1:
            return self.parts[0](x)
        return jnp.concatenate([part(x) for part in self.parts])

    @property
    def images(self) -> tuple[Image, ...]:
        """Where the pictures are."""
        return tuple(Image(p.start, *p.sides) for p in self.parts if p.kind == "image")

    @property
    def discrete(self) -> tuple[tuple[int, int], ...]:
        """Where the one-hot codes are: (start, size) of each."""
        codes = []
        for part in self.parts:
            start = part.start
            for n in part.nvec:
                codes.append((start, n))
                start += n
        return tuple(codes)

    @property
    def unscaled(self) -> tuple[tuple[int, int], ...]:
        """(start, size) of the parts that lie in 0 to 1 by their encoding: all but boxes."""
        return tuple((part.start, part.size) for part in self.parts if part.kind != "box")

    @property
    def bounds(self) -> tuple[Float[Array, " size"], Float[Array, " size"]]:
        """The least and the largest encoding of an element, infinite where there is none."""
        low, high, num = zip(*(run for part in self.parts for run in part.bounds), strict=True)
        return (
            jnp.asarray(np.repeat(np.asarray(low, np.float32), num)),
            jnp.asarray(np.repeat(np.asarray(high, np.float32), num)),
        )


class PairEncoder(eqx.Module):
    """The vector that a network or a kernel reads of a pair, or of its state alone.

    Actions are those that a policy emits. One outside a box counts as the nearest inside, which
    is what the environment makes of it.
    """

    observation: Encoder
    action: Encoder | None

    def __init__(self, spaces: Spaces, with_action: bool):
        self.observation = Encoder(spaces.observation)
        self.action = Encoder(emitted(spaces.action)) if with_action else None

    @property
    def size(self) -> int:
        return self.observation.size + (self.action.size if self.action is not None else 0)

    @property
    def images(self) -> tuple[Image, ...]:
        return self.observation.images

    @property
    def discrete(self) -> tuple[tuple[int, int], ...]:
        return self._places("discrete")

    @property
    def unscaled(self) -> tuple[tuple[int, int], ...]:
        return self._places("unscaled")

    def _places(self, name: str) -> tuple[tuple[int, int], ...]:
        places = getattr(self.observation, name)
        if self.action is None:
            return places
        shift = self.observation.size
        return (*places, *((start + shift, n) for start, n in getattr(self.action, name)))

    @property
    def bounds(self) -> tuple[Float[Array, " size"], Float[Array, " size"]]:
        if self.action is None:
            return self.observation.bounds
        low, high = zip(self.observation.bounds, self.action.bounds, strict=True)
        return jnp.concatenate(low), jnp.concatenate(high)

    def __call__(self, observation: Any, action: Array) -> Float[Array, " size"]:
        state = self.observation(observation)
        if self.action is None:
            return state
        return jnp.concatenate([state, jnp.clip(self.action(action), *self.action.bounds)])

    def uniform(
        self, key: PRNGKeyArray, num: int, low: Float[Array, " size"], high: Float[Array, " size"]
    ) -> Float[Array, "num size"]:
        """Encodings of random pairs: uniform between `low` and `high` where the space is a box,
        all elements alike where it is discrete."""
        drawn = jax.random.uniform(key, (num, self.size), minval=low, maxval=high)
        parts = [(part, 0) for part in self.observation.parts]
        if self.action is not None:
            parts += [(part, self.observation.size) for part in self.action.parts]
        for part, shift in parts:
            start = shift + part.start
            part_key = jax.random.fold_in(key, start)
            if part.kind == "one-hot":
                choice = integers(part_key, (num, len(part.nvec)), jnp.asarray(part.nvec))
                new = jax.vmap(part.one_hot)(choice)
            elif part.kind == "binary":
                coins = jax.random.bernoulli(part_key, 0.5, (num, part.size))
                new = coins.astype(jnp.float32)
            else:
                continue
            drawn = drawn.at[:, start : start + part.size].set(new)
        return drawn


def leaves(space: Space, path: Path = ()) -> Iterator[tuple[Path, Space]]:
    """The spaces that are no Dict or Tuple, in the order of their encoding. Others are refused."""
    if len(path) > DEEPEST:
        raise ConfigError(f"a space is nested more than {DEEPEST} deep{_place(path)}.")
    if isinstance(space, gym.Dict):
        _check_keys(space, path)
        for key in sorted(space.spaces):
            yield from leaves(space.spaces[key], (*path, key))
    elif isinstance(space, gym.Tuple):
        for i, part in enumerate(space.spaces):
            yield from leaves(part, (*path, i))
    else:
        _check_leaf(space, path)
        yield path, space


def _check_keys(space: gym.Dict, path: Path) -> None:
    for key in space.spaces:
        if not isinstance(key, str) or len(key) > LONGEST_KEY or not key.isprintable():
            raise ConfigError(
                f"the Dict space{_place(path)} has the key {shown(key)}; keys must be texts of "
                f"at most {LONGEST_KEY} characters that can be printed."
            )
    if path:
        return
    good = tuple(key for key in sorted(space.spaces) if _is_readable(space.spaces[key]))
    bad = sorted(set(space.spaces) - set(good))
    if good and bad:
        raise ConfigError(
            "the observation space has parts that no network here can read: "
            f"{', '.join(f'{key!r} is {space.spaces[key]}' for key in bad)}. Choose the keys to "
            f"see with observation_keys, for example {good!r}."
        )


def _is_readable(space: Space) -> bool:
    try:
        return all(True for _ in leaves(space, ("",)))
    except ConfigError:
        return False


def _check_leaf(space: Space, path: Path) -> None:
    if not isinstance(space, gym.Box | gym.Discrete | gym.MultiDiscrete | gym.MultiBinary):
        raise ConfigError(
            f"a network cannot read the space {shown(space)}{_place(path)}; it reads Box, "
            "Discrete, MultiDiscrete and MultiBinary spaces, and Dict and Tuple spaces of these. "
            "gymnasium.wrappers.TransformObservation can make one of these of it."
        )
    if isinstance(space, gym.Discrete | gym.MultiDiscrete):
        nvec, lowest = _choices(space)
        last = max((a + n - 1 for a, n in zip(lowest, nvec, strict=True)), default=0)
        if min(lowest, default=0) < -(2**31) or last >= 2**31:
            raise ConfigError(
                f"the space {shown(space)}{_place(path)} has elements from {min(lowest)} to "
                f"{last}, which do not fit in 32 bits; let it start at 0."
            )


def _choices(space: gym.Discrete | gym.MultiDiscrete) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The number of values of each choice, and its lowest value."""
    if isinstance(space, gym.Discrete):
        return (int(space.n),), (int(space.start),)
    return tuple(space.nvec.ravel().tolist()), tuple(space.start.ravel().tolist())


def _part(space: Space, path: Path, start: int) -> Part:
    if isinstance(space, gym.Discrete | gym.MultiDiscrete):
        nvec, lowest = _choices(space)
        size = sum(nvec)
        return Part("one-hot", path, start, size, ((0.0, 1.0, size),), nvec=nvec, lowest=lowest)
    size = math.prod(space.shape or ())
    if not isinstance(space, gym.Box):
        return Part("binary", path, start, size, ((0.0, 1.0, size),))
    shape = space.shape
    if space.dtype == np.uint8 and len(shape) == 3:
        # Bytes that stop short of 255 are brought to 0 to 1 by what they do reach.
        image = Part("image", path, start, size, ((0.0, 1.0, size),))
        image = image._replace(largest=float(space.high.max(initial=1)))
        if min(shape[:2]) >= IMAGE_SIDE:
            return image._replace(sides=shape)
        if min(shape[1:]) >= IMAGE_SIDE:
            return image._replace(sides=(*shape[1:], shape[0]), channels_first=True)
    return Part("box", path, start, size, _runs(*box_bounds(space)))


def _runs(low: np.ndarray, high: np.ndarray) -> tuple[tuple[float, float, int], ...]:
    """Bounds as runs of equal ones."""
    both = np.stack([low.ravel(), high.ravel()], axis=1)
    if len(both) == 0:
        return ()
    first = np.flatnonzero(np.any(both[1:] != both[:-1], axis=1)) + 1
    first = np.concatenate([[0], first])
    lengths = np.diff(first, append=len(both))
    return tuple(
        (float(a), float(b), int(num)) for (a, b), num in zip(both[first], lengths, strict=True)
    )


def _place(path: Path) -> str:
    return f" at {shown('/'.join(map(str, path)))}" if path else ""


# Spaces in files


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
    return ConfigError(f"the description of a space{_place(path)} cannot be read: {what}.")


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
