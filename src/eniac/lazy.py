"""Packages whose names are imported when they are first used: `import eniac` loads no JAX."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eniac.errors import ConfigError, one_line, shown, suggestion

NOT_YOURS = {
    *sys.stdlib_module_names,
    *("equinox", "jax", "jaxlib", "joblib", "matplotlib", "numpy", "optax", "PIL", "pip"),
    *("safetensors", "scipy", "setuptools", "sklearn"),
}
"""Modules that nobody keeps environments or parts in, and that do whatever they are told to: a file
of settings could otherwise name `os:system`, and what it is to be called with."""

_distrusted: set[str] = set()


def distrust(folder: Path) -> None:
    """From now on nothing that a user names is imported from `folder`: it is read, and reading it
    must not run code that came with it."""
    _distrusted.update((os.path.abspath(folder), os.path.realpath(folder)))


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


def import_named(name: str, what: str, directory: str | None = None) -> Any:
    """What a user names by `module:name`; `name` may have dots in it.

    The module is found as `import_users_module` does. **Raises** ConfigError in words, with `what`
    it was to be, for whatever goes wrong.
    """
    module, _, path = name.partition(":")
    if not all(map(str.isidentifier, (*module.split("."), *path.split(".")))):
        raise ConfigError(f"{what} is {shown(name)}; it must be a known name, or module:name.")
    found = import_users_module(module, f"{what} is {name!r}", directory)
    place = getattr(found, "__file__", "built in")
    for part in path.split("."):
        if not hasattr(found, part):
            names = [key for key in dir(found) if not key.startswith("_")]
            raise ConfigError(
                f"{what} is {name!r}, but module {module!r} ({place}) has no {path!r}."
                f"{suggestion(part, names)}"
            )
        found = getattr(found, part)
    return found


def import_users_module(module: str, wanted: str, directory: str | None = None) -> Any:
    """Imports `module` as a program started in `directory`, or in the current folder, would.

    The directory is on the path for this import only, and only if it was not there already: an
    installed program does not look into the folder it is called in; people do. `wanted` is what
    was asked for, with which an error begins.
    """
    if module.partition(".")[0] in NOT_YOURS:
        raise ConfigError(
            f"{wanted}, but {module!r} comes with Python or eniac; name one of yours."
        )
    directory = os.getcwd() if directory is None else directory
    on_path = {os.path.abspath(entry) for entry in sys.path}  # '' is where the program runs
    distrusted = _is_distrusted(directory)
    added = os.path.abspath(directory) not in on_path and not distrusted
    if added:
        sys.path.insert(0, directory)
    try:
        _check_origin(module, wanted)
        return import_module(module)
    except ConfigError:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (module == missing or module.startswith(f"{missing}.")):
            looked, where = f"in {directory} and ", "in the folder that holds it"
            if distrusted:
                looked, where = "", "elsewhere: no code that comes with a run is executed"
            raise ConfigError(
                f"{wanted}, but there is no module {missing!r}: looked {looked}where Python's "
                f"packages are. Start eniac {where}, or install it."
            ) from error
        raise ConfigError(f"{wanted}, but importing {module!r} failed: {one_line(error)}") from (
            error
        )
    finally:
        if added and directory in sys.path:
            sys.path.remove(directory)


def _check_origin(module: str, wanted: str) -> None:
    """Refuses a module that is to be found in a folder that is only read, or in a package there.

    From the top down: to find what is inside a package, Python imports the package.
    """
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        name = ".".join(parts[:length])
        spec = None if name in sys.modules else find_spec(name)
        if spec is None:
            continue
        for place in (spec.origin, *(spec.submodule_search_locations or ())):
            if place is not None and _is_distrusted(place):
                raise ConfigError(
                    f"{wanted}, but {name!r} lies in the folder of the run that is being read "
                    f"({place}), and code that comes with a run is not executed. Move it elsewhere."
                )


def _is_distrusted(place: str) -> bool:
    paths = {Path(os.path.abspath(place)), Path(os.path.realpath(place))}
    return any(path.is_relative_to(folder) for path in paths for folder in _distrusted)
