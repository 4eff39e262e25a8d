"""Figures, each a function of files: what is drawn is what the logs say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from eniac.errors import ConfigError, RunError, name_shown, shown, suggestion
from eniac.runs.log import HEAD, METRICS, read_records
from eniac.runs.progress import EXPLOITING
from eniac.runs.reading import read_json

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

_NAMES = {"return_mean": "return", "length_mean": "length of an episode"}


def learning_curves(runs: Sequence[Path], out: Path, metric: str = "return_mean") -> Path:
    """Draws `metric` of the runs against environment steps to a PNG at `out`.

    The line is the mean of a run's seeds, the band reaches from the lowest seed to the highest,
    thin lines are single seeds. A seed that has met its stop rule keeps its last value. Beside the
    return of an incumbent that of the exploiting policy is dashed, the mean of all seeds.
    """
    curves = [_curves(Path(run), metric) for run in runs]
    labels = [label for label, _ in curves]
    if len(set(labels)) < len(labels):
        curves = [
            (f"{Path(run).name}: {label}", seeds)
            for run, (label, seeds) in zip(runs, curves, strict=True)
        ]
    figure = Figure(figsize=(7.2, 4.4), dpi=150, layout="constrained")
    axes = figure.subplots()
    colours, dashed = _cycle(len(curves)), False
    for run, (label, seeds), colour in zip(runs, curves, colours, strict=True):
        steps, values = on_a_common_grid(seeds)
        beside = _exploiting(Path(run)) if metric == "return_mean" else None
        if beside is not None:
            told = None if dashed else "exploiting policy"
            axes.plot(*beside, color=colour, linestyle="--", linewidth=1.2, label=told)
            dashed = True
        if len(curves) == 1:
            label = "incumbent"
        if len(seeds) > 1:
            label += f" ({len(seeds)} seeds)"
            axes.fill_between(
                steps, values.min(0), values.max(0), color=colour, alpha=0.18, linewidth=0
            )
            for row in values if len(seeds) <= 10 else ():
                axes.plot(steps, row, color=colour, alpha=0.25, linewidth=0.7)
        marker = "o" if len(steps) <= 20 else None
        style = {"color": colour, "linewidth": 2.0, "marker": marker, "markersize": 5}
        axes.plot(steps, values.mean(0), label=label, **style)
    axes.set_xlabel("environment steps of a seed")
    axes.set_ylabel(_NAMES.get(metric, metric.replace("_", " ")))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.margins(x=0.01)
    if len(curves) > 1 or dashed:
        axes.legend(frameon=False)
    if len(curves) == 1:
        axes.set_title(curves[0][0] + (f", {len(curves[0][1])} seeds" * (len(curves[0][1]) > 1)))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)
    except (OSError, ValueError) as error:
        raise RunError(f"Cannot draw to {out}: {error}.") from error
    return out


def on_a_common_grid(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Curves of (steps, values) on the union of their steps: (steps,), (curves, steps).

    Between its points a curve is linear; beyond its last it keeps its last value.
    """
    grid = np.unique(np.concatenate([steps for steps, _ in curves]))
    return grid, np.stack([np.interp(grid, steps, values) for steps, values in curves])


def short_number(value: float) -> str:
    """`950`, `20k`, `1.5M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _exploiting(run: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """The return of the exploiting policy, the mean of all seeds in which it learns by then."""
    records = read_records(run / METRICS)
    name = next((name for name in EXPLOITING if name in records[0]), None)
    if name is None:
        return None
    seeds = [curve for curve in _curves(run, name)[1] if not np.isnan(curve[1]).any()]
    if not seeds:
        return None
    grid = np.unique(np.concatenate([steps for steps, _ in seeds]))
    values = [np.interp(grid, steps, values, left=np.nan) for steps, values in seeds]
    return grid, np.nanmean(values, axis=0)


def _curves(run: Path, metric: str) -> tuple[str, list[tuple[np.ndarray, np.ndarray]]]:
    records = read_records(run / METRICS)
    if not records:
        raise ConfigError(f"{run} has no epoch in {METRICS} to plot. Is it the folder of a run?")
    if metric not in records[0]:
        names = [name for name in records[0] if name not in HEAD]
        raise ConfigError(
            f"metric is {shown(metric)}; {run} has {', '.join(names)}.{suggestion(metric, names)}"
        )
    by_seed: dict[int, list[dict[str, Any]]] = {}
    for number, record in enumerate(records, start=1):
        if record.get("seed") is None or record.get("env_steps") is None:
            raise RunError(f"line {number:,} of {run / METRICS} has no seed or no env_steps.")
        by_seed.setdefault(record["seed"], []).append(record)
    seeds = []
    for rows in by_seed.values():
        points = [(row["env_steps"], row[metric]) for row in rows if row.get(metric) is not None]
        steps, values = zip(*points, strict=True) if points else ((0,), (np.nan,))
        seeds.append((np.array(steps, np.float64), np.array(values, np.float64)))
    return _label(run), seeds


def _label(run: Path) -> str:
    try:
        config = read_json(run / "config.json")
        options = "".join(f" {k}={v}" for k, v in config["env_options"].items())
        return name_shown(f"{config['algorithm']['name']} on {config['env']}{options}")
    except (FileNotFoundError, RunError, KeyError, TypeError, AttributeError):
        return run.name


def _cycle(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
