"""The certificate of a run, and its figure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from eniac.errors import ConfigError, RunError
from eniac.report.figures import COLOURS
from eniac.report.plot_style import save
from eniac.runs.load import Run
from eniac.runs.program import take_seed
from eniac.theory.certify import Certificate, certify

SECTIONS = {
    "gap": ("The gap to the optimum", ("gap", "")),
    "parts": ("Its parts, whose means add up to the outer mixture's gap", ("mean", "largest")),
    "grounds": ("What the bounds rest on: totals, or the largest of all epochs", ("found", "")),
}
"""For each part of a certificate its title, and what its numbers are."""


def certify_run(run: Run, seed: int | None = None) -> Certificate:
    """The certificate of one seed of a run, by default the first.

    **Raises** `ConfigError` for a run that no theorem speaks of, `RunError` if it has no epoch.
    """
    settings, index = run.config.algorithm, run.index(seed)
    if run.progress.epochs[index] < 1:
        raise RunError(f"{run.path} has no finished epoch. Continue it: `eniac resume {run.path}`.")
    record = run.learner.record(take_seed(run.states, index))
    if record is None:
        raise ConfigError(
            f"{run.path} is a run of {settings.name}, which no theorem speaks of. A certificate is "
            "of a provable algorithm on an MDP with finitely many states, for instance "
            "`eniac train eniac-spi-sample --env DeepSea-10`."
        )
    return certify(record, settings.delta)


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
