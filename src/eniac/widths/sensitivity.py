"""Sensitivity sampling: few of the data keep all norms, and so all widths (Wang et al., 2020).

The sensitivity of a datum z in Z is the largest share it can have in a squared norm that matters,

    sup { g(z)^2 / ||g||_Z^2 : g in the difference class, ||g||_Z^2 >= lam }.

Keep each datum with a probability p proportional to its sensitivity, as 1/p copies of itself. With
the factor 3 log(2 D / delta) / accuracy^2 (Chernoff; D the number of directions to be kept: pairs,
dimensions, or a covering number), with probability 1 - delta, for all g at once,

    | ||g||_kept^2 - ||g||_Z^2 | <= accuracy (||g||_Z^2 + lam),

which puts widths of radius epsilon, if lam <= epsilon^2 and the class is convex, within the factor
`width_factor(accuracy)` = sqrt((1 + accuracy) / (1 - accuracy)) of those of all the data.

What is kept is about that factor times the sum of sensitivities, which is at most the dimension in
a linear class and the number of pairs in a tabular one, however large the data. The logarithm of
the number of data enters through delta when it is to hold at every size of a growing data set.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

if TYPE_CHECKING:
    from eniac.functions.base import FunctionClass

Table = Float[np.ndarray, "states actions"]

# Between radii of the search over norms, for classes that are not convex.
_RATIO = 1.5


class Subsample(NamedTuple):
    """Data kept: `counts` with multiplicities (whole numbers), `num_kept` without them.

    `probability` is what each datum of a pair was kept with.
    """

    counts: Int[np.ndarray, "states actions"]
    probability: Table
    num_kept: int


def sensitivities(
    function_class: FunctionClass, counts: Num[np.ndarray, "states actions"], lam: float
) -> Table:
    """Sensitivities of one datum at each pair, in [0, 1]; 0 where there is no datum.

    They are the widths of radius sqrt(lam), squared and divided by lam: in a convex symmetric
    class a width grows more slowly than its radius, so that no larger norm gives a larger share.
    This is exact for a tabular class, min(1/n, 4W^2/lam), and for a linear class wherever its ball
    does not bind (it is the leverage score then, and at most twice the ridge leverage score
    otherwise); elsewhere an upper bound. A class that is not convex has its widths taken at radii
    from sqrt(lam) up, a factor 1.5 apart, which overstates sensitivities at most by its square.
    """
    if not (np.isfinite(lam) and lam > 0):
        raise ValueError(f"lam is {lam}; expected a finite positive squared norm.")
    counts = function_class.check_weights(counts)
    if function_class.convex:
        shares = np.square(function_class.widths(counts, math.sqrt(lam))) / lam
    else:
        shares = np.zeros_like(counts)
        radius, largest = math.sqrt(lam), 2 * function_class.bound * math.sqrt(counts.sum())
        while radius < max(largest, math.sqrt(lam) * _RATIO):
            widths = function_class.widths(counts, radius * _RATIO)
            np.maximum(shares, np.square(widths / radius), out=shares)
            radius *= _RATIO
    return np.where(counts > 0, np.minimum(shares, 1.0), 0.0)


def oversampling(num_directions: float, delta: float, accuracy: float) -> float:
    """3 log(2 D / delta) / accuracy^2: by how much probabilities exceed sensitivities."""
    if not num_directions >= 1:
        raise ValueError(f"num_directions is {num_directions}; expected 1 or more.")
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; expected a probability strictly between 0 and 1.")
    _check_accuracy(accuracy)
    return 3 * math.log(2 * num_directions / delta) / accuracy**2


def width_factor(accuracy: float) -> float:
    """Widths on the kept data are between 1/this and this times those on all of them."""
    _check_accuracy(accuracy)
    return math.sqrt((1 + accuracy) / (1 - accuracy))


def subsample(
    function_class: FunctionClass,
    counts: Int[np.ndarray, "states actions"],
    lam: float,
    rng: np.random.Generator,
    accuracy: float = 0.5,
    delta: float = 0.01,
    num_directions: float | None = None,
) -> Subsample:
    """Keep few of the data so that widths of radius sqrt(lam) or more stay within `width_factor`.

    `counts` must be whole numbers, of data. `num_directions` defaults to the number of parameters,
    which is right for tabular and linear classes; a class with a covering number takes that.
    Copies are whole numbers: p is rounded up to one over a whole number.
    """
    table = function_class.check_weights(counts)
    whole = table.astype(np.int64)
    if np.any(whole != table):
        raise ValueError(
            "counts must be whole numbers of data; sampling draws from them one by one."
        )
    num_directions = function_class.dim if num_directions is None else num_directions
    factor = oversampling(num_directions, delta, accuracy)
    wanted = np.minimum(1.0, factor * sensitivities(function_class, table, lam))
    copies = np.ones(whole.shape, dtype=np.int64)
    seen = wanted > 0
    copies[seen] = np.floor(1 / wanted[seen] * (1 + 1e-12)).astype(np.int64)
    kept = rng.binomial(whole, 1 / copies)
    return Subsample(kept * copies, 1 / copies, int(kept.sum()))


def _check_accuracy(accuracy: float) -> None:
    if not 0 < accuracy < 1:
        raise ValueError(f"accuracy is {accuracy}; expected a share strictly between 0 and 1.")
