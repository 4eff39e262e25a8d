"""Exact widths of the difference class, and the bonus made of them (Sections 2 and 3.3).

The width of a pair (s, a), given data Z and a radius epsilon, is

    w(s, a) = sup { f(s, a) - f'(s, a) : f, f' in F, ||f - f'||_Z <= epsilon },

with ||g||_Z^2 the *sum* of g^2 over Z. Three kinds of class have it in closed form or nearly so:
tabular (a count), linear with a norm ball (one scalar search a query), finite (enumeration).

NumPy float64, not jitted JAX: the known set is decided by comparing a width with beta, Gram
matrices of real data have condition numbers beyond what float32 can invert, and float64 in JAX is a
global switch that a library must not flip. The linear search is matrix products and element-wise
work in cache-sized blocks, which NumPy runs at the speed of the machine.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Num

# Queries handled at a time: a block of a 50-dimensional class stays inside the second-level cache.
_BLOCK = 2048
_GRID_POINTS = 192
_NEWTON_STEPS = 6


def tabular_widths(
    counts: Num[np.ndarray, "*shape"], epsilon: float, bound: float
) -> Float[np.ndarray, "*shape"]:
    """Widths of all functions with |f| <= bound: min(2 bound, epsilon / sqrt(count)).

    Pairs do not share parameters, so only the data at the pair itself constrain its difference.
    `counts` may be real (importance weights); a pair never seen has width 2 bound.
    """
    _check_radius(epsilon)
    _check_bound(bound, "bound")
    counts = np.asarray(counts, dtype=np.float64)
    if not np.all(np.isfinite(counts)) or np.any(counts < 0):
        raise ValueError("counts must be finite and not negative.")
    with np.errstate(divide="ignore", invalid="ignore"):
        limited = epsilon / np.sqrt(counts)
    return np.where(counts > 0, np.minimum(2.0 * bound, limited), 2.0 * bound)


def linear_widths(
    features: Float[np.ndarray, "queries dim"],
    gram: Float[np.ndarray, "dim dim"],
    epsilon: float,
    norm_bound: float,
) -> Float[np.ndarray, " queries"]:
    """Widths of the class f(x) = u . phi(x), |u| <= norm_bound, at each row of `features`.

    `gram` is the sum of phi phi' over the data. A difference of two functions is a vector in the
    ball of radius 2B and in the ellipsoid u' gram u <= epsilon^2, and the width is the support
    function of their intersection. By duality (strong: the origin is an interior point),

        w^2 = min over y in [0, 1] of phi' (y gram / epsilon^2 + (1 - y) I / (4 B^2))^-1 phi,

    a *convex* function of y, where y = 1 is the ellipsoid alone and y = 0 the ball alone. In terms
    of the multiplier lambda = (1 - y) epsilon^2 / (4 y B^2) the objective is the familiar
    phi' (gram + lambda I)^-1 phi (epsilon^2 + 4 lambda B^2). The minimum is found in log lambda:
    one eigendecomposition, a bracket from one matrix product over a grid, then guarded Newton steps
    on the derivative, which is monotone. Every lambda gives an upper bound, and the error in the
    minimum is of second order, so widths are right to about 1e-12 relative.

    `norm_bound` may be infinite: then the width is epsilon |phi|_{gram^-1}, infinite where phi has
    a part outside the range of the gram matrix. epsilon = 0 is allowed.
    """
    features = np.asarray(features, dtype=np.float64)
    gram = np.asarray(gram, dtype=np.float64)
    if features.ndim != 2 or gram.shape != (features.shape[1],) * 2:
        raise ValueError(
            f"features have shape {features.shape} and gram {gram.shape}; expected "
            "(queries, dim) and (dim, dim)."
        )
    if not (np.all(np.isfinite(features)) and np.all(np.isfinite(gram))):
        raise ValueError("features and gram must be finite.")
    _check_radius(epsilon)
    if not norm_bound > 0:
        raise ValueError(f"norm_bound is {norm_bound}; expected a positive number, or infinity.")
    spectrum, basis = np.linalg.eigh((gram + gram.T) / 2)
    rounding = len(spectrum) * np.finfo(np.float64).eps * float(np.abs(spectrum).max(initial=0.0))
    if spectrum.min(initial=0.0) < -100 * rounding:
        raise ValueError(
            f"gram has the eigenvalue {spectrum.min():.3g}; a sum of phi phi' has none below zero."
        )
    null = spectrum <= rounding
    spectrum = np.where(null, 0.0, spectrum)
    search = _search_grid(spectrum, epsilon, norm_bound)
    widths = np.empty(len(features))
    for first in range(0, len(features), _BLOCK):
        weights = np.square(features[first : first + _BLOCK] @ basis)
        if np.isinf(norm_bound):
            block = _ellipsoid(weights, spectrum, null, epsilon)
        elif epsilon == 0:
            block = 4 * norm_bound**2 * weights[:, null].sum(axis=1)
        else:
            block = _scalar_dual(weights, spectrum, epsilon, norm_bound, search)
        widths[first : first + _BLOCK] = np.sqrt(block)
    return widths


def in_few_dimensions(
    rows: Float[np.ndarray, "rows dim"],
) -> tuple[Float[np.ndarray, "rows reduced"], Float[np.ndarray, "dim reduced"]]:
    """`rows` with no more coordinates than there are rows, and the basis they are in.

    The basis is orthonormal and spans the rows: rows = reduced basis'. That changes no inner
    product, so that neither ball nor ellipsoid notices, and a network with many more parameters
    than there are pairs costs no more than the pairs.
    """
    num, dim = rows.shape
    if dim <= num:
        return rows, np.eye(dim)
    basis, coordinates = np.linalg.qr(rows.T)
    return coordinates.T, basis


def finite_widths(
    data_values: Float[np.ndarray, "functions data"],
    query_values: Float[np.ndarray, "functions queries"],
    epsilon: float,
    weights: Num[np.ndarray, " data"] | None = None,
) -> Float[np.ndarray, " queries"]:
    """Widths of an explicit list of functions, by looking at every pair of them.

    `data_values[i]` are the values of function i on the data, `query_values[i]` on the queries;
    `weights` are multiplicities of the data points (default one each).
    """
    data_values = np.asarray(data_values, dtype=np.float64)
    query_values = np.asarray(query_values, dtype=np.float64)
    if data_values.ndim != 2 or query_values.ndim != 2 or len(data_values) != len(query_values):
        raise ValueError(
            f"data_values have shape {data_values.shape} and query_values {query_values.shape}; "
            "expected (functions, data) and (functions, queries) with the same functions."
        )
    if len(data_values) == 0:
        raise ValueError("the class is empty; give at least one function.")
    _check_radius(epsilon)
    num_data = data_values.shape[1]
    weights = np.ones(num_data) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights.shape != (num_data,) or np.any(weights < 0):
        raise ValueError(f"weights must be {num_data} numbers that are not negative.")
    widths = np.zeros(query_values.shape[1])
    for values, queries in zip(data_values, query_values, strict=True):
        close = np.square(values - data_values) @ weights <= epsilon**2
        # f = f' is always close, so the largest difference is never negative.
        np.maximum(widths, (queries - query_values[close]).max(axis=0), out=widths)
    return widths


def bonus_from_widths(
    widths: Float[np.ndarray, "states actions"],
    beta: float,
    gamma: float,
    alpha: float | None = None,
) -> Float[np.ndarray, "states actions"]:
    """b = 1{w >= beta} / (1 - gamma), times |A| / alpha in the COMPUTE versions (Section 3.3).

    The threshold is `>=` as in the definition of the bonus; the proof counts widths `> beta`.
    """
    widths = np.asarray(widths, dtype=np.float64)
    if not beta > 0:
        raise ValueError(f"beta is {beta}; expected a positive threshold.")
    return bonus_from_unknown(widths >= beta, gamma, alpha)


def bonus_from_unknown(
    unknown: Bool[np.ndarray, "states actions"], gamma: float, alpha: float | None = None
) -> Float[np.ndarray, "states actions"]:
    """The bonus of a set of unknown pairs: 1/(1 - gamma), or |A|/((1 - gamma) alpha)."""
    unknown = np.asarray(unknown, dtype=bool)
    if not 0 < gamma < 1:
        raise ValueError(f"gamma is {gamma}; expected a discount strictly between 0 and 1.")
    scale = 1.0 / (1.0 - gamma)
    if alpha is not None:
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha is {alpha}; expected a probability in (0, 1].")
        scale *= unknown.shape[-1] / alpha
    return np.where(unknown, scale, 0.0)


def _search_grid(spectrum: np.ndarray, epsilon: float, norm_bound: float) -> np.ndarray:
    """Values of log lambda between which every minimiser lies, or beyond which it does not matter.

    Below the first the ridge is lost in rounding, above the last the gram matrix is.
    """
    scales = [s for s in (spectrum.max(initial=0.0), (epsilon / (2 * norm_bound)) ** 2) if s > 0]
    if not scales:
        return np.zeros(1)
    return np.linspace(np.log(min(scales)) - 45.0, np.log(max(scales)) + 45.0, _GRID_POINTS)


def _scalar_dual(
    weights: np.ndarray,
    spectrum: np.ndarray,
    epsilon: float,
    norm_bound: float,
    grid: np.ndarray,
) -> np.ndarray:
    """Squared widths of one block, by the search described in `linear_widths`."""
    ratio = (epsilon / (2 * norm_bound)) ** 2  # where ball and ellipsoid have the same radius
    gap = spectrum - ratio
    # The derivative of the log-objective in lambda has the sign of sum_i c_i gap_i a_i^2 with
    # a_i = (ratio + lambda) / (s_i + lambda): increasing in lambda, since a_i moves towards 1.
    pull = (ratio + np.exp(grid)) / (spectrum[:, None] + np.exp(grid))
    slopes = weights @ (gap[:, None] * np.square(pull))
    negative = np.minimum((slopes < 0).sum(axis=1), len(grid) - 1)
    low, high = grid[np.maximum(negative - 1, 0)], grid[negative]
    log_lambda = (low + high) / 2
    curvatures = weights * np.square(gap)
    tilts = weights * gap
    for _ in range(_NEWTON_STEPS):
        ridge = np.exp(log_lambda)
        inverse = 1.0 / (spectrum + ridge[:, None])
        square = np.square(inverse)
        slope = np.einsum("qd,qd->q", tilts, square)
        change = 2 * np.einsum("qd,qd,qd->q", curvatures, square, inverse)
        low = np.where(slope < 0, log_lambda, low)
        high = np.where(slope < 0, high, log_lambda)
        # d/dlog(lambda) of (ratio + lambda)^2 slope, divided by (ratio + lambda)^2.
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = log_lambda - slope * (ratio + ridge) / (change * ridge)
        inside = (newton >= low) & (newton <= high)
        log_lambda = np.where(inside, newton, (low + high) / 2)
    ridge = np.exp(log_lambda)
    inner = np.einsum("qd,qd->q", weights, 1.0 / (spectrum + ridge[:, None]))
    found = inner * (epsilon**2 + 4 * norm_bound**2 * ridge)
    ball = 4 * norm_bound**2 * weights.sum(axis=1)
    return np.minimum(
        np.minimum(found, ball), _ellipsoid(weights, spectrum, spectrum == 0, epsilon)
    )


def _ellipsoid(
    weights: np.ndarray, spectrum: np.ndarray, null: np.ndarray, epsilon: float
) -> np.ndarray:
    """Squared widths without the ball (lambda = 0): infinite outside the range of the gram."""
    inside = epsilon**2 * (weights[:, ~null] @ (1.0 / spectrum[~null]))
    # Rotating into the eigenbasis leaves rounding of this size in directions that should be empty.
    dust = 1e-28 * weights.sum(axis=1, keepdims=True)
    return np.where(np.any(weights[:, null] > dust, axis=1), np.inf, inside)


def _check_radius(epsilon: float) -> None:
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(f"epsilon is {epsilon}; expected a finite radius that is not negative.")


def _check_bound(bound: float, name: str) -> None:
    if not (np.isfinite(bound) and bound > 0):
        raise ValueError(f"{name} is {bound}; expected a finite positive number.")
