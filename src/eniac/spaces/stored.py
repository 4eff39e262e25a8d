"""Elements of a space as they are stored, and as an environment has them."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym

from eniac.boxes import box_bounds
from eniac.errors import ConfigError, shown
from eniac.spaces.base import Space


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
