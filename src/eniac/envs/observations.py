"""Observations of environments on the host: arrays, or dicts and tuples of arrays.

jax.tree does some of this too, but these functions run in processes that never load JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from eniac.envs.faults import Fault, wrong_observation
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


def writer(space: Any, batch: Any, part: str = "") -> Callable[[int, Any], None]:
    """Puts one observation into a row of `batch`, after a look at its shape and type.

    NumPy would stretch a wrong shape, and cut floats to whole numbers, without a word. The look
    takes a tenth of a microsecond if all is well. **Raises** Fault if it is not.
    """
    if isinstance(space, spaces.Dict):
        parts = {k: writer(s, batch[k], f"{part}[{k!r}]") for k, s in space.items()}

        def put_dict(i: int, observation: Any) -> None:
            for key, put in parts.items():
                put(i, _entry(observation, key, part, space))

        return put_dict
    if isinstance(space, spaces.Tuple):
        puts = [writer(s, batch[k], f"{part}[{k}]") for k, s in enumerate(space)]

        def put_tuple(i: int, observation: Any) -> None:
            for k, put in enumerate(puts):
                put(i, _entry(observation, k, part, space))

        return put_tuple
    fit = _fitter(space, (), part)

    def put_array(i: int, observation: Any) -> None:
        batch[i] = fit(observation)

    return put_array


def reader(space: Any, num: int, part: str = "") -> Callable[[Any], Any]:
    """Makes a batch of `num` observations plain dicts and tuples of arrays, with the keys of
    `space`. **Raises** Fault for a wrong shape or type."""
    if isinstance(space, spaces.Dict):
        parts = {k: reader(s, num, f"{part}[{k!r}]") for k, s in space.items()}
        return lambda batch: {k: read(_entry(batch, k, part, space)) for k, read in parts.items()}
    if isinstance(space, spaces.Tuple):
        reads = [reader(s, num, f"{part}[{k}]") for k, s in enumerate(space)]
        return lambda batch: tuple(
            read(_entry(batch, k, part, space)) for k, read in enumerate(reads)
        )
    return _fitter(space, (num,), part)


def _entry(observation: Any, key: Any, part: str, space: Any) -> Any:
    try:
        return observation[key]
    except (KeyError, IndexError, TypeError) as error:
        text = " ".join(repr(observation).split())
        raise Fault(
            f"returned an observation{part} without {key!r}: {text:.60} "
            f"({type(observation).__name__}); its observation_space is {space!s:.200}. Correct the "
            "environment, or its observation_space."
        ) from error


def _fitter(space: Any, lead: tuple[int, ...], part: str) -> Callable[[Any], Any]:
    """Makes sure that something can be stored as elements of `space`, with axes `lead` in front."""
    shape, dtype = (*lead, *(space.shape or ())), np.dtype(space.dtype)
    # Found to lose nothing, so that a second array of the type is not looked at again.
    known = {dtype}
    ndarray = np.ndarray

    def fit(x: Any) -> Any:
        if type(x) is ndarray and x.dtype in known and x.shape == shape:
            return x
        try:
            array = np.asarray(x)
        except ValueError:  # lists of different lengths
            raise wrong_observation(part, x, space, lead) from None
        if array.shape != shape:
            raise wrong_observation(part, x, space, lead)
        if array.dtype not in known:
            if array.dtype.kind in "biuf" and np.can_cast(array.dtype, dtype, "same_kind"):
                known.add(array.dtype)
            elif not _fits_whole(array, dtype):
                raise wrong_observation(part, x, space, lead)
        return array

    return fit


def _fits_whole(array: np.ndarray, dtype: np.dtype[Any]) -> bool:
    """Whether whole numbers are stored in another type of them without a change."""
    if array.dtype.kind not in "biu" or dtype.kind not in "iu":
        return False
    limits = np.iinfo(dtype)
    return array.size == 0 or bool(limits.min <= array.min() and array.max() <= limits.max)


def write(batch: Any, i: int, observation: Any) -> None:
    """Puts one observation, which is known to fit, into row `i` of a batch."""
    if isinstance(batch, dict):
        for key, inner in batch.items():
            write(inner, i, observation[key])
    elif isinstance(batch, tuple):
        for inner, part in zip(batch, observation, strict=True):
            write(inner, i, part)
    else:
        batch[i] = observation


def take(batch: Any, index: Any) -> Any:
    """Rows of a batch, by whatever NumPy takes for an index."""
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
