"""The one description of a run: the same object for Python, the command line and `config.json`.

A config holds what was asked for, and refuses what is impossible. What was left open is chosen when
a run is built from it (`Config.build`), so that changing one setting changes all that follow.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.util
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import jax
import tyro

from eniac.algorithm1 import AlgorithmConfig, Learner
from eniac.algorithms import find_algorithm
from eniac.envs.base import Environment
from eniac.envs.faults import Hangs, impatient
from eniac.envs.names import check_name, describe, env_from
from eniac.envs.sources import HostEnv
from eniac.errors import ConfigError, require, shown
from eniac.memory import require_memory
from eniac.runs import dataclass_io
from eniac.sampling.base import Evaluation

Option = bool | int | float | str

GIVEN = "given: "
"""How the name of an environment begins that was given as an object, not by its name."""

MOST_SEEDS = 10_000
"""Seeds of one run, each of which has a log of its own open."""


@dataclass(frozen=True)
class Config:
    """Everything that decides a run. Impossible values are refused when it is made."""

    algorithm: Annotated[AlgorithmConfig, tyro.conf.arg(name="")]
    """The algorithm and its hyper-parameters."""

    env: str = "MountainCarContinuous-v0"
    """Environment to learn in: one of `eniac list envs`, an id of gymnasium's, gymnasium:ID,
    envpool:ID, or module:factory for one of your own."""

    env_options: dict[str, Option] = field(default_factory=dict)
    """Parameters of the environment as pairs of name and value, for instance: length 10."""

    observation_keys: tuple[str, ...] = ()
    """Keys of a Dict observation that the policy sees. None given: all of them."""

    vectorization: Literal["sync", "async"] = "sync"
    """Environments of gymnasium's are stepped one after another, or each in its own process, which
    pays only where a step is expensive."""

    env_timeout: float | None = None
    """Seconds after which an environment of gymnasium's has failed if it does not come back: a step
    or reset of all of them together, or making one. None: never."""

    restart_failed_envs: bool = False
    """Replace an environment of gymnasium's that raises, dies with its process or (in a process of
    its own) hangs, and drop its episode from what is learned; up to 10 in a rollout."""

    horizon: int | None = None
    """Steps after which an episode is cut. None: the environment's own limit."""

    seed: int = 0
    """Seed of the first of the runs. The same seed on the same machine gives the same result."""

    seeds: int = 1
    """How many seeds to run side by side: seed, seed + 1, ..."""

    epochs: int | None = None
    """Stop after this many epochs. None: no limit (if no other stop rule is given, 50, or as many
    as the cover has room for)."""

    steps: int | None = None
    """Stop after the epoch in which a seed has taken this many environment steps."""

    seconds: float | None = None
    """Stop after this much wall-clock time of training, counted over interruptions."""

    return_above: float | None = None
    """Stop a seed when the mean return of its last evaluation is above this."""

    evaluation: Evaluation = field(default_factory=Evaluation)
    """How the policy is judged after every round."""

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
            value = dataclass_io.conform(hints[name], getattr(self, name), name)
            object.__setattr__(self, name, value)
        _check_counts(self.algorithm, "algorithm")
        require(self.horizon is None or self.horizon < 2**31, "horizon", self.horizon, _32_BITS)
        for name, text in (
            ("env", self.env),
            *(("observation_keys", k) for k in self.observation_keys),
        ):
            most = dataclass_io.LONGEST_NAME
            require(0 < len(text) <= most, name, text, f"of 1 to {most} characters")
        least = {"horizon": 1, "seed": 0, "seeds": 1, "epochs": 1, "steps": 1}
        for name, bound in (least | {"checkpoint_every": 1, "keep": 2}).items():
            value = getattr(self, name)
            require(value is None or value >= bound, name, value, f"{bound} or more")
        for name in ("seconds", "env_timeout"):
            value = getattr(self, name)
            require(value is None or value > 0, name, value, "more than 0")
        require(self.seeds <= MOST_SEEDS, "seeds", self.seeds, f"{MOST_SEEDS:,} or less")
        require(self.seed + self.seeds <= 2**31, "seed", self.seed, "such that all are below 2**31")
        if not self.env.startswith(GIVEN):
            check_name(self.env)
        if self.wandb:
            require_wandb("wandb is True")
        self._check_room()

    def _check_room(self) -> None:
        room = self.algorithm.max_epochs
        require(
            room is None or self.epochs is None or self.epochs <= room,
            "epochs",
            self.epochs,
            f"{room} or less, when the cover is full: {self.algorithm.longer}",
        )

    @property
    def seed_numbers(self) -> range:
        """The seeds of this run."""
        return range(self.seed, self.seed + self.seeds)

    @property
    def has_stop_rule(self) -> bool:
        rules = (self.epochs, self.steps, self.seconds, self.return_above)
        return any(rule is not None for rule in rules)

    def ends_after(self, algorithm: Any) -> int | None:
        """Epochs after which a run ends, if any; `algorithm` is this config's, resolved."""
        if self.epochs is None and (algorithm.always_ends or not self.has_stop_rule):
            return algorithm.default_epochs
        return self.epochs

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. `from_dict` is its inverse."""
        return dataclass_io.plain(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """The config from plain data. Raises `ConfigError` for whatever does not belong there."""
        if not isinstance(data, Mapping):
            raise ConfigError(f"A configuration is a table of fields, not {shown(data)}.")
        if "algorithm" not in data:
            raise ConfigError("algorithm is missing.")
        ready = {"algorithm": _build_algorithm(data["algorithm"])}
        return dataclass_io.build(cls, data, ready=ready)

    def for_object(self, env: Any) -> Config:
        """This config, with the name that an environment given as an object has in it."""
        return self if env is None else replace(self, env=describe(env))

    def make_env(self, horizon: int | None, given: Any = None) -> Environment | HostEnv:
        """The environment of this config, with the episodes cut at `horizon`; or the object
        `given` in its place, the same way."""
        keys = self.observation_keys
        if given is None and self.env.startswith(GIVEN):
            raise ConfigError(
                f"env is {self.env!r}: it was given as an object, and is needed again. In Python: "
                "eniac.resume(folder, env) or eniac.load_run(folder, env)."
            )
        try:
            env = impatient(
                self.env_timeout,
                env_from,
                self.env if given is None else given,
                self.env_options,
                horizon,
                keys,
            )
        except Hangs as hangs:
            raise ConfigError(f"{self.env} {hangs}") from None
        if isinstance(env, HostEnv):
            env.configure(self.vectorization, self.env_timeout, self.restart_failed_envs)
        return env

    def build(self, given: Any = None) -> Built:
        """All that a run needs, with nothing left open.

        `given` is an environment, or a factory of environments, to use instead of the one that
        `env` names. **Raises** ConfigError if the algorithm cannot run there.
        """
        try:
            env = self.make_env(self.horizon, given)
        except ConfigError as error:
            name = "" if self.env in str(error) else f"{self.env}: "
            raise ConfigError(f"{name}{error}") from error
        try:
            algorithm = self.algorithm.resolve(env, self.env, self.env_options)
            limit = self.evaluation.horizon or env.time_limit
            judging = env if limit == env.time_limit else self.make_env(limit, given)
            evaluation = algorithm.evaluated_by(replace(self.evaluation, horizon=limit))
            env, judging = algorithm.adapt(env), algorithm.adapt(judging)
            learner = algorithm.build(env, judging, evaluation)
        except ValueError as error:
            raise ConfigError(
                f"{self.algorithm.name} cannot run on {self.env!r}: {error}"
            ) from error
        epochs = self.ends_after(algorithm)
        config = replace(self, algorithm=algorithm, evaluation=evaluation, epochs=epochs)
        return Built(config, learner, judging, given)

    def default_out(self, now: datetime.datetime | None = None) -> Path:
        """Where a run goes whose `out` was not given."""
        date = (now or datetime.datetime.now()).strftime("%Y%m%d-%H%M%S")
        # Cut, because the name of the folder must fit too.
        env = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.env.split("/")[-1])[:100]
        return Path("runs") / f"{self.algorithm.name}-{env}-{self.seed}-{date}"


@dataclass(frozen=True)
class Built:
    """What a config comes to: everything chosen, the learner, and where its policy is judged."""

    config: Config
    learner: Learner[Any]
    env: Environment | HostEnv
    given: Any = None
    """the environment that was given as an object, if one was"""

    def require_memory(self) -> None:
        """Raises a `ConfigError` if training would take more memory than there is, with about how
        much. Nothing is asked for yet: arrays are counted by their shapes."""
        what = f"{self.config.algorithm.name} on {self.config.env!r}"
        sizes = self.config.algorithm.memory(self.env, self.config.evaluation)
        require_memory(sizes, what)
        arrays = [x for x in jax.tree.leaves(self.learner.shapes()) if hasattr(x, "dtype")]
        state = sum(math.prod(x.shape) * x.dtype.itemsize for x in arrays)
        require_memory({**sizes, "the state of all seeds": self.config.seeds * state}, what)


def require_wandb(wanted: str) -> None:
    """Raises a `ConfigError` if Weights & Biases is `wanted` and not installed."""
    if importlib.util.find_spec("wandb") is None:
        raise ConfigError(
            f"{wanted}, but the package wandb is not installed. Install it with "
            "`pip install 'eniac[wandb]'`, or leave it off."
        )


_32_BITS = "below 2**31: what is counted in a run has 32 bits"


def _check_counts(settings: Any, path: str) -> None:
    """Requires of every whole number among `settings`, and the parts in them, that arrays can be
    of that size at all."""
    for item in dataclasses.fields(settings):
        value, name = getattr(settings, item.name), f"{path}.{item.name}"
        if dataclasses.is_dataclass(value):
            _check_counts(value, name)
        for number in value if isinstance(value, tuple) else (value,):
            require(not isinstance(number, int) or abs(number) < 2**31, name, value, _32_BITS)


def _build_algorithm(data: Any) -> Any:
    if not isinstance(data, Mapping) or not isinstance(data.get("name"), str):
        raise ConfigError(
            f"algorithm is {shown(data)}; it must be a table of fields, with the algorithm's name."
        )
    # The name says which dataclass it is, so that families of algorithms can have their own.
    return dataclass_io.build(type(find_algorithm(data["name"]).default), data, "algorithm")


def _check_algorithm(algorithm: Any) -> None:
    name = getattr(algorithm, "name", None)
    if not dataclasses.is_dataclass(algorithm) or not isinstance(name, str):
        raise ConfigError(
            f"algorithm is {shown(algorithm)}; it must be an algorithm's hyper-parameters, for "
            "instance ALGORITHMS['ppo'].default."
        )
    expected = type(find_algorithm(name).default)
    if not isinstance(algorithm, expected):
        raise ConfigError(
            f"algorithm is a {type(algorithm).__name__}; {name!r} takes a {expected.__name__}."
        )
    dataclass_io.check(algorithm, "algorithm")
