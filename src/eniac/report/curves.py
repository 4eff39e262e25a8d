"""The curves of runs, by their files alone: a run's seeds, where it learned, and what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eniac.errors import ConfigError, RunError, name_shown, shown, suggestion
from eniac.runs.identity import FREE, flat_fields
from eniac.runs.log import HEAD, METRICS, TIMINGS, read_records
from eniac.runs.progress import EXPLOITING
from eniac.runs.reading import read_json

_PLACE = ("env", "env_options", "horizon")
"""Settings that say where a run learned."""
_NOT_METHOD = (*FREE, *_PLACE, "seed", "seeds", "vectorization")
"""Settings that do not say how it learned."""


@dataclass(frozen=True)
class Curve:
    """What one seed came to, evaluation by evaluation: arrays of the same length."""

    steps: np.ndarray
    """environment steps so far"""
    values: np.ndarray
    """the metric; never NaN"""
    epochs: np.ndarray

    def until(self, steps: float) -> Curve:
        """What there was of it after so many steps."""
        then = self.steps <= steps
        return Curve(self.steps[then], self.values[then], self.epochs[then])


@dataclass(frozen=True)
class RunCurves:
    """The curves of a run's seeds."""

    folder: Path
    config: dict[str, Any]
    """what config.json says; empty if there is none"""
    seeds: dict[int, Curve]
    exploiting: dict[int, Curve] = field(default_factory=dict)
    """the return of the exploiting policy, beside that of an incumbent"""

    @property
    def algorithm(self) -> str:
        """The algorithm's name, or the folder's if config.json does not say."""
        told = self.config.get("algorithm")
        name = told.get("name") if isinstance(told, dict) else None
        return name_shown(name) if isinstance(name, str) else self.folder.name

    @property
    def environment(self) -> str:
        """Where it learned, with options and horizon; empty if config.json does not say."""
        if not isinstance(self.config.get("env"), str):
            return ""
        options = self.config.get("env_options")
        more = dict(options) if isinstance(options, dict) else {}
        if self.config.get("horizon") is not None:
            more["horizon"] = self.config["horizon"]
        return name_shown(self.config["env"] + "".join(f" {k}={v}" for k, v in more.items()))

    @property
    def method(self) -> dict[str, Any]:
        """How it learned: every setting by its name, but where, when it stops, and the seeds."""
        return {
            name: value
            for name, value in flat_fields(self.config)
            if name.partition(".")[0] not in _NOT_METHOD
        }

    @property
    def threshold(self) -> float | None:
        """The return above which a seed was stopped, if there was such a rule."""
        told = self.config.get("return_above")
        if isinstance(told, bool) or not isinstance(told, int | float):
            return None
        return float(told)

    def seconds(self) -> dict[int, float]:
        """The wall-clock time of training up to the end of each epoch, as far as it is known."""
        records = read_records(self.folder / TIMINGS)
        told = ((x.get("epoch"), x.get("seconds_so_far")) for x in records)
        return {int(e): float(s) for e, s in told if e is not None and s is not None}


def read_curves(run: Path, metric: str) -> RunCurves:
    """The curves of `metric` of the run in a folder, from its logs.

    A seed for which the metric is known nowhere has an empty curve. **Raises** `ConfigError` if
    there are no records or no such metric, `RunError` for records that are damaged.
    """
    records = read_records(run / METRICS)
    if not records:
        raise ConfigError(f"{run} has no epoch in {METRICS}. Is it the folder of a run?")
    return make_curves(run, _config(run), records, metric)


def make_curves(
    run: Path, config: dict[str, Any], records: Sequence[Mapping[str, Any]], metric: str
) -> RunCurves:
    """The same of records that are at hand, one or more."""
    if metric not in records[0]:
        names = [name for name in records[0] if name not in HEAD]
        raise ConfigError(
            f"metric is {shown(metric)}; {run} has {', '.join(names)}.{suggestion(metric, names)}"
        )
    beside = {}
    name = next((name for name in EXPLOITING if name in records[0]), None)
    if metric == "return_mean" and name is not None:
        beside = _by_seed(run, records, name)
    return RunCurves(run, config, _by_seed(run, records, metric), beside)


def _by_seed(run: Path, records: Sequence[Mapping[str, Any]], metric: str) -> dict[int, Curve]:
    by_seed: dict[int, list[tuple[float, float, float]]] = {}
    for number, record in enumerate(records, start=1):
        if record.get("seed") is None or record.get("env_steps") is None:
            raise RunError(f"line {number:,} of {run / METRICS} has no seed or no env_steps.")
        rows = by_seed.setdefault(int(record["seed"]), [])
        if record.get(metric) is not None:
            rows.append((record["env_steps"], record[metric], record.get("epoch") or 0))
    return {
        seed: Curve(*np.array(rows, np.float64).reshape(-1, 3).T) for seed, rows in by_seed.items()
    }


def merged(runs: Sequence[RunCurves]) -> list[list[RunCurves]]:
    """The runs that differ in nothing but their seeds together, in the order of the first of each.

    Runs that have a seed in common, or of which it is not known how they learned, stay apart.
    """
    groups: list[list[RunCurves]] = []
    for run in runs:
        for group in groups:
            same = run.method == group[0].method and run.environment == group[0].environment
            if same and run.config and not any(run.seeds.keys() & x.seeds.keys() for x in group):
                group.append(run)
                break
        else:
            groups.append([run])
    return groups


def labels(methods: Sequence[tuple[str, dict[str, Any], Sequence[Path]]]) -> list[str]:
    """A name for each method, of the name of its algorithm, its settings and the folders of its
    runs: that of the algorithm, with the settings in which those of the same algorithm differ; with
    the folder if these are more than three."""
    found = []
    for name, method, folders in methods:
        rivals = [other for n, other, _ in methods if n == name]
        keys = {key for other in rivals for key in other}
        differing = sorted(k for k in keys if any(x.get(k) != method.get(k) for x in rivals))
        told = [f"{k.removeprefix('algorithm.')}={method.get(k, '-')}" for k in differing]
        if len(told) > 3:
            told = [f"({folders[0]}{', ...' if len(folders) > 1 else ''})"]
        found.append(name_shown(" ".join([name, *told])))
    return found


def _config(run: Path) -> dict[str, Any]:
    try:
        config = read_json(run / "config.json")
    except (FileNotFoundError, RunError):
        return {}
    return config if isinstance(config, dict) else {}
