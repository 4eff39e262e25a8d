"""`eniac certify`: the certificate of a run as a table, as JSON and as a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from json import dumps as json_of
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eniac.cli.commands import open_run
from eniac.errors import ConfigError, RunError
from eniac.provable import Provable, ProvableLearner
from eniac.report.figures import COLOURS
from eniac.report.plot_style import save
from eniac.runs.load import Run, load_config, take_seed
from eniac.theory.certify import Certificate, Line, certify

_SECTIONS = {
    "gap": ("The gap to the optimum", ("gap", "")),
    "parts": ("Its parts, whose means add up to the outer mixture's gap", ("mean", "largest")),
    "grounds": ("What the bounds rest on: totals, or the largest of all epochs", ("found", "")),
}
_STYLE = {"holds": "green", "fails": "red", "vacuous": "yellow"}


def certify_command(
    run: tyro.conf.Positional[Path],
    /,
    seed: int | None = None,
    json: tyro.conf.FlagCreatePairsOff[bool] = False,
) -> int:
    """Certifies a run.

    Args:
        run: Folder of the run.
        seed: Which of the run's seeds to certify. None: the first.
        json: Print everything that was measured as JSON.
    """
    require_provable(run)
    loaded = open_run(run)
    certificate = certify_run(loaded, seed)
    path = draw(certificate, run / "figures" / "certificate.png")
    if json:
        print(json_of(certificate.to_dict(), indent=2))
        return 0
    console = Console()
    console.print(
        f"{certificate.algorithm} on {loaded.config.env} after {len(certificate.epochs)} epochs; "
        f"V* = {certificate.optimum:.4g} in units of the reward that is learned from.\n",
        highlight=False,
    )
    for table in certificate_tables(certificate):
        console.print(table)
    console.print(
        f"The parts add up to the gap within {certificate.residual:.1e} in every epoch. "
        "docs/certify.md says what each line means.",
        highlight=False,
    )
    console.print(f"The figure is in {path}", highlight=False, soft_wrap=True)
    return 0


def require_provable(folder: Path) -> None:
    """Refuses runs that there is no proof about, before anything is built."""
    parts = load_config(folder).algorithm
    if not isinstance(parts, Provable):
        raise ConfigError(_no_theorem(folder, parts.name))


def _no_theorem(folder: Path, name: str) -> str:
    return (
        f"{folder} is a run of {name}, which no theorem speaks of. A certificate is of a provable "
        "algorithm on an MDP with finitely many states, for instance "
        "`eniac train eniac-spi-sample --env DeepSea-10`."
    )


def certify_run(run: Run, seed: int | None = None) -> Certificate:
    """The certificate of one seed of a run, by default the first."""
    parts, learner = run.config.algorithm, run.learner
    if not isinstance(parts, Provable) or not isinstance(learner, ProvableLearner):
        raise ConfigError(_no_theorem(run.path, parts.name))
    state = take_seed(run.states, run.index(seed))
    if int(state.epoch) < 1:
        raise RunError(f"{run.path} has no finished epoch. Continue it: `eniac resume {run.path}`.")
    return certify(learner, state, parts.delta)


def certificate_tables(certificate: Certificate) -> Iterator[Table]:
    """Term, measured, bound, verdict, where in the paper; a table for each section."""
    for section, (title, headings) in _SECTIONS.items():
        table = Table(title=title, title_justify="left", title_style="bold")
        table.box, table.pad_edge, table.padding = SIMPLE_HEAD, False, (0, 0, 0, 1)
        table.add_column("term", min_width=22)
        for heading in (*headings, "bound"):
            table.add_column(heading, justify="right", min_width=8)
        table.add_column("verdict", min_width=10)
        table.add_column("paper", min_width=9)
        for line in certificate.lines:
            if line.section == section:
                table.add_row(*_row(line))
        yield table


def _row(line: Line) -> list[str]:
    style = _STYLE.get(line.verdict)
    verdict = line.verdict if style is None else f"[{style}]{line.verdict}[/{style}]"
    largest = "" if line.largest is None else _number(line.largest)
    bound = "" if line.bound is None else _number(line.bound)
    # Brackets in names would be read as markup.
    term = line.term.replace("[", r"\[")
    return [term, _number(line.measured), largest, bound, verdict, line.where]


def _number(value: float) -> str:
    return "" if not math.isfinite(value) else f"{0.0 if abs(value) < 1e-12 else value:.3g}"


def draw(certificate: Certificate, out: Path) -> Path:
    """Values, the parts of the gap, and what is bounded beside its bound, over the epochs."""
    figure = Figure(figsize=(13.2, 4.4), dpi=150, layout="constrained")
    values, parts, bounded = figure.subplots(1, 3)
    epochs = np.array([epoch.epoch for epoch in certificate.epochs])
    _draw_values(values, epochs, certificate)
    _draw_parts(parts, epochs, certificate)
    _draw_bounded(bounded, epochs, certificate)
    for axes in (values, parts, bounded):
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.grid(color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2}
        axes.legend(frameon=False, fontsize=8, **place)
    try:
        save(figure, out)
    except OSError as error:
        raise RunError(f"Cannot draw to {out}: {error}.") from error
    return out


def _draw_values(axes: Axes, epochs: np.ndarray, certificate: Certificate) -> None:
    inner = np.array([epoch.inner for epoch in certificate.epochs])
    curves = {
        "last iterate": [epoch.last for epoch in certificate.epochs],
        "inner mixture": inner,
        "outer mixture": np.cumsum(inner) / np.arange(1, len(inner) + 1),
    }
    axes.axhline(certificate.optimum, color="#000000", linewidth=1.2, linestyle=":", label="V*")
    for (label, curve), colour in zip(curves.items(), COLOURS, strict=False):
        axes.plot(epochs, curve, color=colour, label=label, marker="o", markersize=3.5)
    axes.set_title("value", fontsize=10)


def _draw_parts(axes: Axes, epochs: np.ndarray, certificate: Certificate) -> None:
    """The parts, whose sum is the black line. Linear near zero and logarithmic beyond."""
    names = list(certificate.epochs[0].parts)
    for name, colour in zip(names, COLOURS, strict=False):
        curve = [epoch.parts[name] for epoch in certificate.epochs]
        axes.plot(epochs, curve, color=colour, label=name, marker="o", markersize=3.5)
    gap = [certificate.optimum - epoch.inner for epoch in certificate.epochs]
    axes.plot(epochs, gap, color="#000000", linewidth=2, label="gap (their sum)")
    size = max(abs(certificate.optimum), 1e-3)
    axes.set_yscale("symlog", linthresh=10.0 ** math.ceil(math.log10(size)))
    axes.set_title("parts of the inner mixture's gap", fontsize=10)


def _draw_bounded(axes: Axes, epochs: np.ndarray, certificate: Certificate) -> None:
    """Measured, solid, and its bound, dashed; both on a logarithmic axis."""
    found, bounds = certificate.epochs, certificate.bounds
    curves: list[tuple[str, Any, float | None]] = [
        ("bonus, summed", np.cumsum([epoch.bonus for epoch in found]), bounds.bonus),
        ("large widths, summed", np.cumsum([e.large_widths for e in found]), bounds.large_widths),
        ("optimisation", [epoch.optimisation for epoch in found], bounds.optimisation),
        ("epsilon_stat", [epoch.excess_loss for epoch in found], bounds.excess_loss),
        ("|f* - f| on Z^n", [e.distance for e in found], _radius(certificate)),
    ]
    for (label, curve, bound), colour in zip(curves, COLOURS, strict=False):
        positive = np.where(np.asarray(curve) > 0, curve, np.nan)
        if np.isfinite(positive).any():
            axes.plot(epochs, positive, color=colour, label=label, marker="o", markersize=3.5)
            if bound:
                axes.axhline(bound, color=colour, linestyle="--", linewidth=1.2)
    axes.set_yscale("log")
    axes.set_title("measured (solid), bound (dashed)", fontsize=10)


def _radius(certificate: Certificate) -> float | None:
    return certificate.line("|f* - f| on Z^n").bound
