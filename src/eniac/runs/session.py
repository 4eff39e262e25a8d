"""One stretch of a run, from its start or a saved state to its end or an interruption.

A `Session` computes epochs and keeps what comes of them in memory, which is all that an agent needs
(`eniac.agent`). A run in a folder is a session that also writes (`runs.engine`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from eniac.errors import NonFiniteError, RunError
from eniac.runs.config import Built, Config
from eniac.runs.diagnostics import Adviser, blame
from eniac.runs.display import Display
from eniac.runs.log import Record, make_record
from eniac.runs.program import Outcome, Program, give_back_memory, nonfinite_leaves
from eniac.runs.progress import Progress, verdicts
from eniac.runs.signals import Interrupted, Signals


class Clocks(NamedTuple):
    """Seconds by the clock on the wall, and those that processors worked for this process: of one
    core the same, unless others want it too."""

    wall: float
    processor: float

    @classmethod
    def now(cls) -> Clocks:
        return cls(time.perf_counter(), time.process_time())

    def since(self) -> Clocks:
        """How long ago this was."""
        now = Clocks.now()
        return Clocks(now.wall - self.wall, now.processor - self.processor)


class Epoch(NamedTuple):
    """What is told of an epoch of all active seeds."""

    records: list[Record]
    """one for each round of each active seed"""
    timing: Record
    speed: float
    """environment steps a second, all seeds together"""


class Ending(NamedTuple):
    """How a session ended."""

    start: Progress
    """where it began"""
    reasons: list[str]
    """for each seed the stop rule that it has met, if it has"""
    signal: int | None
    """the signal that interrupted it, None if none did"""


class Session:
    """Epochs of `program`, one after another, until the stop rules of `config` are met.

    `states` and `progress` are always those after the last epoch that was finished, also when the
    next one fails. What is done with them is up to those who inherit: `log`, `keep`, `failing`.
    """

    states: Any = None
    """of all seeds, stacked; None before the first were made"""

    def __init__(self, built: Built, program: Program):
        self.built, self.program = built, program
        self.config: Config = built.config
        self.progress = Progress.start(built.config.seeds)
        self.compiled = False
        """whether the program has been compiled already"""

    def log(self, epoch: Epoch) -> bool:
        """Called after each epoch. The session goes on if it returns True."""
        del epoch
        return True

    def history(self) -> Sequence[Record]:
        """The records of what was done before this session."""
        return []

    def keep(self) -> None:
        """Called with every state that is worth keeping on disk: the first and the last, and after
        every `checkpoint_every` epochs."""

    def computed(self) -> None:
        """Called when an epoch was computed, before anything is made of it."""

    def failing(self, error: Exception) -> Exception:
        """Called when an epoch has failed; what it returns is raised."""
        return error

    def drive(
        self,
        states: Any,
        progress: Progress,
        display: Display,
        signals: Signals,
        warn: Callable[[str], None],
    ) -> Ending:
        """Goes on from `states`, or begins if there are None."""
        start, adviser = progress, Adviser(self.config, self.history())
        self.progress = progress
        try:
            self._prepare(states, display, signals, warn)
        except Interrupted:
            return Ending(start, [], signals.caught)
        goes_on = True
        while True:
            reasons = verdicts(self.config, self.progress)
            active = np.array([not reason for reason in reasons])
            if not active.any() or signals.caught is not None or not goes_on:
                break
            outcome, took = self._compute(active)
            if self.progress is start:
                _after_compiling(took.wall)  # on the host, where programs are compiled when needed
            before = self.progress
            self.states = outcome.states
            self.progress = before.advance(active, outcome.metrics, took.wall)
            epoch = tell(self.config, outcome, active, before, self.progress, took.processor)
            goes_on = self.log(epoch)
            display.update(self.progress, epoch.speed)
            for text in (*self.program.events(), *adviser.advice(epoch.records)):
                warn(text)
            # By the seeds that go on: others may be further already, and stay there.
            if self.progress.epochs[active].max() % self.config.checkpoint_every == 0:
                self.keep()
        self.keep()
        return Ending(start, reasons, signals.caught if active.any() else None)

    def _prepare(
        self, states: Any, display: Display, signals: Signals, warn: Callable[[str], None]
    ) -> None:
        """The states to begin with, and a program that is ready to run. Nothing is lost by a signal
        that comes meanwhile, so it is obeyed at once."""
        if states is None:
            display.say("Preparing")
            for text in self.built.learner.warnings():
                warn(text)
            with signals.at_once():
                self.states = self.program.init()
            # Shows at once whether the folder can be written to, and gives every run a good state
            # to fall back on.
            self.keep()
        else:
            self.states = self.program.place(states)
        if self.compiled or all(verdicts(self.config, self.progress)):
            return  # or it was stopped after its last epoch
        display.say("Compiling (the next start will be faster)")
        began = Clocks.now()
        with signals.at_once():
            self.program.compile(self.states)
        self.compiled = True
        _after_compiling(began.since().wall)

    def _compute(self, active: np.ndarray) -> tuple[Outcome, Clocks]:
        """One epoch of the active seeds, and how long it took."""
        began = Clocks.now()
        try:
            try:
                outcome = self.program.epoch(self.states, active, self.config.return_above)
            except RunError as error:
                told = f"{error} It was in epoch {self.progress.epoch + 1}."
                raise type(error)(told) from error
            took = began.since()
            _refuse_nonfinite(outcome, active, self.progress, self.config)
        except Exception as error:
            told = self.failing(error)
            if told is error:
                raise
            raise told from error
        self.computed()
        return outcome, took


def tell(
    config: Config,
    outcome: Outcome,
    active: np.ndarray,
    before: Progress,
    after: Progress,
    processor: float,
) -> Epoch:
    """A record for each round of each active seed, and how long the epoch took."""
    metrics = outcome.metrics
    steps = before.steps[:, None] + np.cumsum(metrics["steps"], axis=1)
    records = [
        make_record(
            config.seed_numbers[k],
            int(after.epochs[k]),
            int(r) + 1,
            int(steps[k, r]),
            {name: values[k, r] for name, values in metrics.items()},
        )
        for k in np.flatnonzero(active)
        for r in np.flatnonzero(metrics["ran"][k])
    ]
    seconds = after.seconds - before.seconds
    speed = float((after.steps - before.steps).sum()) / seconds
    timing: Record = {
        "epoch": after.epoch,
        "seconds": round(seconds, 6),
        "seconds_so_far": round(after.seconds, 6),
        "processor_seconds": round(processor, 6),
        "steps_per_second": round(speed, 1),
    }
    return Epoch(records, timing, speed)


def _after_compiling(seconds: float) -> None:
    if seconds > 1:  # else there was not much to compile, and it costs a tenth of that
        give_back_memory()


def _refuse_nonfinite(
    outcome: Outcome, active: np.ndarray, progress: Progress, config: Config
) -> None:
    nonfinite = nonfinite_leaves(outcome.states)
    for k in np.flatnonzero(active):
        leaves = [name for name, bad in nonfinite.items() if bad[k]]
        metrics = {name: values[k] for name, values in outcome.metrics.items()}
        blamed = blame(metrics, leaves, config.env)
        if blamed is not None:
            where = f"in epoch {progress.epochs[k] + 1} of seed {config.seed_numbers[k]}"
            raise NonFiniteError(f"{blamed[0]} {where}.{blamed[1]}")
