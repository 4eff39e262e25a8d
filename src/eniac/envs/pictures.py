"""The environments' pictures. They take plain numbers, and know no environment."""

from __future__ import annotations

import numpy as np

from eniac.envs.drawing import (
    CORAL,
    GOLD,
    GRID,
    INK,
    LEAF,
    MUTED,
    PAPER,
    SERIES,
    SILVER,
    Canvas,
    Point,
    arc,
    blend,
)


def draw_mountain_car(
    position: float, velocity: float, limits: tuple[float, float], goal: float
) -> np.ndarray:
    """The valley between the walls at `limits`, the car, and the flag at `goal`."""
    width, height, margin = 600, 360, 18
    low, high = limits
    scale = (width - 2 * margin) / (high - low)

    def place(x: float, lift: float = 0.0) -> Point:
        y = np.sin(3 * x) * 0.45 + 0.55
        return margin + (x - low) * scale, height - 24 - 0.86 * y * scale - lift

    canvas = Canvas(width, height)
    canvas.fade("#cfe5f2", "#fdf6e3")
    canvas.circle((70, 60), 26, "#ffe29a")
    track = [place(x) for x in np.linspace(low, high, 240)]
    ends = [(0.0, track[0][1]), *track, (float(width), track[-1][1])]
    canvas.polygon([(0, height), *ends, (width, height)], "#7fae8a")
    canvas.polygon([(0, height), *((x, y + 46) for x, y in ends), (width, height)], "#6b9c79")
    canvas.line(ends, "#40704f", 3)
    canvas.box((0, track[0][1] - 60), (margin - 12, 62), MUTED, rounding=2)

    foot = place(goal)
    canvas.line([foot, (foot[0], foot[1] - 62)], INK, 3)
    flag = [(foot[0], foot[1] - 62), (foot[0] + 34, foot[1] - 51), (foot[0], foot[1] - 40)]
    canvas.polygon(flag, GOLD)

    slope = 0.86 * 3 * 0.45 * np.cos(3 * position)
    along = np.array([1.0, -slope]) / np.hypot(1, slope)
    up = np.array([along[1], -along[0]])
    if up[1] > 0:
        up = -up
    base = np.array(place(position))

    def corner(x: float, y: float) -> Point:
        point = base + x * along + y * up
        return float(point[0]), float(point[1])

    body = [(-24, 8), (-24, 17), (-15, 19), (-9, 28), (9, 28), (15, 19), (24, 17), (24, 8)]
    canvas.polygon([corner(*p) for p in body], CORAL)
    canvas.polygon([corner(*p) for p in [(-9, 19), (-6, 25), (6, 25), (9, 19)]], "#fbe3dc")
    for x in (-13, 13):
        canvas.circle(corner(x, 8), 8, INK)
        canvas.circle(corner(x, 8), 3, SILVER)
    canvas.text((16, height - 18), f"velocity {velocity:+.3f}", 13, PAPER, "lm")
    return canvas.picture()


