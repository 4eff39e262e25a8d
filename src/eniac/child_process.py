"""Processes of our own that work for us: Python modules that answer through a connection."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection


def start_child(module: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """Runs `python -m module N` and returns the process and our end of the connection whose other
    end is its file descriptor N.

    Not multiprocessing's own processes: those run the user's program again to find it.
    """
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
    )
    theirs.close()
    return process, Connection(ours.detach())


def answering(descriptor: str) -> Connection:
    """The child's end of the connection."""
    # Ctrl-C, and what a cluster or a closed terminal sends to all processes, is for the one that we
    # work for, which wants to finish what we do; when it goes, so do we.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return Connection(int(descriptor))


def how_it_ended(process: subprocess.Popen[bytes]) -> str:
    """In words, of a process that is ending or has ended."""
    try:
        code = process.wait(5)
    except subprocess.TimeoutExpired:
        return "it closed its connection"
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
