"""The hard tasks: their tables and their curves, for the page "Do I need a bonus?"."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eniac.errors import ConfigError
from eniac.report.figures import COLOURS
from eniac.reproduce.ablation_tasks import SETTINGS
from eniac.reproduce.choice import Choice, Report, chosen
from eniac.reproduce.results import Row, notes_of, read_results, rows_of
from eniac.reproduce.tasks import ALGORITHMS, OURS, TASKS, Result, Task
from eniac.reproduce.wanted import Wanted

SEEDS, BASELINE_SEEDS = 10, 5
QUICK_TASKS, QUICK_SEEDS, QUICK_STEPS = ("lock-2", "lock-5", "deep-sea-10"), 2, 500_000

HEAD = """\
| task | algorithm | solved | median steps | median seconds | final return | at the end | limit |
| --- | --- | --- | --- | --- | --- | --- | --- |"""

NEVER = float("inf")


def runs(choice: Choice) -> list[Wanted]:
    """The algorithms on all tasks, or on those that were chosen."""
    quick = choice.quick and choice.tasks is None
    names = QUICK_TASKS if quick else chosen("tasks", choice.tasks, tuple(TASKS))
    seeds = dict.fromkeys(OURS, BASELINE_SEEDS) | {"eniac": SEEDS}
    return [
        Wanted(
            *(name, algorithm, seed, ()),
            QUICK_STEPS if choice.quick else None,
            results=choice.results,
            runs=choice.runs,
        )
        for name in names
        for algorithm in chosen("algorithms", choice.algorithms, OURS)
        for seed in choice.numbers(0, QUICK_SEEDS if choice.quick else seeds[algorithm])
    ]


def report(choice: Choice) -> Report:
    """The tables and the curves of what was measured."""
    results = read_results(choice.results)
    shown = results and any(not result["flags"] for result in results)
    pictures = {"exploration": curves(results, choice.label)} if shown else {}
    told = choice.label.rstrip(": ")
    return Report((f"\n{told}.\n" if told else "") + tables(results), pictures)


def tables(results: Sequence[Result]) -> str:
    """A table for each family of tasks: first the algorithms as they are, then their variants, what
    is missing, and what a reader has to know of the rows. Variants that another page has are left
    to it."""
    elsewhere = {setting.flags for setting in SETTINGS}
    here = [r for r in results if "--preset" not in r["flags"]]
    text, every = "", rows_of(r for r in here if tuple(r["flags"]) not in elsewhere)
    for family, members in itertools.groupby(TASKS, key=lambda name: TASKS[name].family):
        names = list(members)
        rows, missing, shown = [], [], []
        for name in names:
            found = [variant for task, variant in every if task == name]
            fitting = TASKS[name].algorithms()
            for variant in (*fitting, *sorted(set(found) - set(fitting))):
                if variant in found:
                    rows.append(row(every[name, variant]))
                    shown.append(every[name, variant])
            absent = [algorithm for algorithm in fitting if algorithm not in found]
            if absent:
                whole = len(absent) == len(fitting)
                missing.append(f"{name} ({'all' if whole else ', '.join(absent)})")
        goals = " or ".join(dict.fromkeys(f"{TASKS[name].goal}" for name in names))
        if len({TASKS[name].goal for name in names}) > 1:
            goals = "; ".join(f"{name} {TASKS[name].goal}" for name in names)
        text += f"\n### {family}\n\nSolved: {goals}.\n"
        text += "\n" + "\n".join([HEAD, *rows]) + "\n" if rows else ""
        text += f"\nNot measured yet: {'; '.join(missing)}.\n" if missing else ""
        notes = notes_of(shown)
        text += f"\nTo know: {'; '.join(notes)}.\n" if notes else ""
    return text


def solved_at(task: Task, result: Result) -> dict[str, float]:
    """Steps and seconds until the task was solved. One that was solved only beyond the steps that
    there are for it was not solved; that is infinity, as if it had never been."""
    at = result["solved_at"]
    if at is None or at["steps"] > task.limit_for(result["algorithm"], result["flags"]):
        return {"steps": NEVER, "seconds": NEVER}
    return at


def row(found: Row) -> str:
    """A line of a table. A seed that was never solved counts as infinity in both medians."""
    task = TASKS[found.task]
    at = [solved_at(task, result) for result in found.results]
    solved = sum(x["steps"] < NEVER for x in at)
    steps, seconds = (statistics.median(x[key] for x in at) for key in ("steps", "seconds"))
    final = [result["final"]["return_mean"] for result in found.results]
    held = sum(map(task.solves, final))
    cells = [
        found.task,
        found.variant,
        f"{solved} of {len(at)}",
        "-" if steps == NEVER else short(steps),
        "-" if seconds == NEVER else f"{seconds:,.0f}",
        f"{round(statistics.mean(final), 1 if abs(task.threshold) > 10 else 3) + 0.0:g}",
        f"{held} of {len(at)}",
        short(min(result["limit"] for result in found.results)),
    ]
    return f"| {' | '.join(cells)} |"


def short(steps: float) -> str:
    """`1.50 M`, `20.0 k`."""
    return f"{steps / 1e6:.2f} M" if steps >= 1e5 else f"{steps / 1e3:.1f} k"


def curves(results: Sequence[Result], label: str = "") -> Figure:
    """A panel for each task that was tried, a colour for each algorithm, a thin line a seed.

    **Raises** `ConfigError` if there is nothing to draw.
    """
    plain = [result for result in results if not result["flags"]]
    kept = [r for row in rows_of(plain).values() for r in row.results]
    names = [name for name in TASKS if any(result["task"] == name for result in kept)]
    if not names:
        raise ConfigError("nothing has been measured yet, so there is nothing to draw.")
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(2.9 * columns, 2.1 * rows + 0.5), dpi=90, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    # PPO in black: its orange is too near to that of PC-PG in thin lines.
    order = (*COLOURS[:4], COLOURS[6], COLOURS[5], COLOURS[4])
    colours = dict[str, str](zip(ALGORITHMS, order, strict=True))
    for axes, name in itertools.zip_longest(panels, names):
        if name is None:
            axes.axis("off")
            continue
        axes.set_title(name, fontsize=9)
        axes.axhline(TASKS[name].threshold, color="#999999", linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        # Ten to a power is named, and what lies between is a tick: panels are small.
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x / 1e6:g} M"))
        here = [result for result in kept if result["task"] == name and result["curve"]]
        for result in reversed(here):  # the first algorithm on top
            steps = [point[0] for point in result["curve"]]
            returns = [point[1] for point in result["curve"]]
            colour = colours[result["algorithm"]]
            axes.plot(steps, returns, color=colour, linewidth=0.7, alpha=0.8)
            axes.plot(steps[-1], returns[-1], ".", color=colour, markersize=4)
        longest = max((result["curve"][-1][0] for result in here), default=0)
        axes.set_xlim(1e5, max(1.5e6, 1.2 * longest))
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    seen = [name for name in ALGORITHMS if any(r["algorithm"] == name for r in kept)]
    handles = [Line2D([], [], color=colours[name], label=name) for name in seen]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(seen), frameon=False)
    figure.supxlabel("environment steps", fontsize=9)
    figure.supylabel("return of the incumbent, 100 episodes", fontsize=9)
    if label:
        figure.suptitle(label.rstrip(": "), fontsize=10)
    return figure
