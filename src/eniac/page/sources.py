"""What a page is made of: runs, and files of results, found in folders."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from eniac.errors import ConfigError, RunError
from eniac.report.curves import Curve, RunCurves, read_curves
from eniac.report.run_list import run_folders
from eniac.reproduce.results import Row, rows_of
from eniac.runs.manifest import read_manifest, version_of
from eniac.runs.reading import read_json

FIGURE2 = {"policies", "bonus_share", "axes"}
FIGURE3 = {"trajectories", "bonuses", "smoothness"}
RESULT = {"task", "algorithm", "flags", "seed", "curve"}
"""What tells the files of results apart: fields that each of a kind has."""
SHARE = "share/last"
"""What the curves of the theory's experiments have."""
LABEL = "label"
"""Where the configuration of a result says what its curves show, if that is no return."""
SHARE_SHOWN = "value of the last policy (share of the optimum)"


@dataclass
class Sources:
    """What there is to report."""

    runs: list[Path] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
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
    runs = run_folders(folder)
    found.runs += runs
    for path, folders, files in os.walk(folder):
        if Path(path) in runs:
            folders.clear()
            continue
        folders.sort()
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
    claims = _claims(data.get("claims") if isinstance(data, dict) else data)
    if claims:
        found.claims += claims
        if isinstance(data, dict) and data.get("quick"):
            found.problems.append(f"The claims of {path} are of `--quick`, of few and short runs.")
    elif not isinstance(data, dict):
        return
    elif data.keys() >= RESULT:
        if _is_result(data):
            found.results.append(data)
        else:
            found.problems.append(f"{path} is no result that can be read.")
    elif data.keys() >= FIGURE2:
        found.figures2.append(data)
    elif data.keys() >= FIGURE3:
        found.figures3.append(data)


def _claims(data: Any) -> list[dict[str, Any]]:
    """The rows of a table of claims; none if it is something else."""
    rows = data if isinstance(data, list) else []
    fits = all(isinstance(row, dict) and "claim" in row for row in rows)
    return rows if fits else []


def _is_result(data: dict[str, Any]) -> bool:
    """Whether what says which run it is of is as it should be."""
    flags, versions = data["flags"], data.get("versions", {})
    return (
        all(isinstance(data[name], str) for name in ("task", "algorithm"))
        and isinstance(data["seed"], int)
        and isinstance(flags, list)
        and all(isinstance(word, str) for word in flags)
        and isinstance(versions, dict)
        and isinstance(data.get("settings"), str | None)
    )


def all_curves(found: Sources, metric: str) -> list[RunCurves]:
    """The curves of all runs and results. What has none is told among the problems.

    Runs that were made by other versions of the library are another method's. Which files of
    results belong together is as in the tables that are made of them (`reproduce.results`).
    """
    curves = []
    for run in found.runs:
        try:
            read = read_curves(run, metric)
        except (ConfigError, RunError) as error:
            found.problems.append(str(error))
            continue
        made = version_of(read_manifest(run)) or "a version that is not known"
        curves.append(replace(read, config=read.config | {"made_with": made}))
    for row in rows_of(found.results).values():
        found.problems += row.notes
        for result in row.results:
            try:
                curves.append(curves_of_result(row, result))
            except (ValueError, TypeError, KeyError):
                told = f"The curve of {row.task}, {row.variant}, seed {result['seed']}"
                found.problems.append(f"{told} cannot be read.")
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


def curves_of_result(row: Row, result: dict[str, Any]) -> RunCurves:
    """The curves of a file of results. **Raises** ValueError and the like for anything else.

    Those of the theory's experiments are values as a share of the optimum.
    """
    told, seed = result["curve"], result["seed"]
    if isinstance(told, dict):
        told = [[*point, None] for point in zip(told["env_steps"], told[SHARE], strict=True)]
    points = [[math.nan if x is None else float(x) for x in point] for point in told]
    steps, values, beside = np.array(points, np.float64).reshape(-1, 3).T
    epochs = np.arange(1.0, len(steps) + 1)

    def curve(of: np.ndarray) -> dict[int, Curve]:
        known = np.isfinite(of)
        return {seed: Curve(steps[known], of[known], epochs[known])}

    config: dict[str, Any] = {
        "algorithm": {"name": row.variant},
        "env": row.task,
        "return_above": _threshold(str(result.get("command", ""))),
        LABEL: SHARE_SHOWN if isinstance(result["curve"], dict) else None,
    }
    exploiting = curve(beside) if np.isfinite(beside).any() else {}
    return RunCurves(Path(f"{row.task}, {row.variant}"), config, curve(values), exploiting)


def _threshold(command: str) -> float | None:
    """What a command was given as --return-above."""
    try:
        words = shlex.split(command)
        return float(words[words.index("--return-above") + 1])
    except (ValueError, IndexError):
        return None
