"""Running a configuration: train, resume, and everything that must survive in between."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from rich.console import Console

from eniac.errors import ConfigError, NonFiniteError, RunError
from eniac.runs.cache import prepare_jax
from eniac.runs.checkpoint import (
    Checkpoint,
    checkpoint_path,
    list_checkpoints,
    newest_checkpoint,
    save_checkpoint,
)
from eniac.runs.config import Built, Config
from eniac.runs.diagnostics import Adviser, blame
from eniac.runs.display import Display
from eniac.runs.export import export_policies
from eniac.runs.files import write_json
from eniac.runs.load import Run, load_config
from eniac.runs.log import METRICS, TIMINGS, Logs, Record, make_record
from eniac.runs.manifest import Manifest
from eniac.runs.program import Outcome, make_program, nonfinite_leaves
from eniac.runs.progress import Progress, verdicts


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    path: Path
    """The run's folder."""
    config: Config
    progress: Progress
    ended: str
    """The stop rules that were met, or the signal that interrupted the run."""
    signal: int | None
    """The signal that interrupted the run, None if it came to its end."""
    seconds: float
    """Wall-clock time of this session's epochs, without compilation."""
    steps: int
    """Environment steps of this session, all seeds together."""


Finish = Callable[[Run], list[str]]
"""What is done with a run that has come to its end; it returns what went wrong."""


def train(
    config: Config,
    env: Any = None,
    *,
    console: Console | None = None,
    finish: Finish | None = None,
) -> Result:
    """Runs `config` in a new folder until its stop rules are met or a signal interrupts it.

    `env` is an environment of your own to learn in, instead of the one that the config names: one
    of gymnasium's, a vector environment, or a factory. Progress goes to `console`, by default
    standard output. Raises `ConfigError` before any work if the configuration cannot be run,
    `RunError` if the folder cannot be used, and `NonFiniteError` when NaN or infinity turns up;
    what was saved by then stays. `finish` is called with a run that has come to its end.
    """
    prepare_jax()
    config = config.for_object(env)
    built = config.build(env)
    folder = config.out or config.default_out()
    _create(folder, config)
    return _Session(folder, built, console or Console(), finish).run(None, [])


def resume(
    run: Path | str,
    env: Any = None,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    return_above: float | None = None,
    console: Console | None = None,
    finish: Finish | None = None,
) -> Result:
    """Continues the run in the folder `run` from its newest checkpoint, as if never interrupted.

    Stop rules given here replace those of the run. A run that was interrupted before its first
    checkpoint starts over. A run whose environment was given as an object needs it again: `env`.
    Raises as `train` does.
    """
    prepare_jax()
    folder = Path(run)
    config = load_config(folder)
    rules = {
        "epochs": epochs,
        "steps": steps,
        "seconds": seconds,
        "return_above": return_above,
    }
    changes: dict[str, Any] = {name: rule for name, rule in rules.items() if rule is not None}
    config = replace(config, out=folder, **changes)
    built = config.build(env)
    session = _Session(folder, built, console or Console(), finish)
    sizes = {name: _size(folder / name) for name in (METRICS, TIMINGS)}
    shapes = session.program.shapes
    checkpoint, warnings = newest_checkpoint(folder / "checkpoints", shapes, sizes)
    if checkpoint is not None and all(verdicts(built.config, checkpoint.progress)):
        met = sorted(set(verdicts(built.config, checkpoint.progress)))
        raise ConfigError(
            f"{folder} has already come to its end ({', '.join(met)}). To go on, set a later one: "
            f"`eniac resume {folder} --epochs {2 * checkpoint.progress.epoch}`."
        )
    if changes:
        _guarded(folder, lambda: write_json(folder / "config.json", config.to_dict()))
    return session.run(checkpoint, warnings)


