"""The theory's experiments: value gap against samples, how samples grow, what COMPUTE needs beside
SAMPLE, and what a class costs that cannot say it all. All values are exact."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from eniac.reproduce.choice import Choice, Report, chosen, gaps, measured, to_know
from eniac.reproduce.exploration import short
from eniac.reproduce.results import Row, notes_of, rows_of
from eniac.reproduce.theory_numbers import (
    ENOUGH,
    GAP,
    Excess,
    Exponent,
    Growth,
    exponents,
    growth,
    misspecified,
    steps_to,
    versions,
)
from eniac.reproduce.theory_outcome import SHARES
from eniac.reproduce.theory_pictures import draw_growth, draw_learning
from eniac.reproduce.theory_tasks import FIRST_SEED, THEORY
from eniac.reproduce.wanted import Wanted

QUICK_TASKS = ("provable-deep-sea-10", "provable-river-swim", "random-mdp-5", "random-mdp-10")
QUICK_SEEDS = 2


def runs(choice: Choice) -> list[Wanted]:
    """All runs of the theory's experiments, or those that were chosen."""
    quick = choice.quick and choice.tasks is None
    known = dict.fromkeys(name for task in THEORY.values() for name, _ in task.variants)
    wanted = chosen("algorithms", choice.algorithms, tuple(known))
    found = []
    for name in QUICK_TASKS if quick else chosen("tasks", choice.tasks, tuple(THEORY)):
        task = THEORY[name]
        for algorithm, flags in task.variants:
            if algorithm not in wanted:
                continue
            for seed in choice.numbers(FIRST_SEED, QUICK_SEEDS if choice.quick else task.seeds):
                run = Wanted(name, algorithm, seed, flags, results=choice.results)
                found.append(replace(run, runs=choice.runs))
    return found


def report(choice: Choice) -> Report:
    """Tables and pictures of what was measured."""
    wanted = runs(choice.whole)
    found = rows_of(measured(wanted, choice.results, "theory"))
    order = dict.fromkeys((run.task, run.variant) for run in runs(Choice()))
    rows = {key: found[key] for key in order if key in found}
    text, pictures = "", {}
    suffix = choice.label.rstrip(": ")
    suffix = f" ({suffix})" if suffix else ""
    learning = [row for row in rows.values() if THEORY[row.task].question == "learning"]
    if learning:
        text += f"\n### Value gap{suffix}\n\n{learning_table(learning)}"
        pictures["theory"] = draw_learning(learning, choice.label)
    more = (
        ("Growth", growth_table(growth(rows))),
        ("COMPUTE and SAMPLE", versions_table(versions(rows))),
        ("Misspecification", misspecification_table(misspecified(rows))),
    )
    for title, table in more:
        text += f"\n### {title}{suffix}\n\n{table}" if table else ""
    if any(table for _, table in more):
        pictures["theory-growth"] = draw_growth(rows, choice.label)
    return Report(text + to_know(gaps(wanted), notes_of(rows.values())), pictures)


def learning_table(rows: Sequence[Row]) -> str:
    """A line for each row: at the end of the runs, shares of the optimum."""
    lines = [
        "| task | algorithm | seeds at 95 % | last, worst | last | executed | optimum, mixed | "
        "inner mixture | outer mixture | steps | seconds, longest |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    ]
    for row in rows:
        ends = {
            name: np.array([r["by_epoch"][f"share/{name}"][-1] for r in row.results])
            for name in SHARES
        }
        last = ends["last"]
        cells = [
            row.task.removeprefix("provable-"),
            row.variant,
            f"{int((last >= ENOUGH).sum())} of {len(last)}",
            f"{last.min():.3f}",
            f"{last.mean():.3f}",
            f"{ends['executed'].mean():.3f}",
            f"{np.mean([r['ceiling'] for r in row.results]):.3f}",
            f"{ends['inner_mixture'].mean():.3f}",
            f"{ends['outer_mixture'].mean():.3f}",
            short(float(np.mean([r["steps"] for r in row.results]))),
            f"{max(r['seconds'] for r in row.results):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines).replace("-0.000", "0.000")


def growth_table(found: Growth) -> str:
    """Steps to a gap of `GAP` and exponents; empty if nothing was measured."""
    if not found:
        return ""
    told = exponents(found)
    lines = [
        f"| states x actions | seeds | steps to a gap of {GAP:g}, median | exponent of 1/gap |\n"
        "| --- | --- | --- | --- |\n"
    ]
    for states, seeds in found.items():
        median = float(np.median([steps_to(points, GAP) for points in seeds.values()]))
        exponent = _exponent(told[f"accuracy, {states} states"])
        steps = "-" if math.isinf(median) else short(median)
        lines.append(f"| {states} x 4 | {len(seeds)} | {steps} | {exponent} |\n")
    if "dimension" in told:
        lines.append(f"\nExponent of the number of states: {_exponent(told['dimension'])}.\n")
    return "".join(lines)


def _exponent(found: Exponent) -> str:
    interval = "" if math.isnan(found.low) else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}{interval}"


def versions_table(found: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> str:
    """Median steps of both versions; empty if nothing was measured."""
    if not found:
        return ""
    lines = [
        "| environment | seeds | SAMPLE, median steps | COMPUTE, median steps |\n"
        "| --- | --- | --- | --- |\n"
    ]
    for name, pair in found.items():
        medians = [float(np.median(each)) for each in pair]
        told = ["never" if math.isinf(steps) else short(steps) for steps in medians]
        lines.append(f"| {name} | {min(map(len, pair))} | {told[0]} | {told[1]} |\n")
    return "".join(lines)


def misspecification_table(found: Mapping[int, Mapping[int, Excess]]) -> str:
    """Medians over the seeds; empty if nothing was measured."""
    if not found:
        return ""
    lines = [
        "| groups of 40 states | seeds | epsilon_bias | gap that it adds | transfer, largest | "
        "term of the theorem | within |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    ]
    for number, seeds in found.items():
        each = list(seeds.values())
        medians = np.median(np.array(each), axis=0)
        within = sum(excess.within for excess in each)
        cells = [str(number), str(len(each)), *(f"{x:.3g}" for x in medians[:4])]
        lines.append(f"| {' | '.join(cells)} | {within} of {len(each)} |\n")
    return "".join(lines)
