"""One process at a time writes to a run. A second one is refused, and told who does.

`writer.json` in the run's folder says who: machine, process, since when. Whoever writes holds an
operating system's lock (flock) on that file, and touches it every `BEAT` seconds. It is removed
when the writer ends in order. Who else wants to write goes by this rule:

1. The lock is held: refused. So it is between processes of one machine, containers of one machine
   with a common folder, and machines whose shared folder passes locks on, as NFS does by default.
2. The lock is free, and the file names this machine: whoever wrote it is dead, because the system
   takes a lock from a process that ends, however it ends. The run is taken over at once.
3. The lock is free, but the file names another machine, or the file system knows no locks: locks
   may not reach that far, so the touches decide. Older than `STALE` seconds: its writer is dead,
   and the run is taken over. Younger: we watch the file until it is that old. If it is touched
   meanwhile, its writer lives, and we are refused.

A writer that was asleep for longer than `STALE`, and finds that another machine has taken over,
stops before it writes anything (`Writer.check`). Ages are told by the clock of the file system, so
that the clocks of the machines do not matter. Processes that a writer starts do not hold its lock.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from eniac.errors import RunError

LOCK = "writer.json"
BEAT = 10.0
"""Seconds between two touches of the file."""
STALE = 60.0
"""Seconds without a touch after which a writer on another machine counts as dead."""

_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}

_held: set[int] = set()
"""Descriptors of the locks that this process holds."""


def _let_go() -> None:
    # A lock lives as long as any copy of its descriptor, and a fork copies them all: the workers of
    # a process that was killed would keep its run locked for as long as they live.
    while _held:
        with contextlib.suppress(OSError):
            os.close(_held.pop())


os.register_at_fork(after_in_child=_let_go)


@dataclass(frozen=True)
class Holder:
    """Who writes to a run."""

    token: str
    """another one for every time that a run is opened for writing"""
    machine: str
    """the machine and its start, which tells machines of the same name apart"""
    host: str
    process: int
    since: str

    @classmethod
    def this(cls) -> Holder:
        now = datetime.datetime.now(datetime.UTC).isoformat(sep=" ", timespec="seconds")
        return cls(uuid.uuid4().hex, _machine(), socket.gethostname(), os.getpid(), now)

    @classmethod
    def read(cls, content: bytes) -> Holder | None:
        """Who it says; None if that cannot be read, as while it is being written."""
        try:
            data = json.loads(content)
            return cls(**{item.name: data[item.name] for item in fields(cls)})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def __str__(self) -> str:
        return f"process {self.process} on {self.host} since {self.since}"


class Writer:
    """The right to write to the run in `folder`, for as long as the context lasts.

    **Raises** `RunError` with who has it, if somebody else does. `say` is told why it takes long.
    """

    def __init__(self, folder: Path, say: Callable[[str], Any] = lambda text: None):
        self.folder = folder
        self._path = folder / LOCK
        self._say = say
        self._me = Holder.this()
        self._descriptor = -1
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Writer:
        self._descriptor = self._take()
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._descriptor not in _held:
            return  # in a child, which has no part in it
        self._ended.set()
        self._thread.join(timeout=1)
        with contextlib.suppress(OSError):
            if self._holder() == self._me:
                self._path.unlink()
        _close(self._descriptor)

    def check(self) -> None:
        """Raises `RunError` if somebody else has taken the run over meanwhile."""
        holder = self._holder()
        if holder is not None and holder != self._me:
            raise RunError(
                f"{self.folder} was taken over by {holder}, because this process gave no sign of "
                f"life for {STALE:.0f} seconds. It ends, and has written nothing since."
            )

    def _take(self) -> int:
        """A descriptor of the file, with the lock and our name in it."""
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            _held.add(descriptor)
            try:
                if self._claim(descriptor):
                    return descriptor
            except BaseException:
                _close(descriptor)
                raise
            _close(descriptor)  # its writer has removed it meanwhile; there may be a new one

    def _claim(self, descriptor: int) -> bool:
        """Whether the run is ours now: False if the file is no longer the one in the folder."""
        locks = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._refusal() from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            locks = False
        content = os.pread(descriptor, 2**16, 0)
        holder = Holder.read(content)
        dead = not content or (locks and holder is not None and holder.machine == self._me.machine)
        if not dead and not self._outlive(descriptor, holder):
            return False
        if not is_at(descriptor, self._path):
            return False
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(asdict(self._me)).encode(), 0)
            os.fsync(descriptor)
        except OSError:  # a full disk: nothing of ours may stay
            with contextlib.suppress(OSError):
                self._path.unlink()
            raise
        return True

    def _outlive(self, descriptor: int, holder: Holder | None) -> bool:
        """Waits until the file is stale: True. False if it was removed. Raises if it is touched."""
        touched = os.fstat(descriptor).st_mtime_ns
        with tempfile.TemporaryFile(dir=self.folder) as file:
            now = os.fstat(file.fileno()).st_mtime_ns  # by the clock that touches are told by
        left = STALE - (now - touched) / 1e9
        if left > 0:
            who = holder or "another process"
            self._say(f"Waiting up to {left:.0f} s to see whether {who} still writes here")
        until = time.monotonic() + left
        while time.monotonic() < until:
            time.sleep(min(1.0, STALE / 10))
            try:
                # Opened anew: what NFS knows of a file is as of its opening.
                with open(self._path, "rb") as file:
                    if os.fstat(file.fileno()).st_mtime_ns != touched:
                        raise self._refusal()
            except FileNotFoundError:
                return False
        return True

    def _holder(self) -> Holder | None:
        try:
            return Holder.read(self._path.read_bytes())
        except FileNotFoundError:
            return None

    def _refusal(self) -> RunError:
        who = self._holder() or "another process"
        return RunError(
            f"{self.folder} is being written by {who}. A run has one writer: wait until it has "
            "ended, or end it. Looking at the run is possible all the time."
        )

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(self._descriptor)


@contextlib.contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Whether the file at `path` is ours to hold: False if another process holds it. It is made
    for that, and is gone afterwards.

    Where the file system knows no locks everybody is told that it is ours.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _held.add(descriptor)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
            if not is_at(descriptor, path):
                continue  # whoever held it has removed it meanwhile
            try:
                yield True
            finally:
                with contextlib.suppress(OSError):
                    path.unlink()
            return
        finally:
            _close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one at `path`, and was not removed or replaced."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def is_claimed(path: Path) -> bool:
    """Whether another process holds the file at `path`, as far as locks tell."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _close(descriptor: int) -> None:
    _held.discard(descriptor)
    os.close(descriptor)


def _machine() -> str:
    # Of containers on one machine, which share its locks, this is the same; of two machines that
    # have the same name, or one that was started again, it is not.
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return socket.gethostname()
