"""Elements of a space as vectors, which is how networks, kernels and bonuses read them."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym
from jaxtyping import Array, Float, PRNGKeyArray

from eniac.boxes import box_bounds
from eniac.draws import integers
from eniac.errors import ConfigError, shown
from eniac.spaces.base import LARGEST, Path, Space, Spaces, choices, leaves
from eniac.spaces.stored import emitted

IMAGE_SIDE = 16
"""Below this many pixels a side, a box of bytes is a grid of codes and not a picture."""


class Image(NamedTuple):
    """Where a picture stands in an encoding: rows, then columns, then channels."""

    start: int
    height: int
    width: int
    channels: int

    @property
    def size(self) -> int:
        return self.height * self.width * self.channels


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


def check_spaces(observation: Space, action: Space) -> None:
    """Raises `ConfigError` if no policy here can see the one or act in the other."""
    Encoder(observation)
    Encoder(emitted(action))


def _part(space: Space, path: Path, start: int) -> Part:
    if isinstance(space, gym.Discrete | gym.MultiDiscrete):
        nvec, lowest = choices(space)
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