class _Session:
    """One stretch of a run, from its start or a checkpoint to its end or an interruption."""

    def __init__(self, folder: Path, built: Built, console: Console, finish: Finish | None):
        self.folder = folder
        self.finish = finish
        self.built = built
        self.config = built.config
        self.program = make_program(built)
        self.console = console

    def run(self, checkpoint: Checkpoint | None, warnings: list[str]) -> Result:
        try:
            return _guarded(self.folder, lambda: self._run(checkpoint, warnings))
        finally:
            self.program.close()
            self.built.learner.close()

    def _run(self, checkpoint: Checkpoint | None, warnings: list[str]) -> Result:
        progress = checkpoint.progress if checkpoint else Progress.start(self.config.seeds)
        manifest = Manifest(self.folder, self.config, progress.epoch, warnings)
        offsets = checkpoint.offsets if checkpoint else {}
        try:
            logs = Logs(self.folder, self.config, offsets, progress.steps.tolist())
            try:
                with Display(self.console, self.config) as display, _Signals(display) as signals:
                    for warning in warnings:
                        display.warn(warning)

                    def warn(text: str) -> None:
                        display.warn(text)
                        manifest.warn(text)

                    result = self._loop(checkpoint, progress, logs, display, signals, warn)
                    if result.signal is None:
                        display.say("Writing the policy and the pictures")
                        self._finish(result, warn)
            finally:
                logs.close()
        except BaseException as error:
            aborted = isinstance(error, KeyboardInterrupt)
            ended = "aborted" if aborted else f"failed: {type(error).__name__}: {error}"
            saved = list_checkpoints(self.folder / "checkpoints")
            # If not even this can be written, the error says so already.
            with contextlib.suppress(OSError):
                manifest.end(ended, _epoch_of(saved))
            if aborted:
                raise KeyboardInterrupt(
                    f"Aborted. What was saved stays, up to epoch {_epoch_of(saved)}: "
                    f"`eniac resume {self.folder}` goes on from there."
                ) from None
            raise
        manifest.end(result.ended, result.progress.epoch)
        return result

    def _loop(
        self,
        checkpoint: Checkpoint | None,
        progress: Progress,
        logs: Logs,
        display: Display,
        signals: _Signals,
        warn: Callable[[str], None],
    ) -> Result:
        start = progress
        if checkpoint is None:
            display.say("Preparing")
            for text in self.built.learner.warnings():
                warn(text)
            states = self.program.init()
            # Shows at once whether the folder can be written to, and gives every run a good state
            # to fall back on.
            self._save(states, progress, logs)
        else:
            states = self.program.place(checkpoint.state)
        saved = progress.epoch
        adviser = Adviser()
        display.say("Compiling (the next start will be faster)")
        self.program.compile(states)
        while True:
            reasons = verdicts(self.config, progress)
            active = np.array([not reason for reason in reasons])
            if not active.any() or signals.caught is not None:
                break
            try:
                outcome, seconds = self._epoch(states, active, progress)
            except RunError as error:
                # An epoch leaves the states before it as they were: only itself is lost.
                if saved != progress.epoch:
                    self._save(states, progress, logs)
                path = checkpoint_path(self.folder / "checkpoints", progress.epoch)
                raise type(error)(f"{error} The last good checkpoint is {path}.") from error
            states = outcome.states
            before = progress
            progress = progress.advance(active, outcome.metrics, seconds)
            records, speed = self._log(outcome, active, before, progress, logs)
            display.update(progress, speed)
            for text in (*self.program.events(), *adviser.advice(records)):
                warn(text)
            if progress.epoch % self.config.checkpoint_every == 0:
                self._save(states, progress, logs)
                saved = progress.epoch
        if saved != progress.epoch:
            self._save(states, progress, logs)
        self._states = states
        ended = ", ".join(sorted(set(filter(None, reasons))))
        if active.any() and signals.caught is not None:
            ended = f"interrupted by {signal.Signals(signals.caught).name}"
        return Result(
            path=self.folder,
            config=self.config,
            progress=progress,
            ended=ended,
            signal=signals.caught if active.any() else None,
            seconds=progress.seconds - start.seconds,
            steps=int((progress.steps - start.steps).sum()),
        )

    def _epoch(self, states: Any, active: np.ndarray, progress: Progress) -> tuple[Outcome, float]:
        """What the next epoch gives, and how many seconds it takes."""
        clock = time.perf_counter()
        try:
            outcome = self.program.epoch(states, active, self.config.return_above)
        except RunError as error:
            raise type(error)(f"{error} It was in epoch {progress.epoch + 1}.") from error
        seconds = time.perf_counter() - clock
        _refuse_nonfinite(outcome, active, progress, self.config)
        return outcome, seconds

    def _log(
        self,
        outcome: Outcome,
        active: np.ndarray,
        before: Progress,
        after: Progress,
        logs: Logs,
    ) -> tuple[list[Record], float]:
        """Writes a record for each round of each active seed, and how long the epoch took."""
        metrics = outcome.metrics
        steps = before.steps[:, None] + np.cumsum(metrics["steps"], axis=1)
        records = [
            make_record(
                self.config.seed_numbers[k],
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
            "steps_per_second": round(speed, 1),
        }
        logs.write(records, timing)
        return records, speed

    def _save(self, states: Any, progress: Progress, logs: Logs) -> None:
        # The lines first: a checkpoint must never point beyond the end of its logs.
        checkpoint = Checkpoint(states, progress, logs.sync())
        save_checkpoint(self.folder / "checkpoints", checkpoint, self.config.keep)

    def _finish(self, result: Result, warn: Callable[[str], None]) -> None:
        export_policies(
            self.folder / "policy",
            self.config,
            self.built.learner,
            self._states,
            result.progress,
        )
        run = Run(self.folder, self.built, self._states, result.progress, [])
        for warning in self.finish(run) if self.finish else []:
            warn(warning)


class _Signals:
    """Turns the first SIGINT or SIGTERM into a wish to stop; a second SIGINT aborts at once."""

    def __init__(self, display: Display):
        self.caught: int | None = None
        self._display = display
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        # Python delivers signals to the main thread alone; elsewhere they are the caller's affair.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: Any) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.caught == signal.SIGINT:
            raise KeyboardInterrupt
        self.caught = number
        self._display.stopping()


def _create(folder: Path, config: Config) -> None:
    if (folder / "config.json").exists():
        raise ConfigError(
            f"{folder} already holds a run. Continue it with `eniac resume {folder}`, or choose "
            "another folder with --out."
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file. Choose another folder with --out.")

    def create() -> None:
        for name in ("checkpoints", "figures"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", replace(config, out=folder).to_dict())

    _guarded(folder, create)


def _guarded(folder: Path, work: Any) -> Any:
    """`work()`, with errors of the file system told in the user's words."""
    try:
        return work()
    except OSError as error:
        saved = list_checkpoints(folder / "checkpoints")
        kept = (
            f"What was saved is still there, up to epoch {_epoch_of(saved)}; when that is mended, "
            f"continue with `eniac resume {folder}`."
            if saved
            else "Nothing was saved yet."
        )
        what = error.strerror or str(error)
        raise RunError(f"Cannot write to {error.filename or folder}: {what}. {kept}") from error


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


def _epoch_of(checkpoints: list[Path]) -> int:
    return int(checkpoints[0].stem.removeprefix("epoch-")) if checkpoints else 0


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
