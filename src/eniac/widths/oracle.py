"""Widths of any class that can be fitted: regression with a search for the weight of the query.

The width at x (Section 2) asks for two members f, f' that agree on the data, ||f - f'||_Z <=
epsilon, and differ as much as possible at x. Following Foster et al. (2018), fit the class to a
centre c on the data and, with weight lambda, to c(x) + 2W at x for f and to c(x) - 2W for f'. If no
member is farther from the centre than 2W, then no member that fits the data as well as f is larger
at x: each lambda gives an optimal trade-off, and a search over log lambda finds the one at which
||f - f'||_Z reaches epsilon.

What is promised of the answer, for any class and even for a poor fit:

- `lower` is attained by two members of the class that satisfy the constraint, so it is never above
  the true width. Every such pair of members is a lower bound at *all* pairs (s, a), not only at
  the one it was looked for, and is used at all of them.
- `upper` = min(2W, epsilon / sqrt(count)) is never below it: x itself is in the data count times.

For a convex symmetric class with exact fits (linear, tabular) and the centre 0, f' = -f, the search
is exact, and `tolerance` bounds the relative error. For other classes there is no such bracket: the
trade-offs reached are those on the convex hull, and from one centre.

Cost: two fits a step, about 3 to 8 steps a query, and S x A queries: far from free. What makes a
run affordable: `threshold` (no query where the count already decides; each search ends once its
side is known; members found for one query settle others), and `max_queries`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Num

from eniac.widths.exact import tabular_widths

if TYPE_CHECKING:  # function classes use this module, not the other way round
    from eniac.functions.base import FunctionClass, Params

Table = Float[np.ndarray, "states actions"]

# A step of the search moves lambda by no more than this factor until the radius is bracketed.
_STRIDE = 1e3


@dataclasses.dataclass(frozen=True)
class OracleSettings:
    """How hard to look.

    `tolerance`: a search ends when the widths at the two ends of its bracket agree to this share.
    `max_steps`: or after this many steps (two fits each). `max_queries`: pairs to be looked at, the
    ones with most data first; the rest keep their `upper` bound, so that they count as unknown
    longer than necessary, and never as known too early. `num_centres`: how many random members are
    tried as centres besides the given one, at that multiple of the cost; it only helps classes that
    are not convex, where the width differs from centre to centre and the largest is the truth.
    """

    tolerance: float = 0.01
    max_steps: int = 20
    max_queries: int | None = None
    num_centres: int = 0

    def __post_init__(self):
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance is {self.tolerance}; expected a share in (0, 1).")
        for name, least in (("max_steps", 1), ("num_centres", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; expected {least} or more.")
        if self.max_queries is not None and self.max_queries < 0:
            raise ValueError(f"max_queries is {self.max_queries}; expected 0 or more, or None.")


class OracleWidths(NamedTuple):
    """`widths` is `lower` where it was looked for and `upper` where it was not (see `queried`)."""

    widths: Table
    lower: Table
    upper: Table
    queried: Bool[np.ndarray, "states actions"]
    num_fits: int


class _Member(NamedTuple):
    params: Params
    table: Table


@dataclasses.dataclass
class _Search:
    """What all queries of one call share."""

    function_class: FunctionClass
    counts: Table
    epsilon: float
    threshold: float
    settings: OracleSettings
    lower: Table
    upper: Table
    warm: dict[int, _Member] = dataclasses.field(default_factory=dict)
    num_fits: int = 0

    def fit(self, centre: Table, pair: tuple[int, int], weight: float, sign: int) -> _Member:
        """The member near the centre on the data and pulled up or down at the pair."""
        target, weights = centre.copy(), self.counts.copy()
        total = weights[pair] + weight
        pull = centre[pair] + sign * 2 * self.function_class.bound
        target[pair] = (weights[pair] * centre[pair] + weight * pull) / total
        weights[pair] = total
        known = self.warm.get(sign)
        params = self.function_class.fit(target, weights, None if known is None else known.params)
        member = _Member(params, self.function_class(params))
        self.warm[sign] = member
        self.num_fits += 1
        return member

    def radius(self, difference: Table) -> float:
        return float(np.sqrt(np.sum(self.counts * np.square(difference))))

    def record(self, difference: Table, radius: float) -> None:
        """Keep what two members say about every pair, if they agree on the data."""
        if radius <= self.epsilon:
            np.maximum(self.lower, np.abs(difference), out=self.lower)
        elif self.function_class.convex:
            # A convex symmetric class contains, with a difference, all shorter ones.
            shrunk = np.abs(difference) * (self.epsilon / radius)
            np.maximum(self.lower, shrunk, out=self.lower)


def oracle_widths(
    function_class: FunctionClass,
    counts: Num[np.ndarray, "states actions"],
    epsilon: float,
    threshold: float | None = None,
    settings: OracleSettings | None = None,
    centre: Table | None = None,
) -> OracleWidths:
    """Widths of `function_class` at all pairs, given how often each pair is in the data.

    `centre` is the table that both members stay near on the data (default: `zero()`); for a class
    that is not convex another one, such as the critic of the day, may give larger widths, and the
    largest is nearest the truth. With a `threshold`, `widths >= threshold` is what is decided, and
    the numbers are only as exact as that takes.
    """
    settings = OracleSettings() if settings is None else settings
    counts = function_class.check_weights(counts)
    upper = tabular_widths(counts, epsilon, function_class.bound)
    limit = np.inf if threshold is None else threshold
    search = _Search(
        function_class, counts, epsilon, limit, settings, lower=np.zeros_like(upper), upper=upper
    )
    centre = function_class(function_class.zero()) if centre is None else np.asarray(centre)
    if centre.shape != counts.shape:
        raise ValueError(f"centre has shape {centre.shape}; expected {counts.shape}.")
    rng = np.random.default_rng(0)  # the same centres at every call: widths change with data only
    members = [function_class(function_class.sample(rng)) for _ in range(settings.num_centres)]
    queried = np.zeros(counts.shape, dtype=bool)
    open_pairs = np.ones(counts.shape, dtype=bool) if threshold is None else upper >= threshold
    num_queries = 0
    for index in np.argsort(-counts, axis=None, kind="stable"):
        s, a = (int(i) for i in np.unravel_index(index, counts.shape))
        if not open_pairs[s, a]:
            continue
        # What members found for other pairs have settled needs no search of its own.
        if search.lower[s, a] < min(limit, (1 - settings.tolerance) * upper[s, a]):
            if settings.max_queries is not None and num_queries >= settings.max_queries:
                continue
            num_queries += 1
            for each in (centre, *members):
                search.warm.clear()
                _trade_off(search, (s, a), each)
                if search.lower[s, a] >= limit:
                    break
        queried[s, a] = True
    lower = np.minimum(search.lower, upper)
    return OracleWidths(np.where(queried, lower, upper), lower, upper, queried, search.num_fits)


def _trade_off(search: _Search, pair: tuple[int, int], centre: Table) -> None:
    """Search log lambda for members whose distance on the data is epsilon; record all it meets."""
    if search.epsilon == 0:
        return
    most = _STRIDE * (search.counts.sum() + 1.0)
    # Where only the pair's own data matter, this is the answer for small epsilon.
    start = search.epsilon * np.sqrt(search.counts[pair] + 1.0) / (4 * search.function_class.bound)
    log_weight = np.log(min(start, most))
    inside = outside = None  # (log lambda, log radius, width) on each side of epsilon
    for _ in range(search.settings.max_steps):
        up = search.fit(centre, pair, float(np.exp(log_weight)), +1)
        down = search.fit(centre, pair, float(np.exp(log_weight)), -1)
        difference = up.table - down.table
        radius, width = search.radius(difference), float(difference[pair])
        search.record(difference, radius)
        point = (log_weight, np.log(max(radius, 1e-300) / search.epsilon), width)
        if radius <= search.epsilon:
            inside = point
            if log_weight >= np.log(most) or width >= (
                (1 - search.settings.tolerance) * search.upper[pair]
            ):
                break
        else:
            outside = point
            if width < search.threshold < np.inf:
                break  # even outside the radius it is small
        if search.lower[pair] >= search.threshold:
            break
        if outside is not None and outside[2] - search.lower[pair] <= (
            search.settings.tolerance * outside[2]
        ):
            break
        log_weight = min(_next_weight(inside, outside), np.log(most))


def _next_weight(
    inside: tuple[float, float, float] | None, outside: tuple[float, float, float] | None
) -> float:
    """Where the radius is epsilon: a guarded secant, or a stride, as radius grows like lambda."""
    if inside is None or outside is None:
        at, gap, _ = inside if inside is not None else outside  # pyright: ignore[reportGeneralTypeIssues]
        stride = np.log(_STRIDE)
        # A little too far, so that the next point is likely to be on the other side.
        return at + float(np.clip(-1.1 * gap + (0.05 if gap <= 0 else -0.05), -stride, stride))
    share = -inside[1] / (outside[1] - inside[1])
    return inside[0] + (outside[0] - inside[0]) * float(np.clip(share, 0.1, 0.9))
