"""Packages whose names are imported when they are first used: `import eniac` loads no JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`, whose modules `homes` have these names."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return get, lambda: sorted(home_of)


def resolve(name: str) -> Any:
    """What `module:attribute` names. The module is imported as Python would."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
