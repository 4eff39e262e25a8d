"""Widths of a smooth class with few parameters, by maximising over both members at once.

The regression oracle fixes a centre; here f and f' move freely, which matters where the class
bends: the widest difference is found where the link is flat on the data and steep at the query.
Sequential quadratic programming on the 2 d parameters, from several starts, is then both nearer the
truth and cheaper than an oracle with many centres.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Num
from scipy.optimize import minimize

from eniac.widths.exact import tabular_widths

Table = Float[np.ndarray, "states actions"]

# The solver meets its constraints to about this share; it is told to stay inside by as much.
_MARGIN = 1e-5
_MAX_STEPS = 60
_SHRINK = (1.0, 0.9999, 0.999, 0.99, 0.97, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0.1)


@runtime_checkable
class SmoothInBall(Protocol):
    """What is needed of the class: parameters in a ball, values and gradients."""

    @property
    def bound(self) -> float: ...
    @property
    def dim(self) -> int: ...
    @property
    def norm_bound(self) -> float: ...
    def __call__(self, params: np.ndarray) -> np.ndarray: ...
    def gradient(self, params: np.ndarray) -> np.ndarray: ...
    def sample(self, rng: np.random.Generator) -> np.ndarray: ...
    def zero(self) -> np.ndarray: ...
    def check_weights(self, weight: np.ndarray) -> np.ndarray: ...


def pair_search_widths(
    function_class: SmoothInBall,
    counts: Num[np.ndarray, "states actions"],
    epsilon: float,
    threshold: float | None = None,
    num_starts: int = 4,
) -> Table:
    """The largest f(x) - f'(x) found at each pair x, with ||f - f'||_Z <= epsilon: a lower bound.

    Attained by two members, so never above the true width; how near to it is measured, not proved.
    With a `threshold`, pairs whose count already puts them below it keep that bound, and a pair is
    done once it is found to be above.
    """
    counts = function_class.check_weights(counts)
    upper = tabular_widths(counts, epsilon, function_class.bound)
    lower = np.zeros_like(upper)
    limit = np.inf if threshold is None else threshold
    rng = np.random.default_rng(0)  # the same starts at every call: widths change with data only
    centres = [function_class.zero()]
    centres += [function_class.sample(rng) for _ in range(num_starts - 1)]
    for s, a in np.ndindex(*counts.shape):
        if threshold is not None and upper[s, a] < threshold:
            lower[s, a] = upper[s, a]
            continue
        for centre in centres:
            if lower[s, a] >= min(limit, (1 - 1e-3) * upper[s, a]):
                break
            _maximise(function_class, counts, epsilon, (s, a), centre, lower)
    return np.minimum(lower, upper)


def _maximise(
    function_class: SmoothInBall,
    counts: Table,
    epsilon: float,
    pair: tuple[int, int],
    centre: np.ndarray,
    lower: Table,
) -> None:
    """One local search from two members on either side of the centre; records all it finds."""
    dim, ball = function_class.dim, function_class.norm_bound
    seen = counts > 0
    weights = counts[seen]

    def difference(both: np.ndarray) -> np.ndarray:
        return function_class(both[:dim]) - function_class(both[dim:])

    def slopes(both: np.ndarray, where: Any) -> np.ndarray:
        up, down = function_class.gradient(both[:dim]), function_class.gradient(both[dim:])
        return np.concatenate([up[where], -down[where]], axis=-1)

    def room(both: np.ndarray) -> np.ndarray:
        radius = weights @ np.square(difference(both)[seen]) / epsilon**2
        squares = np.sum(np.square(both.reshape(2, dim)), axis=1) / ball**2
        return 1 - _MARGIN - np.concatenate([[radius], squares])

    def room_slopes(both: np.ndarray) -> np.ndarray:
        pull = (weights * difference(both)[seen]) @ slopes(both, seen) / epsilon**2
        up, down = np.zeros(2 * dim), np.zeros(2 * dim)
        up[:dim], down[dim:] = both[:dim], both[dim:]
        return -2 * np.stack([pull, up / ball**2, down / ball**2])

    towards = function_class.gradient(centre)[pair]
    shift = 0.05 * ball * towards / max(float(np.linalg.norm(towards)), 1e-300)
    centre = 0.9 * centre
    found = minimize(
        lambda both: -difference(both)[pair] / function_class.bound,
        np.concatenate([centre + shift, centre - shift]),
        jac=lambda both: -slopes(both, pair) / function_class.bound,
        constraints=[{"type": "ineq", "fun": room, "jac": room_slopes}],
        method="SLSQP",
        options={"maxiter": _MAX_STEPS, "ftol": 1e-7},
    ).x
    if not np.all(np.isfinite(found)):
        return
    middle = np.tile((found[:dim] + found[dim:]) / 2, 2)
    middle *= min(1.0, (1 - _MARGIN) * ball / max(float(np.linalg.norm(middle[:dim])), 1e-300))
    # The solver may stop a little outside; drawn together, the two members are inside again.
    for share in _SHRINK:
        members = middle + share * (found - middle)
        if np.all(room(members) >= -_MARGIN):
            np.maximum(lower, np.abs(difference(members)), out=lower)
            return
