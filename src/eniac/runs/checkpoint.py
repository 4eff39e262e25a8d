"""Checkpoints: the whole training state of a run in one file, written whole or not at all.

A checkpoint holds every array of the state, random keys included, and how far the logs had come,
so that a run that continues from it is a run that was never interrupted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from eniac.errors import CheckpointError, ConfigError, require, shown
from eniac.runs import dataclass_io
from eniac.runs.identity import Origin, Owner
from eniac.runs.log import METRICS, TIMINGS
from eniac.runs.progress import Progress
from eniac.runs.tensors import flatten, read_header, read_tensors, unflatten, write_tensors

FORMAT = 2

_NAME = re.compile(r"epoch-[0-9]{6,}\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """A training state and all that is needed to go on from it."""

    state: Any
    progress: Progress
    offsets: dict[str, int]
    """Length in bytes of each log when the state was saved."""
    origin: Origin


def checkpoint_path(folder: Path, epoch: int) -> Path:
    """The file of the checkpoint made after `epoch` epochs."""
    return folder / f"epoch-{epoch:06d}.safetensors"


def list_checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints in `folder`, newest first; files of other names are not ours."""
    named = [path for path in folder.glob("epoch-*.safetensors") if _NAME.fullmatch(path.name)]
    return sorted(named, key=epoch_of, reverse=True)


def epoch_of(path: Path) -> int:
    """The number of epochs in the name of a checkpoint."""
    return int(path.stem.removeprefix("epoch-"))


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Saves `checkpoint` in `folder`, then deletes all but the newest `keep`.

    Old ones go only after the new one is safely on the disk.
    """
    path = checkpoint_path(folder, checkpoint.progress.epoch)
    note = {
        "format": FORMAT,
        "origin": dataclass_io.plain(checkpoint.origin),
        "progress": checkpoint.progress.to_dict(),
        "offsets": checkpoint.offsets,
    }
    write_tensors(path, flatten(checkpoint.state), note)
    for old in list_checkpoints(folder)[keep:]:
        old.unlink(missing_ok=True)
    return path


def load_checkpoint(path: Path, like: Any, owner: Owner | None = None) -> Checkpoint:
    """The checkpoint at `path`, which must hold a state with the structure and shapes of `like`.

    Raises `CheckpointError` if the file is damaged, holds something else, or does not belong to
    the run `owner`.
    """
    # Whose it is comes first: the shapes of a foreign one say less.
    origin = _origin(path, read_header(path, follow=False).note)
    objection = (owner or Owner()).objection(origin)
    if objection:
        raise CheckpointError(f"{path} {objection}.")
    arrays, note = read_tensors(path, like, follow=False)
    try:
        progress = Progress.from_dict(note.get("progress"))
        offsets = dataclass_io.conform(dict[str, int], note.get("offsets"), "offsets")
        for name, offset in offsets.items():
            require(offset >= 0, f"offsets.{name}", offset, "0 or more")
    except ConfigError as error:
        raise CheckpointError(f"{path} has a damaged note: {error}") from error
    if progress.epoch != epoch_of(path):
        raise CheckpointError(f"{path} was renamed: it is of epoch {progress.epoch}.")
    state = unflatten(like, arrays, path)
    # All arrays of a run have a row for each of its seeds.
    rows = {jax.numpy.shape(leaf)[:1] for leaf in jax.tree.leaves(state)}
    if len(rows) == 1 and rows != {(len(progress.epochs),)}:
        raise CheckpointError(
            f"{path} has a damaged note: it is of {len(progress.epochs)} seeds, and its arrays of "
            f"{next(iter(rows))}."
        )
    return Checkpoint(state, progress, offsets, origin)


def _origin(path: Path, note: dict[str, Any]) -> Origin:
    if note.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {shown(note.get('format'))}; this version of eniac reads {FORMAT}."
        )
    try:
        return dataclass_io.build(Origin, note.get("origin"), "origin")
    except ConfigError as error:
        raise CheckpointError(f"{path} has a damaged note: {error}") from error


def newest_checkpoint(
    folder: Path, like: Any, owner: Owner | None = None, logs: Path | None = None
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint in `folder` that can be used, and a warning for each that cannot.

    It must be whole and belong to the run `owner`; with `logs`, the folder of its logs, these must
    be the ones that it was saved with. Returns None if there has never been one; raises
    `CheckpointError` if none can be used.

    Only reads: whoever looks at a run must not disturb the process that writes it. That process
    may delete a checkpoint between our seeing its name and our opening it; then there are newer
    ones, and we look again.
    """
    for _ in range(_LOOKS):
        try:
            return _newest_of(list_checkpoints(folder), like, owner, logs)
        except _Vanished:
            continue
    raise CheckpointError(f"The checkpoints in {folder} vanish faster than they can be read.")


_LOOKS = 100
"""How often the names of checkpoints are read anew before we give up on a folder. A second look is
rare already: it takes a writer that saves twice while one file is opened."""


class _Vanished(Exception):
    """A checkpoint was deleted between being listed and being opened."""


def _newest_of(
    paths: list[Path], like: Any, owner: Owner | None, logs: Path | None
) -> tuple[Checkpoint | None, list[str]]:
    damage = []
    for path in paths:
        try:
            checkpoint = load_checkpoint(path, like, owner)
            if logs is not None:
                _check_logs(path, checkpoint.offsets, logs)
        except CheckpointError as error:
            if not path.exists():
                raise _Vanished from None
            damage.append(str(error))
            continue
        return checkpoint, [f"{text} Using the checkpoint before it." for text in damage]
    if paths:
        raise CheckpointError(f"No checkpoint of this run can be used. {' '.join(damage)}")
    return None, []


def _check_logs(path: Path, offsets: dict[str, int], folder: Path) -> None:
    for name in (METRICS, TIMINGS):
        log, offset = folder / name, offsets.get(name, 0)
        size = log.stat().st_size if log.exists() else 0
        saved = f"{path} was saved when {name} had {offset} bytes"
        if size < offset:
            raise CheckpointError(f"{saved}, and it has {size}.")
        if offset and not _ends_a_line(log, offset):
            raise CheckpointError(f"{saved}, which is in the middle of a line now.")


def _ends_a_line(log: Path, offset: int) -> bool:
    with open(log, "rb") as file:
        file.seek(offset - 1)
        return file.read(1) == b"\n"
