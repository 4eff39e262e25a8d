"""The runs in a folder, by their files alone: quick, and for runs of any version."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eniac.errors import ConfigError, RunError
from eniac.runs.log import METRICS
from eniac.runs.reading import get_field, last_records, read_json, reason


def find_runs(folder: Path) -> list[dict[str, Any]]:
    """What there is to say of each run in `folder` and the folders inside it, oldest first.

    A run is a folder with a config.json and checkpoints or a log beside it. One that cannot be read
    has `problem`, a sentence, and None for what is not known. `return_mean` and `epochs` are the
    means over seeds of the last record and the largest; `steps` are those of all seeds together.
    """
    if not folder.is_dir():
        if str(folder) == "runs":
            return []
        raise ConfigError(f"{folder} is not a folder. `eniac list runs` looks in runs/.")
    found = [describe_run(path) for path in run_folders(folder)]
    return sorted(found, key=lambda run: (run["start"] or "", run["folder"]))


def run_folders(folder: Path) -> list[Path]:
    """The folders of runs in `folder` and the folders inside it, or itself if it is one, sorted by
    the numbers in their names."""
    found = []
    for path, folders, files in os.walk(folder):
        if "config.json" in files and ("checkpoints" in folders or METRICS in files):
            found.append(Path(path))
            folders.clear()  # there are no runs inside a run
    return sorted(found, key=_by_number)


def runs_inside(folders: Sequence[Path]) -> list[Path]:
    """These folders, but for one that holds runs, such as a sweep's, the runs in it."""
    found = []
    for folder in folders:
        inside = [] if (folder / "config.json").exists() else run_folders(folder)
        found += inside or [folder]
    return found


def _by_number(path: Path) -> list[tuple[int, str]]:
    """A key that sorts names by the numbers in them: DeepSea-4 before DeepSea-12."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def describe_run(folder: Path) -> dict[str, Any]:
    """The row of the run in `folder`."""
    row: dict[str, Any] = dict.fromkeys(
        ("folder", "algorithm", "env", "seeds", "epochs", "steps", "return_mean", "ended", "start")
    )
    row |= {"folder": str(folder), "problem": None}
    try:
        row |= _about_config(folder)
        row |= _about_records(folder, row["seeds"])
        row |= _about_manifest(folder)
    except (OSError, RunError) as error:
        told = str(error) if isinstance(error, RunError) else reason(error)
        row["problem"] = told.replace(f"{folder}{os.sep}", "")  # which stands beside it
    return row


def _about_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config = read_json(path)
    algorithm = get_field(path, config, "algorithm", dict)
    return {
        "algorithm": get_field(path, algorithm, "name", str),
        "env": get_field(path, config, "env", str),
        "seeds": get_field(path, config, "seeds", int),
    }


def _about_records(folder: Path, num_seeds: int) -> dict[str, Any]:
    path = folder / "metrics.jsonl"
    last = last_records(path, num_seeds)
    if not last:
        return {"epochs": 0, "steps": 0}
    returns = [r["return_mean"] for r in last if isinstance(r.get("return_mean"), int | float)]
    return {
        "epochs": max(get_field(path, record, "epoch", int) for record in last),
        "steps": sum(get_field(path, record, "env_steps", int) for record in last),
        "return_mean": sum(returns) / len(returns) if returns else None,
    }


def _about_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        return {"ended": "before it began"}
    ended = get_field(path, manifest, "ended", str | None)
    return {
        "start": get_field(path, manifest, "start", str),
        "ended": ended or "not yet, or killed",
    }
