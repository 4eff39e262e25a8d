"""What a page is made of: runs, and files of results, found in folders."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from eniac.errors import ConfigError, RunError
from eniac.report.curves import Curve, RunCurves, read_curves
from eniac.runs.manifest import read_manifest, version_of
from eniac.runs.reading import read_json

FIGURE2 = {"policies", "bonus_share", "axes"}
FIGURE3 = {"trajectories", "bonuses", "smoothness"}
RESULT = {"task", "algorithm", "seed", "curve"}
"""What tells the files of results apart: fields that each of a kind has."""


@dataclass
class Sources:
    """What there is to report."""

    runs: list[Path] = field(default_factory=list)
    results: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)
    """of runs whose folders may be gone"""
    claims: list[dict[str, Any]] = field(default_factory=list)
    figures2: list[dict[str, Any]] = field(default_factory=list)
    figures3: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """what was left out, and why"""


def find_sources(paths: Sequence[Path]) -> Sources:
    """What there is in `paths`: folders of runs, folders that have some in them, folders of results
    or single files of them. **Raises** `ConfigError` for one in which there is nothing."""
    if not paths:
        raise ConfigError("Report what? For instance `eniac report runs/sea`.")
    found = Sources()
    for path in dict.fromkeys(paths):
        if not path.exists():
            raise ConfigError(f"{path} does not exist. `eniac list runs` shows what there is.")
        before = _count(found)
        if path.is_file():
            _read(path, found)
        else:
            _walk(path, found)
        if _count(found) == before:
            raise ConfigError(
                f"there is nothing to report in {path}: no run, which is a folder with a "
                "config.json that `eniac train` made, and no file of results, which `eniac "
                "reproduce` makes."
            )
    return found


def _count(found: Sources) -> int:
    lists = (found.runs, found.results, found.claims, found.figures2, found.figures3)
    return sum(map(len, (*lists, found.problems)))


def _walk(folder: Path, found: Sources) -> None:
    for path, folders, files in os.walk(folder):
        folders.sort()
        if "config.json" in files and {"metrics.jsonl", "manifest.json"} & set(files):
            found.runs.append(Path(path))
            folders.clear()  # there are no runs inside a run
            continue
        for name in sorted(files):
            if name.endswith(".json"):
                _read(Path(path, name), found)


def _read(path: Path, found: Sources) -> None:
    """Sorts a file of results in; any other JSON is none of ours."""
    try:
        data = read_json(path)
    except RunError as error:
        found.problems.append(str(error))
        return
    rows = data.get("claims") if isinstance(data, dict) else data
    if isinstance(rows, list) and rows and all(isinstance(x, dict) and "claim" in x for x in rows):
        found.claims += rows
    elif not isinstance(data, dict):
        return
    elif data.keys() >= RESULT:
        found.results.append((path, data))
    elif data.keys() >= FIGURE2:
        found.figures2.append(data)
    elif data.keys() >= FIGURE3:
        found.figures3.append(data)


def all_curves(found: Sources, metric: str) -> list[RunCurves]:
    """The curves of all runs and results. What has none is told among the problems.

    What was made by other versions of the library, or with other settings, is another method's: it
    is never taken together.
    """
    curves = []
    for run in found.runs:
        try:
            read = read_curves(run, metric)
        except (ConfigError, RunError) as error:
            found.problems.append(str(error))
            continue
        curves.append(replace(read, config=read.config | {"made_with": _version(run)}))
    for path, result in found.results:
        try:
            curves.append(curves_of_result(path, result))
        except (ValueError, TypeError, KeyError) as error:
            found.problems.append(f"{path} is no result that can be read: {error}.")
    known = []
    for run in curves:
        empty = [seed for seed, curve in run.seeds.items() if not len(curve.steps)]
        found.problems += [f"Seed {seed} of {run.folder} has no {metric} yet." for seed in empty]
        seeds = {seed: curve for seed, curve in run.seeds.items() if seed not in empty}
        if not run.environment:
            found.problems.append(f"{run.folder} has no config.json that says where it learned.")
        elif seeds:
            known.append(RunCurves(run.folder, run.config, seeds, run.exploiting))
    return known


def _version(run: Path) -> str:
    return version_of(read_manifest(run)) or "a version that is not known"


def curves_of_result(path: Path, result: dict[str, Any]) -> RunCurves:
    """The curves of a file of results. **Raises** ValueError and the like for anything else."""
    rows = [[math.nan if x is None else float(x) for x in row] for row in result["curve"]]
    steps, values, beside = np.array(rows, np.float64).reshape(-1, 3).T
    epochs, seed = np.arange(1.0, len(steps) + 1), int(result["seed"])

    def curve(of: np.ndarray) -> dict[int, Curve]:
        known = np.isfinite(of)
        return {seed: Curve(steps[known], of[known], epochs[known])}

    config: dict[str, Any] = {
        "algorithm": {"name": method_of(result)},
        "env": str(result["task"]),
        "settings": result.get("settings"),
        "made_with": _made_by(result),
        "return_above": _threshold(str(result.get("command", ""))),
    }
    exploiting = curve(beside) if np.isfinite(beside).any() else {}
    return RunCurves(path.parent, config, curve(values), exploiting)


def method_of(result: Mapping[str, Any]) -> str:
    """An algorithm and the options that it was given: `eniac --restart 0`."""
    return " ".join(map(str, [result["algorithm"], *result.get("flags", [])]))


def _made_by(result: dict[str, Any]) -> str:
    """The library that made a result, with its version."""
    versions = result.get("versions")
    for name in ("eniac", "stable-baselines3"):
        if isinstance(versions, dict) and name in versions:
            made = str(versions[name])
            return made if name == "eniac" else f"{name} {made}"
    return str(result.get("version", "a version that is not known"))


def _threshold(command: str) -> float | None:
    """What a command was given as --return-above."""
    try:
        words = shlex.split(command)
        return float(words[words.index("--return-above") + 1])
    except (ValueError, IndexError):
        return None


def versions_of(curves: Sequence[RunCurves]) -> list[str]:
    """The versions of the library that made them."""
    made = {str(run.config.get("made_with")) for run in curves}
    return sorted(x for x in made if not x.startswith("stable-baselines3"))
