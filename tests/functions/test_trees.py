import sys

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from eniac import ConfigError
from eniac.functions import Trees
from eniac.functions.inputs import grid_coordinates, with_actions

INPUTS = with_actions(grid_coordinates(5), 2)
SHAPE = INPUTS.shape[:2]


@pytest.mark.parametrize("max_leaves", [2, 5, 12, None])
def test_the_array_walk_equals_scikit_learns_prediction(max_leaves):
    rng = np.random.default_rng(0)
    target = rng.normal(size=SHAPE)
    weight = rng.integers(0, 4, size=SHAPE)
    trees = Trees(INPUTS, 10.0, max_leaves)
    seen = weight.ravel() > 0
    flat = INPUTS.reshape(-1, INPUTS.shape[2])
    other = DecisionTreeRegressor(max_leaf_nodes=max_leaves, random_state=0)
    other.fit(flat[seen], target.ravel()[seen], sample_weight=weight.ravel()[seen] / weight.max())
    assert trees(trees.fit(target, weight)).ravel() == pytest.approx(other.predict(flat), abs=1e-12)


def box_tree(trees, pair, value):
    """Nodes of a tree that is `value` at one input and 0 elsewhere."""
    nodes = []
    for feature, threshold, above in trees.isolating_splits(*pair):
        here = len(nodes)
        children = (here + 1, here + 2) if above else (here + 2, here + 1)
        nodes += [(feature, threshold, *children, 0.0), (-1, 0, 0, 0, 0.0)]
    nodes.append((-1, 0, 0, 0, value))
    params = trees.zero().reshape(-1, 5)
    params[: len(nodes)] = nodes
    return params.ravel()


@pytest.mark.parametrize("max_leaves", [4, 6, None])
def test_two_trees_attain_the_width_wherever_a_leaf_can_be_put_around_an_input(max_leaves):
    rng = np.random.default_rng(1)
    trees, epsilon = Trees(INPUTS, 2.0, max_leaves), 1.0
    counts = rng.integers(0, 9, size=SHAPE)
    widths = trees.widths(counts, epsilon)
    for pair in map(tuple, np.argwhere(trees.separable).tolist()):
        up, down = (box_tree(trees, pair, sign * widths[pair] / 2) for sign in (1, -1))
        difference = trees(up) - trees(down)
        assert difference[pair] == pytest.approx(widths[pair])
        assert np.sum(counts * difference**2) <= epsilon**2 * (1 + 1e-12)
    assert np.all(trees.separable) == (max_leaves != 4)
    assert np.any(trees.separable)


def test_few_leaves_cannot_separate_an_inner_cell():
    trees = Trees(INPUTS, 2.0, max_leaves=3)
    assert not trees.separable[12].any()  # the middle of the grid: two splits a side


def test_pairs_with_equal_inputs_share_their_data():
    inputs = np.array([[[0.0], [0.0]], [[1.0], [2.0]]])
    widths = Trees(inputs, 10.0).widths(np.array([[3, 1], [4, 0]]), 1.0)
    assert widths == pytest.approx(np.array([[0.5, 0.5], [0.5, 20.0]]))


def test_more_boosted_trees_leave_less():
    rng = np.random.default_rng(2)
    target, weight = rng.normal(size=SHAPE), np.ones(SHAPE)

    def error(**options):
        trees = Trees(INPUTS, 10.0, max_leaves=6, **options)
        return np.sum(np.square(trees(trees.fit(target, weight)) - target))

    one, four, sixteen = (error(num_trees=n, ensemble="boosted") for n in (1, 4, 16))
    assert one == pytest.approx(error())
    assert sixteen < four < one


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"max_leaves": 1}, "max_leaves"),
        ({"num_trees": 2}, "num_trees is 2"),
        ({"num_trees": 0, "ensemble": "bagged"}, "num_trees is 0"),
        ({"ensemble": "forest"}, "ensemble is 'forest'"),
        ({"learning_rate": 0.0, "ensemble": "boosted"}, "learning_rate"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_options_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        Trees(INPUTS, 1.0, **options)


def test_without_scikit_learn_the_extra_is_named_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ConfigError, match=r"pip install 'eniac\[trees\]'"):
        Trees(INPUTS, 1.0)
