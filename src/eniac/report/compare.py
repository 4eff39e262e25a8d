"""Comparing methods by what the logs of their runs say: which is better, and is that known yet?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from eniac.errors import ConfigError, RunError, require, require_choices
from eniac.report.curves import Curve, RunCurves, labels, read_curves
from eniac.report.numbers import between, short_number, three_digits
from eniac.report.run_list import runs_inside
from eniac.report.statistics import (
    LEVEL,
    MOST_SEEDS,
    RESAMPLES,
    Pair,
    bootstrap_interval,
    holm,
    interquartile_mean,
    mean_improvement,
    performance_profile,
    permutation_p_value,
    seeds_to_settle,
    time_to_threshold,
    wilson,
)

FEW_SEEDS = 5
"""With fewer seeds intervals are too narrow, and that is said."""
FEWEST_TO_GUESS = 3
"""Seeds of each method from which on it is guessed how many would be enough."""
PROFILE_LEVELS = 81
"""Values at which a profile is taken, from the lowest result to the highest."""
RETURN = "return_mean"
"""The metric that a run's return_above is about."""


@dataclass(frozen=True)
class Asked:
    """What is asked of runs."""

    metric: str = RETURN
    """what is compared, any number in metrics.jsonl of which more is better"""
    by: Literal["return", "steps", "seconds"] = "return"
    """what decides: the metric at the end, or how soon it was above the threshold"""
    threshold: float | None = None
    """None: the runs' own return_above"""
    steps: int | None = None
    """only what there was after so many environment steps of a seed; None: all"""
    level: float = LEVEL

    def __post_init__(self):
        require_choices(self)
        require(0 < self.level < 1, "level", self.level, "between 0 and 1, for instance 0.95")
        require(self.steps is None or self.steps >= 1, "steps", self.steps, "1 or more")
        finite = self.threshold is None or math.isfinite(self.threshold)
        require(finite, "threshold", self.threshold, "a finite number")


@dataclass(frozen=True)
class Group:
    """The seeds of one method in one environment, from all its runs."""

    environment: str
    runs: list[RunCurves]
    """none, if it is of files that are no runs"""
    curves: list[Curve]
    """of every seed"""
    seconds: list[dict[int, float]]
    """for every seed the seconds up to the end of each epoch of its run"""
    ends: list[float] = field(default_factory=list)
    """steps at which the seeds end, or are cut, that no threshold of their run has stopped"""

    @property
    def final(self) -> np.ndarray:
        """The metric of each seed's last evaluation."""
        return np.array([curve.values[-1] for curve in self.curves])

    def steps_to(self, threshold: float) -> np.ndarray:
        """Environment steps of each seed until it was above the threshold, or infinity."""
        return np.array([time_to_threshold(c.steps, c.values, threshold) for c in self.curves])

    def seconds_to(self, threshold: float) -> np.ndarray | None:
        """The same in seconds of its run; None if timings of the runs are missing."""
        found = []
        for curve, seconds in zip(self.curves, self.seconds, strict=True):
            epoch = time_to_threshold(curve.epochs, curve.values, threshold)
            if epoch < math.inf and int(epoch) not in seconds:
                return None
            found.append(seconds[int(epoch)] if epoch < math.inf else math.inf)
        return np.array(found)


def compare_runs(
    runs: Sequence[Path | str],
    *,
    metric: str = RETURN,
    by: Literal["return", "steps", "seconds"] = "return",
    threshold: float | None = None,
    steps: int | None = None,
    level: float = LEVEL,
) -> dict[str, Any]:
    """What can be said about the methods that made `runs`, from their files alone: plain data.

    A folder that holds runs, such as a sweep's, stands for these. Runs that differ only in their
    seeds are one method's. All methods must have runs in the same
    environments. `environments` has for each a row a method: interquartile mean, success, steps and
    seconds to the threshold, profile, with intervals. `pairs` has for every two methods the
    probability of improvement, the verdict and a sentence. What is infinite or not known is None.

        >>> runs = ["runs/ppo", "runs/zero"]
        >>> eniac.compare_runs(runs, by="steps", threshold=0.9)  # doctest: +SKIP

    `metric` is what is compared, a number in metrics.jsonl of which more is better; what decides is
    its value at the end, or `by` how soon it was above `threshold` (None: the runs' own
    return_above). `steps`: what there was after so many environment steps of a seed. `level` is how
    often intervals should hold the truth.

    **Raises** `ConfigError` for what cannot be compared, `RunError` for logs that are damaged.
    """
    asked = Asked(metric, by, threshold, steps, level)
    if not runs:
        raise ConfigError("Which runs? For instance `eniac compare runs/eniac runs/ppo`.")
    folders = runs_inside([Path(run) for run in runs])
    table = by_method([_read(run, asked) for run in folders], asked)
    if len(table) < 2:
        name = next(iter(table))
        raise ConfigError(
            f"{len(folders)} run{'s' * (len(folders) > 1)} of one method, {name}; "
            "two methods or more can be compared, which differ in algorithm or settings."
        )
    names, places = list(table), list(next(iter(table.values())))
    thresholds = {
        place: _threshold([table[name][place] for name in names], asked, len(places))
        for place in places
    }
    return compare_groups(table, thresholds, asked) | {"notes": notes_on(table, asked)}


