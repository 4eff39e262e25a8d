"""One way to refuse a value."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin, get_type_hints


def require(condition: bool, name: str, value: object, allowed: str) -> None:
    """Raises a ValueError that names the setting, the value given and what is allowed."""
    if not condition:
        raise ValueError(f"{name} is {value!r}; it must be {allowed}.")


def require_choices(settings: Any, prefix: str = "") -> None:
    """Requires of every `Literal` field of a dataclass one of its values.

    A name that is misspelt would otherwise be taken for whichever comes last in a chain of ifs.
    """
    for name, hint in get_type_hints(type(settings)).items():
        if get_origin(hint) is Literal:
            value, choices = getattr(settings, name), get_args(hint)
            allowed = "one of " + ", ".join(map(repr, choices))
            require(value in choices, prefix + name, value, allowed)
