"""Files that somebody else may have made: read whole or refused in one line.

Nothing is believed before it is looked at: that it is a plain file (a named pipe would keep us
waiting for ever), that it is not too large, that it is text, and that the text is JSON without
anything that JSON readers differ about.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from eniac.errors import RunError, name_shown, shown

METRICS = "metrics.jsonl"
TIMINGS = "timings.jsonl"
"""The logs of a run, in its folder."""

MAX_JSON = 16 * 2**20
"""Bytes of the largest file of settings: a few thousand times an ordinary one."""
MAX_LOG = 2**29
"""Bytes of the largest log that is read."""
DEEPEST = 200
"""Lists and tables that may stand inside one another; a space has two for each that it has."""
TAIL = 2**18
"""Bytes at the end of a log in which the last record of every seed is looked for first."""
MOST_DIGITS = 40
"""Digits of the longest whole number. No setting has more than 20."""

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


def open_file(path: Path, follow: bool = True) -> BinaryIO:
    """The plain file at `path`, open for reading.

    A symbolic link is followed, if it leads to a plain file, unless `follow` is False. **Raises**
    FileNotFoundError if there is nothing, `RunError` for all that is no plain file.
    """
    try:
        # Before it is opened, because to open some devices does something.
        _require_plain(path, os.stat(path, follow_symlinks=follow))
        flags = os.O_RDONLY
        for name in ("O_CLOEXEC", "O_BINARY", "O_NOCTTY", "O_NONBLOCK"):
            flags |= getattr(os, name, 0)
        descriptor = os.open(path, flags | (0 if follow else getattr(os, "O_NOFOLLOW", 0)))
        try:
            _require_plain(path, os.fstat(descriptor))
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise RunError(f"{name_shown(str(path))} cannot be read: {reason(error)}.") from error


def read_file(path: Path, most: int, follow: bool = True) -> bytes:
    """The content of the plain file at `path`, unless it has more than `most` bytes."""
    with open_file(path, follow) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
        if size > most or len(content) > most:
            raise RunError(
                f"{name_shown(str(path))} has {max(size, len(content)):,} bytes; such a file has "
                f"{most:,} at most, and is not read."
            )
        return content


def read_json(path: Path) -> Any:
    """What the JSON file at `path` holds.

    **Raises** FileNotFoundError if there is none, `RunError` for whatever else is wrong with it.
    """
    try:
        return parse_json(read_file(path, MAX_JSON))
    except ValueError as error:
        raise RunError(f"{name_shown(str(path))} is damaged: {error}.") from error


def read_json_lines(path: Path) -> list[Any]:
    """What the lines of the file at `path` hold, but a last one that is still being written.

    **Raises** as `read_json`, with the number of the line.
    """
    found = []
    for number, line in enumerate(read_file(path, MAX_LOG).split(b"\n")[:-1], start=1):
        try:
            found.append(parse_json(line))
        except ValueError as error:
            where = f"line {number:,} of {name_shown(str(path))}"
            raise RunError(f"{where} is damaged: {error}.") from error
    return found


def last_records(path: Path, num_seeds: int) -> list[dict[str, Any]]:
    """The last record of every seed that has one in the log at `path`, none if there is no log.

    **Raises** `RunError` for records that are damaged.
    """
    try:
        file = open_file(path)
    except FileNotFoundError:
        return []
    with file:
        size = file.seek(0, os.SEEK_END)
        for start in (max(size - TAIL, 0), 0):
            file.seek(start)
            lines = file.read(MAX_LOG).splitlines(keepends=True)
            # The first line may be half of one, and the last is still being written without an end.
            whole = [line for line in lines[start > 0 :] if line.endswith(b"\n")]
            try:
                records = [parse_json(line) for line in whole]
            except ValueError as error:
                raise RunError(f"{path.name} is damaged: {error}.") from error
            last = {get_field(path, record, "seed", int): record for record in records}
            if len(last) >= num_seeds or start == 0:
                return list(last.values())
    return []


def get_field(path: Path, table: Any, name: str, kind: Any) -> Any:
    """What the table of a file says of `name`, which must be of this kind."""
    if not isinstance(table, dict) or name not in table:
        raise RunError(f"{path.name} has no {name!r}.")
    if not isinstance(table[name], kind):
        raise RunError(f"{path.name} is damaged: its {name} is {shown(table[name])}.")
    return table[name]


def parse_json(content: bytes) -> Any:
    """What `content` says in JSON. **Raises** ValueError, with the reason in one line, for all that
    is not JSON, or that readers of JSON understand in different ways."""
    if content.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError("it begins with a byte order mark; save it as UTF-8 without one")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not text in UTF-8, from byte {error.start:,} on") from None
    if not text.strip():
        raise ValueError("it is empty")
    try:
        data = _DECODER.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_nesting(data)
    return data


def require_own(path: Path) -> None:
    """Refuses to write to what is at `path`, unless it is a plain file, or nothing yet.

    A link could lead to any file of the user's, and a pipe would keep us waiting for ever.
    """
    try:
        _require_plain(path, os.lstat(path), "written to")
    except FileNotFoundError:
        return


def reason(error: Exception) -> str:
    """What went wrong, without the file's name, in one line."""
    told = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return told.rstrip(".") if told.isprintable() else shown(told)


_TOO_DEEP = f"it is nested more than {DEEPEST} deep"


def _require_plain(path: Path, status: os.stat_result, done: str = "read") -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no file")
        raise RunError(f"{name_shown(str(path))} is {kind}; it must be a file, and is not {done}.")


def _whole(digits: str) -> int:
    length = len(digits.lstrip("-"))
    if length > MOST_DIGITS:
        raise ValueError(f"it has a number of {length:,} digits")
    return int(digits)


def _fraction(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"it has the number {name_shown(text)}, which is too large")
    return number


def _no_number(text: str) -> float:
    raise ValueError(f"it has {text}, which is no number")


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"it has {shown(name)} twice in one table")
        table[name] = value
    return table


_DECODER = json.JSONDecoder(
    parse_int=_whole, parse_float=_fraction, parse_constant=_no_number, object_pairs_hook=_table
)


def _check_nesting(data: Any) -> None:
    """Refuses what is deeper than `DEEPEST`, on which functions that call themselves would fail,
    and halves of characters, which no file or terminal takes."""
    waiting = [(data, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, str):
            if not value.isascii() and any("\ud800" <= x <= "\udfff" for x in value):
                raise ValueError(f"it has the text {shown(value)}, which is not Unicode")
        elif isinstance(value, list | dict):
            if depth > DEEPEST:
                raise ValueError(_TOO_DEEP)
            items = [*value.keys(), *value.values()] if isinstance(value, dict) else value
            waiting.extend((item, depth + 1) for item in items)
