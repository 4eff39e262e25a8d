"""Least squares over parameters in a ball, which linear classes and NPG share."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from eniac.errors import require

Params = Float[np.ndarray, " dim"]

_NEWTON_STEPS = 100


def least_squares_in_ball(
    gram: Float[np.ndarray, "dim dim"], moment: Params, norm_bound: float, ridge: float = 0.0
) -> Params:
    """argmin over |u| <= norm_bound of u' gram u - 2 u . moment + ridge |u|^2, exactly.

    This is the critic fit of NPG (Equation 13) as well as that of a linear class (Equation 8).
    """
    spectrum, basis = np.linalg.eigh((gram + gram.T) / 2)
    return basis @ ball_solution(spectrum, basis.T @ moment, norm_bound, ridge)


def ball_solution(
    spectrum: Params, moment: Params, norm_bound: float, ridge: float = 0.0
) -> Params:
    """argmin over |u| <= norm_bound of sum_i (s_i + ridge) u_i^2 - 2 u_i m_i.

    u_i = m_i / (s_i + ridge + lambda) with the smallest lambda >= 0 that keeps the ball. 1/|u| is
    concave and nearly linear in lambda, so that Newton's method on it from the left never
    overshoots (More and Sorensen 1983). Where the data leave a choice the shortest u is taken.
    """
    require(norm_bound > 0, "norm_bound", norm_bound, "a positive number, or infinity")
    require(ridge >= 0, "ridge", ridge, "0 or more")
    rounding = len(spectrum) * np.finfo(np.float64).eps * float(spectrum.max(initial=0.0))
    curved = np.maximum(spectrum, 0.0) + ridge
    # Without a ridge the moment lies in the range of the gram matrix; what rounding puts elsewhere
    # is dropped, which also selects the shortest solution.
    kept = curved > rounding
    curved, moment = np.where(kept, curved, 1.0), np.where(kept, moment, 0.0)
    u = moment / curved
    if np.linalg.norm(u) <= norm_bound:
        return u
    shift = 0.0
    for _ in range(_NEWTON_STEPS):
        norm = np.linalg.norm(u)
        slope = np.sum(np.square(u) / (curved + shift))
        step = norm**2 / slope * (norm - norm_bound) / norm_bound
        if not step > np.finfo(np.float64).eps * shift:
            break
        shift += step
        u = moment / (curved + shift)
    return u * min(1.0, norm_bound / np.linalg.norm(u))


def uniform_in_ball(rng: np.random.Generator, dim: int, radius: float) -> Params:
    direction = rng.normal(size=dim)
    return direction * (radius * rng.uniform() ** (1 / dim) / np.linalg.norm(direction))
