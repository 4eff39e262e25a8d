"""Training as users know it: a run that ends with its pictures drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from eniac.report.pictures import draw_all
from eniac.runs import engine
from eniac.runs.config import Config
from eniac.runs.engine import Result
from eniac.runs.load import Run


def draw(run: Run) -> list[str]:
    """Draws all pictures that there are for `run`; says what could not be drawn."""
    return draw_all(run, run.path / "figures")[1]


def train(config: Config, env: Any = None, *, console: Console | None = None) -> Result:
    """`engine.train`, and the pictures at the end."""
    return engine.train(config, env, console=console, finish=lambda run: draw(run))


def resume(
    run: Path | str, env: Any = None, *, console: Console | None = None, **rules: Any
) -> Result:
    """`engine.resume`, and the pictures at the end; `rules` are stop rules that replace the run's
    (epochs, steps, seconds, return_above), and accept_edited_config."""
    return engine.resume(run, env, console=console, finish=lambda run: draw(run), **rules)