def compare_groups(
    table: Mapping[str, Mapping[str, Group]],
    thresholds: Mapping[str, float | None],
    asked: Asked,
    pairs: bool = True,
) -> dict[str, Any]:
    """What `compare_runs` says, without its notes, of groups: for each method, by its name, those
    of its environments, which all methods must have. `pairs` of many methods take long, and may be
    left out."""
    names = list(table)
    environments = []
    for place in next(iter(table.values())):
        finals = np.concatenate([table[name][place].final for name in names])
        levels = np.linspace(finals.min(), finals.max(), PROFILE_LEVELS)
        rows = [
            {"method": name, **_row(table[name][place], thresholds[place], levels, asked)}
            for name in names
        ]
        environments.append(
            {
                "environment": place,
                "threshold": thresholds[place],
                "levels": levels.tolist(),
                "methods": rows,
            }
        )
    return {
        "metric": asked.metric,
        "by": asked.by,
        "steps": asked.steps,
        "level": asked.level,
        "resamples": RESAMPLES,
        "environments": environments,
        "pairs": _pairs(table, thresholds, asked) if pairs else [],
    }


def by_method(found: Sequence[RunCurves], asked: Asked) -> dict[str, dict[str, Group]]:
    """The groups: for each method, by its name, those of its environments."""
    by_algorithm = _one_setting_each(found)
    methods: list[tuple[str, dict[str, Any]]] = []
    of_method: list[dict[str, list[RunCurves]]] = []
    for run in found:
        method = (run.algorithm, {} if by_algorithm else run.method)
        if method not in methods:
            methods.append(method)
            of_method.append({})
        of_method[methods.index(method)].setdefault(run.environment, []).append(run)
    names = labels(
        [
            (*method, [run.folder for some in places.values() for run in some])
            for method, places in zip(methods, of_method, strict=True)
        ]
    )
    _same_environments(dict(zip(names, of_method, strict=True)))
    places = list(of_method[0])
    return {
        name: {place: _group(name, place, runs[place], asked) for place in places}
        for name, runs in zip(names, of_method, strict=True)
    }


def _read(folder: Path, asked: Asked) -> RunCurves:
    run = read_curves(folder, asked.metric)
    if not run.environment:
        raise ConfigError(
            f"{folder} has no config.json that says how and where it learned, so that it is not "
            "known what to compare it with. Give folders that `eniac train` made."
        )
    return run


