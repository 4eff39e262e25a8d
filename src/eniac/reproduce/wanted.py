"""A run that is asked for: which, where it is made, and the one small file that it comes to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eniac.errors import RunError
from eniac.reproduce.tasks import AnyTask, Result, Task, find_task, variant
from eniac.runs.files import write_atomically
from eniac.runs.identity import FREE
from eniac.runs.reading import read_json

RESULTS, RUNS = Path("results"), Path("runs/reproduce")
"""Folders of the files, and of the runs while they are made."""

_NOT_SETTINGS = (*FREE, "seed", "seeds")
"""Fields of a configuration in which the runs of one row differ, or may."""


@dataclass(frozen=True)
class Wanted:
    """A run that was asked for."""

    task: str
    algorithm: str
    seed: int
    flags: tuple[str, ...] = ()
    """for `eniac train`, beside those of the task"""
    limit: int | None = None
    """environment steps; None: as many as the task gives"""
    to_the_end: bool = False
    """whether it goes on to the limit when the task is solved"""
    results: Path = RESULTS
    runs: Path = RUNS
    keep: bool = False
    """whether its folder stays when it is finished"""

    @property
    def of(self) -> AnyTask:
        return find_task(self.task)

    @property
    def steps(self) -> int | None:
        """The limit of environment steps, if there is one."""
        return self.limit or self.of.limit_for(self.algorithm, self.flags)

    @property
    def variant(self) -> str:
        return variant(self.algorithm, self.flags)

    @property
    def name(self) -> str:
        return f"{self.variant}-{self.seed}"

    @property
    def file(self) -> Path:
        return self.results / self.of.folder / self.task / f"{self.name}.json"

    @property
    def folder(self) -> Path:
        """Where it is made. One that goes on when it has solved the task is another run."""
        return self.runs / self.task / (self.name + ("-to-the-end" if self.to_the_end else ""))

    @property
    def words(self) -> list[str]:
        """What `eniac train` is given."""
        words = [self.algorithm, *self.of.options(self.seed, self.flags), "--seed", str(self.seed)]
        words += [] if self.steps is None else ["--steps", str(self.steps)]
        if isinstance(self.of, Task) and not self.to_the_end:
            words += ["--return-above", repr(self.of.above)]
        return [*words, *self.flags]

    def is_done(self) -> bool:
        """Whether its file says all that was asked for."""
        if not self.file.exists():
            return False
        return self.of.is_enough(read_result(self.file), self.steps, self.to_the_end)

    def keep_result(self, **more: Any) -> None:
        """Writes its file, which is whole or not there. **Raises** `RunError` if that fails."""
        result: Result = {
            "task": self.task,
            "algorithm": self.algorithm,
            "flags": list(self.flags),
            "seed": self.seed,
            "limit": self.steps,
            "to_the_end": self.to_the_end,
            **more,
        }
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, (json.dumps(result, allow_nan=False) + "\n").encode())
        except OSError as error:
            raise RunError(
                f"Cannot write to {self.file}: {error.strerror or error}. The run is kept in "
                f"{self.folder}; the same command writes the file when that is mended."
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold of it. `from_dict` is its inverse."""
        plain = asdict(self)
        return plain | {"flags": list(self.flags)} | {k: str(plain[k]) for k in ("results", "runs")}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Wanted:
        places = {name: Path(data[name]) for name in ("results", "runs")}
        return cls(**{**data, "flags": tuple(data["flags"]), **places})


def read_result(path: Path) -> Result:
    """The content of a run's file. **Raises** RunError for what cannot be one."""
    found = read_json(path)
    if not isinstance(found, dict) or not found.keys() >= {"task", "algorithm", "flags", "seed"}:
        raise RunError(f"{path} is not the result of a run: it has no task, algorithm and seed.")
    return found


def settings_of(config: Mapping[str, Any], seeded: bool) -> str:
    """The fingerprint of the settings of a run, with nothing left open: what tells runs apart that
    are not to be in one row. `seeded` environments are drawn by the seed, which says nothing. What
    is off (False, or None) is left out, so that a setting that is new changes no row without it."""
    deciding = {name: value for name, value in config.items() if name not in _NOT_SETTINGS}
    if seeded:
        options = deciding["env_options"]
        deciding["env_options"] = {name: x for name, x in options.items() if name != "seed"}
    text = json.dumps(_without_off(deciding), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _without_off(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {name: x for name, x in value.items() if x is not None and x is not False}
        return {name: _without_off(x) for name, x in kept.items()}
    return [_without_off(x) for x in value] if isinstance(value, list | tuple) else value


def machine() -> dict[str, Any]:
    """The machine, as a file of results has it."""
    model = ""
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        model = found[1] if found else ""
    allowed = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
    return {"processor": model or platform.machine(), "cores": len(allowed), "of": os.cpu_count()}
