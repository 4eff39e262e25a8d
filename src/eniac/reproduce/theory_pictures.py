"""The pictures of the theory's experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from eniac.report.figures import COLOURS, dress, on_a_common_grid, short_number
from eniac.reproduce.results import Row
from eniac.reproduce.theory_numbers import (
    ENOUGH,
    GAP,
    Excess,
    Growth,
    Rows,
    growth,
    misspecified,
    steps_to,
    versions,
)
from eniac.reproduce.theory_tasks import THEORY, WITHOUT


def draw_learning(rows: Sequence[Row], label: str) -> Figure:
    """The gap of the last iterate against environment steps: a panel for each task."""
    names = list(dict.fromkeys(row.task for row in rows))
    algorithms = list(dict.fromkeys(row.algorithm for row in rows))
    colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(algorithms)}
    columns = min(3, len(names))
    height = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.1 * height + 0.5), dpi=100, layout="constrained")
    panels = figure.subplots(height, columns, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for axes, name in zip(panels, names, strict=False):
        for row in [row for row in rows if row.task == name]:
            curves = [result["by_epoch"] for result in row.results]
            steps, shares = on_a_common_grid(
                [(np.array(c["env_steps"], float), np.array(c["share/last"])) for c in curves]
            )
            gap, colour = 1 - shares, colours[row.algorithm]
            axes.fill_between(steps, gap.min(0), gap.max(0), color=colour, alpha=0.12, linewidth=0)
            style = "--" if row.algorithm in WITHOUT else "-"
            (handles[row.algorithm],) = axes.plot(
                steps, np.median(gap, 0), style, color=colour, linewidth=1.8
            )
        axes.axhline(1 - ENOUGH, color="#999999", linewidth=0.8, linestyle=":")
        dress(axes, "environment steps of a seed", "")
        axes.set_ylim(-0.06, 1.55)
        axes.set_title(f"{name.removeprefix('provable-')}, {THEORY[name].function_class} class")
        axes.title.set_fontsize(10)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    figure.suptitle(f"{label}Value gap, median and range of the seeds", fontsize=11)
    figure.supylabel("gap of the last iterate, share of the optimum", fontsize=10)
    named = sorted(handles, key=algorithms.index)
    handled = [handles[name] for name in named]
    figure.legend(handled, named, loc="outside lower center", ncols=4, frameon=False)
    return figure


def draw_growth(rows: Rows, label: str) -> Figure:
    """What there is of these: gap against samples, samples against size, SAMPLE beside COMPUTE, and
    what a class costs that cannot say it all."""
    found, both, costs = growth(rows), versions(rows), misspecified(rows)
    drawn = [
        *([partial(_draw_gaps, found=found), partial(_draw_sizes, found=found)] if found else []),
        *([partial(_draw_versions, found=both)] if both else []),
        *([partial(_draw_bias, found=costs)] if costs else []),
    ]
    figure = Figure(figsize=(0.4 + 3.3 * len(drawn), 3.7), dpi=110, layout="constrained")
    panels = figure.subplots(1, max(len(drawn), 1), squeeze=False)[0]
    for axes, draw in zip(panels, drawn, strict=False):
        draw(axes)
    figure.suptitle(f"{label}Samples and accuracy of ENIAC-SPI", fontsize=11)
    return figure


def _logarithmic(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=10)
    for axis in (axes.xaxis, axes.yaxis):
        _name_ticks(axis)
    axes.grid(color="#dddddd", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)


def _name_ticks(axis: Any) -> None:
    """1, 2 and 5 of each power of ten, in short."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    axis.set_minor_formatter(NullFormatter())


def _draw_gaps(axes: Axes, found: Growth) -> None:
    for colour, (states, seeds) in zip(COLOURS, found.items(), strict=False):
        points = np.array([list(each) for each in seeds.values()])
        steps, gap = np.median(points, axis=0).T
        low, high = points[..., 1].min(0), points[..., 1].max(0)
        axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(steps, gap, ".-", color=colour, label=f"{states} states")
    _logarithmic(axes, "environment steps", "gap of the outer mixture", "random MDPs")
    if found:
        axes.axhline(GAP, color="#999999", linewidth=0.8, linestyle=":")
        axes.legend(frameon=False, fontsize=8)


def _draw_sizes(axes: Axes, found: Growth) -> None:
    for states, seeds in found.items():
        steps = [steps_to(points, GAP) for points in seeds.values()]
        axes.plot([4 * states] * len(steps), steps, "o", color=COLOURS[0], alpha=0.4, markersize=4)
        axes.plot(4 * states, np.median(steps), "_", color="#000000", markersize=14)
    _logarithmic(axes, "pairs of state and action", f"steps to a gap of {GAP:g}", "and their size")
    axes.set_xticks([4 * states for states in found])


def _draw_versions(axes: Axes, found: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for place, (_, pair) in enumerate(found.items()):
        for side, steps in enumerate(pair):
            x = np.full(len(steps), place + 0.3 * side - 0.15)
            axes.plot(x, steps, "o", color=COLOURS[side], alpha=0.4, markersize=4)
            axes.plot(x[0], np.median(steps), "_", color="#000000", markersize=14)
    axes.set_xticks(range(len(found)), [*found])
    axes.set_xlim(-0.5, max(len(found), 1) - 0.5)
    axes.set_yscale("log")
    _name_ticks(axes.yaxis)
    axes.set_ylabel("steps that are enough")
    axes.set_title("SAMPLE (left), COMPUTE (right)", fontsize=10)
    axes.grid(color="#dddddd", linewidth=0.7, axis="y")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bias(axes: Axes, found: Mapping[int, Mapping[int, Excess]]) -> None:
    every = [excess for seeds in found.values() for excess in seeds.values() if excess.bias > 0]
    if every:
        bias, _, transfer, term, most = np.array(every).T
        order = np.argsort(bias)
        axes.plot(bias[order], term[order], "-", color=COLOURS[1], label="the theorem's term")
        axes.axhline(most.max(), color="#999999", linewidth=0.8, linestyle=":", label="largest gap")
        shown = np.maximum(transfer, 1e-5)
        axes.plot(bias, shown, "o", color=COLOURS[0], alpha=0.4, markersize=3, label="measured")
    _logarithmic(axes, "epsilon_bias", "transfer", "misspecification")
    if every:
        axes.legend(frameon=False, fontsize=8)
