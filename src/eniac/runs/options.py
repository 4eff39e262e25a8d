"""`eniac train ALGORITHM ...`: a command line as a configuration.

A few choices are made by name, because they decide which settings there are: the parts of an
algorithm, its depth, a preset. What they leave is parsed by tyro, once, on the configuration that
they lead to.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructTypeInfo,
)

from eniac.algorithm1 import AlgorithmConfig
from eniac.algorithms import ALGORITHMS, find_algorithm
from eniac.algorithms.parts import KINDS, PARTS
from eniac.errors import ConfigError
from eniac.runs.config import Config, Option
from eniac.runs.load import load_settings
from eniac.runs.settings import choose


def parse_config(arguments: Sequence[str], description: str = "") -> Config:
    """The configuration that `arguments` of `eniac train` ask for.

    The first of them is the name of an algorithm, or the config.json of a run or of an exported
    policy. **Raises**
    `ConfigError`; exits with code 2 and a small panel where tyro finds something that does not
    belong, and with 0 after help.
    """
    arguments = list(arguments)
    asks_for_help = any(word in ("-h", "--help") for word in arguments)
    if arguments and not arguments[0].startswith("-"):
        name, prog = arguments[0], f"eniac train {arguments[0]}"
        arguments = arguments[1:]
    elif asks_for_help:
        name, prog = "eniac", "eniac train ALGORITHM"
    else:
        raise ConfigError(
            "Which algorithm? For instance `eniac train ppo`; `eniac list algorithms` shows them."
        )
    if name.endswith(".json"):
        if Path(name).name != "config.json":
            raise ConfigError(f"{name} is not the config.json of a run's or a policy's folder.")
        default = replace(load_settings(Path(name).parent), out=None)
        _, arguments = pop_choices(arguments, (), default.algorithm, name)
    else:
        row = find_algorithm(name)
        chosen, arguments = pop_choices(arguments, row.choices, row.default, row.name)
        default = Config(algorithm=choose(row, chosen))
    try:
        return tyro.cli(
            Config,
            prog=prog,
            description=description,
            args=arguments,
            default=default,
            config=(tyro.conf.AvoidSubcommands,),
            registry=_registry(),
        )
    except (_Refused, ValueError) as error:
        raise ConfigError(str(error)) from error


def pop_choices(
    arguments: Sequence[str], choices: Iterable[str], default: AlgorithmConfig, owner: str
) -> tuple[dict[str, str], list[str]]:
    """What `arguments` say of `choices`, by name, and the arguments without them.

    A choice that other algorithms have and `owner` has not, nor a setting of that name, is refused
    here, and nowhere else.
    """
    known = {choice for row in ALGORITHMS.values() for choice in row.choices}
    values = {item.name: getattr(default, item.name) for item in fields(default)}  # pyright: ignore[reportArgumentType]
    has_parts = any(isinstance(value, tuple(PARTS)) for value in values.values())
    settings = values.keys() - (KINDS.keys() if has_parts else set())
    chosen: dict[str, str] = {}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in known:
            rest.append(word)
            continue
        if name not in choices:
            if name in settings:
                rest.append(word)
                continue
            has = f"It has {', '.join(f'--{c}' for c in choices)}." if choices else _why(owner)
            raise ConfigError(f"{owner} has no --{name}. {has}")
        value = value if equals else next(words, None)
        if not value or value.startswith("--"):
            raise ConfigError(f"--{name} needs a value, for instance `--{name} {_example(name)}`.")
        if name in chosen:
            raise ConfigError(f"--{name} is given twice: {chosen[name]} and {value}.")
        chosen[name] = value
    return chosen, rest


def _why(owner: str) -> str:
    if owner.endswith(".json"):
        return "Its algorithm and its parts are chosen already; change their settings."
    return "That is a choice of the algorithms with networks."


def _example(name: str) -> str:
    if name in KINDS:
        return next(iter(PARTS[KINDS[name]]))
    return {"depth": "4", "preset": "paper-depth2", "episodes": "episodic"}.get(name, "VALUE")


def _registry() -> ConstructorRegistry:
    """How tyro reads our types: parts as what they are in the default, options as plain words."""
    registry = ConstructorRegistry()
    ours: list[Any] = []

    @registry.struct_rule
    def narrow(info: StructTypeInfo) -> StructConstructorSpec | None:
        if not is_dataclass(info.type) or info.type in ours:
            return None
        # tyro's own rule, which is asked through the same registry.
        ours.append(info.type)
        try:
            spec = registry.get_struct_spec(info)
        finally:
            ours.remove(info.type)
        if not isinstance(spec, StructConstructorSpec):
            return None
        spec = replace(spec, instantiate=_refusing(spec.instantiate))
        if not issubclass(info.type, AlgorithmConfig | Config):  # pyright: ignore[reportArgumentType]
            return spec
        return replace(spec, fields=tuple(_narrowed(item) for item in spec.fields))

    @registry.primitive_rule
    def option(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        return _WORD if info.type == Option else None

    return registry


class _Refused(Exception):
    """A value that a check of ours refuses. tyro makes a panel of a ValueError; ours is a line."""


def _refusing(make: Any) -> Any:
    def made(*values: Any, **named: Any) -> Any:
        try:
            return make(*values, **named)
        except ValueError as error:
            raise _Refused(str(error)) from error

    return made


def _narrowed(item: Any) -> Any:
    """A field with the type that it has in the default, so that its own settings are options."""
    if item.name == "name":
        return replace(item, type=tyro.conf.Suppress[str])  # the command has it already
    if item.name == "algorithm":
        unnamed = tyro.conf.arg(name="")
        return replace(item, type=Annotated[type(item.default), unnamed])  # pyright: ignore[reportInvalidTypeForm]
    if _is_part(item.type):
        narrow = type(item.default)
        return replace(item, type=tyro.conf.Suppress[NoneType] if narrow is NoneType else narrow)
    return item


def _is_part(annotation: Any) -> bool:
    """Whether a field is for a part, or for one or none."""
    if typing.get_origin(annotation) in (typing.Union, UnionType):
        return any(_is_part(each) for each in typing.get_args(annotation))
    return isinstance(annotation, type) and any(issubclass(annotation, base) for base in PARTS)


NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
"""A number as in JSON."""


def read_option(word: str) -> Option:
    """A word as the value of an option: true, false, a number as in JSON, or text."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if word in ("NaN", "Infinity", "-Infinity"):
        return float(word)  # which is refused where it is used
    found = NUMBER.fullmatch(word)
    if found is None:
        return word
    return float(word) if found[2] or found[3] else int(word)


_WORD: PrimitiveConstructorSpec[Any] = PrimitiveConstructorSpec(
    nargs=1,
    metavar="VALUE",
    instance_from_str=lambda words: read_option(words[0]),
    is_instance=lambda value: isinstance(value, bool | int | float | str),
    str_from_instance=lambda value: [str(value).lower() if isinstance(value, bool) else str(value)],
)
