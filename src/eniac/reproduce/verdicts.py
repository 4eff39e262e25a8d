"""How a claim is decided: by an interval and a bound that was written down before.

A rule says which numbers are asked for, and where their intervals have to lie. Nothing here depends
on what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from eniac.report.statistics import (
    LEVEL,
    MOST_SEEDS,
    Pair,
    bootstrap_interval,
    mean_improvement,
    permutation_p_value,
    seeds_to_settle,
    wilson,
)

Verdict = Literal["held", "did not hold", "undecided", "not measured"]


@dataclass(frozen=True)
class Rule:
    """Where an interval has to lie for a claim to hold; on the other side it did not hold, and with
    the bound inside it is undecided."""

    what: str
    """the number that decides"""
    bound: float
    above: bool = True
    """whether it is to be above the bound, or below"""

    def verdict(self, low: float, high: float) -> Verdict:
        """By the ends of an interval. Not even few seeds make one that is a point decide."""
        if math.isnan(low) or math.isnan(high):
            return "undecided"
        if low > self.bound:
            return "held" if self.above else "did not hold"
        if high < self.bound:
            return "did not hold" if self.above else "held"
        return "undecided"

    def __str__(self) -> str:
        return f"{'above' if self.above else 'below'} {self.bound:g}: {self.what}"


@dataclass(frozen=True)
class Evidence:
    """One number that decides, with its interval."""

    where: str
    """what it is of, if a claim has several: a depth, an environment"""
    shown: str
    """the number in words"""
    low: float
    high: float
    seeds: int
    verdict: Verdict
    more: int | None = None
    """seeds in all that would probably decide; None: not known, or more than `MOST_SEEDS`"""


def share(rule: Rule, successes: Sequence[bool], where: str = "") -> Evidence:
    """A share of seeds, with Wilson's interval."""
    count, total = sum(map(bool, successes)), len(successes)
    low, high = wilson(count, total)
    verdict = rule.verdict(low, high)
    more = None
    if verdict == "undecided":
        more = _enough(lambda n: rule.verdict(*wilson(round(count / total * n), n)), total)
    return Evidence(where, f"{count} of {total}", low, high, total, verdict, more)


def _enough(verdict_of: Callable[[int], Verdict], now: int) -> int | None:
    """The first number of seeds with which a verdict falls, if further ones are like those there
    are."""
    numbers = range(now + 1, MOST_SEEDS + 1)
    return next((n for n in numbers if verdict_of(n) != "undecided"), None)


def comparison(rule: Rule, pairs: Sequence[Pair], where: str = "") -> Evidence:
    """The probability that a seed of the first has more than one of the second, the mean over
    environments. It takes the interval and a permutation test to decide, as in `eniac compare`."""
    strata = [x for pair in pairs for x in pair]
    low, high = (float(x) for x in bootstrap_interval(strata, mean_improvement))
    value, seeds = float(mean_improvement(strata)), min(map(len, strata))
    verdict, more = rule.verdict(low, high), None
    if verdict != "undecided" and permutation_p_value(pairs) >= 1 - LEVEL:
        verdict = "undecided"
    if verdict == "undecided" and seeds > 2:
        more = seeds_to_settle(pairs)
    return Evidence(where, f"{value:.2f}", low, high, seeds, verdict, more)


def measured(rule: Rule, value: float, low: float, high: float, seeds: int, where: str) -> Evidence:
    """A number whose interval is known."""
    return Evidence(where, f"{value:.2f}", low, high, seeds, rule.verdict(low, high))


def together(found: Sequence[Evidence]) -> Verdict:
    """The verdict of a claim that has to hold everywhere: a single place can refute it."""
    verdicts = [evidence.verdict for evidence in found]
    if "did not hold" in verdicts:
        return "did not hold"
    if not verdicts or "not measured" in verdicts:
        return "not measured"
    return "undecided" if "undecided" in verdicts else "held"


def not_measured(where: str) -> Evidence:
    """Evidence that is missing."""
    return Evidence(where, "-", float(np.nan), float(np.nan), 0, "not measured")
