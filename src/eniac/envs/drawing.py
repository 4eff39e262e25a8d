"""A small smooth canvas: what the environments' pictures are painted with, Pillow alone."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import final

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PAPER, INK, MUTED, GRID = "#fbf9f4", "#2b2d42", "#8d99ae", "#d9d8d2"
CORAL, GOLD, LEAF, SILVER = "#e4572e", "#f2b134", "#4f9d69", "#b8bcc8"
SERIES = ("#3a6ea5", "#c2578f", "#4f9d69", "#8e5ea2", "#c08a1e", "#5c6b73")

# Pillow draws hard edges: paint larger, then shrink.
OVERSAMPLING = 3

Point = tuple[float, float]


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


@final
class Canvas:
    """Shapes in pixels from the top left, with smooth edges; `picture()` gives the array."""

    def __init__(self, width: int, height: int, background: str = PAPER):
        self.width, self.height = width, height
        size = (width * OVERSAMPLING, height * OVERSAMPLING)
        self._image = Image.new("RGB", size, background)
        self._draw = ImageDraw.Draw(self._image)

    def fade(self, top: str, bottom: str) -> None:
        """Fill everything with a vertical blend of two colours."""
        ends = [np.array(Image.new("RGB", (1, 1), colour))[0, 0] for colour in (top, bottom)]
        share = np.linspace(0, 1, self._image.height)[:, None]
        column = ((1 - share) * ends[0] + share * ends[1]).astype(np.uint8)[:, None]
        self._image.paste(Image.fromarray(np.repeat(column, self._image.width, axis=1)))

    def polygon(self, points: Sequence[Point], fill: str, outline: str | None = None) -> None:
        scaled = [(x * OVERSAMPLING, y * OVERSAMPLING) for x, y in points]
        self._draw.polygon(scaled, fill=fill, outline=outline, width=OVERSAMPLING)

    def line(self, points: Sequence[Point], colour: str, width: float = 1.5) -> None:
        scaled = [(x * OVERSAMPLING, y * OVERSAMPLING) for x, y in points]
        thickness = max(1, round(width * OVERSAMPLING))
        self._draw.line(scaled, fill=colour, width=thickness, joint="curve")

    def circle(
        self,
        centre: Point,
        radius: float,
        fill: str | None = None,
        outline: str | None = None,
        width: float = 1.5,
    ) -> None:
        x, y = centre
        box = [OVERSAMPLING * v for v in (x - radius, y - radius, x + radius, y + radius)]
        self._draw.ellipse(box, fill, outline, max(1, round(width * OVERSAMPLING)))

    def box(
        self,
        corner: Point,
        size: Point,
        fill: str | None = None,
        outline: str | None = None,
        rounding: float = 0.0,
    ) -> None:
        (x, y), (w, h) = corner, size
        box = [OVERSAMPLING * v for v in (x, y, x + w, y + h)]
        self._draw.rounded_rectangle(
            box, rounding * OVERSAMPLING, fill, outline, round(1.5 * OVERSAMPLING)
        )

    def text(
        self, at: Point, words: str, size: float, colour: str = INK, anchor: str = "mm"
    ) -> None:
        """`anchor` is Pillow's: "mm" centres on the point, "lm" starts there."""
        x, y = at
        font = _font(round(size * OVERSAMPLING))
        self._draw.text((x * OVERSAMPLING, y * OVERSAMPLING), words, colour, font, anchor)

    def arrow(self, points: Sequence[Point], colour: str, width: float) -> None:
        """A line with a head at its last point."""
        (x0, y0), (x, y) = points[-2], points[-1]
        length = max(float(np.hypot(x - x0, y - y0)), 1e-6)
        u, v = (x - x0) / length, (y - y0) / length
        head = 4 + 1.6 * width
        left = (x - head * u - 0.5 * head * v, y - head * v + 0.5 * head * u)
        right = (x - head * u + 0.5 * head * v, y - head * v - 0.5 * head * u)
        self.line([*points[:-1], (x - 0.7 * head * u, y - 0.7 * head * v)], colour, width)
        self.polygon([(x, y), left, right], colour)

    def picture(self) -> np.ndarray:
        """uint8 of shape (height, width, 3)."""
        return np.array(self._image.reduce(OVERSAMPLING))


def blend(one: str, other: str, share: float) -> str:
    """The colour `share` of the way from `one` to `other`."""
    a, b = (np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in (one, other))
    r, g, b = np.rint((1 - share) * a + share * b).astype(int)
    return f"#{r:02x}{g:02x}{b:02x}"


def arc(start: Point, end: Point, bend: float, num_points: int = 24) -> list[Point]:
    """A parabola from `start` to `end` whose middle is `bend` pixels to the left of the chord."""
    (x0, y0), (x1, y1) = start, end
    t = np.linspace(0, 1, num_points)
    length = max(float(np.hypot(x1 - x0, y1 - y0)), 1e-6)
    lift = 4 * bend * t * (1 - t)
    xs = x0 + t * (x1 - x0) + lift * (y1 - y0) / length
    ys = y0 + t * (y1 - y0) - lift * (x1 - x0) / length
    return [(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
