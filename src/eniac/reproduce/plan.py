"""Before runs are made: how many there are, what is done, how long the rest takes, and whether it
fits to what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import eniac
from eniac.errors import ConfigError
from eniac.reproduce.make import config_of
from eniac.reproduce.results import made_by, seeds_shown
from eniac.reproduce.tasks import Result, Task
from eniac.reproduce.wanted import Wanted, read_result, settings_of

SPEEDS = {2: 400_000, 4: 90_000, 6: 70_000}
"""Environment steps a second on one core, about, at the depths of mountain car; where nothing was
measured that says it better."""
OTHER_SPEED = 50_000
"""The same of all other tasks."""
OVERHEAD = {"runs": 15.0, "theory": 3.0, "": 60.0}
"""Seconds that a run takes beside training: to start, to compile or load programs, to be judged."""


@dataclass(frozen=True)
class Plan:
    """Runs that are asked for: those that are done, and those that are to be made."""

    done: list[Wanted]
    missing: list[Wanted]

    @classmethod
    def of(cls, runs: Sequence[Wanted]) -> Plan:
        done = {run: run.is_done() for run in runs}
        return cls([run for run in runs if done[run]], [run for run in runs if not done[run]])

    @cached_property
    def results(self) -> dict[Wanted, Result]:
        """What the runs that are done came to."""
        return {run: read_result(run.file) for run in self.done}

    def seconds(self) -> float:
        """About how long the missing runs take, one after another: as long as those of the same
        row, or task, if there are some, and up to the limit of steps if nothing is known."""
        return sum(self._seconds(run) for run in self.missing)

    def _seconds(self, run: Wanted) -> float:
        overhead = OVERHEAD[run.of.folder]
        same = [
            r["seconds"] for w, r in self.results.items() if _row(w) == _row(run) and "seconds" in r
        ]
        if same:
            return float(np.mean(same)) + overhead
        if not isinstance(run.of, Task) or run.steps is None:
            return 2 * overhead
        alike = [
            r["steps"] / r["seconds"]
            for w, r in self.results.items()
            if w.task == run.task and r["seconds"] > 0 and bool(w.flags) == bool(run.flags)
        ]
        speed = float(np.mean(alike)) if alike else SPEEDS.get(run.of.depth or 0, OTHER_SPEED)
        return run.steps / speed + overhead

    def check(self, mix_versions: bool) -> None:
        """Refuses to add to rows that another version, or other settings, have begun.

        **Raises** `ConfigError` with what there is and what to do; nothing was touched.
        """
        for run in {_row(run): run for run in self.missing}.values():
            begun = {w: r for w, r in self.results.items() if _row(w) == _row(run)}
            if not begun:
                continue
            here = f"eniac {eniac.__version__}"
            others = {made_by(r) for r in begun.values()} - {here}
            if others and not mix_versions:
                raise ConfigError(
                    f"{_told(run, list(begun))} is by {', '.join(sorted(others))}, and this is "
                    f"{here}: with what is missing the row would be of both. --from-results draws "
                    "what there is; --results DIR begins elsewhere; --mix-versions goes on, and "
                    "every table says so."
                )
            settings = {r.get("settings") for r in begun.values()} - {None}
            now = settings_of(
                config_of(run).build().config.to_dict(), getattr(run.of, "seeded", False)
            )
            if settings and now not in settings:
                raise ConfigError(
                    f"{_told(run, list(begun))} was made with other settings than this version "
                    "has: runs of both are never in one row. --from-results draws what there is; "
                    "--results DIR begins elsewhere; or move these files away."
                )


def _row(run: Wanted) -> tuple[Path, str, str]:
    return run.results, run.task, run.variant


def _told(run: Wanted, begun: Sequence[Wanted]) -> str:
    seeds = seeds_shown(each.seed for each in begun)
    return f"{run.file.parent / run.variant} ({seeds})"
