"""Frozen dataclasses to plain data and back, refusing everything that is not exactly right.

A configuration that is silently misread costs a day of computing, so nothing is guessed: unknown
names, wrong types and values outside a `Literal` are errors that give the dotted name of the
field, the value found and what is allowed.
"""

from __future__ import annotations

import dataclasses
import os
import types
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from eniac.algorithms.parts import PARTS, find_part, part_name
from eniac.errors import ConfigError, name_shown, shown, suggestion

T = TypeVar("T")

LARGEST_NUMBER = 3.4e38
"""No setting is larger: the networks compute with 32 bits, in which there is nothing beyond."""
LONGEST_TEXT = 4096
"""Characters of the longest text, and of the longest path."""
LONGEST_NAME = 255
"""Characters of the longest name, and bytes of the longest that a file can have."""
MOST_ITEMS = 10_000
"""Entries of the longest list or table."""

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    types.NoneType: "nothing (null)",
}


def plain(value: Any) -> Any:
    """`value` as data that JSON can hold: dataclasses become dicts, tuples lists, paths text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        fields = {name: plain(getattr(value, name)) for name in names}
        if isinstance(value, tuple(PARTS)):
            # A part can be of any class below its base, and says which.
            return {"type": part_name(value), **fields}
        return fields
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


def build(cls: type[T], data: Any, path: str = "", ready: Mapping[str, Any] | None = None) -> T:
    """The dataclass `cls` from plain data; the inverse of `plain`.

    Fields in `ready` are taken as they are, whatever `data` says of them. Raises `ConfigError`
    with the dotted name of the first field that is unknown, missing or wrong.
    """
    if not isinstance(data, Mapping):
        raise _wrong(path or cls.__name__, data, f"a table of the fields of {cls.__name__}")
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # pyright: ignore[reportArgumentType]
    for name in data:
        if name not in fields:
            raise ConfigError(
                f"{_join(path, name)} is not a field.{suggestion(name_shown(name), fields)} "
                f"Fields of {path or 'the configuration'}: {', '.join(fields)}."
            )
    for name, field in fields.items():
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if required and name not in data:
            raise ConfigError(f"{_join(path, name)} is missing.")
    hints = get_type_hints(cls, include_extras=True)
    ready = ready or {}
    values = {
        name: ready[name] if name in ready else conform(hints[name], value, _join(path, name))
        for name, value in data.items()
    }
    try:
        return cls(**values)
    except ConfigError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ConfigError(name_shown(str(error))) from error


def check(instance: Any, path: str = "") -> None:
    """Refuses a dataclass instance whose fields do not have the types they declare."""
    hints = get_type_hints(type(instance), include_extras=True)
    for field in dataclasses.fields(instance):
        conform(hints[field.name], getattr(instance, field.name), _join(path, field.name))


def conform(annotation: Any, value: Any, path: str) -> Any:
    """`value` as an instance of `annotation`: plain data is converted, all else must fit as is."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return value
    if origin is Annotated:
        return conform(arguments[0], value, path)
    if origin in (Union, types.UnionType):
        return _conform_union(annotation, value, path)
    if origin is Literal:
        if any(value == choice and type(value) is type(choice) for choice in arguments):
            return value
        hint = suggestion(value, map(str, arguments)) if isinstance(value, str) else ""
        raise _wrong(path, value, describe(annotation), hint)
    if origin is tuple:
        return _conform_tuple(annotation, value, path)
    if origin is dict and isinstance(value, dict):
        return _conform_table(annotation, value, path)
    if annotation in PARTS:
        return _conform_part(annotation, value, path)
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        if isinstance(value, annotation):
            check(value, path)
            return value
        return build(annotation, value, path)
    return _conform_scalar(annotation, value, path)


