"""Running a configuration: train, resume, and everything that must survive in between."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

from eniac.errors import ConfigError, RunError
from eniac.runs.cache import prepare_jax
from eniac.runs.checkpoint import (
    Checkpoint,
    checkpoint_path,
    epoch_of,
    list_checkpoints,
    newest_checkpoint,
    save_checkpoint,
)
from eniac.runs.config import Built, Config
from eniac.runs.display import Display
from eniac.runs.export import export_policies
from eniac.runs.files import remove_leftovers, write_json
from eniac.runs.folder import CONFIG, check_out, clear, remove_empty
from eniac.runs.identity import Origin, Owner, changed, fingerprint, made_with, new_run
from eniac.runs.load import NO_MANIFEST, Run, edits_of, load_asked, load_config
from eniac.runs.lock import Writer
from eniac.runs.log import METRICS, Logs, Record, read_records
from eniac.runs.manifest import Manifest, ended_well, owner_of, read_manifest
from eniac.runs.program import make_program, too_few_devices
from eniac.runs.progress import Progress, rules_met, verdicts
from eniac.runs.proposals import in_shell, longer_command, resume_command
from eniac.runs.session import Ending, Epoch, Session
from eniac.runs.signals import Signals


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
    standard output. Raises `ConfigError` before any work if the configuration cannot be run or
    there is something in its folder, `RunError` if the folder cannot be used or memory runs out,
    and `NonFiniteError` when NaN or infinity turns up; what was saved by then stays, and a run that
    failed before anything was saved leaves nothing. `finish` is called with a run that has come to
    its end.
    """
    prepare_jax()
    config = config.for_object(env)
    folder = config.out or config.default_out()
    check_out(folder)
    built = config.build(env)
    built.require_memory()
    console = console or Console()
    with contextlib.closing(built.learner), _writing(folder, config, console) as writer:
        check_out(folder)  # again, now that nobody else can begin one here
        clear(folder)
        asked = replace(config, out=folder).to_dict()
        try:
            write_json(folder / CONFIG, asked)
            return _Session(writer, built, asked, console, finish).run(new_run(), None, [])
        except Exception:
            if not list_checkpoints(folder / "checkpoints"):
                with contextlib.suppress(OSError):
                    clear(folder)
            raise


def resume(
    run: Path | str,
    env: Any = None,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    return_above: float | None = None,
    accept_edited_config: bool = False,
    console: Console | None = None,
    finish: Finish | None = None,
) -> Result:
    """Continues the run in the folder `run` from its newest checkpoint, as if never interrupted.

    Stop rules given here replace those of the run of the same name; if the run has come to its end,
    they also replace all that it has met. A run that was interrupted before its first checkpoint
    starts over. A run whose environment was given as an object needs it again: `env`.
    Settings in config.json that decide results and were edited since are refused, because what
    would follow is the result of neither; `accept_edited_config` takes them all the same.
    Raises as `train` does.
    """
    prepare_jax()
    folder, console = Path(run), console or Console()
    rules = {"epochs": epochs, "steps": steps, "seconds": seconds, "return_above": return_above}
    given: dict[str, Any] = {name: rule for name, rule in rules.items() if rule is not None}
    # Refuses a folder without a run, and rules that cannot be, before anything is written there.
    config = replace(load_config(folder), **given)
    with _writing(folder, config, console) as writer:
        asked, config, manifest = load_asked(folder), load_config(folder), read_manifest(folder)
        warnings = _look_for_edits(folder, manifest, asked, accept_edited_config)
        built = replace(config, out=folder).build(env)
        built.require_memory()
        with contextlib.closing(built.learner):
            session = _Session(writer, built, asked, console, finish)
            warnings += [
                f"Removed {path.name}, a write cut short." for path in remove_leftovers(folder)
            ]
            owner = owner_of(manifest)
            if not manifest and not accept_edited_config:
                owner = Owner(configs=frozenset({fingerprint(asked)}))
            checkpoint, damage = newest_checkpoint(
                folder / "checkpoints", session.program.shapes, owner, logs=folder
            )
            warnings += damage
            session.take_rules(config, given, checkpoint, ended_well(manifest))
            if checkpoint is None:
                return session.run(owner.run or new_run(), None, warnings)
            warnings += [] if manifest else [NO_MANIFEST]
            return session.run(checkpoint.origin.run, checkpoint, warnings)


