"""A small neural network on the inputs of pairs, fitted by Gauss-Newton steps in function space."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple, final

import numpy as np
from jaxtyping import Float, Num
from scipy.linalg import cho_factor, cho_solve

from eniac.functions.base import FunctionClass, Params, Table, check_class_bound
from eniac.functions.inputs import check_inputs, group_equal
from eniac.widths.exact import tabular_widths
from eniac.widths.oracle import OracleSettings, oracle_widths

WidthMethod = Literal["counts", "oracle"]

# tanh reaches its limits nowhere, so targets stop a little short of them.
_NEARLY = 1 - 1e-3
_ACCURACY = 1e-7
_STUCK = 1e9


class _Pass(NamedTuple):
    """A pass through the network at some inputs: f, and what its Jacobian is made of.

    The derivative of f at input i by the weights of layer l is the outer product of
    `activations[l][i]` and `deltas[l][i]`.
    """

    values: np.ndarray
    activations: list[np.ndarray]
    deltas: list[np.ndarray]


@final
class Network(FunctionClass):
    """f = W tanh(z / W) with z a multi-layer perceptron of tanh units on `inputs[s, a]`.

    `fit` is Levenberg-Marquardt, solved in the space of the data (n pairs) instead of that of the
    parameters: the matrix J J' of a network is a sum over its layers of products of two small Gram
    matrices, so a step costs n^3 / 3 whatever the number of parameters, about a millisecond for 100
    pairs, and a few tens of steps interpolate. It starts from `start`, or from `zero()`, and ends
    after `max_steps` or when a step gains less than `tolerance` of the loss: a local solution.
    Targets beyond the bound are clipped first.

    `zero()` is the zero function with hidden units drawn from `seed`, so that training can begin.

    `width_method` says how `widths` are computed. 'counts' (default): min(2W, epsilon / sqrt(data
    at this input)), never below the true width, and equal to it (as a supremum) if the network can
    take any values at the distinct inputs, which one-hot inputs or enough units ensure. 'oracle':
    what fits attain, never above the true width, at the price of many fits.
    """

    name = "network"
    default_inputs = "one-hot"
    smooth = True

    def __init__(
        self,
        inputs: Float[np.ndarray, "states actions features"],
        bound: float,
        hidden: Sequence[int] = (32,),
        seed: int = 0,
        max_steps: int = 50,
        tolerance: float = 1e-3,
        width_method: WidthMethod = "counts",
        oracle: OracleSettings | None = None,
    ):
        self.inputs = check_inputs(inputs)
        self.num_states, self.num_actions, features = self.inputs.shape
        self.bound = check_class_bound(bound)
        if len(hidden) == 0 or min(hidden) < 1:
            raise ValueError(f"hidden is {tuple(hidden)}; expected the sizes of hidden layers.")
        if width_method not in ("counts", "oracle"):
            raise ValueError(f"width_method is {width_method!r}; expected 'counts' or 'oracle'.")
        if max_steps < 1 or not tolerance > 0:
            raise ValueError(
                f"max_steps is {max_steps} and tolerance {tolerance}; expected 1 or more steps and "
                "a positive tolerance."
            )
        self.max_steps, self.tolerance = max_steps, tolerance
        self.width_method = width_method
        self.oracle = OracleSettings() if oracle is None else oracle
        self._groups = group_equal(self.inputs)
        sizes = (features, *hidden, 1)
        # One more row for the bias of each layer.
        self._shapes = [(n + 1, m) for n, m in itertools.pairwise(sizes)]
        self.dim = sum(n * m for n, m in self._shapes)
        self._zero = self._random(np.random.default_rng(seed), 0.0)

    def _random(self, rng: np.random.Generator, last: float) -> Params:
        """Normal weights that keep activations of size 1, those of the last layer times `last`."""
        active = max(float(np.square(self.inputs).sum(axis=2).max()), 1e-12)
        layers = []
        for number, (rows, columns) in enumerate(self._shapes):
            spread = 1 / np.sqrt(active + 1 if number == 0 else rows)
            scale = last if number == len(self._shapes) - 1 else 1.0
            layers.append(scale * spread * rng.normal(size=(rows, columns)))
        return np.concatenate([layer.ravel() for layer in layers])

    def _layers(self, params: Params) -> list[np.ndarray]:
        ends = np.cumsum([n * m for n, m in self._shapes])[:-1]
        parts = np.split(np.asarray(params, dtype=np.float64), ends)
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _values(self, params: Params, inputs: np.ndarray, squash: bool = True) -> np.ndarray:
        *hidden, last = self._layers(params)
        for layer in hidden:
            inputs = np.tanh(inputs @ layer[:-1] + layer[-1])
        raw = inputs @ last[:-1, 0] + last[-1, 0]
        return self.bound * np.tanh(raw / self.bound) if squash else raw

    def _pass(self, params: Params, inputs: np.ndarray, squash: bool = True) -> _Pass:
        layers = self._layers(params)
        activations = [_with_one(inputs)]
        for layer in layers[:-1]:
            activations.append(_with_one(np.tanh(activations[-1] @ layer)))
        values = activations[-1] @ layers[-1]
        deltas = [np.ones_like(values)]
        if squash:
            values = self.bound * np.tanh(values / self.bound)
            deltas = [1 - np.square(values / self.bound)]
        for layer, activation in zip(layers[:0:-1], activations[:0:-1], strict=True):
            deltas.append((deltas[-1] @ layer[:-1].T) * (1 - np.square(activation[:, :-1])))
        return _Pass(values[:, 0], activations, deltas[::-1])

    def _fit(self, target: Table, weight: Table, start: Params | None) -> Params:
        # Pairs with equal inputs are one datum.
        groups = self._groups.ravel()
        total = np.bincount(groups, weight.ravel())
        mean = np.bincount(groups, (weight * target).ravel()) / np.where(total > 0, total, 1)
        first = np.unique(groups, return_index=True)[1]
        seen = total > 0
        inputs = self.inputs.reshape(len(groups), -1)[first[seen]]
        shares, root = np.clip(mean[seen] / self.bound, -_NEARLY, _NEARLY), np.sqrt(total[seen])
        params = self._zero if start is None else start
        # First z itself, each datum weighted by its slope, to first order the same problem: where f
        # is near its bound, and hence flat in z, descent on f alone would get stuck.
        raw, slope = self.bound * np.arctanh(shares), 1 - np.square(shares)
        begun = self._descend(params, inputs, raw, root * slope, squash=False)
        target = self.bound * shares
        best = min((params, begun), key=lambda p: self._loss(p, inputs, target, root, True))
        return self._descend(best, inputs, target, root, squash=True)

    def _loss(
        self, params: Params, inputs: np.ndarray, target: np.ndarray, root: np.ndarray, squash: bool
    ) -> float:
        return float(np.sum(np.square(root * (target - self._values(params, inputs, squash)))))

    def _descend(
        self, params: Params, inputs: np.ndarray, target: np.ndarray, root: np.ndarray, squash: bool
    ) -> Params:
        """Levenberg-Marquardt on sum root^2 (target - f)^2, or z in the place of f."""
        # Nearer to the target than this is as good as there.
        goal = _ACCURACY**2 * float(np.sum(np.square(root * target)))
        # The last layer moves in proportion to the size of the values, as if they had size 1:
        # otherwise large ones drive the hidden units into saturation, and small ones leave them.
        rates = [1.0] * len(self._shapes)
        rates[-1] = float(np.sum(np.square(root * target)) / np.sum(np.square(root))) or 1.0
        loss, damping = self._loss(params, inputs, target, root, squash), 1e-2
        for _ in range(self.max_steps):
            if loss <= goal:
                break
            here = self._pass(params, inputs, squash)
            residual = root * (target - here.values)
            kernel = sum(
                rate * (a @ a.T) * (d @ d.T)
                for rate, a, d in zip(rates, here.activations, here.deltas, strict=True)
            )
            kernel = root[:, None] * kernel * root
            scale = float(np.trace(kernel)) / len(kernel)
            new_loss, moved = np.inf, params
            while not new_loss < loss and damping < _STUCK:
                ridge = (damping + 1e-13) * scale * np.eye(len(kernel))
                dual = root * cho_solve(cho_factor(kernel + ridge), residual)
                step = [
                    rate * (a.T @ (dual[:, None] * d))
                    for rate, a, d in zip(rates, here.activations, here.deltas, strict=True)
                ]
                moved = params + np.concatenate([part.ravel() for part in step])
                new_loss = self._loss(moved, inputs, target, root, squash)
                damping = damping / 5 if new_loss < loss else damping * 8
            if not new_loss < loss:
                break
            gain, params, loss = loss - new_loss, moved, new_loss
            if gain <= self.tolerance * loss:
                break
        return params

    def __call__(self, params: Params) -> Table:
        return self._values(params, self.inputs)

    def zero(self) -> Params:
        return self._zero.copy()

    def sample(self, rng: np.random.Generator) -> Params:
        return self._random(rng, self.bound)

    def gradient(self, params: Params) -> Float[np.ndarray, "states actions dim"]:
        here = self._pass(params, self.inputs.reshape(-1, self.inputs.shape[2]))
        parts = [
            (a[:, :, None] * d[:, None, :]).reshape(len(a), -1)
            for a, d in zip(here.activations, here.deltas, strict=True)
        ]
        return np.concatenate(parts, axis=1).reshape(*self.shape, self.dim)

    def widths(
        self,
        counts: Num[np.ndarray, "states actions"],
        epsilon: float,
        threshold: float | None = None,
    ) -> Table:
        """By counts from above or by oracle from below, as `width_method` says; see the class."""
        counts = self.check_weights(counts)
        if self.width_method == "oracle":
            return oracle_widths(self, counts, epsilon, threshold, self.oracle).widths
        totals = np.bincount(self._groups.ravel(), counts.ravel())
        return tabular_widths(totals, epsilon, self.bound)[self._groups]


def _with_one(rows: np.ndarray) -> np.ndarray:
    return np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
