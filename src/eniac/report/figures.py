"""Figures, each a function of files: what is drawn is what the logs say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from eniac.errors import ConfigError, RunError
from eniac.report.curves import RunCurves, labels, merged, read_curves
from eniac.report.numbers import short_number
from eniac.report.run_list import runs_inside
from eniac.report.statistics import LEVEL, RESAMPLES, bootstrap_interval, interquartile_mean

# Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

FORMATS = ("png", "svg", "pdf")
"""Endings of the files that can be drawn to."""

_NAMES = {
    "return_mean": "return (sum of an episode's rewards)",
    "return_std": "deviation of returns (reward)",
    "return_min": "lowest return (reward)",
    "return_max": "highest return (reward)",
    "length_mean": "length of an episode (steps)",
}
"""What stands at an axis, with its unit."""

_AT_ONCE = 4_000_000
"""Numbers that are resampled at a time."""

_GREY = "#666666"


def learning_curves(runs: Sequence[Path], out: Path, metric: str = "return_mean") -> Path:
    """Draws `metric` of the runs against environment steps to a PNG, SVG or PDF at `out`.

        >>> path = eniac.learning_curves([folder / "run"], folder / "curves.svg")

    A folder that holds runs, such as a sweep's, stands for these. Runs that differ in nothing but
    their seeds are one curve; every environment has a panel of its
    own. The line is the interquartile mean of the seeds, the band its 95 % bootstrap interval, thin
    lines are single seeds. A seed that has met its stop rule keeps its last value. Beside the
    return of an incumbent that of the exploiting policy is dashed; a return above which seeds were
    to stop is dotted.
    """
    check_format(out)
    folders = runs_inside([Path(run) for run in runs])
    write(draw_curves([read_curves(run, metric) for run in folders], metric), out)
    return out


def draw_curves(read: Sequence[RunCurves], metric: str = "return_mean") -> Figure:
    """The figure of `learning_curves`."""
    panels: dict[str, list[list[RunCurves]]] = {}
    for group in merged(read):
        panels.setdefault(group[0].environment, []).append(group)
    width = min(len(panels), 3)
    height = -(-len(panels) // width)
    size = (7.2, 4.4) if len(panels) == 1 else (0.6 + 4.6 * width, 0.5 + 3.7 * height)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    every = figure.subplots(height, width, squeeze=False).ravel()
    banded = False
    for axes, (environment, groups) in zip(every, panels.items(), strict=False):
        banded |= _panel(axes, environment, groups, metric)
    for axes in every[len(panels) :]:
        axes.set_visible(False)
    if banded:
        caption = "line: interquartile mean of seeds; band: its "
        caption += f"{100 * LEVEL:.4g} % bootstrap interval"
        figure.supxlabel(caption, fontsize=8, color=_GREY)
    return figure


def _panel(axes: Axes, environment: str, groups: list[list[RunCurves]], metric: str) -> bool:
    """The curves of one environment. Returns whether any has a band."""
    names = labels([(x[0].algorithm, x[0].method, [run.folder for run in x]) for x in groups])
    if len(set(names)) < len(names):
        told = zip(names, groups, strict=True)
        names = [f"{group[0].folder.name}: {name}" for name, group in told]
    alone, banded, dashed = len(groups) == 1, False, False
    for group, name, colour in zip(groups, names, _cycle(len(groups)), strict=True):
        curves = [(c.steps, c.values) for run in group for c in run.seeds.values() if len(c.steps)]
        if not curves:
            raise ConfigError(
                f"metric is {metric!r}, and {group[0].folder} knows no value of it; choose another."
            )
        beside = exploiting_curve(group)
        if beside is not None:
            told = None if dashed else "exploiting policy"
            axes.plot(*beside, color=colour, linestyle="--", linewidth=1.2, label=told)
            dashed = True
        steps, values = on_a_common_grid(curves)
        label = "incumbent" if alone and beside is not None else name
        if len(curves) > 1:
            label += f" ({len(curves)} seeds)"
            low, high = band(values)
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
            banded = True
            for row in values if len(curves) <= 10 else ():
                axes.plot(steps, row, color=colour, alpha=0.25, linewidth=0.7)
        marker = "o" if len(steps) <= 20 else None
        style = {"color": colour, "linewidth": 2.0, "marker": marker, "markersize": 5}
        axes.plot(steps, interquartile_mean(values, axis=0), label=label, **style)
    limits = {run.threshold for group in groups for run in group} - {None}
    for limit in sorted(x for x in limits if x is not None and metric == "return_mean"):
        axes.axhline(limit, color=_GREY, linestyle=":", linewidth=1.2, label=f"threshold {limit:g}")
    dress(axes, "environment steps of a seed", metric_name(metric))
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.set_xlim(left=0)
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(framealpha=0.85, edgecolor="none")
    seeds = sum(len(run.seeds) for run in groups[0])
    whose = f"{names[0]} on {environment}" if environment else names[0]
    more = f", {seeds} seeds" if seeds > 1 else ""
    axes.set_title(whose + more if alone else environment)
    return banded


def performance_profiles(result: dict[str, Any], out: Path) -> Path:
    """Draws what share of seeds ended above each level, of what `compare_runs` returned, to a PNG,
    SVG or PDF at `out`: a panel for each environment, the bands are pointwise intervals."""
    check_format(out)
    panels = result["environments"]
    size = (7.2, 4.4) if len(panels) == 1 else (0.6 + 4.6 * len(panels), 4.2)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, panel in zip(every, panels, strict=True):
        colours = _cycle(len(panel["methods"]))
        for row, colour in zip(panel["methods"], colours, strict=True):
            label = f"{row['method']} ({row['seeds']} seeds)"
            style = {"color": colour, "linewidth": 2, "drawstyle": "steps-post"}
            axes.plot(panel["levels"], row["profile"], label=label, **style)
            low, high = row["profile_interval"]
            if low[0] is not None:
                style = {"color": colour, "alpha": 0.18, "linewidth": 0, "step": "post"}
                axes.fill_between(panel["levels"], low, high, **style)
        if panel["threshold"] is not None:
            limit = panel["threshold"]
            axes.axvline(limit, color=_GREY, linestyle=":", label=f"threshold {limit:g}")
        metric: str = result["metric"]
        dress(axes, metric_name(metric), "share of seeds that end above")
        axes.set_ylim(-0.02, 1.05)
        axes.legend(framealpha=0.85, edgecolor="none")
        axes.set_title(panel["environment"])
    caption = f"band: {100 * result['level']:.4g} % bootstrap interval at each level, over seeds"
    figure.supxlabel(caption, fontsize=8, color=_GREY)
    write(figure, out)
    return out


def check_format(out: Path) -> None:
    """Refuses a file whose ending says no format that can be drawn."""
    if out.suffix.lower().removeprefix(".") not in FORMATS:
        raise ConfigError(
            f"out is {str(out)!r}; it must end in {', '.join(f'.{x}' for x in FORMATS)}."
        )


def write(figure: Figure, out: Path) -> None:
    """Writes a figure in the format that the ending of `out` says, the same bytes each time."""
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context({"svg.hashsalt": "eniac"}):
            figure.savefig(out, metadata=dates.get(out.suffix.lower()))
    except (OSError, ValueError) as error:
        raise RunError(f"Cannot draw to {out}: {error}.") from error


def on_a_common_grid(
    curves: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Curves of (steps, values) on the union of their steps: (steps,), (curves, steps).

    Between its points a curve is linear; beyond its last it keeps its last value.
    """
    grid = np.unique(np.concatenate([steps for steps, _ in curves]))
    return grid, np.stack([np.interp(grid, steps, values) for steps, values in curves])


