"""The runs of a sweep: all combinations of algorithms, environments, settings and seeds."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from eniac.algorithms import find_algorithm
from eniac.errors import ConfigError, name_shown, require, shown, suggestion
from eniac.runs.config import Config
from eniac.runs.reading import MAX_JSON, read_file, read_json, reason
from eniac.runs.settings import config_from

A = TypeVar("A")
E = TypeVar("E")
V = TypeVar("V")

Choice = str | Mapping[str, Any]
"""An algorithm or an environment: its name, or a table with its `name` and settings of its own."""

CHECKPOINTS = {"checkpoint_every": 1}
"""Runs of a sweep save every epoch, unless they are told otherwise: a machine may be taken away."""

KEYS = ("algorithms", "envs", "settings", "vary", "seed", "seeds")
"""What a file says of a sweep."""

MOST_RUNS = 100_000
_LONGEST = 120
"""Characters of the name of a run, which is that of its folder."""
_GIVEN = {
    "env": "environments are given as envs",
    "seed": "it is given for the sweep",
    "seeds": "it is given for the sweep, whose runs have one each",
    "out": "it is given for the sweep; each run has a folder in it",
}
"""Settings of a run that a sweep chooses."""


@dataclass(frozen=True)
class Planned:
    """A run of a sweep."""

    name: str
    """that of its folder"""
    algorithm: str
    """with the settings of its own, as they were given"""
    env: str
    setting: str
    """the settings that were varied, with their values; empty if none were"""
    config: Config

    @property
    def group(self) -> tuple[str, str, str]:
        """What it has in common with those that differ only in the seed."""
        return self.algorithm, self.env, self.setting


def plan(
    algorithms: Choice | Sequence[Choice],
    envs: Choice | Sequence[Choice],
    settings: Mapping[str, Any] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seed: int = 0,
    seeds: int = 1,
) -> list[Planned]:
    """The runs of a sweep whose settings are given by name, as an agent's keywords are.

    **Raises** `ConfigError` if one of them cannot be.
    """
    common = _table("settings", settings or {})
    varied = _table("vary", vary or {})
    for name, values in varied.items():
        fits = isinstance(values, Sequence) and not isinstance(values, str) and len(values)
        require(fits, f"vary of {name_shown(name)}", values, "a list of values")

    def make(algorithm: Any, env: Any, variant: Any) -> Config:
        given = {**CHECKPOINTS, **common, **algorithm[1], **env[1], **variant}
        for name in _GIVEN.keys() & given.keys():
            raise ConfigError(f"{name} is {shown(given[name])}; {_GIVEN[name]}.")
        return config_from(find_algorithm(algorithm[0]), {"env": env[0], **given}, {})

    return combine(
        [(_label(x), x) for x in _choices("algorithms", algorithms)],
        [(_label(x), x) for x in _choices("envs", envs)],
        [
            (_words(dict(zip(varied, values, strict=True))), dict(zip(varied, values, strict=True)))
            for values in itertools.product(*varied.values())
        ],
        make,
        seed,
        seeds,
    )


def combine(
    algorithms: Sequence[tuple[str, A]],
    envs: Sequence[tuple[str, E]],
    variants: Sequence[tuple[str, V]],
    make: Callable[[A, E, V], Config],
    seed: int,
    seeds: int,
) -> list[Planned]:
    """All combinations of what is given, each with what it is called, as `make` makes them.

    The first seed of all comes first, so that a sweep that is cut short has something of
    everything. Each combination is also built once: what cannot run is refused before anything
    runs. **Raises** `ConfigError`.
    """
    for what, names in (
        ("algorithm", [name for name, _ in algorithms]),
        ("environment", [name for name, _ in envs]),
        ("setting", [name for name, _ in variants]),
    ):
        if not names:
            raise ConfigError(f"Which {what}s? A sweep needs one or more.")
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ConfigError(f"the {what} {name_shown(twice[0])} is given twice; leave one out.")
    require(isinstance(seed, int) and seed >= 0, "seed", seed, "a whole number, 0 or more")
    require(isinstance(seeds, int) and seeds >= 1, "seeds", seeds, "a whole number, 1 or more")
    num = len(algorithms) * len(envs) * len(variants)
    require(seeds * num <= MOST_RUNS, "the number of runs", seeds * num, f"{MOST_RUNS:,} or less")
    cells = []
    for (env, e), (algorithm, a), (setting, v) in itertools.product(envs, algorithms, variants):
        where = f"{algorithm} on {env}" + (f" with {setting}" if setting else "")
        try:
            config = make(a, e, v)
            _check(config)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        cells.append((algorithm, env, setting, config))
    found: list[Planned] = []
    taken: set[str] = set()
    for number in range(seed, seed + seeds):
        for algorithm, env, setting, config in cells:
            own = replace(config, seed=number, seeds=1, out=None)
            name = _name([algorithm, env, setting, str(number)], own, taken)
            taken.add(name)
            found.append(Planned(name, algorithm, env, setting, own))
    return found


def _check(config: Config) -> None:
    """Requires that the environment can be made, and that the algorithm fits it and memory."""
    built = config.build()
    with contextlib.closing(built.learner):
        built.require_memory()


def _name(parts: Iterable[str], config: Config, taken: set[str]) -> str:
    """The name of a run: what tells it apart, as far as that can be the name of a folder."""
    words = [re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-.") for part in parts]
    name = "-".join(filter(None, words))
    if len(name) <= _LONGEST and name not in taken:
        return name
    told = json.dumps(config.to_dict(), sort_keys=True).encode()
    return f"{name[:_LONGEST]}-{hashlib.sha256(told).hexdigest()[:8]}"


def _choices(what: str, given: Any) -> list[tuple[str, dict[str, Any]]]:
    """Names with the settings that stand beside them."""
    listed = [given] if isinstance(given, str | Mapping) else given
    require(isinstance(listed, Sequence), what, given, "a list of names")
    found = []
    for each in listed:
        name = each.get("name") if isinstance(each, Mapping) else each
        fits = isinstance(name, str) and name
        require(fits, f"one of {what}", each, "a name, or a table with a name and settings")
        own = dict(each) if isinstance(each, Mapping) else {}
        own.pop("name", None)
        found.append((name, own))
    return found


def _table(what: str, given: Any) -> dict[str, Any]:
    fits = isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
    require(fits, what, given, "a table of settings by name")
    return dict(given)


def _label(choice: tuple[str, dict[str, Any]]) -> str:
    return " ".join(filter(None, [choice[0], _words(choice[1])]))


def _words(settings: Mapping[str, Any]) -> str:
    """Settings as they are shown: `update.clip=0.1 depth=4`."""
    return " ".join(f"{name}={_value(value)}" for name, value in settings.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_words(value)})"
    if isinstance(value, list | tuple):
        return " ".join(map(_value, value))
    return str(value)


def read_definition(file: Path) -> dict[str, Any]:
    """What a JSON or TOML file says of a sweep: keywords for `plan`.

    **Raises** `ConfigError` if there is none, or something in it that does not belong there.
    """
    kind = file.suffix.lower()
    if kind not in (".json", ".toml"):
        raise ConfigError(f"{file} is no file of a sweep; it must end in .json or .toml.")
    try:
        if kind == ".json":
            data = read_json(file)
        else:
            data = tomllib.loads(read_file(file, MAX_JSON).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {file}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is damaged: {reason(error)}.") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{file} has {shown(data)}; it must be a table of {', '.join(KEYS)}.")
    for name in data:
        if name not in KEYS:
            raise ConfigError(
                f"{file} has {name_shown(name)!r}, which is nothing of a sweep."
                f"{suggestion(name, KEYS)} There are {', '.join(KEYS)}."
            )
    for name in ("algorithms", "envs"):
        if name not in data:
            raise ConfigError(f"{file} has no {name}.")
    return data