def describe(annotation: Any) -> str:
    """What `annotation` allows, in words for an error message."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(describe(argument) for argument in arguments)
    if origin is Literal:
        return "one of " + ", ".join(repr(choice) for choice in arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return f"a list, each item {describe(arguments[0])}"
    if origin is tuple:
        return "a list of " + ", ".join(describe(argument) for argument in arguments)
    if origin is dict:
        return f"a table of names, each with {describe(arguments[1])}"
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _conform_union(annotation: Any, value: Any, path: str) -> Any:
    errors = []
    if type(value) in get_args(annotation):
        # Its own type says best what is wrong with it: a number that is too long for a whole one
        # must not become a fraction.
        return conform(type(value), value, path)
    for argument in get_args(annotation):
        try:
            return conform(argument, value, path)
        except ConfigError as error:
            errors.append((argument, error))
    # A table can only have been meant for the dataclass, whose error says more than the union's.
    for argument, error in errors:
        table = dataclasses.is_dataclass(argument) or argument in PARTS
        if table and isinstance(value, Mapping):
            raise error
    raise _wrong(path, value, describe(annotation))


def _conform_part(base: type, value: Any, path: str) -> Any:
    """A part: an instance of a class below `base`, or its fields with the name of its class."""
    if isinstance(value, base):
        if not dataclasses.is_dataclass(value):
            raise _wrong(path, value, f"a dataclass that inherits from {base.__name__}")
        check(value, path)
        return value
    if not isinstance(value, Mapping) or "type" not in value:
        raise _wrong(path, value, f"a {base.__name__}, or a table with its type and fields")
    fields = {name: item for name, item in value.items() if name != "type"}
    return build(find_part(base, value["type"], path), fields, path)


def _conform_tuple(annotation: Any, value: Any, path: str) -> tuple[Any, ...]:
    arguments = get_args(annotation)
    if not isinstance(value, list | tuple):
        raise _wrong(path, value, describe(annotation))
    _check_items(value, path)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        raise _wrong(path, value, describe(annotation))
    items = enumerate(zip(arguments, value, strict=True))
    return tuple(conform(argument, item, f"{path}[{i}]") for i, (argument, item) in items)


def _conform_table(annotation: Any, value: dict[Any, Any], path: str) -> dict[str, Any]:
    _check_items(value, path)
    for name in value:
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not _is_plain(name):
            raise _wrong(
                f"a name in {path}",
                name,
                f"text of 1 to {LONGEST_NAME} characters, none of them a control character",
            )
    item = get_args(annotation)[1]
    return {name: conform(item, each, _join(path, name)) for name, each in value.items()}


def _check_items(value: Any, path: str) -> None:
    if len(value) > MOST_ITEMS:
        raise ConfigError(f"{path} has {len(value):,} entries; it may have {MOST_ITEMS:,}.")


def _conform_scalar(annotation: Any, value: Any, path: str) -> Any:
    kind = get_origin(annotation) or annotation
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is float and number:
        # Compared before it is converted, which fails for whole numbers of 400 digits.
        if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
            raise _wrong(path, value, f"a finite number, {LARGEST_NUMBER:g} at most")
        return float(value)
    if kind is Path and isinstance(value, str | Path):
        return _conform_path(value, path)
    # bool is a subclass of int in Python, but True is no count.
    truth_for_count = kind is int and isinstance(value, bool)
    if not isinstance(kind, type) or not isinstance(value, kind) or truth_for_count:
        raise _wrong(path, value, describe(annotation))
    if kind is int and not -(2**63) <= value < 2**63:
        raise _wrong(path, value, "a whole number of 64 bits, below 2**63")
    if isinstance(value, str) and (len(value) > LONGEST_TEXT or not _is_plain(value)):
        raise _wrong(
            path,
            value,
            f"text of {LONGEST_TEXT} characters or less, none of them a control character",
        )
    return value


def _conform_path(value: str | Path, path: str) -> Path:
    text = str(value)
    if not text or len(text) > LONGEST_TEXT or not _is_plain(text):
        raise _wrong(
            path,
            text,
            f"a path of 1 to {LONGEST_TEXT} characters, none of them a control character",
        )
    longest = max(Path(text).parts, key=lambda part: len(os.fsencode(part)), default="")
    if len(os.fsencode(longest)) > LONGEST_NAME:
        raise _wrong(path, text, f"a path whose names have {LONGEST_NAME} bytes or less each")
    return Path(text)


def _is_plain(text: str) -> bool:
    """Whether `text` can be a name: no control characters, and no halves of characters."""
    return text.isprintable() or not any(unicodedata.category(x) in ("Cc", "Cs") for x in text)


def _wrong(path: str, value: Any, allowed: str, hint: str = "") -> ConfigError:
    return ConfigError(f"{path} is {shown(value)}; it must be {allowed}.{hint}")


def _join(path: str, name: object) -> str:
    return f"{path}.{name_shown(name)}" if path else name_shown(name)
