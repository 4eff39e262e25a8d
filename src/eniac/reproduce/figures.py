"""What can be reproduced: a figure, a table, a set of claims a row.

Nothing heavy is imported before it is used, so that the list comes at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eniac.errors import ConfigError, RunError, suggestion
from eniac.lazy import resolve

if TYPE_CHECKING:
    from eniac.reproduce.choice import Choice, Report
    from eniac.reproduce.wanted import Wanted


@dataclass(frozen=True)
class Reproduction:
    """A row: what it is, the runs that it needs, what is shown of them, and where."""

    name: str
    what: str
    module: str
    """in `eniac.reproduce`: `report(choice)` there is what is shown, `runs(choice)` what is needed,
    if anything is"""
    page: str
    """of the documentation, which has a block of this name"""
    narrowed_by: tuple[str, ...] = ()
    """fields of a `Choice` by which fewer runs are made"""

    def runs(self, choice: Choice) -> list[Wanted]:
        return resolve(f"eniac.reproduce.{self.module}:runs")(choice) if self.narrowed_by else []

    def report(self, choice: Choice) -> Report:
        return resolve(f"eniac.reproduce.{self.module}:report")(choice)


SEEDS = ("seeds", "first_seed")

FIGURES: dict[str, Reproduction] = {
    row.name: row
    for row in (
        Reproduction(
            "figure1",
            "five algorithms on mountain car, at three depths, until 93 is passed",
            "figure1",
            "paper.md",
            ("episodes", "settings", "depths", "algorithms", *SEEDS),
        ),
        Reproduction(
            "figure2",
            "where the first policies of ENIAC's cover go, and its exploiting policy",
            "figure2",
            "paper.md",
            ("settings", *SEEDS),
        ),
        Reproduction(
            "figure3",
            "what the bonuses of ENIAC and of PC-PG make of the same visits",
            "figure3",
            "paper.md",
            ("settings", *SEEDS),
        ),
        Reproduction(
            "tables", "the presets beside Tables 1-3 of the paper", "paper_tables", "paper.md"
        ),
        Reproduction(
            "theory",
            "value gap against samples for the provable variants, and what samples depend on",
            "theory",
            "theory.md",
            ("tasks", "algorithms", *SEEDS),
        ),
        Reproduction(
            "exploration",
            "the hard tasks: who solves them, after how many steps",
            "exploration",
            "exploration.md",
            ("tasks", "algorithms", *SEEDS),
        ),
        Reproduction(
            "ablation",
            "what each of our settings brings: ENIAC with it undone, alone",
            "ablation",
            "eniac.md",
            ("tasks", *SEEDS),
        ),
        Reproduction(
            "claims", "what the paper claims, and what of it held here", "claims", "claims.md"
        ),
    )
}
"""The claims come last: they are taken from the results of the others."""

ALL = "all"


def find(name: str) -> list[Reproduction]:
    """The row called `name`, or all of them. **Raises** `ConfigError` with those that there are."""
    if name == ALL:
        return list(FIGURES.values())
    if name not in FIGURES:
        hint = suggestion(name, [*FIGURES, ALL])
        raise ConfigError(
            f"{name!r} cannot be reproduced.{hint} There are {', '.join(FIGURES)}, and {ALL}."
        )
    return [FIGURES[name]]


def check_choice(rows: Sequence[Reproduction], choice: Choice) -> None:
    """Refuses parts of a choice that none of `rows` knows, and some that only others know."""
    for name in ("episodes", "settings", "depths", "algorithms", "tasks", *SEEDS):
        if getattr(choice, name) is None:
            continue
        fitting = [row.name for row in FIGURES.values() if name in row.narrowed_by]
        if any(name not in row.narrowed_by for row in rows if row.narrowed_by) or not any(
            row.narrowed_by for row in rows
        ):
            told = ", ".join(fitting)
            raise ConfigError(f"--{name.replace('_', '-')} is only for {told}; leave it out.")


def write_report(
    row: Reproduction, report: Report, choice: Choice, out: Path, format: str
) -> list[Path]:
    """Writes what is shown of a row: pictures to `out`, text to its page, or beside the pictures
    where there is no such page or the version is a small one. Returns the files."""
    from matplotlib.figure import Figure

    from eniac.report.figures import check_format
    from eniac.report.plot_style import save
    from eniac.reproduce.pages import has_block, with_block, write_text
    from eniac.runs.files import json_bytes

    suffix = "-quick" if choice.quick else ""
    pictures: list[Path] = []
    for name, figure in report.pictures.items():
        path = out / f"{name}{suffix}.{format}"
        check_format(path)
        # Beside its place first: a full disk leaves the old picture.
        beside = path.with_name(f"{path.stem}.writing{path.suffix}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save(figure, beside) if isinstance(figure, Figure) else figure(beside)
            beside.replace(path)
        except OSError as error:
            raise RunError(f"Cannot draw to {path}: {error.strerror or error}.") from error
        finally:
            beside.unlink(missing_ok=True)
        pictures.append(path)
    written = list(pictures)
    if report.data is not None:
        path = choice.results / f"{row.name}{suffix}.json"
        written.append(write_text(path, json_bytes(report.data).decode()))
    page = choice.results.parent / "docs" / row.page
    if not choice.quick and has_block(page, row.name):
        text = with_block(page.read_text(), row.name, with_pictures(report.text, pictures, page))
        return [*written, write_text(page, text)]
    page = out / f"{row.name}{suffix}.md"
    return [*written, write_text(page, with_pictures(report.text, pictures, page).lstrip())]


def with_pictures(text: str, pictures: Sequence[Path], page: Path) -> str:
    """A text with pictures at its end, as links from a page to their files."""
    for picture in pictures:
        link = os.path.relpath(picture.absolute(), page.parent.absolute())
        text += f"\n![{picture.stem}]({Path(link).as_posix()})\n"
    return text
