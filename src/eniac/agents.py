"""The agents by their names: a class for every row of the table of algorithms, made of that row;
and the agent that was saved in a folder."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from eniac.agent import Agent, warn
from eniac.algorithms import ALGORITHMS, find_algorithm
from eniac.errors import CheckpointError, ConfigError, EniacError, require, shown
from eniac.provable.policies import TablePolicy
from eniac.runs.cache import prepare_jax
from eniac.runs.config import GIVEN, Built, Config
from eniac.runs.dataclass_io import conform
from eniac.runs.export import Exported, holds_policy, load_exported
from eniac.runs.identity import changed, made_with
from eniac.runs.load import load_config, load_run, load_settings
from eniac.runs.log import METRICS, TIMINGS, read_records
from eniac.runs.manifest import last_session, read_manifest
from eniac.runs.progress import Progress
from eniac.spaces import to_json

ABBREVIATION = 5
"""Words of an algorithm's name that are no longer than this are written in capitals."""


def class_name(algorithm: str) -> str:
    """The name of an algorithm's class: `eniac-spi-sample` is `ENIACSPISample`."""
    words = algorithm.split("-")
    return "".join(x.upper() if len(x) <= ABBREVIATION else x.capitalize() for x in words)


def make_agent(algorithm: str) -> type[Agent]:
    """The class of agents that learn by a row of the table of algorithms."""
    row = find_algorithm(algorithm)
    name = class_name(algorithm)
    choices = ", ".join(row.choices)
    document = (
        f"{row.description[0].upper()}{row.description[1:]}.\n\n"
        f"    >>> eniac.{name}('DeepSea-10', seed=3)\n"
        f"    {name}('DeepSea-10', seed=3) after 0 epochs, 0 steps\n\n"
        f"Cover: {row.cover}. Bonus: {row.bonus}. Update: {row.update}. Source: {row.source}.\n\n"
        + (f"Chosen by name: {choices}. " if choices else "")
        + f"Settings, as keywords: `eniac train {algorithm} --help` has them all. See `Agent`."
    )
    return type(
        name, (Agent,), {"algorithm": algorithm, "__doc__": document, "__module__": __name__}
    )


AGENTS_OF: dict[str, type[Agent]] = {name: make_agent(name) for name in ALGORITHMS}
"""The class of each algorithm of the table."""

AGENTS: dict[str, type[Agent]] = {kind.__name__: kind for kind in AGENTS_OF.values()}
"""The same by their own names, under which they are importable from here and from `eniac`."""

globals().update(AGENTS)


