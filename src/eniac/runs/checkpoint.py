"""Checkpoints: the whole training state of a run in one file, written whole or not at all.

A checkpoint holds every array of the state, random keys included, and how far the logs had come,
so that a run that continues from it is a run that was never interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from eniac.errors import CheckpointError, ConfigError, require, shown
from eniac.runs import dataclass_io
from eniac.runs.files import remove_leftovers
from eniac.runs.progress import Progress
from eniac.runs.tensors import flatten, read_tensors, unflatten, write_tensors

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """A training state and all that is needed to go on from it."""

    state: Any
    progress: Progress
    offsets: dict[str, int]
    """Length in bytes of each log when the state was saved."""


def checkpoint_path(folder: Path, epoch: int) -> Path:
    """The file of the checkpoint made after `epoch` epochs."""
    return folder / f"epoch-{epoch:06d}.safetensors"


def list_checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints in `folder`, newest first."""
    return sorted(folder.glob("epoch-*.safetensors"), reverse=True)


def save_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Saves `checkpoint` in `folder`, then deletes all but the newest `keep`.

    Old ones go only after the new one is safely on the disk.
    """
    path = checkpoint_path(folder, checkpoint.progress.epoch)
    note = {
        "format": FORMAT,
        "progress": checkpoint.progress.to_dict(),
        "offsets": checkpoint.offsets,
    }
    write_tensors(path, flatten(checkpoint.state), note)
    for old in list_checkpoints(folder)[keep:]:
        old.unlink(missing_ok=True)
    return path


def load_checkpoint(path: Path, like: Any) -> Checkpoint:
    """The checkpoint at `path`, which must hold a state with the structure and shapes of `like`.

    Raises `CheckpointError` if the file is damaged or holds something else.
    """
    arrays, note = read_tensors(path, like, follow=False)
    if note.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {shown(note.get('format'))}; this version of eniac reads {FORMAT}."
        )
    try:
        progress = Progress.from_dict(note.get("progress"))
        offsets = dataclass_io.conform(dict[str, int], note.get("offsets"), "offsets")
        for name, offset in offsets.items():
            require(offset >= 0, f"offsets.{name}", offset, "0 or more")
    except ConfigError as error:
        raise CheckpointError(f"{path} has a damaged note: {error}") from error
    state = unflatten(like, arrays, path)
    # All arrays of a run have a row for each of its seeds.
    rows = {jax.numpy.shape(leaf)[:1] for leaf in jax.tree.leaves(state)}
    if len(rows) == 1 and rows != {(len(progress.epochs),)}:
        raise CheckpointError(
            f"{path} has a damaged note: it is of {len(progress.epochs)} seeds, and its arrays of "
            f"{next(iter(rows))}."
        )
    return Checkpoint(state, progress, offsets)


def newest_checkpoint(
    folder: Path, like: Any, log_sizes: dict[str, int] | None = None
) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint in `folder` that is whole, and a warning for each that is not.

    With `log_sizes`, a checkpoint counts as whole only if the logs reach as far as it says.
    Returns None if there has never been one; raises `CheckpointError` if all are damaged.
    """
    warnings = [f"Removed {path.name}, a write cut short." for path in remove_leftovers(folder)]
    paths = list_checkpoints(folder)
    damage = []
    for path in paths:
        try:
            checkpoint = load_checkpoint(path, like)
            _check_logs(path, checkpoint.offsets, log_sizes)
        except CheckpointError as error:
            damage.append(str(error))
            continue
        warnings += [f"{text} Using the checkpoint before it." for text in damage]
        return checkpoint, warnings
    if paths:
        raise CheckpointError(f"No checkpoint of this run can be used. {' '.join(damage)}")
    return None, warnings


def _check_logs(path: Path, offsets: dict[str, int], sizes: dict[str, int] | None) -> None:
    for name, offset in offsets.items():
        if sizes is not None and sizes.get(name, 0) < offset:
            raise CheckpointError(
                f"{path} was saved when {name} had {offset} bytes, and it has {sizes.get(name, 0)}."
            )
