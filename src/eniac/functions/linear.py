"""Linear functions of given features, with parameters in a ball."""

from __future__ import annotations

from typing import final

import numpy as np
from jaxtyping import Float, Num

from eniac.functions.ball import least_squares_in_ball, uniform_in_ball
from eniac.functions.base import FunctionClass, Params, Table
from eniac.widths.exact import linear_widths


@final
class Linear(FunctionClass):
    """f(s, a) = u . phi(s, a) with |u| <= norm_bound, so that W = norm_bound max |phi|.

    `fit` is exact: least squares in a ball by the secular equation, the shortest of all solutions
    where the data leave a choice. `widths` is exact too (ellipsoid and ball together).
    """

    name = "linear"
    smooth = True
    additive = True
    convex = True

    def __init__(self, features: Float[np.ndarray, "states actions dim"], norm_bound: float):
        features = np.array(features, dtype=np.float64)
        if features.ndim != 3 or 0 in features.shape or not np.all(np.isfinite(features)):
            raise ValueError(
                f"features have shape {features.shape}; expected finite numbers of shape "
                "(states, actions, dim), none of them 0."
            )
        if not (np.isfinite(norm_bound) and norm_bound > 0):
            raise ValueError(f"norm_bound is {norm_bound}; expected a finite positive number.")
        if not np.any(features):
            raise ValueError("all features are zero; the class has only the zero function.")
        self.features = features
        self.norm_bound = float(norm_bound)
        self.num_states, self.num_actions, self.dim = features.shape
        self.bound = self.norm_bound * float(np.linalg.norm(features, axis=2).max())

    def gram(self, counts: Num[np.ndarray, "states actions"]) -> Float[np.ndarray, "dim dim"]:
        """The sum of phi phi' over the data."""
        return gram_matrix(self.features, self.check_weights(counts))

    def _fit(self, target: Table, weight: Table, start: Params | None) -> Params:
        gram = gram_matrix(self.features, weight)
        moment = np.einsum("sad,sa->d", self.features, weight * target)
        return least_squares_in_ball(gram, moment, self.norm_bound)

    def sample(self, rng: np.random.Generator) -> Params:
        return uniform_in_ball(rng, self.dim, self.norm_bound)

    def __call__(self, params: Params) -> Table:
        return self.features @ np.asarray(params)

    def widths(
        self,
        counts: Num[np.ndarray, "states actions"],
        epsilon: float,
        threshold: float | None = None,
    ) -> Table:
        """The support function of ball and ellipsoid, by the scalar dual, exactly."""
        queries = self.features.reshape(-1, self.dim)
        widths = linear_widths(queries, self.gram(counts), epsilon, self.norm_bound)
        return widths.reshape(self.shape)

    def gradient(self, params: Params) -> Float[np.ndarray, "states actions dim"]:
        return self.features


def gram_matrix(
    features: Float[np.ndarray, "states actions dim"], weight: Table
) -> Float[np.ndarray, "dim dim"]:
    """sum over pairs of weight phi phi', over the pairs that have weight."""
    seen = weight > 0
    scaled = features[seen] * np.sqrt(weight[seen])[:, None]
    return scaled.T @ scaled
