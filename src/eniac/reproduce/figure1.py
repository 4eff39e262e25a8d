"""Figure 1 of the paper: five algorithms on continuous mountain car, at three depths.

Each is trained until its return is above 93, with the paper's settings and with ours, in episodes
that go on (the paper's program) and in episodes of 100 steps (the paper's text).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from eniac.networks import DEPTHS
from eniac.report.compare import Asked, Group, compare_groups
from eniac.report.curves import Curve
from eniac.report.figures import COLOURS, band, dress, on_a_common_grid, short_number
from eniac.report.statistics import interquartile_mean, performance_profile, wilson
from eniac.reproduce.choice import Choice, Report, chosen, gaps, measured, to_know
from eniac.reproduce.exploration import short
from eniac.reproduce.results import Row, notes_of, rows_of
from eniac.reproduce.tasks import OURS, TASKS, car
from eniac.reproduce.wanted import Wanted

EPISODES, SETTINGS = ("continuing", "episodic"), ("paper", "ours")
SEEDS = 10
QUICK_SEEDS = 2
QUICK_STEPS = {"paper": 3_000_000, "ours": 1_000_000}

# PPO in black: its orange is too near to that of PC-PG in thin lines.
COLOUR = dict[str, str](zip(OURS, (*COLOURS[:4], COLOURS[6]), strict=True))

Table = dict[str, dict[str, Row]]
"""For each algorithm its rows, by task."""


def runs(choice: Choice) -> list[Wanted]:
    """All runs of the figure, or those that were chosen; the deeper ones last."""
    depths = chosen("depths", choice.depths, tuple(DEPTHS))
    depths = depths[:1] if choice.quick and choice.depths is None else depths
    found = []
    for depth, episodes, settings, algorithm, seed in itertools.product(
        depths,
        chosen("episodes", choice.episodes, EPISODES),
        chosen("settings", choice.settings, SETTINGS),
        chosen("algorithms", choice.algorithms, OURS),
        choice.numbers(0, QUICK_SEEDS if choice.quick else SEEDS),
    ):
        found.append(
            Wanted(
                car(depth, episodes == "episodic"),
                algorithm,
                seed,
                flags(settings, depth),
                QUICK_STEPS[settings] if choice.quick else None,
                results=choice.results,
                runs=choice.runs,
            )
        )
    return found


def flags(settings: str, depth: int) -> tuple[str, ...]:
    """What tells the paper's settings from ours, for `eniac train`."""
    return ("--preset", f"paper-depth{depth}") if settings == "paper" else ()


def report(choice: Choice) -> Report:
    """Tables and pictures of what was measured, one of each for every setting and kind of
    episodes."""
    text, pictures = "", {}
    for episodes, settings in itertools.product(EPISODES, SETTINGS):
        wanted = runs(replace(choice.whole, episodes=(episodes,), settings=(settings,)))
        rows = rows_of(measured(wanted, choice.results))
        found = table_of(rows)
        whose = "the paper's settings" if settings == "paper" else "our settings"
        title = f"{choice.label}{episodes.capitalize()}, {whose}"
        text += f"\n### {title}\n"
        if found:
            text += f"\n{markdown(compared(found), found)}"
            pictures[f"figure1-{episodes}-{settings}"] = draw(found, title)
        text += to_know(gaps(wanted, lambda run: run.algorithm), notes_of(rows.values()))
    return Report(text, pictures)


def table_of(rows: Mapping[tuple[str, str], Row]) -> Table:
    """The rows of one setting and kind of episodes."""
    found: Table = {}
    for row in sorted(rows.values(), key=lambda row: (OURS.index(row.algorithm), row.task)):
        found.setdefault(row.algorithm, {})[row.task] = row
    return found


def tasks_of(found: Table) -> list[str]:
    """The tasks of a table, from the least depth to the largest."""
    return sorted({task for rows in found.values() for task in rows}, key=list(TASKS).index)


def group_of(row: Row) -> Group:
    """The row's seeds as `compare` knows them, each up to the steps that there are for the task."""
    task = TASKS[row.task]
    curves, seconds = [], []
    for result in row.results:
        points = np.array([point[:2] for point in result["curve"]], np.float64)
        # The first point stays whatever its steps: a round can be longer than a small limit.
        within = points[:, 0] <= task.limit_for(result["algorithm"], result["flags"])
        within[0] = True
        points = points[within]
        numbers = np.arange(len(points), dtype=np.float64)
        curves.append(Curve(points[:, 0], points[:, 1], numbers))
        at = result["solved_at"]
        reached = {} if at is None else {at["steps"]: at["seconds"]}
        steps = points[:, 0]
        seconds.append({k: reached[n] for k, n in enumerate(steps) if n in reached})
    return Group(row.task, [], curves, seconds)


def compared(found: Table) -> dict[str, Any]:
    """Each task's algorithms beside one another, in the form of `compare_runs`, without pairs."""
    environments, whole = [], {}
    for name in tasks_of(found):
        groups = {a: {name: group_of(rows[name])} for a, rows in found.items() if name in rows}
        threshold = float(TASKS[name].threshold)
        whole = compare_groups(groups, {name: threshold}, Asked(by="steps", threshold=threshold))
        environments += whole["environments"]
    return {**whole, "environments": environments, "pairs": []}


