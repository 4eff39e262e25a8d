"""Figure 2 of the paper: where the first policies of the cover go, and the exploiting policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from eniac.report.figure2 import draw_figure2
from eniac.reproduce.choice import Choice, Report, chosen, gaps, to_know
from eniac.reproduce.figure1 import SETTINGS, flags
from eniac.reproduce.results import Row, rows_of
from eniac.reproduce.tasks import Result
from eniac.reproduce.wanted import Wanted, read_result

SEEDS, QUICK_SEEDS = 10, 1
WHOSE = {"paper": "the paper's settings", "ours": "our settings"}


def runs(choice: Choice, name: str = "figure2") -> list[Wanted]:
    """ENIAC at depth 2, with the settings that were chosen."""
    return [
        Wanted(name, "eniac", seed, flags(settings, 2), results=choice.results, runs=choice.runs)
        for settings in chosen("settings", choice.settings, SETTINGS)
        for seed in choice.numbers(0, QUICK_SEEDS if choice.quick else SEEDS)
    ]


def rows(choice: Choice, name: str) -> dict[str, Row]:
    """What was measured, by settings."""
    found = [read_result(path) for path in sorted((choice.results / name).glob("*.json"))]
    every = rows_of(sorted(found, key=lambda result: result["seed"]))
    by_settings = {"paper" if row.results[0]["flags"] else "ours": row for row in every.values()}
    return {settings: by_settings[settings] for settings in SETTINGS if settings in by_settings}


def report(choice: Choice) -> Report:
    """How far the policies come, and pictures of the first seed."""
    text, pictures, notes = "", {}, []
    for settings, row in rows(choice, "figure2").items():
        text += f"\n### {choice.label}Figure 2, {WHOSE[settings]}\n\n{table(row.results)}"
        drawn = partial(draw_figure2, labelled(row.results[0], choice))
        pictures[f"figure2-{settings}"] = drawn
        notes += row.notes
    return Report(text + to_know(gaps(runs(choice.whole)), notes), pictures)


def labelled(result: Result, choice: Choice) -> dict[str, Any]:
    """The data of a picture, whose title says if it is of a small version."""
    label = f" ({choice.label.rstrip(': ')})" if choice.label else ""
    return result | {"env": f"{result['env']}{label}"}


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """A line for each policy: over the seeds, how far it comes, how often to the goal, what it
    earns, and what part of the exploring policy's reward is bonus by then."""
    kinds = {(p["kind"], p["epoch"]) for result in results for p in result["policies"]}
    lines = [
        "| policy | seeds | furthest position, median | episodes that reach the goal | return | "
        "bonus' share of the exploring policy's reward |\n| --- | --- | --- | --- | --- | --- |\n"
    ]
    for kind, epoch in sorted(kinds):
        of_seed = [
            p for r in results for p in r["policies"] if (p["kind"], p["epoch"]) == (kind, epoch)
        ]
        shares = [
            x["share"]
            for result in results
            for x in result["bonus_share"]
            if x["epoch"] == epoch and x["share"] is not None
        ]
        cells = [
            f"{kind}, epoch {epoch}",
            str(len(of_seed)),
            f"{np.median([p['furthest'] for p in of_seed]):.2f}",
            f"{np.mean([p['reached'] for p in of_seed]):.0%}",
            f"{np.mean([p['return_mean'] for p in of_seed]):.1f}",
            f"{np.median(shares):.2f}" if shares else "-",
        ]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)
