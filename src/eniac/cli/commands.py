"""Commands that show what is in a run. Heavy modules are imported when a command is run."""

from __future__ import annotations

import sys
from json import dumps as json_of
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from eniac.cli.show import cover_table
from eniac.errors import ConfigError

PLOT = """Draw pictures of a run (PNG).

--what curve: the learning curve. Several runs go in one figure; the line is the mean of a run's
seeds, the band reaches over all of them.

--what visits: where each policy of the cover went, and episodes of the exploiting policy.

--what bonus: which states were visited, and the bonus that they get.

--what all: all of these that there are for the run.

Examples:
  eniac plot runs/sea
  eniac plot runs/car --what all
  eniac plot runs/sea runs/other --out both.png
"""

COVER = """Show the policies of a run's cover: weight, return, how much of the states they reached.

Reads the newest checkpoint. The exploring and the exploiting policy come last.

Examples:
  eniac cover runs/car
  eniac cover runs/car --seed 3 --episodes 100 --json
"""


def plot(
    folders: tyro.conf.Positional[tuple[Path, ...]],
    /,
    what: Literal["curve", "visits", "bonus", "all"] = "curve",
    out: Path | None = None,
    metric: str = "return_mean",
    seed: int | None = None,
) -> int:
    """Draws pictures of a run.

    Args:
        folders: Folders of runs; one, but for curves.
        what: What to draw.
        out: The PNG, or for --what all the folder of the PNGs. None: figures/ in the run's
            folder, or learning_curves.png here if there are several runs.
        metric: What a curve shows, any number that stands in metrics.jsonl.
        seed: Which of the run's seeds to draw visits and bonus of. None: the first.
    """
    runs = list(folders)
    if not runs:
        raise ConfigError("Which run? For instance `eniac plot runs/sea`.")
    if seed is not None and what == "curve":
        raise ConfigError(f"seed is {seed}, but a curve is of all seeds; leave it out.")
    if metric != "return_mean" and what != "curve":
        raise ConfigError(f"metric is {metric!r}, but only curves have one; leave it out.")
    if what == "curve":
        from eniac.report.figures import learning_curves

        default = runs[0] / "figures" / "learning_curve.png"
        path = out or (default if len(runs) == 1 else Path("learning_curves.png"))
        print(f"The figure is in {learning_curves(runs, path, metric)}")
        return 0
    if len(runs) > 1:
        raise ConfigError(
            f"--what {what} draws one run, and {len(runs)} were given. Curves of several runs "
            "go in one figure: --what curve."
        )
    return _draw(runs[0], what, out, seed)


def _draw(folder: Path, what: str, out: Path | None, seed: int | None) -> int:
    run = open_run(folder)
    from eniac.report.pictures import FILES, draw, draw_all

    if what != "all":
        path = out or folder / "figures" / FILES[what]
        print(f"The figure is in {draw(run, what, path, seed)}")
        return 0
    run.index(seed)
    drawn, warnings = draw_all(run, out or folder / "figures", seed)
    for path in drawn:
        print(f"Drew {path}")
    for warning in warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    return 1 if warnings else 0


def cover(
    run: tyro.conf.Positional[Path],
    /,
    seed: int | None = None,
    episodes: int = 20,
    json: tyro.conf.FlagCreatePairsOff[bool] = False,
) -> int:
    """Shows the cover of a run.

    Args:
        run: Folder of the run.
        seed: Which of the run's seeds to show. None: the first.
        episodes: Number of episodes for each policy.
        json: Print the result as JSON.
    """
    at_least(1, episodes=episodes)
    loaded = open_run(run)
    from eniac.report.coverage import cover_report

    result = cover_report(loaded, seed, episodes)
    if json:
        print(json_of(result, indent=2))
    else:
        Console().print(cover_table(result))
    return 0


def open_run(folder: Path) -> Any:
    """The run in `folder`; what was wrong with its checkpoints goes to standard error."""
    from eniac.runs.cache import use_compilation_cache
    from eniac.runs.load import load_run

    use_compilation_cache()
    run = load_run(folder)
    for warning in run.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    return run


def at_least(bound: int, **values: int | None) -> None:
    """Refuses options below `bound`."""
    for name, value in values.items():
        if value is not None and value < bound:
            raise ConfigError(f"{name} is {value}; it must be {bound} or more.")