HEAD = (
    "| task | algorithm | above 93 | steps until then | seconds until then | last return, IQM | "
    "fresh episodes |\n| --- | --- | --- | --- | --- | --- | --- |\n"
)


def markdown(comparison: Mapping[str, Any], found: Table) -> str:
    """The table, of which the page says how to read it."""
    lines = []
    for place in comparison["environments"]:
        for row in place["methods"]:
            results = found[row["method"]][place["environment"]].results
            final = np.mean([result["final"]["return_mean"] for result in results])
            success = row["success"]
            low, high = success["interval"]
            cells = [
                place["environment"],
                row["method"],
                f"{success['count']} of {row['seeds']} [{low:.2f}, {high:.2f}]",
                _time(row["steps_to_threshold"], short),
                _time(row["seconds_to_threshold"], lambda x: f"{x:,.0f}"),
                _between(row["iqm"], row["iqm_interval"], _return),
                _return(float(final)),
            ]
            lines.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(lines)


def _time(row: Mapping[str, Any] | None, form: Any) -> str:
    if row is None or row["median"] is None:
        return "-"
    return _between(row["median"], row["interval"], form)


def _between(value: float, ends: Sequence[float | None], form: Any) -> str:
    low, high = ("-" if end is None else form(end) for end in ends)
    return form(value) if low == high == "-" else f"{form(value)} [{low}, {high}]"


def _return(value: float) -> str:
    return f"{round(value, 1) + 0.0:.1f}"


def draw(found: Table, title: str) -> Figure:
    """Curves of all algorithms, a column a task: mean and standard deviation, as in the paper;
    the interquartile mean and its bootstrap interval; the share of seeds that are above the
    threshold by then, with Wilson's interval."""
    names = tasks_of(found)
    figure = Figure(figsize=(0.6 + 4.2 * len(names), 9.0), dpi=100, layout="constrained")
    panels = figure.subplots(3, len(names), squeeze=False)
    handles: dict[str, list[tuple[Any, int]]] = {}
    for column, name in enumerate(names):
        groups = {a: group_of(rows[name]) for a, rows in found.items() if name in rows}
        end = max(curve.steps[-1] for group in groups.values() for curve in group.curves)
        for algorithm, group in reversed(groups.items()):  # the first on top
            drawn = _curves(list(panels[:, column]), group, COLOUR[algorithm], end, name)
            handles.setdefault(algorithm, []).append((drawn, len(group.curves)))
        for axes, y in zip(panels[:, column], ROWS, strict=True):
            dress(axes, "environment steps" if y == ROWS[-1] else "", "" if column else y)
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short_number(x)))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlim(1e5, end * 1.05)
        for axes in panels[:2, column]:
            axes.axhline(TASKS[name].threshold, color="#666666", linestyle=":", linewidth=1.0)
            axes.set_ylim(-110, 110)
        panels[2, column].set_ylim(-0.03, 1.03)
        panels[0, column].set_title(name, fontsize=10)
    order = [name for name in OURS if name in handles]
    counts = {name: sorted({count for _, count in handles[name]}) for name in order}
    figure.legend(
        [handles[name][0][0] for name in order],
        [f"{name} ({_seeds(counts[name])})" for name in order],
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=9,
    )
    figure.suptitle(title, fontsize=11)
    return figure


def _seeds(counts: Sequence[int]) -> str:
    return f"{' or '.join(map(str, counts))} seed{'s' * (counts != [1])}"


ROWS = ("return: mean, deviation", "return: IQM, 95 % interval", "share of seeds above 93")


def _curves(panels: Sequence[Axes], group: Group, colour: str, end: float, task: str) -> Any:
    """Draws a group into the panels of its task. Returns a line for the legend."""
    steps, values = on_a_common_grid([(curve.steps, curve.values) for curve in group.curves])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    middle = interquartile_mean(values, axis=0)
    ends = band(values) if len(values) > 1 else (middle, middle)
    times = np.sort(group.steps_to(TASKS[task].threshold))
    grid = np.array([1e5, *times[np.isfinite(times)], end])
    shares = performance_profile(-times, -grid - 0.5)
    bounds = np.array([wilson(round(share * len(times)), len(times)) for share in shares]).T
    for axes, x, line, low, high, style in (
        (panels[0], steps, mean, mean - spread, mean + spread, "default"),
        (panels[1], steps, middle, *ends, "default"),
        (panels[2], grid, shares, *bounds, "steps-post"),
    ):
        stepped: Any = "post" if style == "steps-post" else None
        axes.fill_between(x, low, high, color=colour, alpha=0.14, linewidth=0, step=stepped)
        (drawn,) = axes.plot(x, line, color=colour, linewidth=1.8, drawstyle=style)
        axes.plot(x[-1], line[-1], ".", color=colour, markersize=6)
    return drawn
