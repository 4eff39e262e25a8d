"""The folder of a run: where one may begin."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from eniac.errors import ConfigError, RunError
from eniac.runs.checkpoint import epoch_of, list_checkpoints
from eniac.runs.files import TEMPORARY
from eniac.runs.lock import LOCK
from eniac.runs.log import METRICS
from eniac.runs.proposals import in_shell
from eniac.runs.reading import read_json

CONFIG = "config.json"

_UNBEGUN = re.compile(
    rf"((config|manifest)\.json|checkpoints/epoch-0+\.safetensors)({re.escape(TEMPORARY)})?"
    rf"|(metrics|timings)\.jsonl|{re.escape(LOCK)}|tensorboard/seed-\d+/events\.out\..*|wandb/.*"
)
"""What a run has in its folder that has not finished an epoch."""


def check_out(folder: Path) -> None:
    """Refuses to begin a run in `folder` if that is a file, a run, somebody else's folder, or the
    one that we are in, which is what an empty name means.

    What is left of a run that failed or was stopped before the end of its first epoch is worth
    nothing, and so does not keep the next try from the folder.
    """
    if folder == Path("."):
        raise ConfigError(
            "out is empty, or the folder that you are in; give the run a folder of its own, for "
            "instance --out runs/sea."
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"{folder} is a file. Choose another folder with --out.")
    if _is_run(folder) and has_begun(folder):
        raise ConfigError(
            f"{folder} already holds a run. Continue it with `eniac resume {in_shell(folder)}`, or "
            "choose another folder with --out."
        )
    foreign = [name for name in _files(folder) if not _UNBEGUN.fullmatch(name)]
    if (folder / CONFIG).exists() and not _is_run(folder):
        foreign.insert(0, CONFIG)
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise ConfigError(
            f"{folder} is not empty: it has {', '.join(foreign[:3])}{more}. Choose another folder "
            "with --out."
        )


def has_begun(folder: Path) -> bool:
    """Whether an epoch of the run in `folder` was ever finished."""
    log = folder / METRICS
    logged = log.exists() and log.stat().st_size > 0
    return logged or any(epoch_of(x) > 0 for x in list_checkpoints(folder / "checkpoints"))


def clear(folder: Path) -> None:
    """Removes what a run that has not begun has in `folder`, but the name of its writer."""
    for name in _files(folder):
        if _UNBEGUN.fullmatch(name) and name != LOCK:
            (folder / name).unlink(missing_ok=True)
    for path, _, _ in os.walk(folder, topdown=False):
        if Path(path) != folder:
            remove_empty(Path(path))


def remove_empty(folder: Path) -> None:
    """Removes `folder` if there is nothing in it."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def _is_run(folder: Path) -> bool:
    """Whether the config.json in `folder` is that of a run."""
    try:
        data = read_json(folder / CONFIG)
    except (FileNotFoundError, RunError):
        return False
    return isinstance(data, dict) and data.keys() >= {"algorithm", "env"}


def _files(folder: Path) -> Iterator[str]:
    """The names of all files below `folder`, and of links to folders, which are not followed."""
    for path, folders, files in os.walk(folder):
        links = [name for name in folders if Path(path, name).is_symlink()]
        yield from (Path(path, name).relative_to(folder).as_posix() for name in files + links)
