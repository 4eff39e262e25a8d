"""What is asked for: which part of an experiment, and where its files are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from eniac.errors import ConfigError, require, suggestion
from eniac.reproduce.results import name_of, read_results, seeds_shown
from eniac.reproduce.tasks import Result
from eniac.reproduce.wanted import RESULTS, RUNS, Wanted

QUICK_RESULTS = Path("results-quick")
"""Where the files of `--quick` go: never beside the others."""


@dataclass(frozen=True)
class Choice:
    """What of an experiment is to be made and shown. What is None is all of it."""

    episodes: tuple[str, ...] | None = None
    settings: tuple[str, ...] | None = None
    depths: tuple[int, ...] | None = None
    algorithms: tuple[str, ...] | None = None
    tasks: tuple[str, ...] | None = None
    seeds: int | None = None
    first_seed: int | None = None
    quick: bool = False
    """a small version, in minutes"""
    results: Path = RESULTS
    runs: Path = RUNS

    def __post_init__(self):
        require(self.seeds is None or self.seeds >= 1, "seeds", self.seeds, "1 or more")
        first = self.first_seed
        require(first is None or first >= 0, "first_seed", first, "0 or more")
        apart = "a folder whose name has 'quick' in it with --quick, and another one without"
        require(("quick" in self.results.name) == self.quick, "results", str(self.results), apart)

    def numbers(self, first: int, count: int) -> range:
        """The seeds, where `count` from `first` on are usual."""
        first = first if self.first_seed is None else self.first_seed
        return range(first, first + (self.seeds or count))

    @property
    def whole(self) -> Choice:
        """All of it, in the same folders: what is shown does not depend on what is made."""
        return Choice(quick=self.quick, results=self.results, runs=self.runs)

    @property
    def label(self) -> str:
        """What stands before every title, so that nobody takes a small version for the whole."""
        return "QUICK, NOT THE RESULT: " if self.quick else ""


@dataclass(frozen=True)
class Report:
    """What is said and drawn of results."""

    text: str
    """Markdown"""
    pictures: Mapping[str, Figure | Callable[[Path], Any]]
    """by the names of their files, without an ending; or what draws them to a file"""
    data: dict[str, Any] | None = None
    """the same as plain data, for other programs"""


def chosen(name: str, given: Iterable[Any] | None, known: Sequence[Any]) -> tuple[Any, ...]:
    """What was `given` for a field of a `Choice`, in the order of what is `known`, or all of that.
    **Raises** `ConfigError` for what is not known."""
    if given is None:
        return tuple(known)
    given = tuple(given)
    for value in given:
        if value not in known:
            hint = suggestion(str(value), map(str, known))
            told = ", ".join(map(str, known))
            raise ConfigError(f"--{name} has {value}; there are {told}.{hint}")
    return tuple(value for value in known if value in given)


def measured(wanted: Iterable[Wanted], results: Path, kind: str = "runs") -> list[Result]:
    """The results of the rows that are wanted, of whatever seeds; none if there is no folder."""
    keys = {(run.task, run.variant) for run in wanted}
    found = read_results(results, kind) if results.is_dir() else []
    return [result for result in found if (result["task"], name_of(result)) in keys]


def gaps(
    wanted: Iterable[Wanted], name_of: Callable[[Wanted], str] = lambda run: run.variant
) -> list[str]:
    """What is missing of runs, by task: `mountain-car-4: all`, `lock-2: ppo, zero (seeds 3-9)`."""
    tasks: dict[str, dict[str, list[Wanted]]] = {}
    for run in wanted:
        tasks.setdefault(run.task, {}).setdefault(name_of(run), []).append(run)
    found = []
    for task, variants in tasks.items():
        told, whole = [], 0
        for name, runs in variants.items():
            absent = [run.seed for run in runs if not run.file.exists()]
            whole += len(absent) == len(runs)
            if absent:
                told.append(name if len(absent) == len(runs) else f"{name} ({seeds_shown(absent)})")
        if told:
            found.append(f"{task}: {'all' if whole == len(variants) else ', '.join(told)}")
    return found


def to_know(missing: Sequence[str], notes: Sequence[str]) -> str:
    """What a reader has to know of tables and pictures, as Markdown; empty if there is nothing."""
    text = f"\nNot measured yet: {'; '.join(missing)}.\n" if missing else ""
    return text + (f"\nTo know: {'; '.join(notes)}.\n" if notes else "")
