"""What a function class F is to the provable algorithms (Section 2): fit, evaluate, measure width.

The domain is finite, so a function is a table over all pairs (s, a), and least squares on M samples
is *exactly* the weighted fit to the pairs' means, weighted by how often each pair was sampled: the
two sums of squares differ by a constant. Hence `fit` takes a table of targets and one of weights,
and costs the same for a hundred samples as for a million.

Parameters are one flat float64 array whatever the class, so that a stack of critics is a matrix and
any training state can be written to disk. NumPy on the host: fits are tiny, exactness matters.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Num

Params = Float[np.ndarray, " dim"]
Table = Float[np.ndarray, "states actions"]


class FunctionClass(abc.ABC):
    """A set F of functions on pairs (s, a), every one of them with |f| <= `bound`.

    A final class implements `_fit`, `__call__`, `widths`, `sample` and, if smooth, `gradient`, and
    sets `num_states`, `num_actions`, `bound` and `dim`, the number of its parameters. `additive`
    says that parameters of a sum of functions are the sum of their parameters, so that an
    accumulated critic needs no stack; `convex` that the class is convex and symmetric, f in F
    implying -f in F.

    A class of one's own is used by `--function-class module:name`; `make_function_class` says what
    its constructor is given.
    """

    name: ClassVar[str]
    default_inputs: ClassVar[str] = "pairs"
    """what a pair is to a class that takes `inputs` or `features`, unless that is said"""
    smooth: ClassVar[bool] = False
    additive: ClassVar[bool] = False
    convex: ClassVar[bool] = False

    num_states: int
    num_actions: int
    bound: float
    dim: int

    def fit(self, target: Table, weight: Num[np.ndarray, "states actions"], start=None) -> Params:
        """Parameters of min over f in F of sum weight (target - f)^2 (Equation 8).

        Pairs of weight 0 have no say, whatever their target, NaN included; only the proportions of
        the weights matter. Without any data the answer is `zero()`. `start` are parameters to begin
        from, for classes fitted by descent; those with a closed form do not look at it.
        """
        weight = self.check_weights(weight)
        target = np.asarray(target, dtype=np.float64)
        if target.shape != weight.shape:
            raise ValueError(f"target has shape {target.shape}; expected {weight.shape}.")
        seen = weight > 0
        target = np.where(seen, target, 0.0)
        if not np.all(np.isfinite(target)):
            s, a = np.argwhere(~np.isfinite(target))[0]
            raise ValueError(f"target[{s}, {a}] is {target[s, a]}; expected a finite number.")
        if not seen.any():
            return self.zero()
        # The largest weight becomes one: only proportions matter, and sums stay in range.
        return self._fit(target, weight / weight.max(), self._check_start(start))

    @abc.abstractmethod
    def _fit(self, target: Table, weight: Table, start: Params | None) -> Params:
        """`fit`, of checked arguments with at least one positive weight, the largest of them 1."""

    @abc.abstractmethod
    def __call__(self, params: Params) -> Table:
        """The function with these parameters, at all pairs."""

    @abc.abstractmethod
    def widths(
        self,
        counts: Num[np.ndarray, "states actions"],
        epsilon: float,
        threshold: float | None = None,
    ) -> Table:
        """sup of f - f' at each pair, over f, f' in F with ||f - f'||_Z <= epsilon (Eq. 4, 15, 16).

        `counts` says how often each pair is in Z; real numbers are allowed (importance weights).
        With a `threshold` (beta) a class that has to search for its widths may stop as soon as it
        knows on which side of it each one is; those with a closed form do not look at it.
        """

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator) -> Params:
        """Parameters of some member, drawn so as to reach all over the class."""

    def zero(self) -> Params:
        """Parameters of the function that is 0 everywhere, or constant where F has no such one.

        Either way its softmax is the uniform policy.
        """
        return np.zeros(self.dim)

    def gradient(self, params: Params) -> Float[np.ndarray, "states actions dim"]:
        """The gradient of f_theta(s, a) in theta at `params`.

        **Raises** ValueError where the class is not smooth, and so has no tangent class for NPG.
        """
        del params
        raise ValueError(
            f"the function class '{self.name}' has no gradient in its parameters, which NPG needs; "
            "use SPI (spi-sample or spi-compute) with it, or a smooth class: tabular, linear, "
            "aggregation, glm or network."
        )

    @property
    def shape(self) -> tuple[int, int]:
        return self.num_states, self.num_actions

    def check_weights(self, weight: Num[np.ndarray, "states actions"]) -> Table:
        """Weights or counts as float64, or ValueError if they are none."""
        weight = np.asarray(weight, dtype=np.float64)
        if weight.shape != self.shape:
            raise ValueError(f"weights have shape {weight.shape}; expected {self.shape}.")
        if not np.all(np.isfinite(weight)) or np.any(weight < 0):
            raise ValueError("weights must be finite and not negative.")
        return weight

    def _check_start(self, start: Params | None) -> Params | None:
        if start is None:
            return None
        start = np.asarray(start, dtype=np.float64)
        if start.shape != (self.dim,) or not np.all(np.isfinite(start)):
            raise ValueError(
                f"start has shape {start.shape}; expected {self.dim} finite parameters."
            )
        return start


def tangent_features(
    gradient: Float[np.ndarray, "states actions dim"], policy: Table
) -> Float[np.ndarray, "states actions dim"]:
    """grad log pi(a|s) = grad f(s, a) - E_{a' ~ pi(.|s)} grad f(s, a'), features of Eq. (5).

    `policy` is the softmax of f itself for the paper's features; any other policy centres the
    gradients under that policy instead (the appendix needs this outside the known set).
    """
    gradient = np.asarray(gradient, dtype=np.float64)
    policy = np.asarray(policy, dtype=np.float64)
    if gradient.ndim != 3 or policy.shape != gradient.shape[:2]:
        raise ValueError(
            f"gradient has shape {gradient.shape} and policy {policy.shape}; expected "
            "(states, actions, dim) and (states, actions)."
        )
    return gradient - np.einsum("sad,sa->sd", gradient, policy)[:, None, :]


def check_class_bound(bound: float) -> float:
    """W as a float, or ValueError."""
    if not (np.isfinite(bound) and bound > 0):
        raise ValueError(f"bound is {bound}; expected a finite positive number W with |f| <= W.")
    return float(bound)