def draw_deep_sea(row: int, column: int, right_action: np.ndarray) -> np.ndarray:
    """The grid with its treasure; cells out of reach are rock. Numbers are what goes right."""
    size = len(right_action)
    side = max(4, min(48, 384 // size))
    gap = 1 if side < 12 else 2
    margin, sand = 16, max(22, side)
    extent = size * side + 2 * margin
    canvas = Canvas(extent, extent + sand, "#0e2a3c")
    canvas.fade("#bfe3ee", "#0b2536")
    for r in range(size):
        water = blend("#8fd0e0", "#14496b", r / max(size - 1, 1))
        for c in range(size):
            corner = (margin + c * side, margin + r * side)
            fill = water if c <= r else blend("#a8977d", "#4a4238", r / max(size - 1, 1))
            inner = side - gap
            canvas.box(corner, (inner, inner), fill, rounding=side / 8)
            if side >= 24 and c <= r:
                centre = (corner[0] + inner / 2, corner[1] + inner / 2)
                label = blend(water, "#ffffff", 0.45)
                canvas.text(centre, str(int(right_action[r, c])), side * 0.32, label)
    floor = margin + size * side
    canvas.box((0, floor + 4), (extent, extent), "#e0c58f")

    def middle(r: int, c: int) -> Point:
        return margin + (c + 0.5) * side - gap / 2, margin + (r + 0.5) * side - gap / 2

    x, y = middle(size - 1, size - 1)
    h = max(2.0, side * 0.3)
    canvas.polygon([(x, y - h), (x + h, y), (x, y + h), (x - h, y)], GOLD, "#7a5510")
    x, y = middle(row, column)
    if row >= size:
        y = floor + 4 + (extent + sand - floor - 4) / 2
    radius = max(2.5, side * 0.3)
    canvas.circle((x, y), radius, CORAL, PAPER, max(1.0, radius / 5))
    return canvas.picture()


def draw_lock(elapsed: int, lock: int, cell: int, code: np.ndarray, good_lock: int) -> np.ndarray:
    """The two lanes, times from left to right; each good cell shows the digit that is right."""
    length = code.shape[1]
    side = max(8.0, min(42.0, 620 / (length + 1)))
    left, top, lane = 96, 40, 3 * side + 44
    width, height = round(left + (length + 1) * side + 64), round(top + 2 * lane)
    canvas = Canvas(width, height)
    choice = (44.0, top + lane - 22)

    def place(k: int, time: int, c: int) -> Point:
        return left + (time + 0.5) * side, top + k * lane + (c + 0.5) * side

    for k in (0, 1):
        name = f"lock {k}: actions {'0-4' if k == 0 else '5-9'}"
        canvas.text((left, top + k * lane - 14), name, 13, INK, "lm")
        x, y = place(k, 0, 1)
        entry = (x - side / 2 - 6, y - side / 2)
        canvas.arrow(arc(choice, entry, 12 if k == 0 else -12), GRID, 3)
        for time in range(length + 1):
            for c in range(3):
                x, y = place(k, time, c)
                fill = "#3d405b" if c == 2 else blend(LEAF, PAPER, 0.45)
                if time == length and c != 2:
                    continue
                corner = (x - side / 2 + 1, y - side / 2 + 1)
                canvas.box(corner, (side - 2, side - 2), fill, rounding=side / 6)
                if c != 2 and side >= 16:
                    canvas.text((x, y), str(int(code[k, time, c])), side * 0.4, "#2f5d40")
        x, y = place(k, length, 0)
        prize, colour = ("5", GOLD) if k == good_lock else ("2", SILVER)
        corner = (x - side / 2 + 1, y - side / 2 + 1)
        canvas.box(corner, (side + 20, 2 * side - 2), colour, rounding=side / 6)
        canvas.text((x + 10, y + side / 2), prize, max(12.0, side * 0.7))
    canvas.circle(choice, 22, PAPER, MUTED, 2)

    if elapsed == 0:
        at = choice
    elif elapsed > length and cell != 2:
        x, y = place(lock, length, 0)
        at = (x + 10, y + side / 2)
    else:
        at = place(lock, elapsed - 1, cell)
    canvas.circle(at, max(3.5, side * 0.3), CORAL, PAPER, 2)
    status = "choose" if elapsed == 0 else f"time {elapsed - 1} of {length}"
    canvas.text((left, height - 16), status, 13, MUTED, "lm")
    return canvas.picture()


def draw_table(
    state: int, transition: np.ndarray, reward: np.ndarray, terminal: np.ndarray
) -> np.ndarray:
    """States as a row if they are one, else in a ring, else (many) as tiles.

    Gold is a state's best reward; arrows, one colour an action, are what the current state leads
    to, as wide as they are probable.
    """
    num_states = len(reward)
    best = reward.max(1)
    span = float(best.max() - best.min())
    shine = (best - best.min()) / span if span else np.zeros(num_states)
    here, _, there = np.nonzero(transition)
    if num_states > 48:
        return _draw_tiles(state, shine)
    if num_states <= 24 and np.all(np.abs(here - there) <= 1):
        radius = min(24.0, 300 / num_states)
        step = 3.1 * radius
        width, height = round((num_states + 0.4) * step), round(8 * radius + 30)
        width = max(width, 260)
        left = (width - (num_states - 1) * step) / 2
        places = [(left + s * step, height / 2 - 8) for s in range(num_states)]
        outward = [0.0] * num_states
    else:
        width = height = 440
        radius = min(22.0, 360 / num_states)
        angles = 2 * np.pi * np.arange(num_states) / num_states - np.pi / 2
        ring = width / 2 - 2.9 * radius - 6
        centre = (width / 2, height / 2 - 8)
        places = [(centre[0] + ring * np.cos(a), centre[1] + ring * np.sin(a)) for a in angles]
        outward = [float(a + np.pi / 2) for a in angles]

    canvas = Canvas(width, height)
    for action, row in enumerate(transition[state]):
        for target in np.flatnonzero(row > 0):
            if target == state:
                _draw_loop(canvas, places[state], outward[state], action, row[target], radius)
            else:
                _draw_move(canvas, places[state], places[target], action, row[target], radius)
    for s, (x, y) in enumerate(places):
        fill = "#3d405b" if terminal[s] else blend("#ffffff", GOLD, float(shine[s]))
        canvas.circle((x, y), radius, fill, INK if s == state else MUTED, 2)
        if s == state:
            canvas.circle((x, y), radius * 0.72, CORAL)
        colour = PAPER if s == state or terminal[s] else INK
        canvas.text((x, y), str(s), max(8.0, radius * 0.7), colour)
    num_shown = min(reward.shape[1], len(SERIES), width // 74)
    for action in range(num_shown):
        x = 14 + 74 * action
        canvas.box((x, height - 21), (9, 9), SERIES[action], rounding=2)
        canvas.text((x + 14, height - 16), f"action {action}", 11, INK, "lm")
    return canvas.picture()


def _draw_move(
    canvas: Canvas, start: Point, end: Point, action: int, probability: float, radius: float
) -> None:
    """One arrow; each action bends a little more, so that they do not hide one another."""
    (x0, y0), (x1, y1) = start, end
    length = float(np.hypot(x1 - x0, y1 - y0))
    u, v = (x1 - x0) / length, (y1 - y0) / length
    tail = (x0 + radius * u, y0 + radius * v)
    head = (x1 - (radius + 2) * u, y1 - (radius + 2) * v)
    path = arc(tail, head, radius * (0.25 + 0.35 * action))
    canvas.arrow(path, SERIES[action % len(SERIES)], 1 + 3.5 * float(probability))


def _draw_loop(
    canvas: Canvas, at: Point, turn: float, action: int, probability: float, radius: float
) -> None:
    """An arrow back to its start, `turn` radians from the top; larger from action to action."""
    reach = radius * (0.75 + 0.22 * action)
    angles = np.linspace(0.15 * np.pi, 1.85 * np.pi, 30)
    xs, ys = reach * np.sin(angles), reach * np.cos(angles) - radius - 0.6 * reach
    xs, ys = xs * np.cos(turn) - ys * np.sin(turn), xs * np.sin(turn) + ys * np.cos(turn)
    path = [(float(at[0] + x), float(at[1] + y)) for x, y in zip(xs, ys, strict=True)]
    canvas.arrow(path, SERIES[action % len(SERIES)], 1 + 3.5 * float(probability))


def _draw_tiles(state: int, shine: np.ndarray) -> np.ndarray:
    columns = int(np.ceil(np.sqrt(len(shine))))
    side = max(6, 420 // columns)
    extent = columns * side + 24
    canvas = Canvas(extent, extent)
    for s, share in enumerate(shine):
        corner = (12 + (s % columns) * side, 12 + (s // columns) * side)
        fill = CORAL if s == state else blend("#ffffff", GOLD, float(share))
        canvas.box(corner, (side - 2, side - 2), fill, GRID, rounding=side / 6)
    return canvas.picture()
