"""What the user sees while a run goes on: a live line in a terminal, else a line an epoch."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from eniac.experiments.config import Config
from eniac.experiments.stop import Progress, fraction


class Display:
    """Shows a run as it goes, on `console`. In a terminal the picture is redrawn in place."""

    def __init__(self, console: Console, config: Config):
        self._console = console
        self._config = config
        self._live: Live | None = None
        self._spinner = Spinner("dots")
        self._clock = time.perf_counter()
        self._first: tuple[float, float] | None = None

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str) -> None:
        """What is going on before there are numbers to show."""
        if self._live is not None:
            self._spinner.update(text=Text(text))
            self._live.update(self._spinner)
        else:
            self._console.print(text, highlight=False, markup=False)

    def warn(self, text: str) -> None:
        """Something the user should know, which does not stop the run."""
        self._console.print(Text(f"Warning: {text}", style="yellow"), soft_wrap=True)

    def update(self, progress: Progress, metrics: dict[str, np.ndarray], steps_per_second: float):
        """After an epoch of a run."""
        left = self._time_left(progress)
        returns = progress.returns[~np.isnan(progress.returns)]
        epoch = f"{progress.epoch}" + (f"/{self._config.epochs}" if self._config.epochs else "")
        steps = f"{int(progress.steps.sum()):,}"
        shown = f"{returns.mean():.4g}" if returns.size else "-"
        if len(returns) > 1:
            shown += f" (seeds {returns.min():.4g} to {returns.max():.4g})"
        speed = f"{steps_per_second:,.0f}"
        if self._live is None:
            line = f"epoch {epoch}  steps {steps}  return {shown}  {speed} steps/s"
            self._console.print(
                line + (f"  {left} left" if left else ""),
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
            return
        numbers = Table.grid(padding=(0, 3))
        numbers.add_row(
            *(
                Text.assemble((f"{name} ", "dim"), (value, "bold"))
                for name, value in (
                    ("epoch", epoch),
                    ("steps", steps),
                    ("return", shown),
                    ("steps/s", speed),
                )
            )
        )
        self._live.update(Group(self._bar(progress, left), numbers))

    def _bar(self, progress: Progress, left: str) -> Table:
        name = self._config.algorithm.name
        title = f"{name} on {self._config.env}"
        if self._config.seeds > 1:
            title += f", {self._config.seeds} seeds"
        done = fraction(self._config, progress)
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            self._spinner_alone(),
            Text(title, style="bold cyan"),
            ProgressBar(total=1.0, completed=done or 0.0, width=30, pulse=done is None),
            Text(f"{left} left" if left else "", style="dim"),
        )
        return bar

    def _spinner_alone(self) -> Spinner:
        self._spinner.update(text="")
        return self._spinner

    def _time_left(self, progress: Progress) -> str:
        done = fraction(self._config, progress)
        now = time.perf_counter()
        if done is None:
            return ""
        if self._first is None or done <= self._first[0]:
            self._first = self._first or (done, now)
            return ""
        # Measured from the first epoch seen, so that neither compilation nor an earlier session
        # counts as speed.
        rate = (done - self._first[0]) / max(now - self._first[1], 1e-9)
        return duration((1.0 - done) / rate)


def duration(seconds: float) -> str:
    """`3 s`, `2 min 5 s`, `1 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
