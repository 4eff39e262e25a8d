import numpy as np
import pytest

from eniac.functions import Linear, Network, Tabular, tangent_features
from eniac.functions.inputs import one_hot_pairs
from eniac.widths.exact import linear_widths
from eniac.widths.tangent import ball_widths, tangent_widths


def softmax(table):
    weights = np.exp(table - table.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    "function_class",
    [Linear(np.random.default_rng(0).normal(size=(4, 3, 2)), 1.0), Tabular(4, 3, 2.0)],
)
def test_tangent_features_are_the_slopes_of_log_pi(function_class):
    params = function_class.sample(np.random.default_rng(1))
    policy = softmax(function_class(params))
    found = tangent_features(function_class.gradient(params), policy)
    for i, direction in enumerate(np.eye(function_class.dim)):
        up, down = (softmax(function_class(params + h * direction)) for h in (1e-6, -1e-6))
        slope = (np.log(up) - np.log(down)) / 2e-6
        assert found[..., i] == pytest.approx(slope, abs=1e-8)
    assert np.einsum("sad,sa->sd", found, policy) == pytest.approx(0, abs=1e-15)


def test_tangent_widths_are_linear_widths_of_the_tangent_features():
    rng = np.random.default_rng(0)
    gradient, policy = rng.normal(size=(5, 3, 4)), softmax(rng.normal(size=(5, 3)))
    counts = rng.integers(0, 9, size=(5, 3))
    features = tangent_features(gradient, policy)
    flat = features.reshape(-1, 4)
    gram = (flat * counts.reshape(-1, 1)).T @ flat
    exact = linear_widths(flat, gram, 0.5, 2.0).reshape(5, 3)
    assert tangent_widths(gradient, policy, counts, 0.5, 2.0) == pytest.approx(exact, rel=1e-9)


def test_more_dimensions_than_pairs_change_nothing_but_the_cost():
    rng = np.random.default_rng(0)
    features, counts = rng.normal(size=(4, 2, 30)), rng.integers(0, 9, size=(4, 2))
    flat = features.reshape(-1, 30)
    gram = (flat * counts.reshape(-1, 1)).T @ flat
    exact = linear_widths(flat, gram, 0.5, 2.0).reshape(4, 2)
    assert ball_widths(features, counts, 0.5, 2.0) == pytest.approx(exact, rel=1e-7)


def test_the_tangent_class_of_a_network_has_widths():
    network = Network(one_hot_pairs(6, 2), 3.0, hidden=(16,))
    params = network.sample(np.random.default_rng(0))
    policy = softmax(network(params))
    few, many = (
        tangent_widths(network.gradient(params), policy, np.full((6, 2), n), 1.0, 5.0)
        for n in (0, 100)
    )
    features = tangent_features(network.gradient(params), policy)
    assert few == pytest.approx(10 * np.linalg.norm(features, axis=2))
    assert np.all(many < few)


def test_an_action_that_is_all_there_is_has_width_zero():
    policy = np.array([[1.0, 0.0]])
    widths = tangent_widths(np.ones((1, 2, 1)) * [[[1.0], [3.0]]], policy, np.zeros((1, 2)), 1, 1)
    assert widths == pytest.approx(np.array([[0.0, 4.0]]))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="shape"):
        tangent_features(np.zeros((2, 2, 3)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="shape"):
        ball_widths(np.zeros((2, 2, 3)), np.zeros((2, 3)), 1.0, 1.0)