def metric_name(metric: str) -> str:
    """What a metric is called at an axis."""
    return _NAMES.get(metric, metric.replace("_", " "))


def band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the interval of the interquartile mean of `values`, [seeds, steps], at each of
    the steps. The same seeds are drawn everywhere."""
    many = max(1, _AT_ONCE // (RESAMPLES * len(values)))
    found = [
        bootstrap_interval(
            [values[:, start : start + many]],
            lambda drawn: interquartile_mean(drawn[0], axis=1),
        )
        for start in range(0, values.shape[1], many)
    ]
    return np.concatenate([low for low, _ in found]), np.concatenate([high for _, high in found])


def dress(axes: Axes, x: str, y: str) -> None:
    """The axes of a curve, with what they show."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axes.xaxis.set_major_locator(MaxNLocator(7))
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.margins(x=0.01)


def exploiting_curve(group: list[RunCurves]) -> tuple[np.ndarray, np.ndarray] | None:
    """The return of the exploiting policy, the interquartile mean of all seeds in which it learns
    by then."""
    curves = [curve for run in group for curve in run.exploiting.values()]
    seeds = [(curve.steps, curve.values) for curve in curves if len(curve.steps)]
    if not seeds:
        return None
    grid = np.unique(np.concatenate([steps for steps, _ in seeds]))
    values = np.stack([np.interp(grid, steps, values, left=np.nan) for steps, values in seeds])
    known = [interquartile_mean(column[~np.isnan(column)]) for column in values.T]
    return grid, np.array(known)


def _cycle(count: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(count)]
