"""Statistics of results, with seeds as the unit: pure functions of arrays.

Nothing is assumed of how returns are distributed, and infinity is a value like others: a seed that
never reached a threshold is one that needed infinitely long. Intervals are by resampling with a
fixed random seed, so that the same results always give the same numbers.

docs/compare.md has the formulas.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import norm, rankdata, t

from eniac.errors import require

LEVEL = 0.95
"""How often an interval should hold what it is an interval of."""
RESAMPLES = 2000
PERMUTATIONS = 20_000
"""Ways of dealing results out that a test looks at; all of them where there are no more."""
MOST_SEEDS = 100
"""Seeds each up to which `seeds_to_settle` looks."""
POWER = 0.8
"""Share of the imagined experiments that must be decided for a number of seeds to be enough."""

Interval = tuple[float, float]
Pair = tuple[np.ndarray, np.ndarray]
"""The results of two methods in one environment, a number a seed each; more is better."""


def interquartile_mean(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """The mean without the lowest and the highest quarter along `axis`.

    Of n values the floor(n / 4) lowest and as many highest are left out, as
    `scipy.stats.trim_mean(values, 0.25)` does; of fewer than four it is the mean.
    """
    values = np.asarray(values, np.float64)
    require(values.ndim > 0 and values.shape[axis] > 0, "the number of values", 0, "1 or more")
    cut = values.shape[axis] // 4
    middle = np.take(np.sort(values, axis), range(cut, values.shape[axis] - cut), axis)
    return np.asarray(middle.mean(axis))


def bootstrap_interval(
    strata: Sequence[np.ndarray],
    statistic: Callable[[list[np.ndarray]], np.ndarray],
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """The percentile interval of `statistic` when seeds are drawn anew, stratum by stratum.

    A stratum, [seeds, ...], holds the results of one method in one environment: its seeds are drawn
    with replacement, as many as it has, and independently of the other strata. `statistic` gets a
    list of [resamples, seeds, ...], and returns [resamples, ...]. Returns the lower and the upper
    end. Both are NaN if a stratum has a single seed, which says nothing about others.
    """
    require(0 < level < 1, "level", level, "between 0 and 1")
    rng = np.random.default_rng(seed)
    strata = [np.asarray(x, np.float64) for x in strata]
    drawn = [x[rng.integers(len(x), size=(resamples, len(x)))] for x in strata]
    found = np.sort(np.asarray(statistic(drawn), np.float64), axis=0)
    if min(map(len, strata)) < 2:
        return np.full(found.shape[1:], np.nan), np.full(found.shape[1:], np.nan)
    # Values that were found, not means of two of them: these can be infinite.
    tail = math.ceil(resamples * (1 - level) / 2)
    return np.asarray(found[tail - 1]), np.asarray(found[resamples - tail])


def mean_interval(mean: float, spread: float, num: int, level: float = LEVEL) -> Interval | None:
    """Student's interval of the mean of `num` numbers with this standard deviation, as NumPy
    computes it; None for a single one."""
    if num < 2:
        return None
    half = float(t.ppf((1 + level) / 2, num - 1)) * spread / math.sqrt(num - 1)
    return mean - half, mean + half


def wilson(successes: int, trials: int, level: float = LEVEL) -> Interval:
    """Wilson's interval of a share: never outside of [0, 1], and not empty at 0 or 1."""
    require(trials > 0, "trials", trials, "1 or more")
    require(0 <= successes <= trials, "successes", successes, f"between 0 and {trials}")
    z = norm.ppf((1 + level) / 2)
    share, weight = successes / trials, 1 + z**2 / trials
    centre = (share + z**2 / (2 * trials)) / weight
    half = z / weight * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return float(low), float(high)


