"""Figure 3 of the paper: what the bonuses of ENIAC and PC-PG make of the visits of one policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from eniac.report.figure3 import draw_figure3
from eniac.reproduce import figure2
from eniac.reproduce.choice import Choice, Report, gaps, to_know
from eniac.reproduce.figure2 import WHOSE, labelled, rows
from eniac.reproduce.wanted import Wanted


def runs(choice: Choice) -> list[Wanted]:
    """The runs of Figure 2 once more: what they are asked is another thing."""
    return figure2.runs(choice, "figure3")


def report(choice: Choice) -> Report:
    """How smooth both bonuses are, and pictures of the first seed."""
    found, pictures, notes = rows(choice, "figure3"), {}, []
    text = f"\n### {choice.label}Figure 3\n\n{table(found)}" if found else ""
    for settings, row in found.items():
        drawn = partial(draw_figure3, labelled(row.results[0], choice))
        pictures[f"figure3-{settings}"] = drawn
        notes += row.notes
    return Report(text + to_know(gaps(runs(choice.whole)), notes), pictures)


def table(found: Mapping[str, Any]) -> str:
    """Curvature and variation of both bonuses, medians of the seeds."""
    lines = [
        "| with | seeds | curvature: ENIAC | PC-PG | seeds in which ENIAC's is the smaller | "
        "variation: ENIAC | PC-PG |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    ]
    for settings, row in found.items():
        smooth = [result["smoothness"] for result in row.results]
        smaller = sum(x["width"] < x["kernel"] for x in smooth)
        cells = [
            WHOSE[settings],
            str(len(smooth)),
            *(_median(smooth, name) for name in ("width", "kernel")),
            f"{smaller} of {len(smooth)}",
            *(_median([r["variation"] for r in row.results], name) for name in ("width", "kernel")),
        ]
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _median(values: Sequence[Mapping[str, float]], name: str) -> str:
    return f"{np.median([x[name] for x in values]):.3g}"
