"""Settings by name, as the command line and Python's keywords have them, as a configuration.

A few choices are made by name, because they decide which settings there are: the parts of an
algorithm, its depth, a preset.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from eniac.algorithms.parts import KINDS, find_part
from eniac.errors import ConfigError, name_shown, shown, suggestion
from eniac.runs.config import Config
from eniac.runs.dataclass_io import conform

T = TypeVar("T")

NO_COVER = "none"


def choose(row: Any, chosen: Mapping[str, Any]) -> Any:
    """The settings of an algorithm's `row` that the choices made by name ask for. A part may also
    be ready made."""
    plain: dict[str, Any] = {name: x for name, x in chosen.items() if name not in KINDS}
    if "depth" in plain:
        if "preset" in plain:
            raise ConfigError(
                f"--depth {plain['depth']} and --preset {plain['preset']} are both given; a preset "
                "has its own depth, so give one of the two."
            )
        if not plain["depth"].isdecimal():
            raise ConfigError(f"depth is {plain['depth']!r}; it must be a whole number.")
        plain["depth"] = int(plain["depth"])
    settings = row.settings(**plain)
    parts = {
        name: _part(name, chosen[name], getattr(settings, name)) for name in KINDS if name in chosen
    }
    return row.settings(**plain, **parts) if parts else settings


def _part(kind: str, name: Any, given: Any) -> Any:
    """The part called `name`: `given`, the row's own, if that is one of these."""
    if not isinstance(name, str):
        return name
    if kind == "cover" and name == NO_COVER:
        return None
    wanted = find_part(KINDS[kind], name, kind)
    if type(given) is wanted:
        return given
    try:
        return wanted()
    except TypeError as error:
        raise ConfigError(
            f"{kind} is {name!r}, which cannot be made without arguments ({error}). Give each of "
            "its fields a default."
        ) from error


def config_from(row: Any, given: Mapping[str, Any], keep: Mapping[str, Any]) -> Config:
    """The configuration of an algorithm's `row` with the settings `given`, as keywords.

    These are settings of the algorithm or of the run. A part is chosen by its name, given ready
    made, or changed by a table of its settings, in which `type` chooses another one; a name with
    dots is a setting of a part. `keep` are fields of the configuration that nobody may give.
    **Raises** `ConfigError` for what is not known, given twice or wrong.
    """
    wanted = _nested(given)
    chosen: dict[str, Any] = {}
    for name in row.choices:
        if name not in wanted:
            continue
        value = wanted[name]
        if name not in KINDS:
            chosen[name] = _word(name, wanted.pop(name))
        elif isinstance(value, str):
            chosen[name] = wanted.pop(name)
        elif value is None and name == "cover":
            chosen[name] = NO_COVER
            del wanted[name]
        elif isinstance(value, Mapping) and "type" in value:
            chosen[name] = _word(f"{name}.type", value["type"])
            wanted[name] = {key: x for key, x in value.items() if key != "type"}
        elif not isinstance(value, Mapping):
            chosen[name] = conform(KINDS[name], wanted.pop(name), name)
    algorithm = choose(row, chosen)
    ours = {item.name for item in dataclasses.fields(algorithm)} - {"name"}
    runs = {item.name for item in dataclasses.fields(Config)} - {"algorithm", *keep}
    for name in wanted:
        if name not in ours | runs:
            known = sorted(ours | runs | set(row.choices))
            if name in keep:
                raise ConfigError(f"{name} is {shown(wanted[name])}; {keep[name]}.")
            raise ConfigError(
                f"{name_shown(name)} is not a setting of {row.name}."
                f"{suggestion(name_shown(name), known)} Settings: {', '.join(known)}."
            )
    changes = {name: value for name, value in wanted.items() if name in ours}
    algorithm = changed(algorithm, changes)
    rest = {name: value for name, value in wanted.items() if name not in ours}
    return changed(Config(algorithm), rest)


def changed(settings: T, changes: Mapping[str, Any], path: str = "") -> T:
    """The dataclass `settings` with `changes`; a table changes fields of what was there."""
    names = [item.name for item in dataclasses.fields(settings) if item.init]  # pyright: ignore[reportArgumentType]
    hints = get_type_hints(type(settings), include_extras=True)
    values: dict[str, Any] = {}
    for name, value in changes.items():
        place = f"{path}.{name_shown(name)}" if path else name_shown(name)
        if name not in names:
            raise ConfigError(
                f"{place} is not a setting.{suggestion(name_shown(name), names)} "
                f"Settings of {path}: {', '.join(names) or 'none'}."
            )
        old = getattr(settings, name)
        if isinstance(value, Mapping) and dataclasses.is_dataclass(old):
            values[name] = changed(old, value, place)
        else:
            values[name] = conform(hints[name], value, place)
    try:
        return dataclasses.replace(settings, **values)  # pyright: ignore[reportArgumentType]
    except ConfigError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ConfigError(name_shown(str(error))) from error


def _word(name: str, value: Any) -> str:
    """A choice as the command line has it: a word."""
    if isinstance(value, str):
        return value
    if name == "depth" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    kind = "a whole number" if name == "depth" else "text"
    raise ConfigError(f"{name} is {shown(value)}; it must be {kind}.")


def _nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with names that have dots in them as tables: `update.clip` is clip of update."""
    found: dict[str, Any] = {}
    for name in sorted(given, key=lambda name: name.count(".")):
        *path, last = name.split(".")
        table = found
        for step in path:
            inner = table.get(step, {})
            if isinstance(inner, str):
                inner = {"type": inner}
            if not isinstance(inner, Mapping):
                raise ConfigError(
                    f"{name} is given, and so is {step}, as {shown(inner)}; give the setting there."
                )
            table[step] = dict(inner)
            table = table[step]
        if last in table:
            raise ConfigError(
                f"{name} is given twice: {shown(table[last])} and {shown(given[name])}."
            )
        table[last] = given[name]
    return found
