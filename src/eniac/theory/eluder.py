"""The eluder dimension (Definition 1): exact where a search can end, bounded elsewhere.

A point x is epsilon-independent of points Z if two functions of the class differ by at most epsilon
on Z (root of the *sum* of squares) and by more than epsilon at x. The dimension at epsilon is the
length of the longest sequence in which, for one epsilon' >= epsilon, every point is
epsilon'-independent of its predecessors.

Two facts make the search finite. No point occurs twice, since |g(x)| <= ||g||_Z when x is in Z; and
independence depends on the *set* of predecessors only, so a table over subsets suffices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from eniac.widths.exact import linear_widths

# A width this close above epsilon is a tie that rounding broke: it counts as dependence.
_TIE = 1e-9
_MAX_POINTS = 16
_MAX_FUNCTIONS = 1000

Widths = Callable[[Sequence[int]], Float[np.ndarray, " points"]]
Intervals = list[tuple[float, float]]


class IndependentSequence(NamedTuple):
    """Points, by index, each of them `scale`-independent of those before it."""

    points: tuple[int, ...]
    scale: float

    @property
    def dimension(self) -> int:
        return len(self.points)


def finite_eluder_dimension(
    values: Float[np.ndarray, "functions points"], epsilon: float
) -> IndependentSequence:
    """The eluder dimension of an explicit list of functions on finitely many points, exactly.

    For a set Z and a next point x, a pair of functions with difference g makes x
    epsilon'-independent of Z exactly for epsilon' in [||g||_Z, |g(x)|). So each set of points has a
    set of scales at which some order of it is an independent sequence, a finite union of intervals;
    these are computed for all sets by size, and the largest set with any scale >= epsilon wins. All
    epsilon' are covered, not a grid of them. At most 16 points (2^16 sets) and 1000 functions.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or len(values) == 0:
        raise ValueError(
            f"values have shape {values.shape}; expected (functions, points), with a function."
        )
    _check_epsilon(epsilon, allow_zero=True)
    _check_size(values.shape[1])
    if len(values) > _MAX_FUNCTIONS:
        raise ValueError(
            f"the class has {len(values)} functions; every pair of them is kept, so at most "
            f"{_MAX_FUNCTIONS} are allowed. Use a greedy lower bound."
        )
    first, second = np.triu_indices(len(values), k=1)
    squares = np.unique(np.square(values[first] - values[second]), axis=0)
    # Squared scales throughout: the square root of a sum would turn ties into rounding.
    scales: dict[int, Intervals] = {0: [(epsilon**2, math.inf)]}
    layer = [0]
    while layer:
        found: dict[int, Intervals] = {}
        for chosen in layer:
            for point, intervals in _extensions(squares, chosen):
                common = _intersect(scales[chosen], intervals)
                if common:
                    larger = chosen | 1 << point
                    found[larger] = _union(found.get(larger, []) + common)
        scales.update(found)
        layer = list(found)
    largest = max(scales, key=int.bit_count)
    return _trace(squares, scales, largest)


def linear_eluder_dimension(
    features: Float[np.ndarray, "points dim"], epsilon: float, norm_bound: float
) -> IndependentSequence:
    """The eluder dimension of {x -> u . phi(x): |u| <= norm_bound} on finitely many points.

    Exact for up to 16 points. Only epsilon' = epsilon is searched, which loses nothing: the width
    is a concave function of the radius (the value of a convex program in its right-hand side) and
    zero or more at radius zero, so width / radius falls with the radius, and what is independent at
    epsilon' is so at every smaller scale.
    """
    widths = _linear_oracle(features, epsilon, norm_bound)
    return longest_independent_sequence(widths, len(features), epsilon)


def longest_independent_sequence(
    widths: Widths, num_points: int, epsilon: float
) -> IndependentSequence:
    """The longest sequence independent at the one scale epsilon, for any class, given its widths.

    `widths(Z)` returns the widths of all points given the points with indices Z, at radius epsilon.
    A depth-first search over sets that remembers every set; a point that depends on a set depends
    on every larger one, so the candidates only become fewer, and their number prunes the search.
    """
    _check_epsilon(epsilon)
    _check_size(num_points)

    @cache
    def search(chosen: int) -> tuple[int, ...]:
        members = _members(chosen)
        independent = widths(members) > epsilon * (1 + _TIE)
        candidates = [x for x in range(num_points) if independent[x] and x not in members]
        best: tuple[int, ...] = ()
        for x in candidates:
            if len(best) == len(candidates):
                break
            best = max(best, (x, *search(chosen | 1 << x)), key=len)
        return best

    return IndependentSequence(search(0) if num_points else (), float(epsilon))


def greedy_independent_sequence(
    widths: Widths, num_points: int, epsilon: float
) -> IndependentSequence:
    """A long sequence independent at scale epsilon: a lower bound on the dimension, for any size.

    Takes the independent point of *smallest* width each time, which constrains the class least and
    leaves most for later. (`widths` as in `longest_independent_sequence`.)
    """
    _check_epsilon(epsilon)
    points: list[int] = []
    while True:
        current = np.array(widths(points), dtype=np.float64)
        current[current <= epsilon * (1 + _TIE)] = np.inf
        if num_points == 0 or np.isinf(current.min()):
            return IndependentSequence(tuple(points), float(epsilon))
        points.append(int(current.argmin()))