@contextlib.contextmanager
def _writing(folder: Path, config: Config, console: Console) -> Iterator[Writer]:
    """The right to write to the run in `folder`; what the machine has too little of, disk or
    memory, in the user's words."""
    began = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Writer(folder, console.print) as writer:
            began = True
            yield writer
    except (OSError, MemoryError, jax.errors.JaxRuntimeError) as error:
        if isinstance(error, OSError):
            what = error.strerror or str(error)
            trouble = f"Cannot write to {error.filename or folder}: {what}."
        elif isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            trouble = f"There is not enough memory: {_first_line(error)}"
        else:
            raise
        gone = began and not folder.exists()
        left = "The folder is gone, and what was saved there with it."
        raise RunError(f"{trouble} {left if gone else _left(folder, config)}") from error
    finally:
        remove_empty(folder)


def _left(folder: Path, config: Config) -> str:
    """What there is to go on from after a failure."""
    saved = list_checkpoints(folder / "checkpoints")
    if not saved:
        return "Nothing was saved yet."
    return (
        f"What was saved is still there, up to epoch {epoch_of(saved[0])}; when that is mended, "
        f"continue with `{resume_command(folder, config)}`."
    )


def _first_line(error: BaseException) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return f"{text[:200].rstrip('.')}."


def _look_for_edits(
    folder: Path, manifest: dict[str, Any], asked: dict[str, Any], accept: bool
) -> list[str]:
    """Refuses settings that were edited by hand since the run's last session, unless accepted."""
    edited = edits_of(manifest, asked)
    if not edited:
        return []
    told = f"was edited after the run began: {', '.join(edited)}"
    if not accept:
        path, run = in_shell(folder / CONFIG), in_shell(folder)
        raise ConfigError(
            f"{folder / CONFIG} {told}. To go on with that would give the results of neither. Undo "
            f"it; or start anew: `eniac train {path}`; or accept it: `eniac resume {run} "
            "--accept-edited-config`."
        )
    return [f"config.json {told}."]


