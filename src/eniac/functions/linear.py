"""Linear functions of given features, with parameters in a ball; least squares in that ball."""

from __future__ import annotations

from typing import final

import numpy as np
from jaxtyping import Float, Num

from eniac.functions.base import FunctionClass, Params, Table
from eniac.widths.exact import linear_widths

_SECULAR_STEPS = 100


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


def least_squares_in_ball(
    gram: Float[np.ndarray, "dim dim"], moment: Params, norm_bound: float, ridge: float = 0.0
) -> Params:
    """argmin over |u| <= norm_bound of u' gram u - 2 u . moment + ridge |u|^2, exactly.

    This is the critic fit of NPG (Equation 13) as well as that of a linear class (Equation 8).
    The solution is u(lambda) = (gram + lambda I)^-1 moment with the smallest lambda >= ridge for
    which |u(lambda)| <= norm_bound. 1/|u| is nearly linear in lambda, and concave, so that Newton's
    method on it from the left never overshoots (More and Sorensen, 1983).
    """
    _check_ball(norm_bound, ridge)
    spectrum, basis = np.linalg.eigh((gram + gram.T) / 2)
    return _secular(spectrum, basis.T @ moment, basis, norm_bound, ridge)


def regression_in_ball(
    features: Float[np.ndarray, "data dim"],
    target: Float[np.ndarray, " data"],
    weight: Float[np.ndarray, " data"],
    norm_bound: float,
    ridge: float = 0.0,
) -> Params:
    """argmin over |u| <= norm_bound of sum weight (target - u . features)^2 + ridge |u|^2, exactly.

    As `least_squares_in_ball`, through the smaller of the two Gram matrices, so that features with
    more dimensions than there are data (tangent features of a network) cost no more than the data.
    """
    scaled = features * np.sqrt(weight)[:, None]
    target = target * np.sqrt(weight)
    if len(scaled) >= scaled.shape[1]:
        return least_squares_in_ball(scaled.T @ scaled, scaled.T @ target, norm_bound, ridge)
    _check_ball(norm_bound, ridge)
    spectrum, left = np.linalg.eigh(scaled @ scaled.T)
    kept = spectrum > _rounding(spectrum)
    spectrum, left = spectrum[kept], left[:, kept]
    root = np.sqrt(spectrum)
    return _secular(spectrum, root * (left.T @ target), scaled.T @ (left / root), norm_bound, ridge)


def uniform_in_ball(rng: np.random.Generator, dim: int, radius: float) -> Params:
    direction = rng.normal(size=dim)
    return direction * (radius * rng.uniform() ** (1 / dim) / np.linalg.norm(direction))


def _check_ball(norm_bound: float, ridge: float) -> None:
    if not norm_bound > 0:
        raise ValueError(f"norm_bound is {norm_bound}; expected a positive number, or infinity.")
    if not ridge >= 0:
        raise ValueError(f"ridge is {ridge}; expected 0 or more.")


def _rounding(spectrum: np.ndarray) -> float:
    return len(spectrum) * np.finfo(np.float64).eps * float(spectrum.max(initial=0.0))


def _secular(
    spectrum: np.ndarray, moment: np.ndarray, basis: np.ndarray, norm_bound: float, ridge: float
) -> Params:
    """The solution in a basis (orthonormal columns) in which the gram matrix is diagonal."""
    rounding = _rounding(spectrum)
    spectrum = np.maximum(spectrum, 0.0) + ridge
    # The moment lies in the range of the gram matrix; what rounding puts elsewhere is dropped,
    # which also selects the shortest solution.
    kept = spectrum > rounding
    spectrum, moment, basis = spectrum[kept], moment[kept], basis[:, kept]
    u = moment / spectrum
    shift = 0.0
    if np.linalg.norm(u) > norm_bound:
        for _ in range(_SECULAR_STEPS):
            norm = np.linalg.norm(u)
            slope = np.sum(np.square(u) / (spectrum + shift))
            step = norm**2 / slope * (norm - norm_bound) / norm_bound
            if not step > np.finfo(np.float64).eps * shift:
                break
            shift += step
            u = moment / (spectrum + shift)
        u *= min(1.0, norm_bound / np.linalg.norm(u))
    return basis @ u