def probability_of_improvement(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """How often a seed of `first`, [..., n], is above one of `second`, [..., m]; ties count half.

    It is Mann and Whitney's U / (n m): [...].
    """
    excess = _excess(first, second)[0]
    return np.asarray(excess / (first.shape[-1] * second.shape[-1]) + 0.5)


def mean_improvement(strata: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over environments of the probability of improvement. `strata` has two arrays of
    results for each, of the first and the second method: a statistic for `bootstrap_interval`."""
    pairs = zip(strata[::2], strata[1::2], strict=True)
    return np.asarray(np.mean([probability_of_improvement(a, b) for a, b in pairs], axis=0))


def permutation_p_value(pairs: Sequence[Pair], seed: int = 0) -> float:
    """How often the mean probability of improvement is as far from 1/2 as it is, or farther, if
    results are dealt out to both methods at random, within each environment: two-sided.

    Of one environment every way of dealing is looked at if there are `PERMUTATIONS` or fewer; else
    so many random ones. It is never below what the number of seeds allows: of three each 0.1.
    """
    ranked = [(_ranks(a, b), len(a), len(b)) for a, b in pairs]

    def distance(sums: list[np.ndarray]) -> np.ndarray:
        parts = [
            (s - n * (n + m + 1) / 2) / (n * m) for s, (_, n, m) in zip(sums, ranked, strict=True)
        ]
        return np.asarray(np.abs(np.sum(parts, axis=0)))

    seen = distance([ranks[:n].sum(keepdims=True) for ranks, n, _ in ranked]) - 1e-9
    ranks, n, m = ranked[0]
    if len(ranked) == 1 and math.comb(n + m, n) <= PERMUTATIONS:
        chosen = np.array(list(itertools.combinations(range(n + m), n)))
        return float(np.mean(distance([ranks[chosen].sum(-1)]) >= seen))
    rng = np.random.default_rng(seed)
    sums = []
    for ranks, n, _ in ranked:
        dealt = rng.permuted(np.broadcast_to(ranks, (PERMUTATIONS, len(ranks))), axis=1)
        sums.append(dealt[:, :n].sum(-1))
    return float((1 + np.sum(distance(sums) >= seen)) / (1 + PERMUTATIONS))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, corrected by Holm's rule for there being several."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, k in enumerate(np.argsort(p_values, kind="stable")):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[k]))
        adjusted[k] = largest
    return adjusted


def rank_test(pairs: Sequence[Pair]) -> np.ndarray:
    """The two-sided p-value of Mann and Whitney's test by its normal approximation, corrected for
    ties and continuity; several environments are added up. Arrays [..., seeds] give [...]."""
    found = [_excess(a, b) for a, b in pairs]
    excess, variance = (np.sum([each[k] for each in found], axis=0) for k in (0, 1))
    distance = np.maximum(np.abs(excess) - 0.5, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(variance > 0, distance / np.sqrt(variance), 0.0)
    return np.asarray(2 * norm.sf(z))


def seeds_to_settle(
    pairs: Sequence[Pair],
    tests: int = 1,
    level: float = LEVEL,
    most: int = MOST_SEEDS,
    resamples: int = 400,
    seed: int = 0,
) -> int | None:
    """How many seeds each, in each environment, would probably tell two methods apart.

    The seeds that there are stand for all that could be: for n = 1 more than the fewest there are,
    2 more, ..., experiments of n seeds each are drawn from them with replacement (a method that has
    more keeps its number), and the first n is taken with which `POWER` of them reject, by
    `rank_test` at 1 - `level` divided by the number of `tests`, that there is no difference. None
    if that takes more than `most`.
    """
    rng = np.random.default_rng(seed)
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs]

    def draw(values: np.ndarray, num: int) -> np.ndarray:
        return values[rng.integers(len(values), size=(resamples, max(num, len(values))))]

    for num in range(min(len(x) for pair in pairs for x in pair) + 1, most + 1):
        p_values = rank_test([(draw(a, num), draw(b, num)) for a, b in pairs])
        if np.mean(p_values * tests < 1 - level) >= POWER:
            return num
    return None


def performance_profile(scores: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The share of `scores`, [..., seeds], that is above each of `levels`: [..., levels]."""
    return (np.asarray(scores)[..., None, :] > np.asarray(levels)[:, None]).mean(-1)


def time_to_threshold(times: np.ndarray, values: np.ndarray, threshold: float) -> float:
    """The first of `times` at which `values` is above the threshold; infinity if it never is."""
    above = np.flatnonzero(np.asarray(values) > threshold)
    return float(times[above[0]]) if above.size else math.inf


def _ranks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    both = np.concatenate([np.asarray(first), np.asarray(second)], axis=-1)
    return rankdata(both, axis=-1)


def _excess(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mann and Whitney's U less its mean under no difference, and its variance there."""
    n, m = first.shape[-1], second.shape[-1]
    ranks, total = _ranks(first, second), n + m
    excess = ranks[..., :n].sum(-1) - n * (total + 1) / 2
    # The variance of ranks that are dealt out, whatever ties there are.
    variance = n * m / (total * (total - 1)) * ((ranks - (total + 1) / 2) ** 2).sum(-1)
    return np.asarray(excess), np.asarray(variance)
