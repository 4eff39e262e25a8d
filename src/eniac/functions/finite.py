"""An explicit list of functions."""

from __future__ import annotations

from typing import final

import numpy as np
from jaxtyping import Float, Num

from eniac.functions.base import FunctionClass, Params, Table
from eniac.widths.exact import finite_widths


@final
class Finite(FunctionClass):
    """The functions `tables[i]`; the one parameter is the number i, kept as a float.

    `fit` looks at all of them, `widths` at all pairs of them: both are exact. The list must hold a
    function that does not depend on the action, whose softmax is the uniform policy that the
    algorithms start from (the paper assumes one); among several, the one nearest to 0 is `zero()`.
    """

    name = "finite"

    def __init__(self, tables: Float[np.ndarray, "functions states actions"]):
        tables = np.array(tables, dtype=np.float64)
        if tables.ndim != 3 or 0 in tables.shape or not np.all(np.isfinite(tables)):
            raise ValueError(
                f"tables have shape {tables.shape}; expected finite numbers of shape "
                "(functions, states, actions), none of them 0."
            )
        uniform = np.flatnonzero(np.all(tables == tables[..., :1], axis=(1, 2)))
        if len(uniform) == 0:
            raise ValueError(
                "no function of the list is the same for all actions, so none gives the uniform "
                "policy to start from; add a constant table, for example zeros."
            )
        size = np.abs(tables).max(axis=(1, 2))
        self.tables = tables
        self._zero = float(uniform[np.argmin(size[uniform])])
        _, self.num_states, self.num_actions = tables.shape
        # A list with only the zero function is a class too; its bound must still be positive.
        self.bound = float(size.max()) or 1.0
        self.dim = 1

    def _fit(self, target: Table, weight: Table, start: Params | None) -> Params:
        losses = np.einsum("fsa,sa->f", np.square(self.tables - target), weight)
        return np.array([float(np.argmin(losses))])

    def sample(self, rng: np.random.Generator) -> Params:
        return np.array([float(rng.integers(len(self.tables)))])

    def __call__(self, params: Params) -> Table:
        return self.tables[int(np.asarray(params)[0])]

    def zero(self) -> Params:
        return np.array([self._zero])

    def widths(
        self,
        counts: Num[np.ndarray, "states actions"],
        epsilon: float,
        threshold: float | None = None,
    ) -> Table:
        """The largest difference at each pair among close pairs of functions, by enumeration."""
        weights = self.check_weights(counts)
        seen = weights > 0
        values = self.tables.reshape(len(self.tables), -1)
        widths = finite_widths(values[:, seen.ravel()], values, epsilon, weights[seen])
        return widths.reshape(self.shape)
