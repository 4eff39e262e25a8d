"""Data that grow: counts and Gram matrices updated in place of being computed anew.

Exact widths need the counts (tabular) or the sum of phi phi' (linear) and nothing else of the data,
so an epoch adds its own and forgets its samples. The inverse, for ellipsoid norms and the log-det
weights of PC-PG, follows by rank-one updates.
"""

from __future__ import annotations

from typing import final

import numpy as np
from jaxtyping import Float, Int, Num


def count_pairs(
    states: Int[np.ndarray, " data"],
    actions: Int[np.ndarray, " data"],
    num_states: int,
    num_actions: int,
) -> Int[np.ndarray, "states actions"]:
    """How often each pair occurs: what an epoch adds to the counts of the data."""
    states, actions = np.asarray(states), np.asarray(actions)
    if states.shape != actions.shape or states.ndim != 1:
        raise ValueError(
            f"states have shape {states.shape} and actions {actions.shape}; expected one of each a "
            "datum."
        )
    for name, array, end in (("states", states, num_states), ("actions", actions, num_actions)):
        if len(array) and (array.min() < 0 or array.max() >= end):
            raise ValueError(
                f"{name} go from {array.min()} to {array.max()}; expected 0..{end - 1}."
            )
    flat = np.bincount(states * num_actions + actions, minlength=num_states * num_actions)
    return flat.reshape(num_states, num_actions)


@final
class GrowingGram:
    """Lambda = ridge I + sum of w phi phi', with its inverse and log-determinant kept up to date.

    `add` costs dim^2 a vector (Sherman-Morrison), against dim^3 for inverting anew. After
    `refresh_every` additions the inverse is computed anew all the same, so that rounding does not
    pile up. `gram` is the sum without the ridge, which is what `linear_widths` takes.
    """

    def __init__(self, dim: int, ridge: float, refresh_every: int = 1000):
        if not ridge > 0:
            raise ValueError(f"ridge is {ridge}; expected a positive number: the start's inverse.")
        self.ridge, self.refresh_every = float(ridge), refresh_every
        self.gram: Float[np.ndarray, "dim dim"] = np.zeros((dim, dim))
        self.inverse: Float[np.ndarray, "dim dim"] = np.eye(dim) / ridge
        self.log_determinant = dim * float(np.log(ridge))
        self._added = 0

    def add(self, phi: Float[np.ndarray, " dim"], weight: float = 1.0) -> None:
        """Lambda + weight phi phi'."""
        if not (np.isfinite(weight) and weight >= 0):
            raise ValueError(f"weight is {weight}; expected a finite number, 0 or more.")
        phi = np.asarray(phi, dtype=np.float64)
        self.gram += weight * np.outer(phi, phi)
        self._added += 1
        if self._added % self.refresh_every == 0:
            self.refresh()
            return
        turned = self.inverse @ phi
        growth = 1 + weight * float(phi @ turned)
        self.inverse -= np.outer(turned, turned) * (weight / growth)
        self.log_determinant += float(np.log(growth))

    def add_counts(
        self,
        features: Float[np.ndarray, "states actions dim"],
        counts: Num[np.ndarray, "states actions"],
    ) -> None:
        """Add `counts` data of each pair; anew where that is cheaper than one by one."""
        counts = np.asarray(counts, dtype=np.float64)
        seen = counts > 0
        if seen.sum() < len(self.gram):
            for phi, weight in zip(features[seen], counts[seen], strict=True):
                self.add(phi, float(weight))
            return
        scaled = features[seen] * np.sqrt(counts[seen])[:, None]
        self.gram += scaled.T @ scaled
        self.refresh()

    def refresh(self) -> None:
        """Inverse and log-determinant from the gram matrix itself."""
        full = self.gram + self.ridge * np.eye(len(self.gram))
        self.inverse = np.linalg.inv(full)
        self.log_determinant = float(np.linalg.slogdet(full)[1])

    def norms(self, features: Float[np.ndarray, "queries dim"]) -> Float[np.ndarray, " queries"]:
        """|phi| in the norm of Lambda^-1: the ellipsoid bonus of PC-PG."""
        squares = np.einsum("qd,qd->q", features @ self.inverse, features)
        return np.sqrt(np.maximum(squares, 0.0))
