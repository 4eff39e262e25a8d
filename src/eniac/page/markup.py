"""HTML out of text: whatever is not made by `tag` is escaped."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

VOID = {"input", "meta", "link", "br"}
"""Elements that have no content, and no end."""


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]
"""Text, numbers, HTML, nothing, or several of these."""


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """An element. Underscores in the names of `attributes` are hyphens, and left out at the end;
    True is an attribute without a value, False and None are none."""
    words = [name]
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(key)
        elif value is not None and value is not False:
            words.append(f'{key}="{html.escape(str(value))}"')
    if name in VOID:
        return Markup(f"<{' '.join(words)}>")
    return Markup(f"<{' '.join(words)}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Children one after another."""
    return Markup("".join(map(_text, children)))


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int | float):
        return html.escape(str(child))
    return join(child)


def script_json(data: Any) -> Markup:
    """`data` as JSON that can stand in a script element: nothing in it can end that."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def table(
    caption: str,
    head: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    numbers: Iterable[int] = (),
) -> Markup:
    """A table whose first cell of each row is its name; `numbers` are the columns of numbers. It
    scrolls by itself where the window is too narrow."""
    aligned = set(numbers)

    def kind(place: int) -> str | None:
        return "number" if place in aligned else None

    cells = [tag("th", text, scope="col", class_=kind(k)) for k, text in enumerate(head)]
    body = [
        tag(
            "tr",
            (
                tag("td", text, class_=kind(k)) if k else tag("th", text, scope="row")
                for k, text in enumerate(row)
            ),
        )
        for row in rows
    ]
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", cells)),
        tag("tbody", body),
    )
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption)


def prose(text: str) -> Markup:
    """Text in which `what stands between backticks` is code."""
    parts = text.split("`")
    return join(tag("code", part) if k % 2 else part for k, part in enumerate(parts))


def bullets(items: Sequence[Child]) -> Markup | None:
    """A list, if there is anything in it."""
    return tag("ul", (tag("li", item) for item in items)) if items else None


def badge(verdict: str, kinds: Mapping[str, str]) -> Markup:
    """A verdict, coloured by its kind: good, look or bad."""
    return tag("span", verdict, class_=f"badge {kinds.get(verdict, '')}".strip())
