"""What came of a run with networks: when it solved its task, its curve, and the final judgement."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any

import jax

from eniac.report.evaluate import judge
from eniac.reproduce.tasks import EPISODES, Task
from eniac.runs.load import Run
from eniac.runs.log import METRICS, TIMINGS, read_records
from eniac.runs.program import take_seed
from eniac.runs.progress import EXPLOITING
from eniac.sampling.base import Evaluation

FRESH = 20_260_000
"""Seed of the final judgement's episodes, which nothing else draws from."""
MOST_POINTS = 200
"""Points of a curve in a file."""


def outcome(run: Run, task: Task, seed: int, compiled: float) -> dict[str, Any]:
    """What the file of a run says of how it went. `compiled` are seconds by the clock that were no
    training; all others are the processor's, which other work beside it does not change."""
    final = judge_result(run, task, seed)
    curve, seconds = read_curve(run.path, task)
    if not run.learner.compiled:
        # On the host nearly all is compiled in the first epoch, when it is first needed.
        first = read_records(run.path / TIMINGS)[0]
        compiling = compiled * first["processor_seconds"] / first["seconds"]
        seconds = [max(second - compiling, 0.0) for second in seconds]
    solved = next((k for k, point in enumerate(curve) if task.solves(point[1])), None)
    at = None
    if solved is not None:
        at = {"steps": curve[solved][0], "seconds": round(seconds[solved], 2)}
    return {
        "solved_at": at,
        "steps": curve[-1][0],
        "seconds": round(seconds[-1], 2),
        "final": final,
        "curve": thinned(curve, solved),
    }


def judge_result(run: Run, task: Task, seed: int) -> dict[str, Any]:
    """The incumbent of a run, or its policy if there is none, in fresh episodes."""
    state = take_seed(run.states, 0)
    incumbent = getattr(state, "incumbent", None)
    policy = run.learner.policy(state) if incumbent is None else incumbent.acting
    evaluation = Evaluation(EPISODES, run.config.evaluation.horizon, task.greedy)
    with contextlib.closing(run.learner), judge(run.env, evaluation) as play:
        found = play(jax.random.fold_in(jax.random.key(FRESH), seed), policy)
    return {"episodes": EPISODES, **{name: round(x, 4) for name, x in found.items()}}


def read_curve(folder: Path, task: Task) -> tuple[list[list[Any]], list[float]]:
    """After every round the steps, the incumbent's return and the exploiting policy's (None before
    it learns); and the processor's seconds of training until then."""
    names = [name.replace("sampled", "greedy") if task.greedy else name for name in EXPLOITING]
    timings = read_records(folder / TIMINGS)
    worked = itertools.accumulate(row["processor_seconds"] for row in timings)
    so_far = dict(zip((row["epoch"] for row in timings), worked, strict=True))
    records = read_records(folder / METRICS)
    ends = {row["epoch"]: row["env_steps"] for row in records}
    curve, seconds = [], []
    for row in records:
        exploiting = next((row[name] for name in names if row.get(name) is not None), None)
        idle = row.get("exploit/entropy") == 0 and exploiting == 0
        curve.append([row["env_steps"], row["return_mean"], None if idle else exploiting])
        # An epoch is timed as a whole: a round in it by its share of the steps.
        before, after = so_far.get(row["epoch"] - 1, 0.0), so_far[row["epoch"]]
        begin, end = ends.get(row["epoch"] - 1, 0), ends[row["epoch"]]
        seconds.append(before + (after - before) * (row["env_steps"] - begin) / (end - begin))
    return [[n, *(x if x is None else round(x, 4) for x in xs)] for n, *xs in curve], seconds


def thinned(curve: list[Any], solved: int | None) -> list[Any]:
    """At most `MOST_POINTS` or a few more: evenly, the last, and the one that solved the task."""
    step = -(-len(curve) // MOST_POINTS) or 1
    kept = {*range(0, len(curve), step), len(curve) - 1, *([] if solved is None else [solved])}
    return [curve[place] for place in sorted(kept) if place >= 0]
