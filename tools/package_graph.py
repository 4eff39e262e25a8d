"""Draws docs/images/packages.svg: what imports what in src/eniac, read off the source.

    python tools/package_graph.py

An arrow is an import that does not follow from others: if cli imports training and training imports
report, there is none from cli to report. A row is as high as the longest way down from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from math import fsum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "eniac"
PICTURE = ROOT / "docs" / "images" / "packages.svg"

Graph = dict[str, set[str]]

BOX, ROW, GAP, MARGIN = 30, 64, 26, 24
"""Height of a box, distance of rows, least space between two in a row, space around all."""


def imports(node: ast.AST) -> Iterator[str]:
    """The modules that are imported anywhere in `node`, but for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from imports(ast.Module([other], []))
        elif isinstance(child, ast.Import):
            yield from (name.name for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            assert child.module is not None
            if child.module == "eniac":
                yield from (f"eniac.{name.name}" for name in child.names)
            yield child.module
        else:
            yield from imports(child)


def package_graph(source: Path = SOURCE) -> Graph:
    """For each module or package right below `source` those that it imports from."""
    names = {path.relative_to(source).parts[0].removesuffix(".py") for path in source.rglob("*.py")}
    graph: Graph = {name: set() for name in names - {"__init__", "__main__"}}
    for path in source.rglob("*.py"):
        own = path.relative_to(source).parts[0].removesuffix(".py")
        if own in graph:
            every = imports(ast.parse(path.read_text()))
            found = {name for name in every if name.startswith("eniac.")}
            graph[own] |= {name.split(".")[1] for name in found} & graph.keys() - {own}
    return graph


def reduced(graph: Graph) -> Graph:
    """The graph without arrows that follow from others."""

    def below(name: str) -> set[str]:
        return graph[name].union(*map(below, graph[name]))

    return {
        name: {to for to in targets if not any(to in below(other) for other in targets)}
        for name, targets in graph.items()
    }


def levels(graph: Graph) -> dict[str, int]:
    """How long the longest way down from each is."""
    found: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in found:
            found[name] = max((level(to) + 1 for to in graph[name]), default=0)
        return found[name]

    for name in graph:
        level(name)
    return found


def layout(graph: Graph) -> tuple[dict[str, tuple[float, float]], list[list[str]]]:
    """The middle of each box, and each arrow as the points it goes through.

    Arrows over several rows get a point in each. In its row, every box or point moves towards the
    mean of those that it is joined with, again and again.
    """
    level = levels(graph)
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for name in sorted(graph):
        rows[level[name]].append(name)
    arrows = []
    for start in sorted(graph):
        for end in sorted(graph[start]):
            between = [f"{start} > {end} {row}" for row in range(level[start] - 1, level[end], -1)]
            for row, point in zip(range(level[start] - 1, level[end], -1), between, strict=True):
                rows[row].append(point)
            arrows.append([start, *between, end])
    joined: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for arrow in arrows:
        for above, below in pairwise(arrow):
            joined[above].append(below)
            joined[below].append(above)
    x = {name: float(place) for row in rows for place, name in enumerate(row)}
    for row in rows:
        _spread(row, x)
    for sweep in range(60):
        for row in rows if sweep % 2 else rows[::-1]:
            for name in row:
                near = [x[other] for other in joined[name]]
                x[name] = fsum(near) / len(near) if near else x[name]
            row.sort(key=lambda name: x[name])
            _spread(row, x)
    left = min(x[name] - width(name) / 2 for name in x)
    top = len(rows) - 1
    return {
        name: (x[name] - left + MARGIN, (top - number) * ROW + BOX / 2 + MARGIN)
        for number, row in enumerate(rows)
        for name in row
    }, arrows


def _spread(row: list[str], x: dict[str, float]) -> None:
    """Moves those of a row that are too close apart, as little as that takes."""
    middle = fsum(x[name] for name in row) / len(row)
    for before, name in pairwise(row):
        x[name] = max(x[name], x[before] + (width(before) + width(name)) / 2 + GAP)
    shift = middle - fsum(x[name] for name in row) / len(row)
    for name in row:
        x[name] += shift


def width(name: str) -> float:
    """The width of a box, or of the space for an arrow."""
    return 0 if " > " in name else 8.4 * len(name) + 22


def draw(graph: Graph) -> str:
    """The picture."""
    graph = reduced(graph)
    place, arrows = layout(graph)
    wide = max(x + width(name) / 2 for name, (x, _) in place.items()) + MARGIN
    high = max(y for _, y in place.values()) + BOX / 2 + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
        f'width="{wide:.0f}" height="{high:.0f}" font-family="monospace" font-size="14">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#8d99ae"/></marker></defs>',
        f'<rect width="{wide:.0f}" height="{high:.0f}" rx="8" fill="#fbf9f4"/>',
    ]
    for arrow in arrows:
        points = [place[name] for name in arrow]
        points[0] = (points[0][0], points[0][1] + BOX / 2)
        points[-1] = (points[-1][0], points[-1][1] - BOX / 2)
        path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
        for (x, y), (to_x, to_y) in pairwise(points):
            half = (y + to_y) / 2
            path += f"C{x:.0f} {half:.0f} {to_x:.0f} {half:.0f} {to_x:.0f} {to_y:.0f}"
        parts.append(
            f'<path d="{path}" fill="none" stroke="#8d99ae" stroke-width="1.3" '
            'marker-end="url(#tip)"/>'
        )
    for name in sorted(graph):
        x, y = place[name]
        fill = "#dfe7f2" if (SOURCE / name).is_dir() else "#ffffff"
        parts.append(
            f'<rect x="{x - width(name) / 2:.0f}" y="{y - BOX / 2:.0f}" width="{width(name):.0f}" '
            f'height="{BOX}" rx="5" fill="{fill}" stroke="#3a6ea5"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="#2b2d42">{name}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    PICTURE.write_text(draw(package_graph()))
    print(f"written: {PICTURE.relative_to(ROOT)}")