class _Session(Session):
    """A session that writes to the folder of its run."""

    def __init__(
        self,
        writer: Writer,
        built: Built,
        asked: dict[str, Any],
        console: Console,
        finish: Finish | None,
    ):
        super().__init__(built, make_program(built))
        self.writer, self.folder = writer, writer.folder
        self.asked = asked
        """what config.json says"""
        self._saved: Progress | None = None
        self.console = console
        self.finish = finish

    def take_rules(
        self, config: Config, given: dict[str, Any], checkpoint: Checkpoint | None, ended: bool
    ) -> None:
        """Replaces the stop rules of `config`, that of the run, by those `given` for going on.

        Of a run that has come to its end, the rules that it has met are dropped: whoever continues
        it knows that they are met. **Raises** ConfigError if there is then nothing left to do; but
        a session that has not `ended` well, after its last epoch, has left policies to write.
        """
        progress = checkpoint.progress if checkpoint else Progress.start(self.config.seeds)
        changes = dict(given)
        if given and all(verdicts(self.config, progress)):
            changes = dict.fromkeys(rules_met(self.config, progress)) | given
        if changes:
            config = replace(config, **changes)
            rules = {name: getattr(config, name) for name in ("steps", "seconds", "return_above")}
            epochs = config.ends_after(self.config.algorithm)
            self.config = replace(self.config, epochs=epochs, **rules)
        if ended and all(verdicts(self.config, progress)):
            met = ", ".join(sorted(set(verdicts(self.config, progress))))
            command = longer_command(self.folder, self.config, progress)
            how = f" To go on: `{command}`." if command else ""
            raise ConfigError(f"{self.folder} has already come to its end ({met}).{how}")
        if changes:
            # Only these, so that config.json says no more than was asked for.
            self.asked = self.asked | changes | {"out": str(self.folder)}
            write_json(self.folder / CONFIG, self.asked)

    def run(self, run: str, checkpoint: Checkpoint | None, warnings: list[str]) -> Result:
        """Goes on from `checkpoint` until the end of the run, whose number is `run`."""
        self._origin = Origin(run, fingerprint(self.asked), made_with(self.program.devices))
        warnings = list(warnings)
        if checkpoint is not None:
            warnings += changed(checkpoint.origin.made_with, self._origin.made_with)
        warnings += too_few_devices(self.program, self.config.seeds)
        with contextlib.closing(self.program):
            return self._run(checkpoint, warnings)

    def _run(self, checkpoint: Checkpoint | None, warnings: list[str]) -> Result:
        progress = checkpoint.progress if checkpoint else Progress.start(self.config.seeds)
        for name in ("checkpoints", "figures"):
            (self.folder / name).mkdir(exist_ok=True)
        manifest = Manifest(
            self.folder, self._origin.run, self.asked, self.config, progress.epoch, warnings
        )
        offsets = checkpoint.offsets if checkpoint else {}
        try:
            logs = Logs(self.folder, self.config, offsets, progress.steps.tolist())
            with (
                contextlib.closing(logs),
                Display(self.console, self.config) as display,
                Signals(display.stopping) as signals,
            ):
                for warning in warnings:
                    display.warn(warning)

                def warn(text: str) -> None:
                    display.warn(text)
                    manifest.warn(text)

                self._logs = logs
                self._saved = None if checkpoint is None else progress
                states = None if checkpoint is None else checkpoint.state
                ending = self.drive(states, progress, display, signals, warn)
                result = self._result(ending)
                if result.signal is None:
                    finishing = "Writing the policy and the pictures"
                    display.say(finishing, finishing)
                    self._finish(result, warn)
        except BaseException as error:
            aborted = isinstance(error, KeyboardInterrupt)
            ended = "aborted" if aborted else f"failed: {type(error).__name__}: {error}"
            saved = list_checkpoints(self.folder / "checkpoints")
            epoch = epoch_of(saved[0]) if saved else 0
            # If not even this can be written, the error says so already.
            with contextlib.suppress(OSError):
                manifest.end(ended, epoch)
            if aborted:
                raise KeyboardInterrupt(
                    f"Aborted. What was saved stays, up to epoch {epoch}: "
                    f"`{resume_command(self.folder, self.config)}` goes on from there."
                ) from None
            raise
        manifest.end(result.ended, result.progress.epoch)
        return result

    def computed(self) -> None:
        self.writer.check()

    def failing(self, error: Exception) -> Exception:
        """The state before the epoch that failed is saved first."""
        self.writer.check()
        # Whatever comes of it, what went wrong first is what to tell.
        with contextlib.suppress(Exception):
            self.keep()
        if not isinstance(error, RunError):
            return error
        path = checkpoint_path(self.folder / "checkpoints", self.progress.epoch)
        return type(error)(f"{error} The last good checkpoint is {path}.")

    def log(self, epoch: Epoch) -> bool:
        self._logs.write(epoch.records, epoch.timing)
        return True

    def history(self) -> list[Record]:
        try:
            return read_records(self.folder / METRICS)
        except RunError:
            return []  # whoever goes on need not read what was logged

    def keep(self) -> None:
        """Saves the states, unless they are saved already."""
        if self.progress is self._saved:
            return
        # The lines first: a checkpoint must never point beyond the end of its logs.
        checkpoint = Checkpoint(self.states, self.progress, self._logs.sync(), self._origin)
        save_checkpoint(self.folder / "checkpoints", checkpoint, self.config.keep)
        self._saved = self.progress

    def _result(self, ending: Ending) -> Result:
        ended = ", ".join(sorted(set(filter(None, ending.reasons))))
        if ending.signal is not None:
            ended = f"interrupted by {signal.Signals(ending.signal).name}"
        return Result(
            path=self.folder,
            config=self.config,
            progress=self.progress,
            ended=ended,
            signal=ending.signal,
            seconds=self.progress.seconds - ending.start.seconds,
            steps=int((self.progress.steps - ending.start.steps).sum()),
        )

    def _finish(self, result: Result, warn: Callable[[str], None]) -> None:
        # On the host: to take one seed out of arrays that lie on several devices, these have to
        # meet, and on a busy machine XLA gives up waiting and ends the process.
        states = jax.device_get(self.states)
        learner, progress = self.built.learner, result.progress
        export_policies(self.folder / "policy", self.config, learner, states, progress)
        run = Run(self.folder, self.built, states, progress, [])
        for warning in self.finish(run) if self.finish else []:
            warn(warning)
