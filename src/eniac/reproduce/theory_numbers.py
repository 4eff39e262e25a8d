"""The numbers of the theory's experiments, as functions of rows of results: how samples grow, what
COMPUTE needs beside SAMPLE, what a class costs that cannot say it all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from eniac.report.statistics import bootstrap_interval
from eniac.reproduce.results import Row
from eniac.reproduce.tasks import Result, variant
from eniac.reproduce.theory_tasks import (
    BUDGETS,
    COMPUTE,
    GROUPS,
    SAMPLE,
    SMALL_BUDGETS,
    STATES,
    THEORY,
    budget_flags,
)

Rows = Mapping[tuple[str, str], Row]

ENOUGH = 0.95
"""Share of the optimum at which a run has learned."""
GAP = 0.1
"""Gap of the outer mixture, as a share of the optimum, that samples are counted to."""
FINE = 3
"""Of so many of the largest budgets the exponent of the accuracy is taken: it is about small
gaps."""


class Point(NamedTuple):
    """What one seed came to with one budget."""

    steps: float
    gap: float
    """of the outer mixture, as a share of the optimum"""


Growth = dict[int, dict[int, list[Point]]]
"""For each number of states and seed, a point a budget, from the smallest on."""


def growth(rows: Rows) -> Growth:
    """What was measured of how samples grow: seeds of which all budgets are there."""
    found: Growth = {}
    for states in STATES:
        of_seed: dict[int, list[Point]] = {}
        for size in BUDGETS:
            row = rows.get((f"random-mdp-{states}", variant(SAMPLE[0], budget_flags(size))))
            for result in row.results if row else ():
                gap = 1 - result["by_epoch"]["share/outer_mixture"][-1]
                of_seed.setdefault(result["seed"], []).append(Point(result["steps"], gap))
        whole = {seed: points for seed, points in of_seed.items() if len(points) == len(BUDGETS)}
        if whole:
            found[states] = whole
    return found


def steps_to(points: Sequence[Point], gap: float) -> float:
    """Steps until the gap is that small: between two budgets both logarithms are linear. Infinity
    if the largest budget is not enough; those of the smallest if that is."""
    for k, point in enumerate(points):
        if point.gap <= gap:
            if k == 0:
                return point.steps
            before = points[k - 1]
            part = math.log(before.gap / gap) / math.log(before.gap / max(point.gap, 1e-9))
            return before.steps * (point.steps / before.steps) ** part
    return math.inf


def accuracy_exponent(points: Sequence[Point]) -> float:
    """p, if the steps of one seed grow like (1/gap)^p: a line through the logarithms of the
    `FINE` largest budgets."""
    steps, gap = np.array(points[-FINE:]).T
    return float(1 / np.polyfit(np.log(steps), -np.log(np.maximum(gap, 1e-9)), 1)[0])


def dimension_exponent(steps: Sequence[np.ndarray], states: Sequence[int]) -> np.ndarray:
    """p, if the median steps grow like (number of states)^p: a line through the logarithms.
    `steps` has an array [..., seeds] for each of the numbers of `states`."""
    medians = np.log(np.stack([np.median(each, axis=-1) for each in steps], axis=-1))
    x = np.log(states) - np.mean(np.log(states))
    return np.asarray((medians * x).sum(-1) / (x**2).sum())


class Exponent(NamedTuple):
    """An exponent that was measured, with its interval over seeds."""

    value: float
    low: float
    high: float
    seeds: int


def exponents(found: Growth) -> dict[str, Exponent]:
    """Of accuracy for each number of states, and of dimension, as far as they were measured."""
    told = {}
    for states, seeds in found.items():
        values = np.array([accuracy_exponent(points) for points in seeds.values()])
        low, high = bootstrap_interval([values], lambda x: np.median(x[0], axis=-1))
        told[f"accuracy, {states} states"] = Exponent(
            float(np.median(values)), float(low), float(high), len(values)
        )
    if len(found) > 2:
        steps = [
            np.array([steps_to(points, GAP) for points in seeds.values()])
            for seeds in found.values()
        ]
        if all(np.isfinite(np.median(each)) for each in steps):
            states = list(found)
            low, high = bootstrap_interval(steps, lambda x: dimension_exponent(x, states))
            value = float(dimension_exponent(steps, states))
            fewest = min(map(len, steps))
            told["dimension"] = Exponent(value, float(low), float(high), fewest)
    return told


def versions(rows: Rows) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each environment the steps that SAMPLE and COMPUTE need, a number a seed: those of the
    smallest budget from which on all runs end with `ENOUGH`; infinity if the largest does not."""
    found = {}
    for name, task in THEORY.items():
        if task.question != "versions":
            continue
        needed = []
        for algorithm in (SAMPLE[0], COMPUTE[0]):
            of_seed: dict[int, list[Result]] = {}
            for which, flags in task.variants:
                row = rows.get((name, variant(which, flags))) if which == algorithm else None
                for result in row.results if row else ():
                    of_seed.setdefault(result["seed"], []).append(result)
            whole = [r for r in of_seed.values() if len(r) == len(SMALL_BUDGETS)]
            needed.append(np.array([_needed(results) for results in whole]))
        if all(map(len, needed)):
            found[name.removesuffix("-budgets")] = (needed[0], needed[1])
    return found


def _needed(results: Sequence[Result]) -> float:
    enough = math.inf
    for result in reversed(results):
        if result["by_epoch"]["share/last"][-1] < ENOUGH:
            break
        enough = float(result["steps"])
    return enough


class Excess(NamedTuple):
    """What a class that cannot say it all has cost one seed."""

    bias: float
    """epsilon_bias, the largest of an epoch, on known states"""
    gap: float
    """gap of the outer mixture, less that of the exact class on the same MDP"""
    transfer: float
    """what of the gap the class is to blame for, the largest of an epoch"""
    term: float
    """what the theorem allows for it: 4 sqrt(|A| epsilon_bias) / (1 - gamma)"""
    most: float
    """the largest gap that there can be"""

    @property
    def within(self) -> bool:
        return max(self.gap, self.transfer) <= self.term


def misspecified(rows: Rows) -> dict[int, dict[int, Excess]]:
    """For each number of groups and seed, what the class has cost."""
    task = "random-mdp-40-groups"
    results: dict[int, dict[int, Result]] = {}
    for number, which in zip(GROUPS, THEORY[task].variants, strict=True):
        row = rows.get((task, variant(*which)))
        results[number] = {r["seed"]: r for r in row.results} if row else {}
    exact, found = results[GROUPS[0]], {}
    for number in GROUPS[1:]:
        common = sorted(results[number].keys() & exact.keys())
        if common:
            found[number] = {s: _excess(results[number][s], exact[s]) for s in common}
    return found


def _excess(result: Result, exact: Result) -> Excess:
    terms = result["terms"]
    gap = terms["gap, outer mixture"][0] - exact["terms"]["gap, outer mixture"][0]
    _, transfer, bound = terms["transfer"]
    return Excess(terms["epsilon_bias on K"][0], gap, transfer, bound, result["largest_gap"])
