"""Regression trees on the inputs of pairs: one, or a few that are averaged or boosted."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, final

import numpy as np
from jaxtyping import Bool, Float, Num

from eniac.errors import ConfigError
from eniac.functions.base import FunctionClass, Params, Table, check_class_bound
from eniac.functions.inputs import check_inputs, group_equal
from eniac.widths.exact import tabular_widths

Ensemble = Literal["single", "bagged", "boosted"]

_COLUMNS = 5  # of a node: feature (-1 at a leaf), threshold, left, right, value


@final
class Trees(FunctionClass):
    """Sums of `num_trees` regression trees with axis-parallel splits, clipped to |f| <= bound.

    `fit` grows each tree greedily (scikit-learn's CART): 'single' one tree, 'bagged' trees on
    resampled data with their values divided by `num_trees`, 'boosted' each tree on what the ones
    before left, its values times `learning_rate`. Leaves are clipped means, the best values for
    their partition; the partition itself is greedy, hence optimal only where `max_leaves` lets the
    tree separate all distinct inputs (the default, None, always does). What was never seen gets the
    value of the leaf it falls into.

    Parameters are an array of nodes, five numbers each (feature or -1, threshold, left, right,
    value), padded to the largest tree there can be; `__call__` walks all pairs down at once.

    `widths`: two trees may put a leaf around one input and agree everywhere else, so their
    difference there is held back by the data at that very input only, and the width is *exactly*
    min(2W, epsilon / sqrt(count of the input)), the count form of the finest partition. A box
    around an input takes at most two splits a feature, often fewer; where `max_leaves` is too few
    for it (`separable` is False) the same number is an upper bound: such pairs may stay unknown too
    long, never become known too early. Trees hence explore like tables, and generalise in the fit
    only. (A sum of trees contains each single tree, so the same holds for ensembles.)
    """

    name = "trees"
    default_inputs = "coordinates"

    def __init__(
        self,
        inputs: Float[np.ndarray, "states actions features"],
        bound: float,
        max_leaves: int | None = None,
        num_trees: int = 1,
        ensemble: Ensemble = "single",
        learning_rate: float = 1.0,
        seed: int = 0,
    ):
        if find_spec("sklearn") is None:
            raise ConfigError(
                "the function class 'trees' needs scikit-learn, which is not installed: "
                "pip install 'eniac[trees]'."
            )
        # scikit-learn compares float32 inputs with float64 thresholds; so do we, to agree with it.
        self.inputs = check_inputs(inputs).astype(np.float32).astype(np.float64)
        self.num_states, self.num_actions, _ = self.inputs.shape
        self.bound = check_class_bound(bound)
        if max_leaves is not None and max_leaves < 2:
            raise ValueError(f"max_leaves is {max_leaves}; expected 2 or more, or None.")
        if ensemble not in ("single", "bagged", "boosted"):
            raise ValueError(f"ensemble is {ensemble!r}; expected 'single', 'bagged' or 'boosted'.")
        if num_trees < 1 or (ensemble == "single" and num_trees != 1):
            raise ValueError(
                f"num_trees is {num_trees} with ensemble {ensemble!r}; expected 1 for 'single' and "
                "1 or more for 'bagged' and 'boosted'."
            )
        if not 0 < learning_rate <= 1:
            raise ValueError(f"learning_rate is {learning_rate}; expected a number in (0, 1].")
        self.num_trees, self.ensemble, self.seed = num_trees, ensemble, seed
        self.learning_rate = learning_rate if ensemble == "boosted" else 1.0
        self._flat = self.inputs.reshape(-1, self.inputs.shape[2])
        self._groups = group_equal(self.inputs)
        distinct = int(self._groups.max()) + 1
        self._leaves = distinct if max_leaves is None else min(max_leaves, distinct)
        self._limit = None if max_leaves is None else max_leaves
        self._nodes = 2 * self._leaves - 1
        self.dim = num_trees * self._nodes * _COLUMNS

    def isolating_splits(self, state: int, action: int) -> list[tuple[int, float, bool]]:
        """Splits (feature, threshold, is the input above it) that leave one input by itself.

        Chosen greedily, each to cut off as many of the other inputs as it can: few, though not
        always the fewest.
        """
        x = self.inputs[state, action]
        others = np.unique(self._flat, axis=0)
        others = others[np.any(others != x, axis=1)]
        splits = []
        while len(others):
            cut = np.stack([others < x, others > x])  # by a split just below x, just above x
            above, feature = divmod(int(cut.sum(axis=1).argmax()), len(x))
            side = others[cut[above, :, feature], feature]
            near = side.min() if above else side.max()
            splits.append((feature, float(near + x[feature]) / 2, not above))
            others = others[~cut[above, :, feature]]
        return splits

    @property
    def separable(self) -> Bool[np.ndarray, "states actions"]:
        """Which inputs a single tree can surely put into a leaf of their own: `widths` is exact."""
        if self._leaves == int(self._groups.max()) + 1:
            return np.ones(self.shape, dtype=bool)  # a leaf each
        leaves = [len(self.isolating_splits(*pair)) + 1 for pair in np.ndindex(*self.shape)]
        return np.array(leaves).reshape(self.shape) <= self._leaves

    def _fit(self, target: Table, weight: Table, start: Params | None) -> Params:
        seen = weight.ravel() > 0
        inputs, target, weight = self._flat[seen], target.ravel()[seen], weight.ravel()[seen]
        nodes = np.zeros((self.num_trees, self._nodes, _COLUMNS))
        nodes[:, :, 0] = -1
        rng = np.random.default_rng(self.seed)
        left_over = target
        for number in range(self.num_trees):
            resampled = weight
            if self.ensemble == "bagged":
                # Exponential weights are the smooth form of the bootstrap: nothing is lost.
                resampled = weight * rng.exponential(size=len(weight))
            tree = self._grow(inputs, left_over, resampled)
            if self.ensemble == "boosted":
                tree[:, 4] *= self.learning_rate
                left_over = left_over - _walk(tree, inputs)
            else:
                tree[:, 4] /= self.num_trees
            nodes[number, : len(tree)] = tree
        return nodes.ravel()

    def _grow(self, inputs: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
        # Here and not above: scikit-learn takes a second to import, and few runs grow trees.
        from sklearn.tree import DecisionTreeRegressor

        grower = DecisionTreeRegressor(max_leaf_nodes=self._limit, random_state=self.seed)
        tree = grower.fit(inputs, target, sample_weight=weight).tree_
        leaf = tree.children_left < 0
        values = np.clip(tree.value[:, 0, 0], -self.bound, self.bound)
        columns = (
            np.where(leaf, -1, tree.feature),
            np.where(leaf, 0.0, tree.threshold),
            np.where(leaf, 0, tree.children_left),
            np.where(leaf, 0, tree.children_right),
            values,
        )
        return np.stack(columns, axis=1).astype(np.float64)

    def __call__(self, params: Params) -> Table:
        trees = np.reshape(params, (self.num_trees, self._nodes, _COLUMNS))
        values = sum(_walk(tree, self._flat) for tree in trees)
        return np.clip(values, -self.bound, self.bound).reshape(self.shape)

    def zero(self) -> Params:
        """Trees that are one leaf of value 0."""
        nodes = np.zeros((self.num_trees, self._nodes, _COLUMNS))
        nodes[:, :, 0] = -1
        return nodes.ravel()

    def sample(self, rng: np.random.Generator) -> Params:
        table = rng.uniform(-self.bound, self.bound, size=self.shape)
        return self.fit(table, np.ones(self.shape))

    def widths(
        self,
        counts: Num[np.ndarray, "states actions"],
        epsilon: float,
        threshold: float | None = None,
    ) -> Table:
        """min(2W, epsilon / sqrt(count of the input)); see the class for when it is exact."""
        totals = np.bincount(self._groups.ravel(), self.check_weights(counts).ravel())
        return tabular_widths(totals, epsilon, self.bound)[self._groups]


def _walk(tree: Float[np.ndarray, "nodes 5"], inputs: np.ndarray) -> np.ndarray:
    """The values of the leaves that `inputs` fall into, all of them one level at a time."""
    feature, children = tree[:, 0].astype(np.int64), tree[:, 2:4].astype(np.int64)
    node = np.zeros(len(inputs), dtype=np.int64)
    rows = np.arange(len(inputs))
    while np.any(inner := feature[node] >= 0):
        right = inputs[rows, np.maximum(feature[node], 0)] > tree[node, 1]
        node = np.where(inner, children[node, right.astype(np.int64)], node)
    return tree[node, 4]
