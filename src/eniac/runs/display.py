"""What the user sees while a run goes on: a live picture in a terminal, else a line an epoch."""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from eniac.runs.config import Config
from eniac.runs.progress import Progress, fraction
from eniac.runs.terminal import LivePicture, duration, nobody_there, number

_EPOCH = "Finishing the epoch, then saving"


class Display(LivePicture):
    """Shows a run as it goes, on `console`. In a terminal the picture is redrawn in place."""

    per_second = 8

    def __init__(self, console: Console, config: Config):
        super().__init__(console)
        self._config = config
        self._spinner = Spinner("dots", style="cyan")
        self._status = "Starting"
        self._to_finish = _EPOCH
        self._numbers: list[tuple[str, str]] = []
        self._done: float | None = None
        self._left = ""
        self._first: tuple[float, float] | None = None

    def say(self, text: str, to_finish: str = _EPOCH) -> None:
        """What is going on, now that it is not an epoch; and what an interrupt has to wait for."""
        self._status, self._to_finish = text, to_finish
        if self._live is None:
            self._print(text)

    def stopping(self) -> None:
        """An interrupt was noticed. Called by a signal handler, so nothing is printed here."""
        self._status = f"{self._to_finish}. Ctrl-C again aborts at once"

    def warn(self, text: str) -> None:
        """Something the user should know, which does not stop the run."""
        with nobody_there():
            self._console.print(Text(f"Warning: {text}", style="yellow"), soft_wrap=True)

    def update(self, progress: Progress, steps_per_second: float) -> None:
        """After an epoch of a run."""
        self._done = fraction(self._config, progress)
        self._left = self._time_left()
        limit = f"/{self._config.epochs}" if self._config.epochs else ""
        self._numbers = [
            ("epoch", f"{progress.epoch}{limit}"),
            ("steps", f"{int(progress.steps.sum()):,}"),
            ("return", show_returns(progress.returns)),
            *exploiting(progress),
            ("steps/s", f"{steps_per_second:,.0f}"),
        ]
        self._status = f"{self._left} left" if self._left else ""
        if self._live is None:
            line = "  ".join(f"{name} {value}" for name, value in self._numbers)
            self._print(line + (f"  {self._status}" if self._status else ""))

    def _print(self, text: str) -> None:
        with nobody_there():
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        title = f"{self._config.algorithm.name} on {self._config.env}"
        if self._config.seeds > 1:
            title += f", {self._config.seeds} seeds"
        head = Table.grid(padding=(0, 2))
        head.add_row(
            self._spinner,
            Text(title, style="bold cyan", no_wrap=True),
            ProgressBar(total=1.0, completed=self._done or 0.0, width=24, pulse=self._done is None),
        )
        numbers = Text("  ", no_wrap=True, overflow="ellipsis")
        for name, value in self._numbers:
            numbers.append(f"{name} ", "dim").append(value, "bold").append("   ")
        status = Text(f"  {self._status}", style="dim", no_wrap=True, overflow="ellipsis")
        return Group(head, *([numbers] if self._numbers else []), status)

    def _time_left(self) -> str:
        if self._done is None:
            return ""
        now = time.perf_counter()
        if self._first is None:
            # Measured from the first epoch seen, so that neither compilation nor an earlier
            # session counts as speed.
            self._first = (self._done, now)
        done, since = self._done - self._first[0], now - self._first[1]
        return duration((1.0 - self._done) * since / done) if done > 0 else ""


def show_returns(returns: np.ndarray) -> str:
    """The mean of the seeds' returns, and their range if there are several."""
    known = returns[~np.isnan(returns)]
    if not known.size:
        return "-"
    mean = number(known.mean())
    if len(known) == 1:
        return mean
    return f"{mean} ({number(known.min())} to {number(known.max())})"


def exploiting(progress: Progress) -> list[tuple[str, str]]:
    """The return of the exploiting policy with its name, where it is known."""
    if np.isnan(progress.exploiting).all():
        return []
    return [("exploiting", show_returns(progress.exploiting))]
