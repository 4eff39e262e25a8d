"""Reading a run back from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eniac.algorithm1 import Learner
from eniac.envs.base import Environment
from eniac.envs.sources import HostEnv
from eniac.errors import ConfigError, RunError
from eniac.lazy import distrust
from eniac.runs.checkpoint import newest_checkpoint
from eniac.runs.config import Built, Config
from eniac.runs.dataclass_io import conform
from eniac.runs.program import make_program, take_seed
from eniac.runs.progress import Progress
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

    def policy(self, seed: int | None = None) -> Any:
        """The policy of one of the run's seeds, by default the first."""
        return self.learner.policy(take_seed(self.states, self.index(seed)))

    def index(self, seed: int | None) -> int:
        """The place of `seed` among the run's seeds; a `ConfigError` if it is none of them."""
        seeds = self.config.seed_numbers
        if seed is not None and seed not in seeds:
            raise ConfigError(
                f"seed is {seed}; {self.path} has the seeds {', '.join(map(str, seeds))}."
            )
        return 0 if seed is None else seeds.index(seed)


def load_config(folder: Path) -> Config:
    """The configuration of the run in `folder`, or a `ConfigError` if there is no run in it."""
    folder = conform(Path, folder, "the folder")
    path = folder / "config.json"
    try:
        data = read_json(path)
    except FileNotFoundError:
        raise ConfigError(
            f"{folder} is not the folder of a run: it has no config.json. "
            "Give a folder that `eniac train` made."
        ) from None
    distrust(folder)
    try:
        return Config.from_dict(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def load_run(folder: Path | str, env: Any = None) -> Run:
    """The run in `folder`, from its newest checkpoint that is whole.

    `env` is the environment of a run that was given one as an object.
    """
    folder = conform(Path, folder, "the folder")
    built = load_config(folder).build(env)
    program = make_program(built)
    checkpoint, warnings = newest_checkpoint(folder / "checkpoints", program.shapes)
    if checkpoint is None:
        raise RunError(f"{folder} has no checkpoint yet. Continue it with `eniac resume {folder}`.")
    return Run(folder, built, checkpoint.state, checkpoint.progress, warnings)
