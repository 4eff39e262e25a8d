"""The one description of a run: the same object for Python, the command line and `config.json`."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tyro

from eniac.algorithms import ALGORITHMS, Deep
from eniac.envs import Environment, make
from eniac.envs.registry import find
from eniac.errors import ConfigError, suggestion
from eniac.provable import Provable
from eniac.runs import dataclass_io as strict

DEFAULT_EPOCHS = 50
"""How long a run is that was given no stop rule at all."""

Option = bool | int | float | str


@dataclass(frozen=True)
class Evaluation:
    """How the policy is judged after every epoch. Nothing is learned from these episodes."""

    episodes: int = 100
    """Number of episodes, each from a fresh start state."""

    horizon: int | None = None
    """Steps after which an episode of the evaluation is cut. None: as in training."""

    deterministic: bool = False
    """Take the policy's most likely action instead of sampling one."""

    first: int | None = None
    """Report also the mean return of the first so many steps of an episode (return_first_mean).
    None: not, or the length of a trajectory if the algorithm's episodes are episodic."""


@dataclass(frozen=True)
class Config:
    """Everything that decides a run. Impossible values are refused when it is made."""

    algorithm: Annotated[Deep | Provable, tyro.conf.arg(name="")]
    """The algorithm and its hyper-parameters."""

    env: str = "MountainCarContinuous-v0"
    """Environment to learn in; `eniac list envs` shows them all."""

    env_options: dict[str, Option] = field(default_factory=dict)
    """Parameters of the environment as pairs of name and value, for instance: length 10."""

    horizon: int | None = None
    """Steps after which an episode is cut. None: the environment's own limit."""

    seed: int = 0
    """Seed of the first of the runs. The same seed on the same machine gives the same result."""

    seeds: int = 1
    """How many seeds to run side by side: seed, seed + 1, ..."""

    epochs: int | None = None
    """Stop after this many epochs. None: no limit (50 if no other stop rule is given)."""

    steps: int | None = None
    """Stop after the epoch in which a seed has taken this many environment steps."""

    seconds: float | None = None
    """Stop after this much wall-clock time of training, counted over interruptions."""

    return_above: float | None = None
    """Stop a seed when the mean return of its last evaluation is above this."""

    evaluation: Evaluation = Evaluation()
    """How the policy is judged after every epoch."""

    checkpoint_every: int = 10
    """Save the whole training state every this many epochs (and at the end)."""

    keep: int = 3
    """How many of the newest checkpoints to keep, at least 2."""

    out: Path | None = None
    """Folder of the run. None: runs/ALGORITHM-ENV-SEED-DATE."""

    wandb: bool = False
    """Also log to Weights & Biases, offline. Needs: pip install 'eniac[wandb]'."""

    def __post_init__(self):
        _check_algorithm(self.algorithm)
        hints = get_type_hints(type(self), include_extras=True)
        for name in (item.name for item in dataclasses.fields(self) if item.name != "algorithm"):
            object.__setattr__(self, name, strict.conform(hints[name], getattr(self, name), name))
        self._choose_for_env()
        _check_ranges(self)
        try:
            find(self.env, self.env_options)
        except ValueError as error:
            raise ConfigError(f"env is {self.env!r}: {error}") from error
        except TypeError as error:
            raise ConfigError(f"env_options is {self.env_options!r}: {error}") from error
        if self.wandb and importlib.util.find_spec("wandb") is None:
            raise ConfigError(
                "wandb is True, but the package is not installed. Install it with "
                "`pip install 'eniac[wandb]'`, or leave wandb off."
            )
        if all(rule is None for rule in (self.epochs, self.steps, self.seconds, self.return_above)):
            object.__setattr__(self, "epochs", DEFAULT_EPOCHS)

    def _choose_for_env(self) -> None:
        """Lets an algorithm choose for the environment what it was not told."""
        if isinstance(self.algorithm, Deep):
            if self.algorithm.episodes == "episodic" and self.evaluation.first is None:
                chosen = replace(self.evaluation, first=self.algorithm.trajectory)
                object.__setattr__(self, "evaluation", chosen)
            return
        if not isinstance(self.algorithm, Provable):
            return
        try:
            chosen = self.algorithm.for_env(self.env, self.env_options)
        except ConfigError:
            raise
        except ValueError as error:
            raise self._impossible(error) from error
        object.__setattr__(self, "algorithm", chosen)
        if self.epochs is None:
            # Whatever other rules there are, its cover has room for N policies.
            object.__setattr__(self, "epochs", chosen.N)

    @property
    def seed_numbers(self) -> range:
        """The seeds of this run."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def evaluation_horizon(self) -> int | None:
        """Where episodes of the evaluation are cut; None if the environment ends them itself."""
        entry, _ = find(self.env, self.env_options)
        return self.evaluation.horizon or self.horizon or entry.horizon

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. `from_dict` is its inverse."""
        return strict.plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """The config from plain data. Raises `ConfigError` for whatever does not belong there."""
        if not isinstance(data, Mapping):
            raise ConfigError(f"A configuration is a table of fields, not {data!r}.")
        if "algorithm" not in data:
            raise ConfigError("algorithm is missing.")
        return strict.build(cls, data, ready={"algorithm": _build_algorithm(data["algorithm"])})

    def make_env(self, horizon: int | None = None) -> Environment:
        """The environment of this config, with the episodes cut at `horizon`."""
        try:
            env = make(self.env, horizon=horizon or self.horizon, **self.env_options)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"env {self.env!r} cannot be made: {error}") from error
        try:
            return self.algorithm.adapt(env) if isinstance(self.algorithm, Provable) else env
        except ValueError as error:
            raise self._impossible(error) from error

    def build(self) -> tuple[Any, Environment]:
        """The learner, and the environment it is evaluated in."""
        try:
            learner = self.algorithm.build(self.make_env())
        except ConfigError:
            raise
        except ValueError as error:
            raise self._impossible(error) from error
        return learner, self.make_env(self.evaluation_horizon)

    def _impossible(self, error: ValueError) -> ConfigError:
        return ConfigError(f"{self.algorithm.name} cannot run on {self.env!r}: {error}")

    def default_out(self, now: datetime.datetime | None = None) -> Path:
        """Where a run goes whose `out` was not given."""
        date = (now or datetime.datetime.now()).strftime("%Y%m%d-%H%M%S")
        return Path("runs") / f"{self.algorithm.name}-{self.env.split('/')[-1]}-{self.seed}-{date}"


