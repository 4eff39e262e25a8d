"""Runs in processes of their own, which can be killed, bound to cores, or find JAX started already.

A `Starter` has one process that has everything imported. It is given jobs, a line of JSON each, and
forks for each of them a process that trains in a folder, or resumes what is there; it answers with
that process's number and, when it has ended, its exit code.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

SMALL = {"num_envs": 4, "rollout_length": 8, "updates_per_round": 1, "hidden": (4,)}
SMALL_COVER = SMALL | {"rounds": 1, "visit_steps": 16, "visit_envs": 4, "capacity": 8}
SMALL_WIDTH = {"outer": 40, "inner": 5, "buffer_batch": 8, "query_batch": 4}


def config_of(kind: str, folder: Path, epochs: int | None = None, seeds: int | None = None) -> Any:
    """A small run of each kind: the toy, and the algorithms in both sorts of environment.

    `NAME-host` is in one of gymnasium's, NAME in one of ours.
    """
    import toy
    from eniac import ALGORITHMS, Config, Evaluation

    judged = {"evaluation": Evaluation(episodes=2), "out": folder}
    if kind.startswith("toy"):
        algorithm = toy.Toy(on_host=kind == "toy-host")
        often = {"epochs": epochs or 120, "checkpoint_every": 3, "keep": 2}
        # Processes of its own would not know the toy.
        often["seeds"] = 1 if algorithm.on_host else seeds or 2
        return Config(algorithm, env="Chain-4", horizon=5, **often, **judged)  # pyright: ignore
    epochs = epochs or 6
    few = {"epochs": epochs, "checkpoint_every": 2, "keep": 2, "seeds": seeds or 1}
    name = kind.removesuffix("-host")
    on_host = name != kind
    if name == "spi":
        spi: Any = ALGORITHMS["eniac-spi-sample"].default
        spi = replace(spi, N=epochs, K=50, T=2, M=50, m=5.0)
        return Config(spi, env="FrozenLake-v1" if on_host else "DeepSea-3", **few, **judged)
    settings: Any = ALGORITHMS[name].default
    settings = replace(settings, **(SMALL_COVER if settings.has_cover else SMALL))
    if name == "eniac":
        bonus = replace(settings.bonus, **SMALL_WIDTH)
        settings = replace(settings, bonus=bonus, capacity=epochs + 2)
    env = "FrozenLake-v1" if on_host else "Chain-4"
    return Config(settings, env=env, horizon=6, **few, **judged)


def assert_same_run(whole: Path, other: Path, epochs: int) -> None:
    """Requires the same bytes of two runs: log, state and policies; and nothing half written."""
    import numpy as np

    from eniac.runs.checkpoint import list_checkpoints
    from eniac.runs.tensors import read_tensors

    assert (other / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    newest = [list_checkpoints(folder / "checkpoints")[0] for folder in (whole, other)]
    assert newest[0].name == newest[1].name == f"epoch-{epochs:06d}.safetensors"
    (a, _), (b, _) = map(read_tensors, newest)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    policies = sorted((whole / "policy").glob("*/policy.safetensors"))
    assert policies
    for policy in policies:
        assert (other / policy.relative_to(whole)).read_bytes() == policy.read_bytes()
    assert sorted(other.rglob("*.writing")) == []


class Starter:
    """Starts processes that run the configs of this module."""

    def __init__(self, output: Path):
        self.output = output
        output.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        folder: Path,
        kind: str = "toy",
        kill_after: float | None = None,
        kill_when: str = "epoch ",
        **job: Any,
    ) -> int:
        """The exit code of a run. If asked it is killed so many seconds after it has printed
        `kill_when`, unless it has ended by then.

        `death` is `CALL:COUNT`: the process kills itself just before the COUNT-th call of
        `os.fsync`, `os.replace` or `Path.unlink`, or in the middle of the COUNT-th `write` of a
        whole file. `cores` binds it to some of the machine's, `devices` is a number of JAX's; with
        `jax_first` JAX is started before; with `command` it is a command line that is run.
        `epochs` and `seeds` are those of the config.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job |= {"folder": str(folder), "kind": kind, "output": str(self.output)}
        self.output.write_text("")
        print(json.dumps(job), file=self.process.stdin, flush=True)
        number = int(self.process.stdout.readline())
        if kill_after is not None:
            while kill_when not in self.output.read_text() and not self._ended(0.001):
                pass
            if not self._ended(kill_after):
                os.kill(number, signal.SIGKILL)
        return int(self.process.stdout.readline())

    def _ended(self, seconds: float) -> bool:
        """Whether the process that was started ends within so many seconds."""
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)


def _die_at(call: str, count: int) -> None:
    from eniac.runs import files

    calls = 0

    def count_or_die() -> None:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(function: Any) -> Any:
        def wrapper(*arguments: Any, **more: Any) -> Any:
            count_or_die()
            return function(*arguments, **more)

        return wrapper

    class HalfWritten:
        def __init__(self, file: Any):
            self.file = file

        def __enter__(self) -> HalfWritten:
            self.file.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self.file.__exit__(*error)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, content: bytes) -> None:
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            count_or_die()
            self.file.write(content[len(content) // 2 :])

    if call == "write":
        files.open = lambda *arguments: HalfWritten(open(*arguments))  # noqa: SIM115
    elif call == "unlink":
        Path.unlink = dying(Path.unlink)
    else:
        setattr(os, call, dying(getattr(os, call)))


def _work(job: dict[str, Any]) -> int:
    import jax

    from eniac.cli.main import main
    from eniac.runs.engine import resume, train

    if "cores" in job:
        os.sched_setaffinity(0, job["cores"])
    if "devices" in job:
        jax.config.update("jax_num_cpu_devices", job["devices"])
    if job.get("jax_first"):
        jax.devices()
    if "death" in job:
        call, count = job["death"].split(":")
        _die_at(call, int(count))
    if "command" in job:
        return main(job["command"])
    folder = Path(job["folder"])
    if (folder / "config.json").exists():
        resume(folder)
    else:
        train(config_of(job["kind"], folder, job.get("epochs"), job.get("seeds")))
    return 0


def _serve() -> None:
    # Everything is imported once, but JAX's backend, which does not survive a fork, is started by
    # each process for itself.
    import toy

    toy.register()
    import_module("eniac.runs.engine")
    import_module("eniac.runs.workers")
    for line in sys.stdin:
        job = json.loads(line)
        process = os.fork()
        if process == 0:
            code = 1
            with open(job["output"], "w", buffering=1) as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                try:
                    code = _work(job)
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
