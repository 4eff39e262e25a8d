"""Jobs on machines that Ray brings together: one core or one accelerator a job.

Ray finds a machine with room and keeps a small actor there, which has the process of the job as
`executors.Processes` has it here. What is lost with a machine is begun again elsewhere by the list
of jobs (`runs.work`), not by Ray: the same rules for who makes what hold everywhere.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from eniac.errors import ConfigError, RunError, one_line
from eniac.runs.executors import Ended, Job, JobProcess, Working

_ANSWER = 10.0
"""Seconds in which a cluster has to answer at first."""


class RayCluster:
    """An executor on the machines of the Ray cluster at `address`.

    That is HOST:PORT of its head, or "auto" for the cluster that this machine is part of; a program
    that has called `ray.init` stays with what it chose. Each job gets one core, and one
    `accelerator` besides if that is given: "GPU", or another resource as Ray calls it.
    **Raises** ConfigError if the cluster cannot be reached.
    """

    def __init__(self, address: str = "auto", accelerator: str | None = None):
        if find_spec("ray") is None:
            raise ConfigError(
                "executor is ray, but the package ray is not installed. Install it on all machines "
                "with `pip install 'eniac[ray]'`."
            )
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would call its makers
        import ray

        self._ray: Any = ray
        self._ours = not ray.is_initialized()
        self._accelerator = accelerator
        if self._ours:
            _connect(address)
        if not self.capacity():
            self.close()
            raise ConfigError(
                f"no machine of the cluster at {address} has {accelerator or 'a core'} to work "
                f"with. It has {', '.join(sorted(self._resources)) or 'nothing'}."
            )

    def capacity(self) -> int:
        with _telling():
            self._resources: dict[str, float] = self._ray.cluster_resources()
        wanted = ["CPU", *([self._accelerator] if self._accelerator else [])]
        return int(min(self._resources.get(name, 0.0) for name in wanted))

    def start(self, job: Job) -> Working:
        needs: dict[str, Any] = {"num_cpus": 1}
        if self._accelerator == "GPU":
            needs["num_gpus"] = 1
        elif self._accelerator:
            needs["resources"] = {self._accelerator: 1}
        with _telling():
            return _RayJob(self._ray, self._ray.remote(JobProcess).options(**needs), job)

    def close(self) -> None:
        if self._ours:
            self._ray.shutdown()


class _RayJob:
    """A job on another machine."""

    def __init__(self, ray: Any, actor: Any, job: Job):
        self._ray = ray
        self._actor = actor.remote(job.order())
        self._answer = self._actor.wait.remote(1.0)
        self._asked = False

    def poll(self) -> Ended | None:
        errors = self._ray.exceptions
        ready, _ = self._ray.wait([self._answer], timeout=0)
        if not ready:
            return None  # it runs, or waits for a machine with room
        try:
            found = self._ray.get(self._answer)
        except errors.ActorUnavailableError:
            found = None  # for the moment
        except (errors.RayActorError, errors.RayTaskError) as error:
            if isinstance(error, errors.RayTaskError) or error.actor_init_failed:
                raise RunError(_unfit(error)) from error
            return Ended(None, "its machine, or what looked after it there, is gone")
        except errors.RayError as error:
            return Ended(None, one_line(error))
        if found is None:
            self._answer = self._actor.wait.remote(1.0)
            return None
        self._ray.kill(self._actor)  # its core is free for the next
        return found._replace(text=f"{found.text} (on {found.host})")

    def stop(self) -> None:
        if not self._asked:
            self._asked = True
            self._actor.stop.remote()

    def kill(self) -> None:
        with contextlib.suppress(Exception):
            self._ray.get(self._actor.kill.remote(), timeout=5)
        with contextlib.suppress(Exception):
            self._ray.kill(self._actor)


def _connect(address: str) -> None:
    import ray

    help = (
        "Start one with `ray start --head` and, on the other machines, `ray start "
        "--address=HOST:6379`; this command has to be called on one of them."
    )
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or "/" in address:
            raise ConfigError(f"address is {address!r}; it must be HOST:PORT or auto. {help}")
        try:
            # Asked first, because Ray itself takes two minutes to give up.
            socket.create_connection((host, int(port)), timeout=_ANSWER).close()
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"no Ray cluster answers at {address}: {reason}. {help}") from error
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (Exception, SystemExit) as error:
        if address == "auto" and isinstance(error, ConnectionError):
            raise ConfigError(f"this machine is in no Ray cluster. {help}") from error
        raise ConfigError(
            f"the Ray cluster at {address} cannot be used: {one_line(error)}. {help}"
        ) from error


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """What Ray says of itself, in a line."""
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        raise RunError(f"The Ray cluster does not answer any more: {one_line(error)}") from error


def _unfit(error: Any) -> str:
    """Why a machine of the cluster cannot work at all."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = lines[-1] if lines else one_line(error)
    return (
        f"A machine of the cluster cannot begin a job: {last.rstrip('.')}. Each needs the same "
        "folders, and the same eniac in the Python of its Ray: `pip install 'eniac[ray]'`."
    )