def find_algorithm(name: str) -> Any:
    """The row of the table of algorithms with this name, or a `ConfigError` with the nearest."""
    if name not in ALGORITHMS:
        raise ConfigError(
            f"algorithm.name is {name!r}; no algorithm has that name.{suggestion(name, ALGORITHMS)}"
            " `eniac list algorithms` shows them all."
        )
    return ALGORITHMS[name]


def _build_algorithm(data: Any) -> Any:
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise ConfigError(
            f"algorithm is {data!r}; it must be a table of fields, with the algorithm's name."
        )
    # The name says which dataclass it is, so that families of algorithms can have their own.
    return strict.build(type(find_algorithm(data["name"]).default), data, "algorithm")


def _check_algorithm(algorithm: Any) -> None:
    if not all(hasattr(algorithm, name) for name in ("name", "build", "__dataclass_fields__")):
        raise ConfigError(
            f"algorithm is {algorithm!r}; it must be an algorithm's hyper-parameters, for "
            "instance ALGORITHMS['ppo'].default."
        )
    expected = type(find_algorithm(algorithm.name).default)
    if not isinstance(algorithm, expected):
        raise ConfigError(
            f"algorithm is a {type(algorithm).__name__}; {algorithm.name!r} takes a "
            f"{expected.__name__}."
        )
    strict.check(algorithm, "algorithm")


def _check_ranges(config: Config) -> None:
    least = {
        "horizon": 1,
        "seed": 0,
        "seeds": 1,
        "epochs": 1,
        "steps": 1,
        "checkpoint_every": 1,
        "keep": 2,
        "evaluation.episodes": 1,
        "evaluation.horizon": 1,
        "evaluation.first": 1,
    }
    for name, bound in least.items():
        value: Any = config
        for part in name.split("."):
            value = getattr(value, part)
        if value is not None and value < bound:
            raise ConfigError(f"{name} is {value}; it must be {bound} or more.")
    longest = getattr(config.algorithm, "max_epochs", None)
    if longest is not None and (config.epochs or 0) > longest:
        raise ConfigError(
            f"epochs is {config.epochs}, but after {longest} the cover is full: it has room for "
            f"{config.algorithm.room}."
        )
    if config.seconds is not None and config.seconds <= 0:
        raise ConfigError(f"seconds is {config.seconds}; it must be more than 0.")
    if config.seed + config.seeds > 2**31:
        raise ConfigError(f"seed is {config.seed}; the seeds of a run must be below 2**31.")
