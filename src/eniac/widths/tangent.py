"""Widths of a class's linearisation: the tangent class of NPG at the current parameters."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Num

from eniac.widths.exact import linear_widths

Table = Float[np.ndarray, "states actions"]


def tangent_widths(
    gradient: Float[np.ndarray, "states actions dim"],
    policy: Table,
    counts: Num[np.ndarray, "states actions"],
    epsilon: float,
    norm_bound: float,
) -> Table:
    """Widths of g(s, a) = u . grad log pi(a|s), |u| <= norm_bound, *at the current parameters*.

    An approximation: the class of Equation (17) allows the two functions of a difference to have
    different parameters theta, and so different features, while here both share the features of the
    theta at hand. Given those, the width is exact. `gradient` is that of f_theta; `policy` is what
    it is centred under.
    """
    mean = np.einsum("sad,sa->sd", gradient, policy)
    return ball_widths(gradient - mean[:, None, :], counts, epsilon, norm_bound)


def ball_widths(
    features: Float[np.ndarray, "states actions dim"],
    counts: Num[np.ndarray, "states actions"],
    epsilon: float,
    norm_bound: float,
) -> Table:
    """Widths of u . features with |u| <= norm_bound; dearer in pairs than in dimensions.

    With more dimensions than pairs, only the part of u in the span of the features matters, and an
    isometry takes the features to as many dimensions as there are pairs.
    """
    features = np.asarray(features, dtype=np.float64)
    counts = np.asarray(counts, dtype=np.float64)
    if features.ndim != 3 or counts.shape != features.shape[:2]:
        raise ValueError(
            f"features have shape {features.shape} and counts {counts.shape}; expected "
            "(states, actions, dim) and (states, actions)."
        )
    flat = features.reshape(counts.size, -1)
    if flat.shape[1] > flat.shape[0]:
        spectrum, basis = np.linalg.eigh(flat @ flat.T)
        flat = basis * np.sqrt(np.maximum(spectrum, 0.0))
    scaled = flat * np.sqrt(counts).reshape(-1, 1)
    return linear_widths(flat, scaled.T @ scaled, epsilon, norm_bound).reshape(counts.shape)
