"""What can go wrong and is the user's to mend: told in a sentence, without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args, get_origin, get_type_hints


class EniacError(Exception):
    """Something the user can mend. The message says what was given and what to do."""


class ConfigError(EniacError, ValueError):
    """A configuration that cannot be run, refused before any work."""


class RunError(EniacError, RuntimeError):
    """A run's folder that cannot be made, read or continued."""


class CheckpointError(RunError):
    """A tensor file that is damaged or does not fit what it is loaded into."""


class NonFiniteError(RunError):
    """NaN or infinity in a run's state or rewards."""


def one_line(error: BaseException) -> str:
    """What an exception says, in one line and with its kind."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def suggestion(
    given: str,
    allowed: Iterable[str],
    alike: Callable[[str], str] = str.lower,
    most: int = 1,
) -> str:
    """` Did you mean 'x'?` for the nearest allowed names, or nothing if none is near.

    Names are compared by what `alike` makes of them.
    """
    names = {alike(name): name for name in allowed}
    near = difflib.get_close_matches(alike(given), names, n=most)
    return f" Did you mean {' or '.join(repr(names[one]) for one in near)}?" if near else ""


def require(condition: object, name: str, value: object, allowed: str) -> None:
    """Raises a `ConfigError` that names the setting, the value given and what is allowed."""
    if not condition:
        raise ConfigError(f"{name} is {value!r}; it must be {allowed}.")


def require_choices(settings: Any, prefix: str = "") -> None:
    """Requires of every `Literal` field of a dataclass one of its values.

    A name that is misspelt would otherwise be taken for whichever comes last in a chain of ifs.
    """
    for name, hint in get_type_hints(type(settings)).items():
        if get_origin(hint) is Literal:
            value, choices = getattr(settings, name), get_args(hint)
            allowed = "one of " + ", ".join(map(repr, choices))
            require(value in choices, prefix + name, value, allowed)
