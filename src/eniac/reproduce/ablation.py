"""What each of our settings brings: ENIAC with it undone, alone, beside ENIAC as it is.

All else, the limit of steps included, is that of the task.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from eniac.report.statistics import permutation_p_value, probability_of_improvement
from eniac.reproduce.ablation_tasks import SETTINGS
from eniac.reproduce.choice import Choice, Report, chosen, gaps, measured, to_know
from eniac.reproduce.exploration import NEVER, short, solved_at
from eniac.reproduce.results import Row, notes_of, rows_of
from eniac.reproduce.tasks import TASKS, variant
from eniac.reproduce.wanted import Wanted

ALGORITHM = "eniac"
SEEDS = 5
QUICK_SEEDS, QUICK_STEPS = 1, 300_000
CLEAR = 0.05
"""The p-value below which a difference is called clear."""


def runs(choice: Choice) -> list[Wanted]:
    """Our settings as they are, and with each undone; or on the tasks that were chosen."""
    known = tuple(dict.fromkeys(task for setting in SETTINGS for task in setting.tasks))
    tasks = chosen("tasks", choice.tasks, known)
    pairs: dict[tuple[str, tuple[str, ...]], None] = {(task, ()): None for task in tasks}
    for setting in SETTINGS:
        pairs |= {(task, setting.flags): None for task in setting.tasks if task in tasks}
    seeds = choice.numbers(0, QUICK_SEEDS if choice.quick else SEEDS)
    return [
        Wanted(
            *(task, ALGORITHM, seed, flags),
            QUICK_STEPS if choice.quick else None,
            results=choice.results,
            runs=choice.runs,
        )
        for task, flags in pairs
        for seed in seeds
    ]


def report(choice: Choice) -> Report:
    """A line for each setting and task of what was measured."""
    wanted = runs(choice.whole)
    rows = rows_of(measured(wanted, choice.results))
    told = choice.label.rstrip(": ")
    text = (f"\n{told}.\n" if told else "") + table(rows)
    return Report(text + to_know(gaps(wanted), notes_of(rows.values())), {})


def table(rows: Mapping[tuple[str, str], Row]) -> str:
    """Beside each other: a setting undone, and all as it is. Empty if nothing was measured."""
    lines, helped = [], {}
    for setting in SETTINGS:
        name = variant(ALGORITHM, setting.flags)
        for task in setting.tasks:
            if (task, name) not in rows or (task, ALGORITHM) not in rows:
                continue
            ours, undone = steps_of(rows[task, ALGORITHM]), steps_of(rows[task, name])
            quicker = float(probability_of_improvement(-ours, -undone))
            p = permutation_p_value([(-ours, -undone)])
            clear = p < CLEAR
            helped.setdefault(setting.what, []).append(clear and quicker > 0.5)
            what = f"{setting.what} (`{' '.join(setting.flags)}`)"
            shown = f"**{quicker:.2f}**" if clear else f"{quicker:.2f}"
            lines.append(
                f"| {what} | {task} | {cell(undone)} | {cell(ours)} | {shown} | {p:.3f} |\n"
            )
    if not lines:
        return ""
    told = ", ".join(f"{what}: {sum(each)} of {len(each)}" for what, each in helped.items())
    return (
        "\n| setting, and how it is undone | task | undone | as it is | as it is quicker | p |\n"
        f"| --- | --- | --- | --- | --- | --- |\n{''.join(lines)}"
        f"\nTasks on which a setting is clearly of use: {told}.\n"
    )


def steps_of(row: Row) -> np.ndarray:
    """Steps of each seed until the task was solved; infinity where it never was."""
    task = TASKS[row.task]
    return np.array([solved_at(task, result)["steps"] for result in row.results], np.float64)


def cell(steps: Sequence[float] | np.ndarray) -> str:
    """How many seeds have solved a task, and the median of their steps."""
    solved, median = int(np.sum(np.asarray(steps) < NEVER)), statistics.median(map(float, steps))
    return f"{solved} of {len(steps)}" + (f", {short(median)}" if median < NEVER else ", -")
