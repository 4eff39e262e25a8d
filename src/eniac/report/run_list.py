"""The runs in a folder, by their files alone: quick, and for runs of any version."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from eniac.errors import ConfigError

_TAIL = 2**18
"""Bytes at the end of a log in which the last record of every seed is looked for first."""


def find_runs(folder: Path) -> list[dict[str, Any]]:
    """What there is to say of each run in `folder` and the folders inside it, oldest first.

    A run is a folder with a config.json and checkpoints beside it. One that cannot be read has
    `problem`, a sentence, and None for what is not known. `return_mean` and `epochs` are the means
    over seeds of the last record and the largest; `steps` are those of all seeds together.
    """
    if not folder.is_dir():
        if str(folder) == "runs":
            return []
        raise ConfigError(f"{folder} is not a folder. `eniac list runs` looks in runs/.")
    found = []
    for path, folders, files in os.walk(folder):
        folders.sort()
        if "config.json" in files and "checkpoints" in folders:
            found.append(describe_run(Path(path)))
            folders.clear()  # there are no runs inside a run
    return sorted(found, key=lambda run: (run["start"] or "", run["folder"]))


def describe_run(folder: Path) -> dict[str, Any]:
    """The row of the run in `folder`."""
    row: dict[str, Any] = dict.fromkeys(
        ("folder", "algorithm", "env", "seeds", "epochs", "steps", "return_mean", "ended", "start")
    )
    row |= {"folder": str(folder), "problem": None}
    try:
        config = json.loads((folder / "config.json").read_text())
        row |= {
            "algorithm": config["algorithm"]["name"],
            "env": config["env"],
            "seeds": config["seeds"],
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        return row | {"problem": _reason("config.json", error)}
    try:
        last = _last_records(folder / "metrics.jsonl", config["seeds"])
        if last:
            returns = [r["return_mean"] for r in last if r.get("return_mean") is not None]
            row |= {
                "epochs": max(record["epoch"] for record in last),
                "steps": sum(record["env_steps"] for record in last),
                "return_mean": sum(returns) / len(returns) if returns else None,
            }
        else:
            row |= {"epochs": 0, "steps": 0}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return row | {"problem": _reason("metrics.jsonl", error)}
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        row |= {"start": manifest["start"], "ended": manifest["ended"] or "not yet, or killed"}
    except FileNotFoundError:
        row["ended"] = "before it began"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return row | {"problem": _reason("manifest.json", error)}
    return row


def _last_records(path: Path, num_seeds: int) -> list[dict[str, Any]]:
    """The last record of every seed that has one."""
    if not path.exists():
        return []
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        for start in (max(size - _TAIL, 0), 0):
            file.seek(start)
            lines = file.read().splitlines(keepends=True)
            # The first line may be half of one, and the last is still being written without an end.
            whole = [line for line in lines[start > 0 :] if line.endswith(b"\n")]
            last = {record["seed"]: record for record in map(json.loads, whole)}
            if len(last) >= num_seeds or start == 0:
                return list(last.values())
    return []


def _reason(name: str, error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{name} has no {error.args[0]!r}"
    if isinstance(error, OSError):
        return f"{name} cannot be read: {error.strerror or error}"
    return f"{name} is damaged: {error}"
