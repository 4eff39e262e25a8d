"""Where jobs are computed: an executor starts them, and says what became of them.

`Processes` has them on this machine; `runs.cluster` has them on machines that Ray brings together.
Both run a job in the same way, by a `JobProcess`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import eniac
from eniac.cores import num_cores
from eniac.errors import ConfigError, require

ExecutorName = Literal["processes", "ray"]

_LAST = 2**14
"""Bytes at the end of a log in which the last line is looked for."""


@dataclass(frozen=True)
class Job:
    """A call that makes a file."""

    name: str
    """what it is called where jobs are shown"""
    call: str
    """`module:function`, which is called in a process of its own"""
    arguments: Mapping[str, Any] = field(hash=False)
    """for that function, by name: what JSON can hold"""
    product: Path
    """the file that is there, and whole, exactly when the job is done"""
    run: Path | None = None
    """the folder of the run that it makes, if it makes one, whose logs tell how far it is"""
    log: Path | None = None
    """what it prints goes there; None: PRODUCT.log"""

    @property
    def log_file(self) -> Path:
        return self.log or self.product.with_name(self.product.name + ".log")

    def order(self) -> dict[str, Any]:
        """What is told to the process that carries it out."""
        return {
            "call": self.call,
            "arguments": dict(self.arguments),
            "product": str(self.product.absolute()),
            "log": str(self.log_file.absolute()),
            "directory": os.getcwd(),
            "version": eniac.__version__,
        }


class Ended(NamedTuple):
    """How a try of a job ended."""

    code: int | None
    """exit code of its process, negative if a signal ended it; None if its machine or what looked
    after it is gone"""
    text: str
    """the last line that it printed"""
    host: str = ""
    """where that was"""


@runtime_checkable
class Working(Protocol):
    """A job that was started."""

    def poll(self) -> Ended | None:
        """How it ended; None while it has not."""
        ...

    def stop(self) -> None:
        """Asks it to save what it has and to end."""
        ...

    def kill(self) -> None:
        """Ends it at once."""
        ...


@runtime_checkable
class Executor(Protocol):
    """Computes jobs."""

    def capacity(self) -> int:
        """How many jobs it can compute side by side as things are."""
        ...

    def start(self, job: Job) -> Working: ...

    def close(self) -> None: ...


class Processes:
    """An executor on this machine: each job has a process, and of its cores one."""

    def capacity(self) -> int:
        return num_cores()

    def start(self, job: Job) -> Working:
        return JobProcess(job.order())

    def close(self) -> None:
        pass


class JobProcess:
    """A job in a process of its own on this machine, which ends with whoever started it."""

    def __init__(self, order: dict[str, Any]):
        self._log = Path(order["log"])
        directory = order["directory"]
        # The modules that we have are also found there, where they are those of a program's folder.
        places = {"PYTHONPATH": os.pathsep.join(sys.path)}
        one_core = {"JAX_NUM_CPU_DEVICES": "1", "OMP_NUM_THREADS": "1"}
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "eniac.runs.job"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | places | one_core,
                cwd=directory if os.path.isdir(directory) else None,
                # A terminal sends Ctrl-C to all of a group: ours is told once, by `stop`.
                process_group=0,
            )
        self._asked = False
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `poll` says what became of it
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def poll(self) -> Ended | None:
        return self.wait(0)

    def wait(self, seconds: float) -> Ended | None:
        """How it ended; None if it has not within so many seconds."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._close()
        return Ended(code, last_line(self._log), socket.gethostname())

    def stop(self) -> None:
        if not self._asked and self._process.poll() is None:
            self._asked = True
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._close()

    def _close(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()


@contextlib.contextmanager
def open_executor(
    name: str = "processes", address: str | None = None, accelerator: str | None = None
) -> Iterator[Executor]:
    """The executor of that name, closed afterwards."""
    require(name in ("processes", "ray"), "executor", name, "processes or ray")
    if name == "processes":
        for what, value in (("address", address), ("accelerator", accelerator)):
            if value is not None:
                raise ConfigError(
                    f"{what} is {value!r}, which is only for Ray: --executor ray, or leave it out."
                )
        yield Processes()
        return
    from eniac.runs.cluster import RayCluster

    cluster = RayCluster("auto" if address is None else address, accelerator)
    try:
        yield cluster
    finally:
        cluster.close()


def last_line(log: Path) -> str:
    """The last line of a log that has something in it; empty if there is none."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