def _one_setting_each(runs: Sequence[RunCurves]) -> bool:
    """Whether an algorithm has one setting in every environment, so that its name says it all.
    Settings may then depend on the environment."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    return all(
        found.setdefault((run.algorithm, run.environment), run.method) == run.method for run in runs
    )


def _same_environments(of_method: dict[str, dict[str, list[RunCurves]]]) -> None:
    if len({frozenset(places) for places in of_method.values()}) > 1:
        given = "; ".join(f"{name} on {', '.join(places)}" for name, places in of_method.items())
        raise ConfigError(
            f"The runs are of different environments: {given}. Methods are compared where all of "
            "them learned; leave runs out, or train what is missing."
        )


def _group(name: str, place: str, runs: list[RunCurves], asked: Asked) -> Group:
    seen: dict[int, Path] = {}
    curves, seconds, ends = [], [], []
    for run in runs:
        timings = run.seconds()
        for seed, curve in run.seeds.items():
            if seed in seen:
                raise ConfigError(
                    f"seed {seed} of {name} on {place} is in {seen[seed]} and in {run.folder}; "
                    "it would count twice. Leave one of them out."
                )
            seen[seed] = run.folder
            limit = run.threshold if asked.metric == RETURN else None
            if len(curve.steps) and (limit is None or curve.values[-1] <= limit):
                ends.append(min(float(curve.steps[-1]), asked.steps or math.inf))
            if asked.steps is not None:
                curve = curve.until(asked.steps)
            if not len(curve.steps):
                until = "" if asked.steps is None else f" up to step {asked.steps:,}"
                raise RunError(f"seed {seed} of {run.folder} has no {asked.metric}{until}.")
            curves.append(curve)
            seconds.append(timings)
    return Group(place, runs, curves, seconds, ends)


def _threshold(groups: Sequence[Group], asked: Asked, places: int) -> float | None:
    """The threshold in one environment: the one asked for, or that of its runs."""
    place = groups[0].environment
    if asked.threshold is not None:
        if places > 1:
            raise ConfigError(
                f"threshold is {asked.threshold:g}, but the runs are of {places} environments, "
                "whose returns differ. Compare one at a time, or leave it out for the runs' own "
                "return_above."
            )
        return asked.threshold
    told = {run.threshold for group in groups for run in group.runs} - {None}
    if asked.metric != RETURN:
        told = set()
    if len(told) > 1:
        found = " and ".join(f"{x:g}" for x in sorted(x for x in told if x is not None))
        raise ConfigError(
            f"The runs on {place} have return_above {found}; say which to count by: --threshold."
        )
    if asked.by != "return" and not told:
        raise ConfigError(
            f"by is {asked.by!r}, which needs a threshold, and no run on {place} has return_above. "
            "Give it: --threshold 0.9, for instance."
        )
    return next(iter(told), None)


def _row(group: Group, threshold: float | None, levels: np.ndarray, asked: Asked) -> dict[str, Any]:
    """All that is said of one group."""
    final = group.final

    def ends(values: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]) -> list[Any]:
        low, high = bootstrap_interval([values], lambda x: statistic(x[0]), asked.level)
        return [_plain(low), _plain(high)]

    low, high = bootstrap_interval(
        [final], lambda x: performance_profile(x[0], levels), asked.level
    )
    row: dict[str, Any] = {
        "runs": [str(run.folder) for run in group.runs],
        "seeds": len(final),
        "steps": max(float(curve.steps[-1]) for curve in group.curves),
        "final": final.tolist(),
        "iqm": float(interquartile_mean(final)),
        "iqm_interval": ends(final, lambda x: interquartile_mean(x, axis=1)),
        "profile": performance_profile(final, levels).tolist(),
        "profile_interval": [_plain(low), _plain(high)],
    }
    if threshold is None:
        return row | dict.fromkeys(("success", "steps_to_threshold", "seconds_to_threshold"))
    steps, seconds = group.steps_to(threshold), group.seconds_to(threshold)
    reached = int(np.isfinite(steps).sum())

    def times(values: np.ndarray) -> dict[str, Any]:
        return {
            "median": _plain(np.median(values)),
            "interval": ends(values, lambda x: np.median(x, axis=1)),
            "seeds": _plain(values),
        }

    return row | {
        "success": {
            "count": reached,
            "rate": reached / len(steps),
            "interval": list(wilson(reached, len(steps), asked.level)),
        },
        "steps_to_threshold": times(steps),
        "seconds_to_threshold": None if seconds is None else times(seconds),
    }


def _scores(group: Group, threshold: float | None, asked: Asked) -> np.ndarray:
    """The number of each seed that decides; more is better."""
    if asked.by == "return" or threshold is None:
        return group.final
    times = group.steps_to(threshold) if asked.by == "steps" else group.seconds_to(threshold)
    if times is None:
        runs = ", ".join(str(run.folder) for run in group.runs)
        raise ConfigError(
            f"by is 'seconds', and timings.jsonl is missing or too short in one of {runs}. "
            "Compare by steps: --by steps."
        )
    return -times


def _pairs(
    table: Mapping[str, Mapping[str, Group]],
    thresholds: Mapping[str, float | None],
    asked: Asked,
) -> list[dict[str, Any]]:
    scores = {
        name: [_scores(group, thresholds[place], asked) for place, group in groups.items()]
        for name, groups in table.items()
    }
    names = list(itertools.combinations(table, 2))
    data = [list(zip(scores[a], scores[b], strict=True)) for a, b in names]
    p_values = [permutation_p_value(pairs) for pairs in data]
    found = []
    for (a, b), pairs, p, corrected in zip(names, data, p_values, holm(p_values), strict=True):
        row = _verdict(pairs, corrected, len(names), asked)
        if row["probability"] < 0.5:  # the better one first
            a, b = b, a
            row = _verdict([(y, x) for x, y in pairs], corrected, len(names), asked)
        row = {"first": a, "second": b, **row, "p_value": p, "p_value_corrected": corrected}
        found.append(row | {"sentence": _sentence(row, asked, len(names), len(thresholds))})
    return found


def _verdict(pairs: Sequence[Pair], corrected: float, tests: int, asked: Asked) -> dict[str, Any]:
    """Decided only if both the interval and the test say so: an interval of few seeds is too
    narrow, and a test says nothing about how much better."""
    strata = [x for pair in pairs for x in pair]
    fewest = min(map(len, strata))
    low, high = bootstrap_interval(strata, mean_improvement, asked.level)
    excluded = bool(low > 0.5 or high < 0.5)  # False if they are NaN
    decided = excluded and corrected < 1 - asked.level
    settled = None
    if not decided and fewest >= FEWEST_TO_GUESS:
        settled = seeds_to_settle(pairs, tests, asked.level)
    return {
        "probability": float(mean_improvement(strata)),
        "interval": [_plain(low), _plain(high)],
        "decided": decided,
        "fewest_seeds": fewest,
        "seeds_to_settle": settled,
    }


_WHAT = {
    "return": "ends higher",
    "steps": "is above the threshold in fewer steps",
    "seconds": "is above the threshold in less time",
}


def _sentence(row: dict[str, Any], asked: Asked, tests: int, places: int) -> str:
    a, b, (low, high) = row["first"], row["second"], row["interval"]
    where = "" if places == 1 else f", the mean of {places} environments"
    interval = (
        "" if low is None else f"{100 * asked.level:.4g} % interval {low:.2f} to {high:.2f}, "
    )
    p = f"p = {row['p_value_corrected']:.2g}" + (f" for {tests} pairs" if tests > 1 else "")
    numbers = (
        f"a seed of {a} {_WHAT[asked.by]} than one of {b} with probability "
        f"{row['probability']:.2f}{where} ({interval}{p})"
    )
    if row["decided"]:
        return f"{a} is better than {b}: {numbers}."
    return f"Undecided between {a} and {b}: {numbers}. {_more_seeds(row)}"


def _more_seeds(row: dict[str, Any]) -> str:
    fewest, enough = row["fewest_seeds"], row["seeds_to_settle"]
    if fewest < FEWEST_TO_GUESS:
        return (
            f"{fewest} seed{'s' * (fewest > 1)} can decide nothing, nor tell how many would; train "
            f"{FEW_SEEDS} or more of each."
        )
    if enough is None:
        return (
            f"If further seeds are like these, it would take more than {MOST_SEEDS} of each to "
            "tell them apart."
        )
    return (
        f"If further seeds are like these, about {enough} of each would settle it, "
        f"{enough - fewest} more than there are now."
    )


def notes_on(table: dict[str, dict[str, Group]], asked: Asked) -> list[str]:
    """What a reader must know to believe the numbers."""
    notes = []
    few = {
        f"{name} ({len(group.curves)})"
        for name, groups in table.items()
        for group in groups.values()
        if len(group.curves) < FEW_SEEDS
    }
    if few:
        notes.append(
            f"Fewer than {FEW_SEEDS} seeds: {', '.join(sorted(few))}. Their intervals are too "
            "narrow, and one seed has none."
        )
    for place in next(iter(table.values())):
        ends = {name: groups[place].ends for name, groups in table.items()}
        known = [steps for each in ends.values() for steps in each]
        if known and min(known) < 0.9 * max(known):
            told = ", ".join(f"{name} {min(x):,.0f}" for name, x in ends.items() if x)
            notes.append(
                f"On {place} seeds had different numbers of steps; the fewest: {told}. "
                f"--steps {min(known):.0f} compares what all of them have."
            )
    if asked.by == "seconds":
        sizes = {
            len(run.seeds) for groups in table.values() for g in groups.values() for run in g.runs
        }
        if len(sizes) > 1:
            notes.append(
                "Seconds are of whole runs, and some had more seeds side by side than others."
            )
    return notes


def shown_row(row: dict[str, Any]) -> dict[str, str]:
    """What a table has of one method's row, by the names of its columns."""
    cells = {
        "seeds": str(row["seeds"]),
        "IQM": three_digits(row["iqm"]) + between(row["iqm_interval"], three_digits),
    }
    done = row["success"]
    if done is None:
        return cells
    share = between(done["interval"], lambda x: f"{x:.2g}")
    return cells | {
        "success": f"{done['count']}/{row['seeds']}{share}",
        "steps": _median(row["steps_to_threshold"], short_number),
        "seconds": _median(row["seconds_to_threshold"], three_digits),
    }


def _median(row: dict[str, Any] | None, form: Callable[[float], str]) -> str:
    """A median and its interval; a dash if it is infinite or not known."""
    if row is None or row["median"] is None:
        return "-"
    return form(row["median"]) + between(row["interval"], form)


def _plain(values: Any) -> Any:
    """Numbers for JSON; None for those that are infinite or NaN."""
    if np.ndim(values):
        return [_plain(value) for value in values]
    return float(values) if math.isfinite(values) else None
