"""Reading a run back from its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import eniac
from eniac.algorithm1 import Learner
from eniac.envs.base import Environment
from eniac.envs.sources import HostEnv
from eniac.errors import CheckpointError, ConfigError, RunError, shown, suggestion
from eniac.incumbent import Acting
from eniac.lazy import distrust
from eniac.runs.cache import prepare_jax
from eniac.runs.checkpoint import list_checkpoints, load_checkpoint, newest_checkpoint
from eniac.runs.config import Built, Config
from eniac.runs.dataclass_io import conform
from eniac.runs.identity import Origin, edits
from eniac.runs.manifest import owner_of, read_manifest, version_of
from eniac.runs.program import make_program, take_seed
from eniac.runs.progress import Progress
from eniac.runs.proposals import resume_command
from eniac.runs.reading import read_json


@dataclass(frozen=True)
class Run:
    """A run as its newest checkpoint has it."""

    path: Path
    built: Built
    states: Any
    """The states of all seeds, stacked."""
    progress: Progress
    warnings: list[str]
    origin: Origin | None = None
    """Where its checkpoint comes from; None if it comes from none."""

    @property
    def config(self) -> Config:
        """The run's configuration, with nothing left open."""
        return self.built.config

    @property
    def learner(self) -> Learner[Any]:
        return self.built.learner

    @property
    def env(self) -> Environment | HostEnv:
        """The environment of the evaluation."""
        return self.built.env

    def policies(self, seed: int | None = None) -> dict[str, Acting]:
        """All policies of one of the run's seeds, by default the first, each with how it acts; the
        first of them is the one that the run is judged by."""
        return self.learner.policies(take_seed(self.states, self.index(seed)))

    def policy(self, seed: int | None = None, name: str | None = None) -> Acting:
        """The policy called `name` of one of the run's seeds, by default the one that the run is
        judged by, and how it acts."""
        return choose_policy(self.policies(seed), name)[1]

    def index(self, seed: int | None) -> int:
        """The place of `seed` among the run's seeds; a `ConfigError` if it is none of them."""
        seeds = self.config.seed_numbers
        if seed is not None and seed not in seeds:
            raise ConfigError(
                f"seed is {seed}; {self.path} has the seeds {', '.join(map(str, seeds))}."
            )
        return 0 if seed is None else seeds.index(seed)


def choose_policy(policies: dict[str, Acting], name: str | None) -> tuple[str, Acting]:
    """The policy called `name`, by default the first; a `ConfigError` if there is none."""
    chosen = next(iter(policies)) if name is None else name
    if chosen not in policies:
        hint = suggestion(chosen, policies)
        raise ConfigError(f"policy is {shown(chosen)}; there are {', '.join(policies)}.{hint}")
    return chosen, policies[chosen]


def load_config(folder: Path) -> Config:
    """The configuration of the run in `folder`, or a `ConfigError` if there is no run in it."""
    folder = Path(conform(Path, folder, "the folder"))
    data = load_asked(folder)
    if _is_exports(data):
        raise ConfigError(
            f"{folder} holds an exported policy, and is not the folder of a run: give that, or "
            "load the policy with eniac.load(folder)."
        )
    return _config(folder, data)


def load_settings(folder: Path) -> Config:
    """The same of a run, or of the run that the policy in `folder` was exported from."""
    folder = Path(conform(Path, folder, "the folder"))
    data = load_asked(folder)
    return _config(folder, data["config"] if _is_exports(data) else data)


def _is_exports(data: dict[str, Any]) -> bool:
    """Whether this is the config.json of an exported policy."""
    return "algorithm" not in data and {"format", "policy", "config"} <= data.keys()


def _config(folder: Path, data: Any) -> Config:
    distrust(folder)
    if "tensors" in data and "algorithm" not in data:
        raise ConfigError(
            f"{folder} has an exported policy, and not a run or an agent: `eniac.load_policy` "
            "loads it."
        )
    try:
        return Config.from_dict(data)
    except ConfigError as error:
        made = version_of(read_manifest(folder))
        other = "" if made in (None, eniac.__version__) else f" It was made with eniac {made}."
        raise ConfigError(f"{folder / 'config.json'}: {error}{other}") from error


def load_asked(folder: Path) -> dict[str, Any]:
    """What the config.json in `folder` says, as plain data, or a `ConfigError` if there is none."""
    try:
        data = read_json(folder / "config.json")
    except FileNotFoundError:
        raise ConfigError(
            f"{folder} is not the folder of a run: it has no config.json. "
            "Give a folder that `eniac train` made."
        ) from None
    if not isinstance(data, dict):
        raise ConfigError(f"{folder / 'config.json'} is {shown(data)}; it must be a table.")
    return data


def edits_of(manifest: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """How the config.json that says `asked` was edited since the run's last session."""
    before = manifest.get("config")
    return edits(before, asked) if isinstance(before, dict) else []


NO_MANIFEST = (
    "manifest.json is missing or damaged, so that it is not known whether the checkpoints here are "
    "of this run."
)


def load_run(folder: Path | str, env: Any = None) -> Run:
    """The run in `folder`, from its newest checkpoint that can be used. Nothing is written.

    `env` is the environment of a run that was given one as an object.
    """
    prepare_jax()
    folder = Path(conform(Path, folder, "the folder"))
    config = load_config(folder)
    built = config.build(env)
    program = make_program(built)
    manifest = read_manifest(folder)
    found, warnings = newest_checkpoint(folder / "checkpoints", program.shapes, owner_of(manifest))
    if found is None:
        command = resume_command(folder, config)
        raise RunError(f"{folder} has no checkpoint yet. Continue it with `{command}`.")
    edited = edits_of(manifest, load_asked(folder))
    if edited:
        warnings.append(f"config.json was edited after the run began: {', '.join(edited)}.")
    if not (manifest or read_manifest(folder)):  # it may have come with the first checkpoint
        warnings.append(NO_MANIFEST)
    return Run(folder, built, found.state, found.progress, warnings, found.origin)


def kept_checkpoints(run: Run) -> Iterator[Run]:
    """The run as each of the checkpoints has it that were kept, the oldest first. Those that cannot
    be used are left out."""
    owner = owner_of(read_manifest(run.path))
    for path in reversed(list_checkpoints(run.path / "checkpoints")):
        try:
            found = load_checkpoint(path, run.states, owner)
        except CheckpointError:
            continue
        yield replace(run, states=found.state, progress=found.progress, origin=found.origin)
