"""Generalised linear functions: a monotone link of a linear form (Russo and Van Roy, 2013)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal, final

import numpy as np
from jaxtyping import Float, Num
from scipy.special import expit, logit

from eniac.functions.ball import least_squares_in_ball, uniform_in_ball
from eniac.functions.base import FunctionClass, Params, Table, check_class_bound
from eniac.functions.linear import gram_matrix
from eniac.widths.exact import linear_widths, tabular_widths
from eniac.widths.oracle import OracleSettings, oracle_widths
from eniac.widths.pair_search import pair_search_widths

_MAX_STEPS = 200
_STUCK = 1e12


@dataclasses.dataclass(frozen=True)
class Link:
    """An increasing map of the line into [low, 1], with its derivative and inverse.

    The derivative must be even and fall away from 0, which gives its range on an interval.
    """

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    inverse: Callable[[np.ndarray], np.ndarray]
    low: float


LINKS = {
    "logistic": Link(expit, lambda x: expit(x) * expit(-x), logit, 0.0),
    "tanh": Link(np.tanh, lambda x: 1 / np.square(np.cosh(x)), np.arctanh, -1.0),
}


@final
class GeneralisedLinear(FunctionClass):
    """f(s, a) = bound link(u . phi(s, a)) with |u| <= norm_bound.

    Links: 'logistic', values in (0, bound), and 'tanh', values in (-bound, bound). The logistic
    class has no zero function; its `zero()` is the constant bound / 2.

    `fit` is Levenberg-Marquardt in which every step solves its linearised least squares *inside the
    ball* exactly, from the better of `start` and the regression of link^-1(target). Squared loss is
    not convex in u, so the answer is a stationary point; noiseless data of a member are recovered.

    `widths` are lower bounds attained by two members, found as `width_method` says: 'search'
    (default) moves both members at once, 'oracle' fits them around a fixed centre, which misses
    much of the width where the ball lets the link saturate. `width_bounds` are rigorous on both
    sides, and far apart in that case.
    """

    name = "glm"
    smooth = True

    def __init__(
        self,
        features: Float[np.ndarray, "states actions dim"],
        bound: float,
        norm_bound: float = 10.0,
        link: str = "logistic",
        width_method: Literal["search", "oracle"] = "search",
        oracle: OracleSettings | None = None,
    ):
        features = np.array(features, dtype=np.float64)
        if features.ndim != 3 or 0 in features.shape or not np.all(np.isfinite(features)):
            raise ValueError(
                f"features have shape {features.shape}; expected finite numbers of shape "
                "(states, actions, dim), none of them 0."
            )
        if link not in LINKS:
            raise ValueError(f"link is {link!r}; expected one of {', '.join(LINKS)}.")
        if not (np.isfinite(norm_bound) and norm_bound > 0):
            raise ValueError(f"norm_bound is {norm_bound}; expected a finite positive number.")
        if width_method not in ("search", "oracle"):
            raise ValueError(f"width_method is {width_method!r}; expected 'search' or 'oracle'.")
        self.width_method = width_method
        self.features, self.link = features, LINKS[link]
        self.num_states, self.num_actions, self.dim = features.shape
        self.bound, self.norm_bound = check_class_bound(bound), float(norm_bound)
        self.oracle = OracleSettings() if oracle is None else oracle

    def sample(self, rng: np.random.Generator) -> Params:
        return uniform_in_ball(rng, self.dim, self.norm_bound)

    def __call__(self, params: Params) -> Table:
        return self.bound * self.link.value(self.features @ np.asarray(params))

    def gradient(self, params: Params) -> Float[np.ndarray, "states actions dim"]:
        slope = self.link.slope(self.features @ np.asarray(params))
        return self.bound * slope[..., None] * self.features

    def _fit(self, target: Table, weight: Table, start: Params | None) -> Params:
        seen = weight > 0
        phi, target, weight = self.features[seen], target[seen], weight[seen]
        candidates = [self._inverse_fit(phi, target, weight)] + ([] if start is None else [start])
        losses = [self._loss(u, phi, target, weight) for u in candidates]
        return self._descend(candidates[int(np.argmin(losses))], phi, target, weight)

    def _loss(self, u: Params, phi: np.ndarray, target: np.ndarray, weight: np.ndarray) -> float:
        return float(weight @ np.square(self.bound * self.link.value(phi @ u) - target))

    def _inverse_fit(self, phi: np.ndarray, target: np.ndarray, weight: np.ndarray) -> Params:
        """Least squares for u . phi = link^-1(target / W), each pair weighted by its slope."""
        reach = self.norm_bound * np.maximum(np.linalg.norm(phi, axis=1), 1e-300)
        low, high = self.link.value(-reach), self.link.value(reach)
        inside = np.clip(target / self.bound, low, high)
        # Far out, the link rounds to its limits, whose inverse is infinite.
        index = np.clip(self.link.inverse(inside), -reach, reach)
        weight = weight * np.square(self.link.slope(index)) + 1e-12 * weight
        gram = (phi * weight[:, None]).T @ phi
        return least_squares_in_ball(gram, phi.T @ (weight * index), self.norm_bound)

    def _descend(
        self, u: Params, phi: np.ndarray, target: np.ndarray, weight: np.ndarray
    ) -> Params:
        loss, damping = self._loss(u, phi, target, weight), 1e-3
        scale = float(weight @ np.square(self.bound * phi).sum(axis=1)) / len(u)
        for _ in range(_MAX_STEPS):
            index = phi @ u
            jacobian = self.bound * self.link.slope(index)[:, None] * phi
            residual = target - self.bound * self.link.value(index) + jacobian @ u
            weighted = jacobian * weight[:, None]
            gram, moment = weighted.T @ jacobian, weighted.T @ residual
            while True:
                ridge = damping * max(np.trace(gram) / len(u), 1e-12 * scale)
                moved = least_squares_in_ball(gram, moment + ridge * u, self.norm_bound, ridge)
                new_loss = self._loss(moved, phi, target, weight)
                if new_loss < loss or damping > _STUCK:
                    break
                damping *= 8
            if not new_loss < loss:
                break
            gain, u, loss, damping = loss - new_loss, moved, new_loss, max(damping / 10, 1e-15)
            if gain <= 1e-14 * loss:
                break
        return u

    def widths(
        self,
        counts: Num[np.ndarray, "states actions"],
        epsilon: float,
        threshold: float | None = None,
    ) -> Table:
        """Widths that two members attain, never above the true ones where they were looked for."""
        if self.width_method == "search":
            return pair_search_widths(self, counts, epsilon, threshold)
        return oracle_widths(self, counts, epsilon, threshold, self.oracle).widths

    def width_bounds(
        self, counts: Num[np.ndarray, "states actions"], epsilon: float
    ) -> tuple[Table, Table]:
        """Numbers surely below and surely above the widths, from the linear class inside the link.

        On the ball the slope of f in u . phi is between c and C, so that a difference of f is
        between c and C times one of the linear class: c w_linear(epsilon / C) <= w and
        w <= C w_linear(epsilon / c), besides the count's bound and the range of the link.
        """
        counts = self.check_weights(counts)
        reach = self.norm_bound * np.linalg.norm(self.features, axis=2)
        steep = self.bound * float(self.link.slope(np.zeros(1))[0])
        flat = self.bound * float(self.link.slope(reach[None]).min())
        queries, gram = self.features.reshape(-1, self.dim), gram_matrix(self.features, counts)
        lower = flat * linear_widths(queries, gram, epsilon / steep, self.norm_bound)
        span = self.bound * (self.link.value(reach) - self.link.value(-reach))
        upper = np.minimum(span, tabular_widths(counts, epsilon, self.bound))
        if flat > 0:
            wide = steep * linear_widths(queries, gram, epsilon / flat, self.norm_bound)
            upper = np.minimum(upper, wide.reshape(self.shape))
        return lower.reshape(self.shape), upper
