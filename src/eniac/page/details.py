"""What a page says of a run that takes more than its logs: policies, bonus, certificate, checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from eniac.errors import ConfigError, EniacError
from eniac.page.landscapes import landscapes
from eniac.report.certificate import certify_run
from eniac.report.coverage import cover_report
from eniac.report.diagnose import diagnose
from eniac.report.pictures import NoPicture
from eniac.runs.load import Run, load_run
from eniac.runs.log import METRICS, read_records


def details(folder: Path, seed: int | None, episodes: int) -> dict[str, Any]:
    """What is to be said of one seed of the run in `folder`, by default the first, as plain data:
    `landscape`, `cover`, `certificate`, `checks`. Each is None where there is no such thing, or
    where it is not to be had; then `problems` say why.

    **Raises** `ConfigError` for a seed that the run has not.
    """
    found: dict[str, Any] = {"run": str(folder), "seed": seed, "problems": []}
    parts: dict[str, Callable[[Run], Any]] = {
        "landscape": lambda run: landscapes(run, seed),
        "cover": lambda run: _cover(run, seed, episodes),
        "certificate": lambda run: _certificate(run, seed),
        "checks": _checks,
    }
    found |= dict.fromkeys(parts)
    try:
        run = load_run(folder)
    except EniacError as error:
        found["problems"].append(f"Only the logs of {folder} could be read: {error}")
        return found
    found["problems"] += run.warnings
    try:
        found["seed"] = run.config.seed_numbers[run.index(seed)]
        for name, part in parts.items():
            try:
                found[name] = part(run)
            except NoPicture:
                continue  # there is none of its kind
            except EniacError as error:
                found["problems"].append(f"{folder}, {name}: {error}")
    finally:
        run.learner.close()
    return found


def _cover(run: Run, seed: int | None, episodes: int) -> dict[str, Any] | None:
    return cover_report(run, seed, episodes) if run.config.algorithm.has_cover else None


def _certificate(run: Run, seed: int | None) -> dict[str, Any] | None:
    try:
        return certify_run(run, seed).to_dict()
    except ConfigError:
        return None  # no theorem speaks of it


def _checks(run: Run) -> dict[str, Any]:
    diagnosis = diagnose(run.config, read_records(run.path / METRICS), run)
    return {"lines": diagnosis.lines(), "left_out": diagnosis.left_out}
