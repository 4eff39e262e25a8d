"""What a run is known by: its number, the settings that decide its results, what it is made with.

A checkpoint carries all three. So one that was copied from another run, or is gone on with on
another machine, is told from one that belongs where it lies.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import eniac
from eniac.cores import num_cores
from eniac.errors import name_shown, shown
from eniac.runs.cache import processor

FREE = (
    *("epochs", "steps", "seconds", "return_above"),
    *("checkpoint_every", "keep", "out", "wandb"),
    *("env_timeout", "restart_failed_envs"),
)
"""Settings that may change from one session of a run to the next: when it stops, what it keeps and
where, what becomes of environments that fail. All others decide what it computes."""


@dataclass(frozen=True)
class Origin:
    """Where a checkpoint comes from."""

    run: str
    """number of the run"""
    config: str
    """fingerprint of its settings"""
    made_with: dict[str, str | int]
    """what the last bits of its numbers depend on, as `made_with` has it"""


@dataclass(frozen=True)
class Owner:
    """The run that a checkpoint must come from to be used. None: any, because it is not known."""

    run: str | None = None
    configs: frozenset[str] | None = None
    """fingerprints of all settings that the run has had"""

    def objection(self, origin: Origin) -> str | None:
        """Why a checkpoint from `origin` cannot be used; None if it can."""
        if self.run is not None and origin.run != self.run:
            return f"is of another run ({name_shown(origin.run)}; this one is {self.run})"
        if self.configs is not None and origin.config not in self.configs:
            return "was saved under other settings than config.json has"
        return None


def new_run() -> str:
    """A number for a run that no other run has."""
    return uuid.uuid4().hex


def fingerprint(asked: Mapping[str, Any]) -> str:
    """What tells settings apart that lead to different results; `asked` is a config as plain data.

    It is of what config.json says, not of what a version of the program makes of it.
    """
    deciding = {name: value for name, value in asked.items() if name not in FREE}
    text = json.dumps(deciding, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def edits(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """How two configs differ in what decides results, field by field: `seed was 0 and is 1`."""
    then, since = (
        dict(flat_fields({name: x for name, x in data.items() if name not in FREE}))
        for data in (before, now)
    )
    missing = "left out"
    return [
        f"{name_shown(name)} was {shown(then[name]) if name in then else missing} and is "
        f"{shown(since[name]) if name in since else missing}"
        for name in [*then, *(name for name in since if name not in then)]
        if name not in then or name not in since or then[name] != since[name]
    ]


def flat_fields(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of tables in tables, one after another: `update.clip` and its value."""
    for name, value in data.items():
        if isinstance(value, Mapping) and value:
            yield from flat_fields(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def made_with(devices: int) -> dict[str, str | int]:
    """What the last bits of a run's numbers depend on, besides its settings.

    `devices` are those that its seeds are spread over. XLA splits sums by the number of cores, and
    compiles for the processor at hand.
    """
    versions = {name: version(name) for name in ("jax", "jaxlib", "numpy")}
    features = hashlib.sha256(processor().encode()).hexdigest()[:8]
    return {
        "eniac": eniac.__version__,
        **versions,
        "devices": devices,
        "cores": num_cores(),
        "processor": f"{processor_name()} ({features})",
    }


def changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A warning, if what a run was made with so far is not what it goes on with."""
    told = [
        f"{name} {then.get(name, '?')} then and {value} now"
        for name, value in now.items()
        if then.get(name) != value
    ]
    if not told:
        return []
    return [
        f"The run goes on under other circumstances than it was saved under: {', '.join(told)}. "
        "Its results can differ in the last bits from those of a run never interrupted."
    ]


def processor_name() -> str:
    """What the processor calls itself."""
    for line in processor().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return processor().splitlines()[0].partition(":")[2].strip() or processor()[:40]