def greedy_linear_eluder_dimension(
    features: Float[np.ndarray, "points dim"], epsilon: float, norm_bound: float
) -> IndependentSequence:
    """A lower bound on the linear eluder dimension over any number of points."""
    widths = _linear_oracle(features, epsilon, norm_bound)
    return greedy_independent_sequence(widths, len(features), epsilon)


def tabular_eluder_dimension(num_pairs: int, epsilon: float = 0.0, bound: float = math.inf) -> int:
    """All functions with |f| <= bound on `num_pairs` points: num_pairs if epsilon < 2 bound, or 0.

    This is exact. One point's value says nothing about another's, so any order of all points is
    independent; and none is once no difference exceeds epsilon.
    """
    if num_pairs < 1:
        raise ValueError(f"num_pairs is {num_pairs}; expected a positive number of pairs.")
    return num_pairs if epsilon < 2 * bound else 0


def linear_eluder_bound(
    dim: int, epsilon: float, norm_bound: float, feature_bound: float = 1.0
) -> float:
    """An upper bound for f(x) = u . phi(x), |u| <= norm_bound, |phi(x)| <= feature_bound:

        3 dim e/(e - 1) log(3 + 3 (2 norm_bound feature_bound / epsilon)^2) + 1.

    Russo & Van Roy (2013), linear classes. Their formula has no feature bound because it is one
    there; the proof has it through feature_bound^2 / (epsilon / 2 norm_bound)^2. The logarithm is
    real: "at most d", as Section 4 of the paper has it, fails for d = 1 (`docs/errata.md`).
    """
    return glm_eluder_bound(dim, epsilon, norm_bound, feature_bound, slopes=(1.0, 1.0))


def glm_eluder_bound(
    dim: int,
    epsilon: float,
    norm_bound: float,
    feature_bound: float = 1.0,
    slopes: tuple[float, float] = (1.0, 1.0),
) -> float:
    """An upper bound for f(x) = g(u . phi(x)) with 0 < low <= g' <= high, `slopes` = (low, high):

        3 dim r^2 e/(e - 1) log(3 r^2 + 3 r^2 (2 norm_bound feature_bound high / epsilon)^2) + 1,

    r = high / low. Russo & Van Roy (2013), generalised linear classes; r = 1 is the linear case.
    """
    _check_epsilon(epsilon)
    low, high = slopes
    for name, given in (
        ("dim", dim),
        ("norm_bound", norm_bound),
        ("feature_bound", feature_bound),
        ("the smaller slope", low),
    ):
        if not (math.isfinite(given) and given > 0):
            raise ValueError(f"{name} is {given}; expected a finite positive number.")
    if not (math.isfinite(high) and high >= low):
        raise ValueError(f"slopes are {slopes}; expected (low, high) with low <= high.")
    ratio = (high / low) ** 2
    inside = 3 * ratio * (1 + (2 * norm_bound * feature_bound * high / epsilon) ** 2)
    return 3 * dim * ratio * math.e / (math.e - 1) * math.log(inside) + 1


def _linear_oracle(features: np.ndarray, epsilon: float, norm_bound: float) -> Widths:
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 2:
        raise ValueError(f"features have shape {features.shape}; expected (points, dim).")

    def widths(points: Sequence[int]) -> np.ndarray:
        seen = features[list(points)]
        return linear_widths(features, seen.T @ seen, epsilon, norm_bound)

    return widths


def _extensions(squares: np.ndarray, chosen: int):
    """Each point outside `chosen`, with the squared scales at which it is independent of it."""
    norms = squares[:, _members(chosen)].sum(axis=1)
    for point in range(squares.shape[1]):
        if not chosen >> point & 1:
            ahead = norms < squares[:, point]
            yield point, list(zip(norms[ahead], squares[ahead, point], strict=True))


def _intersect(first: Intervals, second: Intervals) -> Intervals:
    pairs = ((max(a, c), min(b, d)) for a, b in first for c, d in second)
    return _union([(low, high) for low, high in pairs if low < high])


def _union(intervals: Intervals) -> Intervals:
    merged: Intervals = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _trace(squares: np.ndarray, scales: dict[int, Intervals], chosen: int) -> IndependentSequence:
    """An order of the points `chosen` and a scale that show them to be an independent sequence."""
    scale = scales[chosen][0][0]
    points: list[int] = []
    while chosen:
        for point in _members(chosen):
            before = chosen & ~(1 << point)
            if before in scales and _contains(scales[before], scale):
                norms = squares[:, _members(before)].sum(axis=1)
                if np.any((norms <= scale) & (scale < squares[:, point])):
                    points.append(point)
                    chosen = before
                    break
        else:
            raise AssertionError("a set has scales but none of its points can come last.")
    return IndependentSequence(tuple(reversed(points)), math.sqrt(scale))


def _contains(intervals: Intervals, scale: float) -> bool:
    return any(low <= scale < high for low, high in intervals)


def _members(chosen: int) -> list[int]:
    return [i for i in range(chosen.bit_length()) if chosen >> i & 1]


def _check_epsilon(epsilon: float, allow_zero: bool = False) -> None:
    if not (math.isfinite(epsilon) and (epsilon > 0 or (allow_zero and epsilon == 0))):
        raise ValueError(f"epsilon is {epsilon}; expected a finite positive scale.")


def _check_size(num_points: int) -> None:
    if num_points > _MAX_POINTS:
        raise ValueError(
            f"an exact search over {num_points} points would visit up to 2^{num_points} sets; "
            f"it is limited to {_MAX_POINTS}. Use a greedy lower bound or one of the upper bounds."
        )
