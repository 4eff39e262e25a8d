"""Observations of environments on the host: arrays, or dicts and tuples of arrays.

jax.tree does some of this too, but these functions run in processes that never load JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from eniac.errors import ConfigError, suggestion

ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""Spaces whose elements are arrays of one shape, so that many of them are one array."""


def select_keys(name: str, space: Any, keys: Sequence[str]) -> Any:
    """A Dict space with only these keys; any space as it is if there are none."""
    if not keys:
        return space
    if not isinstance(space, spaces.Dict):
        raise ConfigError(
            f"observation_keys is {list(keys)}, but the observation of {name} is no dict: it is "
            f"{type(space).__name__}. Leave observation_keys out."
        )
    for key in keys:
        if key not in space.spaces:
            raise ConfigError(
                f"observation_keys has {key!r}, but the observation of {name} has the keys "
                f"{', '.join(map(repr, space.spaces))}.{suggestion(str(key), space.spaces)}"
            )
    return spaces.Dict({key: inner for key, inner in space.spaces.items() if key in keys})


def check_arrays(name: str, space: Any) -> None:
    """Raises unless an observation is made of arrays of one shape."""
    bad = _not_array(space)
    if bad is None:
        return
    keys = (
        [key for key, inner in space.items() if _not_array(inner) is None]
        if isinstance(space, spaces.Dict)
        else []
    )
    advice = (
        f"Choose among its other keys with observation_keys: {', '.join(keys)}."
        if keys
        else "Wrap the environment so that it observes a Box, Discrete, MultiDiscrete or "
        "MultiBinary space, or a Dict or Tuple of such."
    )
    raise ConfigError(f"the observation of {name} has a {bad}, which is no array. {advice}")


def _not_array(space: Any) -> str | None:
    """The kind of the first part of a space that is no array, None if there is none."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.values() if isinstance(space, spaces.Dict) else space
        return next((bad for part in parts if (bad := _not_array(part)) is not None), None)
    return None if isinstance(space, ARRAY_SPACES) else type(space).__name__


def empty(space: Any, num: int) -> Any:
    """Zeros for `num` elements of a space."""
    if isinstance(space, spaces.Dict):
        return {key: empty(inner, num) for key, inner in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(empty(inner, num) for inner in space)
    return np.zeros((num, *(space.shape or ())), space.dtype)


def write(batch: Any, i: int, observation: Any) -> None:
    """Puts one observation into row `i` of a batch."""
    if isinstance(batch, dict):
        for key, inner in batch.items():
            write(inner, i, observation[key])
    elif isinstance(batch, tuple):
        for inner, part in zip(batch, observation, strict=True):
            write(inner, i, part)
    else:
        batch[i] = observation


def take(batch: Any, index: np.ndarray) -> Any:
    """Rows of a batch, copied."""
    if isinstance(batch, dict):
        return {key: take(inner, index) for key, inner in batch.items()}
    if isinstance(batch, tuple):
        return tuple(take(inner, index) for inner in batch)
    return np.asarray(batch)[index]


def leaves(batch: Any) -> list[Any]:
    """The arrays of an observation, or of a batch of them."""
    if isinstance(batch, dict):
        return [leaf for inner in batch.values() for leaf in leaves(inner)]
    if isinstance(batch, tuple):
        return [leaf for inner in batch for leaf in leaves(inner)]
    return [batch]


def equal(one: Any, other: Any) -> bool:
    """Whether two have the same arrays."""
    pairs = list(zip(leaves(one), leaves(other), strict=True))
    # NaN equals NaN here: it is the same stream.
    return all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in pairs)


def picker(space: Any) -> Callable[[Any], Any]:
    """Makes an observation, of one or many, plain dicts and tuples with the keys of `space`."""
    if isinstance(space, spaces.Dict):
        parts = {key: picker(inner) for key, inner in space.items()}
        return lambda observation: {key: pick(observation[key]) for key, pick in parts.items()}
    if isinstance(space, spaces.Tuple):
        picks = [picker(inner) for inner in space]
        return lambda observation: tuple(
            pick(part) for pick, part in zip(picks, observation, strict=True)
        )
    return lambda observation: observation
