"""What the pictures of runs have in common: colours, legends, colour bars."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from eniac.report.figures import COLOURS, check_format, write
from eniac.report.numbers import short_number

COUNTS, BONUS = "Blues", "viridis"
"""Colour maps."""
INK, PAPER, START = "#222222", "#ffffff", "#F0E442"
BOX = {"boxstyle": "round,pad=0.2", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.75}
"""What keeps words readable on top of a picture."""

LARGE = 200_000
"""Size in bytes above which a PNG gets a palette."""


def policy_colours(count: int) -> list[str]:
    """A colour for each policy of a cover; from dark to light by age if they are many."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    return [
        to_hex(colour) for colour in matplotlib.colormaps["plasma"](np.linspace(0, 0.92, count))
    ]


def label_policies(figure: Figure, axes: Axes, colours: Sequence[str], title: str = "") -> None:
    """Says which colour is which policy, in a legend, or beside the picture if they are many."""
    if len(colours) <= len(COLOURS):
        handles = [
            Line2D([], [], color=colour, marker="s", linewidth=0, label=f"policy {k + 1}")
            for k, colour in enumerate(colours)
        ]
        legend(axes, handles, title)
        return
    edges = np.arange(len(colours) + 1) + 0.5
    mapped = ScalarMappable(BoundaryNorm(edges, len(colours)), ListedColormap(colours))
    colour_bar(figure, axes, mapped, f"{title} policy".strip())


def legend(axes: Axes, handles: list[Line2D], title: str = "", ncols: int = 4) -> None:
    """Under the picture, where it hides nothing."""
    axes.legend(
        handles=handles,
        title=title or None,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
        ncols=ncols,
        frameon=False,
        handletextpad=0.4,
        columnspacing=1.2,
    )


def colour_bar(figure: Figure, axes: Axes, drawn: Any, label: str = "visits") -> None:
    bar = figure.colorbar(drawn, ax=axes, label=label, pad=0.02)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    if isinstance(drawn.norm, BoundaryNorm):
        bar.ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
        bar.ax.minorticks_off()
    if isinstance(drawn.norm, LogNorm):
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def counted(counts: np.ndarray) -> dict[str, Any]:
    """How counts are coloured: by their logarithm, since they differ by orders of magnitude."""
    return {"cmap": COUNTS, "norm": LogNorm(0.5, max(float(np.max(counts)), 2.0))}


def bonus_colours(values: np.ndarray) -> dict[str, Any]:
    """How a bonus is coloured: from 0 to its largest value."""
    return {"cmap": BONUS, "vmin": 0.0, "vmax": float(np.max(values)) or 1.0}


def masked(counts: np.ndarray) -> np.ndarray:
    """Counts without the zeros, which stay paper."""
    return np.ma.masked_less(counts, 1)


def whole(axes: Axes) -> None:
    """Whole numbers on both axes."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(9, integer=True))


def save(figure: Figure, out: Path) -> None:
    """Writes a PNG, SVG or PDF, by the ending of `out`. A PNG that is large, as clouds of points
    are, gets a palette of colours."""
    if out.suffix.lower() != ".png":
        check_format(out)
        write(figure, out)
        return
    content = io.BytesIO()
    figure.savefig(content, format="png")
    out.parent.mkdir(parents=True, exist_ok=True)
    if content.tell() <= LARGE:
        out.write_bytes(content.getvalue())
        return
    with Image.open(content) as image:
        palette = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    palette.save(out, "PNG", optimize=True)
