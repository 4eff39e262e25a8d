"""What the user sees while a list of jobs is worked off: a live table in a terminal, else lines."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from eniac.errors import RunError
from eniac.runs.executors import Job
from eniac.runs.reading import METRICS, last_records, read_json
from eniac.runs.terminal import LivePicture, duration, nobody_there, number

MOST_ROWS = 20
"""Running jobs that are shown by name."""
EVERY = 1.0
"""Seconds between two looks at the logs of a run."""


@dataclass
class Row:
    """A job that runs, as it is shown."""

    job: Job
    began: float
    steps: int | None = None
    mean_return: float | None = None
    fraction: float = 0.0
    """how much of its run is done, as far as that is known"""
    at_first: float = 0.0
    """how much was done when this try began"""
    looked: float = field(default=-1e9)

    def look(self, now: float) -> None:
        """Reads how far it is, if that was not done a moment ago."""
        if self.job.run is None or now - self.looked < EVERY:
            return
        with contextlib.suppress(OSError, RunError, KeyError, TypeError):
            first = self.looked < 0
            self.looked = now
            self._read(self.job.run)
            if first:
                self.at_first = self.fraction

    def _read(self, run: Path) -> None:
        manifest = read_json(run / "manifest.json")
        limits, num_seeds = manifest["resolved"], len(manifest["seeds"])
        last = last_records(run / METRICS, num_seeds)
        if not last:
            return
        self.steps = sum(int(record["env_steps"]) for record in last)
        returns = [x for x in (record.get("return_mean") for record in last) if x is not None]
        self.mean_return = sum(returns) / len(returns) if returns else None
        done = [
            max(record[name] for record in last) / limits[rule]
            for name, rule in (("epoch", "epochs"), ("env_steps", "steps"))
            if limits.get(rule)
        ]
        self.fraction = min(1.0, max(done, default=0.0))


@dataclass
class Counts:
    """How many jobs there are of each sort; `total` is all of them."""

    total: int
    done: int = 0
    running: int = 0
    failed: int = 0
    elsewhere: int = 0
    """which another process is making"""

    @property
    def left(self) -> int:
        return self.total - self.done - self.running - self.failed - self.elsewhere

    def __str__(self) -> str:
        words = [f"{self.done} of {self.total} done", f"{self.running} running"]
        words += [f"{self.failed} failed"] if self.failed else []
        words += [f"{self.elsewhere} in another process"] if self.elsewhere else []
        return ", ".join([*words, f"{self.left} to begin"])


class Board(LivePicture):
    """Shows a list of jobs as it is worked off, on `console`."""

    def __init__(self, console: Console, total: int):
        super().__init__(console)
        self.rows: dict[Job, Row] = {}
        self.counts = Counts(total)
        self._began = time.monotonic()
        self._gained = 0.0
        """jobs, and parts of them, that were computed since we began, without what still runs"""
        self._stopping = ""

    def say(self, text: str, style: str = "") -> None:
        """A line that stays."""
        with nobody_there():
            self._console.print(Text(text, style=style), soft_wrap=True)

    def stopping(self) -> None:
        """An interrupt was noticed. Called by a signal handler, so nothing is printed here."""
        self._stopping = "Waiting for what runs to save. Ctrl-C again ends it at once"

    def begin(self, job: Job) -> None:
        """A job was started."""
        self.rows[job] = Row(job, time.monotonic())
        if self._live is None:
            self.say(f"begun: {job.name}")

    def end(self, job: Job, done: bool) -> None:
        """A job that was started has ended. The counts are those of afterwards."""
        row = self.rows.pop(job)
        row.look(time.monotonic())
        self._gained += (1.0 if done else row.fraction) - row.at_first
        if done and self._live is None:
            took = duration(time.monotonic() - row.began)
            left = self.time_left()
            self.say(f"done: {job.name} in {took} ({self.counts}{f', {left}' if left else ''})")

    def look(self) -> None:
        """Reads how far those are that run, now and then."""
        now = time.monotonic()
        for row in self.rows.values():
            row.look(now)

    def time_left(self) -> str:
        """About how long the rest will take, at the speed of what was done; empty if unknown."""
        now = time.monotonic()
        gained, running = self._gained, 0.0
        for row in self._now():
            gained += row.fraction - row.at_first
            running += row.fraction
        todo = self.counts.left + self.counts.running + self.counts.elsewhere - running
        if gained <= 0 or todo <= 0:
            return ""
        return f"about {duration(todo * (now - self._began) / gained)} left"

    def _now(self) -> list[Row]:
        """The rows as they are: whoever draws them is another thread than who changes them."""
        return list(self.rows.values())

    def _render(self) -> RenderableType:
        now = time.monotonic()
        counts = self.counts
        head = Table.grid(padding=(0, 2))
        finished = counts.done + counts.failed + sum(row.fraction for row in self._now())
        bar = ProgressBar(total=max(counts.total, 1), completed=finished, width=24)
        words = ", ".join(filter(None, [str(counts), self.time_left()]))
        head.add_row(bar, Text(words, no_wrap=True, overflow="ellipsis"))
        parts: list[RenderableType] = [head]
        if self.rows:
            parts.append(self._table(now))
        if self._stopping:
            parts.append(Text(self._stopping, style="yellow"))
        return Group(*parts)

    def _table(self, now: float) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("running", overflow="ellipsis", no_wrap=True, ratio=1)
        for name in ("steps", "return", "time"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in self._now()[:MOST_ROWS]:
            table.add_row(
                Text(row.job.name),
                "-" if row.steps is None else f"{row.steps:,}",
                "-" if row.mean_return is None else number(row.mean_return),
                duration(now - row.began),
            )
        if len(self.rows) > MOST_ROWS:
            table.add_row(f"and {len(self.rows) - MOST_ROWS} more", "", "", "")
        return table