def load(folder: Any, env: Any = None, *, seed: int | None = None) -> Agent:
    """The agent that was saved in `folder`, or that a run there has come to.

        >>> agent = eniac.load(agent.save(folder / "sea"))
        >>> agent.learn(epochs=1).predict(observation) in (0, 1)
        True

    An environment that was given as an object is needed again to go on: `env`. Without it, and
    where the environment cannot be made, the agent can predict all the same; so it can from a
    folder that a policy was exported to. Of a run with several seeds `seed` chooses one, by default
    the first. Warns if it was saved on another kind of
    machine, on other devices or under other versions: what it learns from here on may then differ
    in the last bits. **Raises** `ConfigError` if there is no run in the folder, `CheckpointError`
    if it is damaged or of another version of eniac.
    """
    prepare_jax()
    folder = Path(conform(Path, folder, "the folder"))
    if holds_policy(folder):
        config, exported = load_settings(folder), load_exported(folder)
        known = exported.about["seed"]
        require(seed in (None, known), "seed", seed, f"{known}, whose policy {folder} has")
        return _without_state(
            config, exported, {}, f"{folder} holds a policy, and nothing to go on learning from."
        )
    config = load_config(folder)
    seeds = config.seed_numbers
    number = seeds[0] if seed is None else seed
    require(number in seeds, "seed", seed, f"one of {', '.join(map(str, seeds))}")
    try:
        run = load_run(folder, env)
    except CheckpointError:
        if env is not None:
            _require_spaces(folder, number, config.build(env))
        raise
    except ConfigError as error:
        if env is not None or not (folder / "policy").is_dir():
            raise
        why = (
            f"{folder} was loaded without its environment, which is needed for this: give it to "
            "eniac.load(folder, env)."
        )
        if not config.env.startswith(GIVEN):
            why += f" ({error})"
        exported = load_exported(folder / "policy" / f"seed-{number}")
        agent = _without_state(config, exported, last_session(folder), why)
        _read_logs(agent, folder, number)
        return agent
    if env is not None:
        _require_spaces(folder, number, run.built)
    agent = _of_kind(config)
    for text in run.warnings:
        warn(text)
    k = run.index(number)
    agent._begin(_of_seed(config, number), env)
    agent._built = replace(run.built, config=_of_seed(run.built.config, number))
    found = run.progress
    one = slice(k, k + 1)
    agent._progress = Progress(
        found.epochs[one],
        found.steps[one],
        found.returns[one],
        found.exploiting[one],
        found.seconds,
    )
    agent._states = jax.tree.map(lambda x: x[one], run.states)
    owner = read_manifest(folder).get("run")
    if config.seeds == 1 and isinstance(owner, str):
        agent._run = owner
    _read_logs(agent, folder, number)
    _, program = agent._open()
    if run.origin is not None:
        for text in changed(run.origin.made_with, made_with(program.devices)):
            warn(text)
    return agent


def _of_kind(config: Config) -> Agent:
    """An agent of the class that `config` asks for, of which nothing is made yet."""
    kind = AGENTS_OF.get(config.algorithm.name) or make_agent(config.algorithm.name)
    return kind.__new__(kind)


def _without_state(
    config: Config, exported: Exported, made_with: dict[str, Any], why: str
) -> Agent:
    """An agent that can predict and be exported; asked for more, it says `why` it cannot."""
    agent, about = _of_kind(config), exported.about
    agent._begin(_of_seed(config, about["seed"]), None)
    agent._acting = exported.acting, exported.spaces
    agent._exported, agent._made_with = exported, made_with
    agent._missing = ConfigError(why)
    agent._progress = replace(
        agent._progress, epochs=np.array([about["epoch"]]), steps=np.array([about["env_steps"]])
    )
    return agent


def _require_spaces(folder: Path, seed: int, built: Built) -> None:
    """Raises `ConfigError` if the environment has other spaces than that which was learned in, as
    far as the folder says."""
    try:
        exported = load_exported(folder / "policy" / f"seed-{seed}")
    except EniacError:
        return
    if isinstance(exported.acting.policy, TablePolicy):
        return  # a table may have an end that the environment does not count
    for name, then, now in (
        ("observation", exported.spaces.observation, built.env.observation_space),
        ("action", exported.spaces.action, built.env.action_space),
    ):
        if to_json(then) != to_json(now):
            raise ConfigError(
                f"the environment has the {name} space {shown(now)}; that of the agent in {folder} "
                f"is {shown(then)}."
            )


def _of_seed(config: Config, seed: int) -> Config:
    """`config` for one of its seeds, without what was asked for the run alone."""
    rules = dict.fromkeys(("epochs", "steps", "seconds", "return_above", "out"))
    return replace(config, seed=seed, seeds=1, wandb=False, **rules)  # pyright: ignore[reportArgumentType]


def _read_logs(agent: Agent, folder: Path, seed: int) -> None:
    """The records of one seed, as far as the agent has come."""
    last = agent._progress.epoch if agent._states is not None else math.inf
    agent._records = [
        record
        for record in read_records(folder / METRICS)
        if record.get("seed") == seed and (record.get("epoch") or 0) <= last
    ]
    timings = read_records(folder / TIMINGS)
    agent._timings = [timing for timing in timings if (timing.get("epoch") or 0) <= last]
