"""How far a run is, and when it has come far enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eniac.errors import ConfigError, require
from eniac.runs import dataclass_io
from eniac.runs.config import Config

EXPLOITING = ("exploit/sampled_return", "sampled_return")
"""Names that the return of the exploiting policy, or the only one, has in metrics."""


@dataclass(frozen=True)
class Progress:
    """How far each seed of a run has come, and how much wall-clock time that took."""

    epochs: np.ndarray
    steps: np.ndarray
    returns: np.ndarray
    """Mean return of each seed's last evaluation, NaN before the first."""
    exploiting: np.ndarray
    """What the exploiting policy of each seed came to beside it, where another one may be the
    incumbent; NaN where that is not known."""
    seconds: float

    @classmethod
    def start(cls, num_seeds: int) -> Progress:
        zeros, unknown = np.zeros(num_seeds, np.int64), np.full(num_seeds, np.nan)
        return cls(zeros, zeros.copy(), unknown, unknown.copy(), 0.0)

    @property
    def epoch(self) -> int:
        """Epochs of the seed that has come furthest."""
        return int(self.epochs.max())

    def advance(
        self, active: np.ndarray, metrics: Mapping[str, np.ndarray], seconds: float
    ) -> Progress:
        """After one more epoch of the active seeds, whose `metrics` have an axis of seeds and one
        of rounds."""
        last = np.maximum(metrics["ran"].sum(axis=1) - 1, 0)

        def at_last(values: np.ndarray) -> np.ndarray:
            return np.take_along_axis(values, last[:, None], axis=1)[:, 0]

        exploiting = self.exploiting
        for name in EXPLOITING:
            if name in metrics:
                exploiting = at_last(metrics[name])
        return Progress(
            epochs=self.epochs + active,
            steps=self.steps + np.where(active, metrics["steps"].sum(axis=1), 0),
            returns=np.where(active, at_last(metrics["return_mean"]), self.returns),
            exploiting=np.where(active, exploiting, self.exploiting),
            seconds=self.seconds + seconds,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "epochs": self.epochs.tolist(),
            "steps": self.steps.tolist(),
            "returns": _numbers(self.returns),
            "exploiting": _numbers(self.exploiting),
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, data: Any) -> Progress:
        """The inverse of `to_dict`. **Raises** `ConfigError` for anything else."""
        told = dataclass_io.build(_Told, data, "progress")
        sizes = [len(x) for x in (told.epochs, told.steps, told.returns, told.exploiting)]
        if not min(sizes) == max(sizes) > 0:
            raise ConfigError(
                f"progress has {sizes[0]} epochs, {sizes[1]} steps and {sizes[2]} and {sizes[3]} "
                "returns; it must have one of each for every seed."
            )
        return cls(
            np.array(told.epochs, np.int64),
            np.array(told.steps, np.int64),
            _array(told.returns),
            _array(told.exploiting),
            told.seconds,
        )


@dataclass(frozen=True)
class _Told:
    """`Progress` as it is written."""

    epochs: tuple[int, ...]
    steps: tuple[int, ...]
    returns: tuple[float | None, ...]
    exploiting: tuple[float | None, ...]
    seconds: float

    def __post_init__(self):
        for number in (*self.epochs, *self.steps, self.seconds):
            require(number >= 0, "a number in progress", number, "0 or more")


def _numbers(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def _array(values: tuple[float | None, ...]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def verdicts(config: Config, progress: Progress) -> list[str]:
    """For each seed the stop rule that it has met, or an empty text if it must go on.

    A seed's verdict depends on that seed alone (but for the clock, which is common to all), so
    that it stops where a run of that seed by itself would.
    """
    return [next(iter(met.values()), "") for met in _met(config, progress)]


def rules_met(config: Config, progress: Progress) -> set[str]:
    """The names of all stop rules that any seed has met."""
    return {name for met in _met(config, progress) for name in met}


def _met(config: Config, progress: Progress) -> list[dict[str, str]]:
    """For each seed the stop rules that it has met: their names, and in words."""

    def met(epochs: int, steps: int, mean_return: float) -> dict[str, str]:
        found: dict[str, str] = {}
        if config.return_above is not None and mean_return > config.return_above:
            found["return_above"] = f"return above {config.return_above:g}"
        if config.epochs is not None and epochs >= config.epochs:
            found["epochs"] = f"{config.epochs} epochs"
        if config.steps is not None and steps >= config.steps:
            found["steps"] = f"{config.steps:,} steps"
        if config.seconds is not None and progress.seconds >= config.seconds:
            found["seconds"] = f"{config.seconds:g} seconds"
        return found

    return [
        met(int(epochs), int(steps), float(mean_return))
        for epochs, steps, mean_return in zip(
            progress.epochs, progress.steps, progress.returns, strict=True
        )
    ]


def fraction(config: Config, progress: Progress) -> float | None:
    """How much of the run is done by its limits on epochs, steps and time; None without any."""
    limits = [
        (config.epochs, progress.epochs.max()),
        (config.steps, progress.steps.max()),
        (config.seconds, progress.seconds),
    ]
    done = [float(now) / limit for limit, now in limits if limit is not None]
    return min(1.0, max(done)) if done else None
