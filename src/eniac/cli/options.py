"""The configuration as options of the command line."""

from __future__ import annotations

from copy import copy
from dataclasses import is_dataclass, replace

import tyro

from eniac.errors import ConfigError
from eniac.runs.config import DEFAULT_EPOCHS, Config


def parse_config(default: Config, prog: str, description: str, arguments: list[str]) -> Config:
    """`default` with the changes that `arguments` ask for.

    The options of the algorithm lose its prefix: `--ppo.clip`, not `--algorithm.ppo.clip`. Exits
    with code 2 and a small panel if there is something that does not belong.
    """
    try:
        return tyro.cli(
            Config,
            prog=prog,
            description=description,
            args=arguments,
            default=_all_rules_open(default),
            # The type of the default's algorithm is the one to offer options for.
            config=(tyro.conf.AvoidSubcommands,),
            registry=_without_names(),
        )
    except ValueError as error:
        # What tyro does not report itself: a value that an algorithm's own check refuses.
        raise ConfigError(str(error)) from error


def _all_rules_open(config: Config) -> Config:
    """`config` such that a stop rule given on the command line is the only one.

    A config that was given no rule has got the default number of epochs, which must not stop a run
    that is asked for a number of steps.
    """
    others = (config.steps, config.seconds, config.return_above)
    if config.epochs == DEFAULT_EPOCHS and all(rule is None for rule in others):
        config = copy(config)
        object.__setattr__(config, "epochs", None)
    return config


def _without_names() -> tyro.constructors.ConstructorRegistry:
    """Rules for tyro under which an algorithm's `name` is no option: the command has it already."""
    registry = tyro.constructors.ConstructorRegistry()
    inside = False

    @registry.struct_rule
    def rule(info: tyro.constructors.StructTypeInfo):
        nonlocal inside
        if inside or not (is_dataclass(info.type) and hasattr(info.type, "build")):
            return None
        inside = True
        try:
            spec = registry.get_struct_spec(info)
        finally:
            inside = False
        if not isinstance(spec, tyro.constructors.StructConstructorSpec):
            return None
        fields = (
            replace(field, type=tyro.conf.Suppress[str]) if field.name == "name" else field
            for field in spec.fields
        )
        return replace(spec, fields=tuple(fields))

    return registry
