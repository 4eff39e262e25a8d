"""An agent in a folder: a run's folder with a checkpoint and its policy, which every command that
reads runs can read, and `eniac resume` can go on with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eniac.errors import ConfigError, RunError
from eniac.runs.checkpoint import Checkpoint, epoch_of, list_checkpoints, save_checkpoint
from eniac.runs.config import Built, Config
from eniac.runs.dataclass_io import conform
from eniac.runs.export import export_policies
from eniac.runs.files import write_atomically, write_json
from eniac.runs.folder import CONFIG, check_out, clear
from eniac.runs.identity import Origin, fingerprint, made_with
from eniac.runs.lock import Writer
from eniac.runs.log import METRICS, TIMINGS, Record
from eniac.runs.manifest import Manifest, read_manifest
from eniac.runs.progress import Progress


@dataclass(frozen=True)
class Stored:
    """What is saved of an agent."""

    run: str
    """the number that its run is known by"""
    config: Config
    """what was asked for"""
    built: Built
    devices: int
    states: Any
    progress: Progress
    records: Sequence[Record]
    timings: Sequence[Record]


def check_folder(folder: Any, run: str) -> Path:
    """`folder` as a path, if the run can be saved there: in a new one, or where it is already."""
    path = Path(conform(Path, folder, "the folder"))
    if read_manifest(path).get("run") != run:
        check_out(path)
    return path


def save(folder: Path, stored: Stored) -> None:
    """Saves an agent in `folder`. What was saved of it there before is good until this is whole."""
    folder = check_folder(folder, stored.run)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Writer(folder, lambda _: None):
            _save(folder, stored)
    except OSError as error:
        what = error.strerror or error
        raise RunError(f"Cannot write to {error.filename or folder}: {what}.") from error


def _save(folder: Path, stored: Stored) -> None:
    if read_manifest(folder).get("run") != stored.run:
        clear(folder)
    progress, checkpoints = stored.progress, folder / "checkpoints"
    later = [path for path in list_checkpoints(checkpoints) if epoch_of(path) > progress.epoch]
    if later:
        raise ConfigError(
            f"{folder} has this agent after {epoch_of(later[0])} epochs, and it is to be saved "
            f"after {progress.epoch}: choose another folder."
        )
    checkpoints.mkdir(exist_ok=True)
    asked = replace(stored.config, out=folder).to_dict()
    write_json(folder / CONFIG, asked)
    config = stored.built.config
    manifest = Manifest(folder, stored.run, asked, config, progress.epoch, [])
    offsets = {}
    # Before the checkpoint, which must never point beyond the end of its logs. Those that an
    # earlier checkpoint points into begin with the same lines.
    for name, lines in ((METRICS, stored.records), (TIMINGS, stored.timings)):
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode()
        write_atomically(folder / name, text)
        offsets[name] = len(text)
    origin = Origin(stored.run, fingerprint(asked), made_with(stored.devices))
    checkpoint = Checkpoint(stored.states, progress, offsets, origin)
    save_checkpoint(checkpoints, checkpoint, config.keep)
    export_policies(folder / "policy", config, stored.built.learner, stored.states, progress)
    manifest.end("saved", progress.epoch)
