"""What all of `eniac.spaces` is about: spaces, their parts, and which there may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
from gymnasium import spaces as gym

from eniac.errors import ConfigError, shown

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


class Spaces(NamedTuple):
    """What an agent sees, and how it acts."""

    observation: Space
    action: Space


def leaves(space: Space, path: Path = ()) -> Iterator[tuple[Path, Space]]:
    """The spaces that are no Dict or Tuple, in the order of their encoding. Others are refused."""
    if len(path) > DEEPEST:
        raise ConfigError(f"a space is nested more than {DEEPEST} deep{place(path)}.")
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
                f"the Dict space{place(path)} has the key {shown(key)}; keys must be texts of "
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
            f"a network cannot read the space {shown(space)}{place(path)}; it reads Box, "
            "Discrete, MultiDiscrete and MultiBinary spaces, and Dict and Tuple spaces of these. "
            "gymnasium.wrappers.TransformObservation can make one of these of it."
        )
    if isinstance(space, gym.Discrete | gym.MultiDiscrete):
        nvec, lowest = choices(space)
        last = max((a + n - 1 for a, n in zip(lowest, nvec, strict=True)), default=0)
        if min(lowest, default=0) < -(2**31) or last >= 2**31:
            raise ConfigError(
                f"the space {shown(space)}{place(path)} has elements from {min(lowest)} to "
                f"{last}, which do not fit in 32 bits; let it start at 0."
            )


def choices(space: gym.Discrete | gym.MultiDiscrete) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The number of values of each choice, and its lowest value."""
    if isinstance(space, gym.Discrete):
        return (int(space.n),), (int(space.start),)
    return tuple(space.nvec.ravel().tolist()), tuple(space.start.ravel().tolist())


def place(path: Path) -> str:
    return f" at {shown('/'.join(map(str, path)))}" if path else ""
