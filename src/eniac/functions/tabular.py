"""All bounded tables, and tables that must agree within groups of pairs."""

from __future__ import annotations

from typing import Literal, final

import numpy as np
from jaxtyping import Float, Int, Num

from eniac.functions.base import FunctionClass, Params, Table, check_class_bound
from eniac.widths.exact import tabular_widths

Fill = Literal["mean", "zero"]


@final
class Tabular(FunctionClass):
    """Every table with |f| <= bound: one parameter a pair.

    `fit` is the target itself, clipped, which is the exact constrained solution since no parameter
    is shared. A pair without data has no say and could be anything; `fill` chooses: 'mean', the
    plain mean of the values fitted to the state's other actions, which neither favours nor punishes
    it in the softmax of that state, or 'zero'. States without data are 0.
    """

    name = "tabular"
    smooth = True
    additive = True
    convex = True

    def __init__(self, num_states: int, num_actions: int, bound: float, fill: Fill = "mean"):
        if fill not in ("mean", "zero"):
            raise ValueError(f"fill is {fill!r}; expected 'mean' or 'zero'.")
        self.num_states, self.num_actions = num_states, num_actions
        self.bound = check_class_bound(bound)
        self.fill = fill
        self.dim = num_states * num_actions

    def _fit(self, target: Table, weight: Table, start: Params | None) -> Params:
        seen = weight > 0
        values = np.where(seen, np.clip(target, -self.bound, self.bound), 0.0)
        if self.fill == "mean":
            mean = values.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
            values = np.where(seen, values, mean[:, None])
        return values.ravel()

    def sample(self, rng: np.random.Generator) -> Params:
        return rng.uniform(-self.bound, self.bound, size=self.dim)

    def __call__(self, params: Params) -> Table:
        return np.reshape(params, self.shape)

    def widths(
        self,
        counts: Num[np.ndarray, "states actions"],
        epsilon: float,
        threshold: float | None = None,
    ) -> Table:
        """min(2 W, epsilon / sqrt(count)), exactly."""
        return tabular_widths(self.check_weights(counts), epsilon, self.bound)

    def gradient(self, params: Params) -> Float[np.ndarray, "states actions dim"]:
        return np.eye(self.dim).reshape(*self.shape, self.dim)


@final
class Aggregation(FunctionClass):
    """Every table that is constant within groups of pairs, with |f| <= bound.

    `groups[s, a]` is the number of the pair's group. The class is deliberately misspecified where
    pairs of one group differ in value. It is linear with one-hot features, bounded entry by entry
    rather than in norm, which makes fit (clipped group means) and widths (counts of groups) exact.
    """

    name = "aggregation"
    smooth = True
    additive = True
    convex = True

    def __init__(self, groups: Int[np.ndarray, "states actions"], bound: float):
        groups = np.asarray(groups)
        if groups.ndim != 2 or not np.issubdtype(groups.dtype, np.integer) or groups.min() < 0:
            raise ValueError(
                f"groups have shape {groups.shape} and type {groups.dtype}; expected a group's "
                "number, 0 or more, for each [states, actions]."
            )
        self.num_states, self.num_actions = groups.shape
        self.groups = groups
        self.bound = check_class_bound(bound)
        self.dim = int(groups.max()) + 1

    def _sums(self, table: Table) -> Float[np.ndarray, " groups"]:
        return np.bincount(self.groups.ravel(), table.ravel(), minlength=self.dim)

    def _fit(self, target: Table, weight: Table, start: Params | None) -> Params:
        total = self._sums(weight)
        mean = self._sums(weight * target) / np.where(total > 0, total, 1.0)
        return np.clip(mean, -self.bound, self.bound)

    def sample(self, rng: np.random.Generator) -> Params:
        return rng.uniform(-self.bound, self.bound, size=self.dim)

    def __call__(self, params: Params) -> Table:
        return np.asarray(params)[self.groups]

    def widths(
        self,
        counts: Num[np.ndarray, "states actions"],
        epsilon: float,
        threshold: float | None = None,
    ) -> Table:
        """min(2 W, epsilon / sqrt(count of the pair's group)), exactly."""
        totals = self._sums(self.check_weights(counts))
        return tabular_widths(totals, epsilon, self.bound)[self.groups]

    def gradient(self, params: Params) -> Float[np.ndarray, "states actions dim"]:
        return np.eye(self.dim)[self.groups]
