"""What has been measured: the files of a folder of results, put together as rows.

A row is one task and one variant of an algorithm, over its seeds. Files that were made with other
settings are never in the same row: the settings that most of them have stay, and what is left out
is told. Files of several versions of the library, or of which it is not known with what settings
they were made, may share a row, and that is told too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eniac.errors import ConfigError
from eniac.report.numbers import spans
from eniac.reproduce.tasks import ALGORITHMS, Result, variant
from eniac.reproduce.wanted import read_result


@dataclass(frozen=True)
class Row:
    """The runs of one task and variant that belong together, by seed."""

    task: str
    variant: str
    results: list[Result]
    notes: list[str] = field(default_factory=list)
    """what a reader has to know of them"""

    @property
    def algorithm(self) -> str:
        return self.results[0]["algorithm"]

    @property
    def seeds(self) -> list[int]:
        return [result["seed"] for result in self.results]


def read_results(folder: Path, kind: str = "runs") -> list[Result]:
    """All files of one kind, `runs` or `theory`, by algorithm, variant and seed.

    **Raises** `ConfigError` for a folder that is not there, `RunError` for a file that is damaged.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {folder}. Results are in `results/` of a clone of the project; "
            "`eniac reproduce figure1 --quick` makes some."
        )
    results = [read_result(path) for path in sorted((folder / kind).glob("*/*.json"))]
    order = {name: place for place, name in enumerate(ALGORITHMS)}
    return sorted(
        results,
        key=lambda r: (
            order.get(r["algorithm"], len(order)),
            r["algorithm"],
            name_of(r),
            r["seed"],
        ),
    )


def name_of(result: Result) -> str:
    """The variant that a result is of."""
    return variant(result["algorithm"], result["flags"])


def rows_of(results: Iterable[Result]) -> dict[tuple[str, str], Row]:
    """The rows of results, by task and variant."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        found.setdefault((result["task"], name_of(result)), []).append(result)
    return {key: _row(*key, same) for key, same in found.items()}


def _row(task: str, name: str, results: Sequence[Result]) -> Row:
    settings = Counter(result.get("settings") for result in results)
    known = [each for each in settings if each is not None]
    kept = list(results)
    notes = []
    if len(known) > 1:
        # That of the newest version where there are as many: what one makes now belongs to it.
        most = max(known, key=lambda each: (settings[each], _newest(results, each)))
        kept = [result for result in results if result.get("settings") == most]
        out = [result for result in results if result.get("settings") != most]
        notes.append(
            f"{task} {name}: {_of_seeds(out)} left out, made with other settings than the rest"
        )
    elif known and None in settings:
        old = [result for result in kept if result.get("settings") is None]
        notes.append(f"{task} {name}: it is not known with what settings {_of_seeds(old)} ran")
    versions: dict[str, list[Result]] = {}
    for result in kept:
        versions.setdefault(made_by(result), []).append(result)
    if len(versions) > 1:
        told = ", ".join(f"{made} ({_of_seeds(some)})" for made, some in sorted(versions.items()))
        notes.append(f"{task} {name} mixes versions: {told}")
    return Row(task, name, kept, notes)


def notes_of(rows: Iterable[Row]) -> list[str]:
    """What a reader has to know of rows that are shown together."""
    rows = list(rows)
    of_version: dict[str, list[str]] = {}
    for row in rows:
        if not row.algorithm.startswith("sb3"):
            for made in sorted({made_by(result) for result in row.results}):
                of_version.setdefault(made, []).append(f"{row.task} {row.variant}")
    several = []
    if len(of_version) > 1:
        told = "; ".join(
            f"{made} {', '.join(names) if len(names) <= 3 else f'{len(names)} rows'}"
            for made, names in sorted(of_version.items())
        )
        several = [f"rows are of several versions ({told})"]
    return [*several, *(note for row in rows for note in row.notes)]


def made_by(result: Result) -> str:
    """The library that made a result, with its version."""
    versions = result.get("versions", {})
    for name in ("eniac", "stable-baselines3"):
        if name in versions:
            return f"{name} {versions[name]}"
    return "a version that is not known"


def _newest(results: Sequence[Result], settings: str) -> list[list[int]]:
    made = [made_by(r) for r in results if r.get("settings") == settings]
    numbers = [[int(x) for x in name.split()[-1].split(".") if x.isdecimal()] for name in made]
    return sorted(numbers, reverse=True)


def _of_seeds(results: Sequence[Result]) -> str:
    return seeds_shown([result["seed"] for result in results])


def seeds_shown(seeds: Iterable[int]) -> str:
    """`seed 4`, `seeds 0-4, 7`."""
    numbers = list(seeds)
    return f"seed{'s' * (len(numbers) != 1)} {spans(numbers)}"
