"""Numbers as tables and axes have them: with the digits that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def short_number(value: float) -> str:
    """`950`, `20k`, `1.5M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def three_digits(value: float) -> str:
    """`0.0123`, `93.4`, `12,345`."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def between(ends: Sequence[float | None], form: Callable[[float], str]) -> str:
    """` [0.9, 1.2]`, the ends of an interval behind a number; nothing if neither is known."""
    low, high = ("-" if end is None else form(_rounded(end)) for end in ends)
    return "" if low == high == "-" else f" [{low}, {high}]"


def _rounded(end: float) -> float:
    """The end of an interval with the digits that matter."""
    return float(f"{end:.2g}") if abs(end) < 10 or abs(end) >= 1000 else end


def spans(numbers: Iterable[int]) -> str:
    """`1-4, 7`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(str(x[0]) if len(x) == 1 else f"{x[0]}-{x[-1]}" for x in found)
