"""Files that are either whole or not there, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

TEMPORARY = ".writing"
"""Ending of files that are being written. One that stays behind was cut short and is worthless."""


def write_atomically(path: Path, content: bytes) -> None:
    """Writes `content` to `path` such that a crash leaves the old file or the new, never a part.

    The bytes reach the disk before the name does (fsync, rename, fsync of the folder): the other
    order survives a killed process but not a lost power supply.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        # Not into what is there already: a link could lead anywhere, and a pipe wait for ever.
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Writes `data` as indented JSON, atomically."""
    write_atomically(path, json_bytes(data))


def json_bytes(data: dict[str, Any]) -> bytes:
    """The file that `write_json` writes."""
    return (json.dumps(data, indent=2, allow_nan=False) + "\n").encode()


def remove_leftovers(folder: Path) -> list[Path]:
    """Deletes what interrupted writes left in `folder` and below, and says what that was.

    Only for the one process that writes there: to any other, a file that is being written looks the
    same as one that was cut short.
    """
    leftovers = sorted(folder.rglob(f"*{TEMPORARY}"))
    for path in leftovers:
        path.unlink(missing_ok=True)
    return leftovers
