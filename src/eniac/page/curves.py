"""The curves of a page: the numbers of `eniac compare` and `eniac plot`, environment by
environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eniac.page.sources import LABEL
from eniac.report.compare import RETURN, Asked, Group, by_method, compare_groups, notes_on
from eniac.report.curves import RunCurves
from eniac.report.figures import band, exploiting_curve, metric_name, on_a_common_grid
from eniac.report.statistics import interquartile_mean

MOST_POINTS, FEWEST_POINTS = 200, 24
"""Points of a curve."""
MOST_COMPARED = 6
"""Methods in an environment that are compared pair by pair."""
MAX_NUMBERS = 200_000
"""Numbers of all curves together: what a page has room for."""


def panels(curves: Sequence[RunCurves], metric: str) -> list[dict[str, Any]]:
    """For each environment its methods' curves, and what `eniac compare` says of them, as plain
    data.

    Of a method: `mean` and `spread` (the standard deviation) of the seeds, their interquartile mean
    `iqm` and its interval from `low` to `high`, all at `steps`; `seeds`, each with a curve of its
    own; `exploiting`, the exploiting policy's beside an incumbent's. **Raises** `ConfigError` for a
    seed that would count twice.
    """
    places: dict[str, list[RunCurves]] = {}
    for run in curves:
        places.setdefault(run.environment, []).append(run)
    lines = sum(len(run.seeds) + 8 for run in curves)
    points = int(np.clip(MAX_NUMBERS / (2 * max(lines, 1)), FEWEST_POINTS, MOST_POINTS))
    return [_panel(place, runs, metric, points) for place, runs in places.items()]


def _panel(place: str, runs: list[RunCurves], metric: str, points: int) -> dict[str, Any]:
    told = {run.threshold for run in runs if run.threshold is not None and metric == RETURN}
    asked = Asked(metric)
    table = by_method(runs, asked)
    notes = notes_on(table, asked)
    if len(told) > 1:
        limits = " and ".join(f"{x:g}" for x in sorted(told))
        notes.append(
            f"The runs on {place} were to stop above {limits}, so that none of these counts as "
            "success here; `eniac compare --threshold` counts by the one that you choose."
        )
    few = len(table) <= MOST_COMPARED
    if not few:
        notes.append(
            f"More than {MOST_COMPARED} methods are not compared pair by pair here; `eniac "
            "compare` does so with those that you choose."
        )
    threshold = told.pop() if len(told) == 1 else None
    said = compare_groups(table, {place: threshold}, asked, few)
    return {
        "environment": place,
        "label": runs[0].config.get(LABEL) or metric_name(metric),
        "threshold": threshold,
        "rows": said["environments"][0]["methods"],
        "pairs": [pair["sentence"] for pair in said["pairs"]],
        "notes": notes,
        "methods": [_method(name, groups[place], points) for name, groups in table.items()],
    }


def _method(name: str, group: Group, points: int) -> dict[str, Any]:
    curves = [(curve.steps, curve.values) for curve in group.curves]
    steps, values = on_a_common_grid(curves)
    kept = evenly(len(steps), points)
    steps, values = steps[kept], values[:, kept]
    low = high = None
    if len(curves) > 1:
        low, high = map(_numbers, band(values))
    beside = exploiting_curve(group.runs)
    seeds = [seed for run in group.runs for seed in run.seeds]
    return {
        "name": name,
        "steps": [int(x) for x in steps],
        "iqm": _numbers(interquartile_mean(values, axis=0)),
        "low": low,
        "high": high,
        "mean": _numbers(values.mean(axis=0)),
        "spread": _numbers(values.std(axis=0)) if len(curves) > 1 else None,
        "exploiting": None if beside is None else _line(*beside, points),
        "seeds": [
            {"seed": seed, **_line(*curve, points)}
            for seed, curve in zip(seeds, curves, strict=True)
        ],
    }


def _line(steps: np.ndarray, values: np.ndarray, points: int) -> dict[str, Any]:
    kept = evenly(len(steps), points)
    return {"steps": [int(x) for x in steps[kept]], "values": _numbers(values[kept])}


def evenly(count: int, most: int) -> np.ndarray:
    """Places of at most so many of `count` points, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _numbers(values: np.ndarray) -> list[float]:
    """With the digits that can be seen in a picture."""
    return [float(f"{x:.5g}") for x in np.asarray(values)]
