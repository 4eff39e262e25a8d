"""Packages whose names are imported when they are first used: `import eniac` loads no JAX."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from eniac.errors import ConfigError, suggestion


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


def import_named(name: str, what: str) -> Any:
    """What a user names by `module:attribute`, from Python's path and the current folder.

    **Raises** ConfigError in words, with `what` it was to be, for whatever goes wrong.
    """
    module, colon, attribute = name.partition(":")
    if not (colon and attribute.isidentifier() and all(map(str.isidentifier, module.split(".")))):
        raise ConfigError(f"{what} is {name!r}; it must be a known name, or module:name.")
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        # A program that is installed does not look into the folder it is called in; people do.
        sys.path.append(here)
    try:
        found = import_module(module)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == module
        why = "there is no such module" if missing else f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"{what} is {name!r}, but {module} cannot be imported from {here} or Python's path: "
            f"{why}."
        ) from error
    finally:
        if added:
            sys.path.remove(here)
    if not hasattr(found, attribute):
        names = [key for key in vars(found) if not key.startswith("_")]
        raise ConfigError(
            f"{what} is {name!r}, but {module} has no {attribute!r}.{suggestion(attribute, names)}"
        )
    return getattr(found, attribute)
