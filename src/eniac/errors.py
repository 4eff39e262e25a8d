"""What can go wrong and is the user's to mend: told in a sentence, without a traceback."""

from __future__ import annotations

import difflib
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping
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


class _Brief(reprlib.Repr):
    """Values as Python writes them, cut where they are long, many or deep."""

    def __init__(self):
        super().__init__()
        self.maxlevel = 4
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 8
        self.maxstring = self.maxother = LONGEST_SHOWN

    def repr_int(self, x: int, level: int) -> str:
        # Not all of its digits: Python itself refuses to write more than some thousand of them.
        digits = int(x.bit_length() * 0.30103) + 1
        return repr(x) if digits <= 40 else f"a number of about {digits} digits"


LONGEST_SHOWN = 120
"""Characters that are shown of a text in an error."""


def shown(value: object) -> str:
    """`value` for an error: as Python writes it, but in one line, and cut where it is long."""
    text = _Brief().repr(value)
    text = "".join(x if x.isprintable() else " " for x in text)
    return text if len(text) <= 3 * LONGEST_SHOWN else text[: 3 * LONGEST_SHOWN] + "..."


def name_shown(name: object) -> str:
    """A name for an error: without quotes where it is short and plain, else as `shown`."""
    plain = isinstance(name, str) and name.isprintable() and 0 < len(name) <= LONGEST_SHOWN
    return name if plain else shown(name)  # pyright: ignore[reportReturnType]


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
    if len(given) > LONGEST_SHOWN:
        return ""  # to compare long texts takes for ever
    names = {alike(name): name for name in allowed}
    near = difflib.get_close_matches(alike(given), names, n=most)
    return f" Did you mean {' or '.join(repr(names[one]) for one in near)}?" if near else ""


def require(condition: object, name: str, value: object, allowed: str) -> None:
    """Raises a `ConfigError` that names the setting, the value given and what is allowed."""
    if not condition:
        raise ConfigError(f"{name} is {shown(value)}; it must be {allowed}.")


def require_kinds(
    owner: str, parameters: Iterable[inspect.Parameter], options: Mapping[str, Any]
) -> None:
    """Requires of the options of `owner` that they are of the kind of its parameters: true or
    false, a number, or text, as annotations or defaults say.

    To Python the text "no" is true, and a run would go on with the opposite of what was meant.
    """
    for parameter in parameters:
        kinds = _KINDS_OF.get(_kind_of(parameter))
        if parameter.name in options and kinds is not None:
            value, (allowed, words) = options[parameter.name], kinds
            truth = isinstance(value, bool)
            fits = isinstance(value, allowed) and truth == (allowed is bool)
            require(fits, f"{parameter.name} of {owner}", value, words)


_KINDS_OF: dict[str, tuple[Any, str]] = {
    "bool": (bool, "True or False"),
    "int": (int | float, "a number"),
    "float": (int | float, "a number"),
    "str": (str, "text"),
}


def _kind_of(parameter: inspect.Parameter) -> str:
    """The name of the type that is written at a parameter, or that of its default. Where several
    are allowed, but for None, we do not know better."""
    if parameter.annotation is parameter.empty:
        return type(parameter.default).__name__
    written = inspect.formatannotation(parameter.annotation).strip("'")
    for around in ("| None", "None |", "Optional[", "typing.", "]"):
        written = written.replace(around, "")
    return written.strip()


def require_choices(settings: Any, prefix: str = "") -> None:
    """Requires of every `Literal` field of a dataclass one of its values.

    A name that is misspelt would otherwise be taken for whichever comes last in a chain of ifs.
    """
    for name, hint in get_type_hints(type(settings)).items():
        if get_origin(hint) is Literal:
            value, choices = getattr(settings, name), get_args(hint)
            allowed = "one of " + ", ".join(map(repr, choices))
            require(value in choices, prefix + name, value, allowed)
