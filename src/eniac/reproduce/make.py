"""Making one run: trained or gone on with, judged, and written to its file."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from rich.console import Console

import eniac
from eniac.errors import RunError
from eniac.reproduce.wanted import Wanted, machine, settings_of
from eniac.runs import engine
from eniac.runs.config import Config
from eniac.runs.load import Run, load_asked, load_run
from eniac.runs.manifest import ended_well, read_manifest
from eniac.runs.options import parse_config


def make(runs: Sequence[Mapping[str, Any]]) -> None:
    """What a process is given: `make_run` of each of `runs`, as plain data, that is not done."""
    for run in map(Wanted.from_dict, runs):
        if not run.is_done():
            make_run(run)


def make_run(run: Wanted, console: Console | None = None) -> None:
    """Trains, or goes on with what is there; judges what came of it; writes the file.

    **Raises** `ConfigError` for a run that cannot be made, `RunError` if a signal has stopped it;
    what it has by then is saved.
    """
    command = shlex.join(["eniac", "train", *run.words])
    print(command, flush=True)
    config = config_of(run)
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    finished: list[Run] = []

    def keep(trained: Run) -> list[str]:
        finished.append(trained)
        return []

    with _compiling(run.folder.with_name(run.folder.name + ".compiling")) as compiling:
        if not can_go_on(run.folder, config):
            shutil.rmtree(run.folder, ignore_errors=True)
            compiling.forget()
            result = engine.train(config, console=console, finish=keep)
        elif not _has_ended(run):
            result = engine.resume(run.folder, steps=run.steps, console=console, finish=keep)
        else:
            result = None
        if result is not None and result.signal is not None:
            name = signal.Signals(result.signal).name
            raise RunError(f"{run.task} {run.name} was stopped by {name}; what it has is saved.")
        compiled = compiling.total
        # As it was trained: to load it is to build all of it again.
        trained = finished[0] if finished else load_run(run.folder)
    session = read_manifest(run.folder)["sessions"][-1]
    seeded = getattr(run.of, "seeded", False)
    run.keep_result(
        command=command,
        commit=session["commit"],
        versions=session["versions"],
        machine=machine(),
        settings=settings_of(trained.config.to_dict(), seeded),
        compile_seconds=round(compiled, 1),
        **run.of.outcome(trained, run, compiled),
    )
    if not run.keep:
        shutil.rmtree(run.folder)
        compiling.forget()


def config_of(run: Wanted) -> Config:
    """The configuration of a run."""
    often = [] if "--checkpoint-every" in run.flags else ["--checkpoint-every", "1"]
    return parse_config([*run.words, *often, "--out", str(run.folder)])


def can_go_on(folder: Path, config: Config) -> bool:
    """Whether what is in `folder` was begun with the same settings and the same program."""
    if not (folder / "config.json").exists():
        return False
    stops = ("steps", "out")
    before = {name: value for name, value in load_asked(folder).items() if name not in stops}
    now = {name: value for name, value in config.to_dict().items() if name not in stops}
    sessions = read_manifest(folder).get("sessions") or [{}]
    then = sessions[-1].get("versions", {}).get("eniac"), _source(sessions[-1].get("commit"))
    same = then == (eniac.__version__, _source("HEAD"))
    if json.loads(json.dumps(before)) != json.loads(json.dumps(now)) or not same:
        print("what was begun had other settings or another program: it begins anew", flush=True)
        return False
    return True


def _source(commit: str | None) -> str | None:
    """What git calls the source of the package at a commit; None where it is in no repository.
    Commits that leave the source alone, such as those of results, change nothing."""
    folder = Path(eniac.__file__).parent
    words = ["git", "-C", str(folder), "rev-parse", f"{(commit or 'HEAD').split()[0]}:./"]
    with contextlib.suppress(OSError):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None
    return None


def _has_ended(run: Wanted) -> bool:
    """Whether the run in the folder has come to its end, and only its file is missing."""
    manifest = read_manifest(run.folder)
    if not ended_well(manifest) or str(manifest.get("ended")).startswith("interrupted"):
        return False
    return run.of.has_ended(run.folder, run.steps, run.to_the_end)


class _Compiling:
    """The seconds that XLA has compiled for a run, in all its sessions: lines of a file."""

    def __init__(self, path: Path):
        self.path = path

    def listen(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            with open(self.path, "a") as file:
                file.write(f"{duration_secs:.6f}\n")

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)

    @property
    def total(self) -> float:
        return sum(map(float, self.path.read_text().split())) if self.path.exists() else 0.0


@contextlib.contextmanager
def _compiling(path: Path) -> Iterator[_Compiling]:
    found = _Compiling(path)
    jax.monitoring.register_event_duration_secs_listener(found.listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(found.listen)
