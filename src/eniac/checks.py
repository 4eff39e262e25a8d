"""One way to refuse a value."""

from __future__ import annotations


def require(condition: bool, name: str, value: object, allowed: str) -> None:
    """Raises a ValueError that names the setting, the value given and what is allowed."""
    if not condition:
        raise ValueError(f"{name} is {value!r}; it must be {allowed}.")
