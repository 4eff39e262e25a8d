"""What is particular to the generalised linear class, the network, tables and lists."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from eniac.functions import Aggregation, Finite, GeneralisedLinear, Network, Tabular
from eniac.functions.inputs import one_hot_pairs, with_actions


@pytest.mark.parametrize("seed", range(5))
def test_a_glm_fit_is_as_good_as_scipys_from_the_truth(seed):
    rng = np.random.default_rng(seed)
    function_class = GeneralisedLinear(rng.normal(size=(10, 3, 4)), 4.0, norm_bound=5.0)
    truth = 0.4 * function_class.sample(rng)
    weight = rng.integers(1, 5, size=(10, 3))
    target = function_class(truth) + 0.3 * rng.normal(size=(10, 3))

    def residual(u):
        return (np.sqrt(weight) * (function_class(u) - target)).ravel()

    other = least_squares(residual, truth, xtol=1e-12, ftol=1e-12, gtol=1e-12)
    assert np.linalg.norm(other.x) < 5.0
    fitted = function_class.fit(target, weight)
    assert np.sum(residual(fitted) ** 2) <= 2 * other.cost * (1 + 1e-9)


def test_a_glm_on_the_sphere_is_stationary_along_it():
    rng = np.random.default_rng(0)
    function_class = GeneralisedLinear(rng.normal(size=(10, 3, 4)), 4.0, norm_bound=0.3)
    target = np.where(rng.uniform(size=(10, 3)) < 0.5, 0.0, 4.0)
    u = function_class.fit(target, np.ones((10, 3)))
    assert np.linalg.norm(u) == pytest.approx(0.3)
    pull = np.einsum("sad,sa->d", function_class.gradient(u), target - function_class(u))
    assert pull / np.linalg.norm(pull) == pytest.approx(u / 0.3, abs=1e-5)


def test_the_logistic_link_saturates_without_overflow():
    function_class = GeneralisedLinear(np.full((1, 2, 1), 1e4), 1.0, norm_bound=100.0)
    params = function_class.fit(np.array([[1.0, 1.0]]), np.ones((1, 2)))
    assert function_class(params) == pytest.approx(1.0)


def test_a_network_follows_small_changes_of_its_targets_from_where_it_was():
    rng = np.random.default_rng(0)
    network = Network(with_actions(np.eye(20), 2), 10.0)
    target, weight = rng.uniform(size=(20, 2)), rng.integers(1, 50, size=(20, 2))
    params = network.fit(target, weight)
    assert network(params) == pytest.approx(target, abs=1e-3)
    moved = target + 0.01 * rng.normal(size=(20, 2))
    again = network.fit(moved, weight, params)
    assert network(again) == pytest.approx(moved, abs=1e-3)
    fresh = network.fit(moved, weight)
    assert np.linalg.norm(again - params) < np.linalg.norm(fresh - params)


def test_a_network_sees_pairs_with_equal_inputs_as_one():
    inputs = np.array([[[0.0], [0.0]], [[1.0], [2.0]]])
    network = Network(inputs, 10.0, hidden=(8,), max_steps=200, tolerance=1e-9)
    table = network(network.fit(np.array([[1.0, 4.0], [2.0, 3.0]]), np.array([[2, 1], [1, 1]])))
    assert table == pytest.approx(np.array([[2.0, 2.0], [2.0, 3.0]]), abs=1e-6)
    assert network.widths(np.array([[3, 1], [4, 0]]), 1.0) == pytest.approx(
        np.array([[0.5, 0.5], [0.5, 20.0]])
    )


def test_the_seed_chooses_the_hidden_units_of_zero_but_not_its_values():
    first, second = (Network(one_hot_pairs(3, 2), 1.0, seed=seed) for seed in (0, 1))
    assert not np.array_equal(first.zero(), second.zero())
    assert np.all(first(first.zero()) == second(second.zero()))
    assert np.any(first.gradient(first.zero()))


def test_missing_actions_get_the_mean_of_the_state_or_zero():
    target = np.array([[1.0, 3.0, 9.0], [9.0, 9.0, 9.0], [-8.0, 9.0, 2.0]])
    weight = np.array([[5, 1, 0], [0, 0, 0], [2, 0, 2]])
    mean = Tabular(3, 3, 5.0)
    assert mean(mean.fit(target, weight)).tolist() == [[1, 3, 2], [0, 0, 0], [-5, -1.5, 2]]
    zero = Tabular(3, 3, 5.0, fill="zero")
    assert zero(zero.fit(target, weight)).tolist() == [[1, 3, 0], [0, 0, 0], [-5, 0, 2]]


def test_groups_get_the_weighted_mean_of_their_pairs():
    function_class = Aggregation(np.array([[0, 1], [0, 1], [2, 2]]), 5.0)
    target = np.array([[1.0, 9.0], [4.0, 9.0], [2.0, 3.0]])
    params = function_class.fit(target, np.array([[2, 1], [1, 1], [0, 0]]))
    assert params.tolist() == [2.0, 5.0, 0.0]
    widths = function_class.widths(np.array([[2, 1], [2, 0], [0, 0]]), 1.0)
    assert widths.tolist() == [[0.5, 1.0], [0.5, 1.0], [10.0, 10.0]]


def test_the_zero_of_a_list_is_the_smallest_function_that_ignores_actions():
    tables = np.array([[[1.0, 2.0]], [[-3.0, -3.0]], [[2.0, 2.0]]])
    assert Finite(tables).zero().tolist() == [2.0]
    assert Finite(tables).bound == 3.0
    with pytest.raises(ValueError, match="add a constant table"):
        Finite(tables[:1])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Tabular(2, 2, 0.0), "bound is 0"),
        (lambda: Tabular(2, 2, 1.0, fill="median"), "fill is 'median'"),
        (lambda: Aggregation(np.zeros((2, 2)), 1.0), "groups"),
        (lambda: Aggregation(np.array([[-1, 0]]), 1.0), "groups"),
        (lambda: GeneralisedLinear(np.ones((2, 2, 1)), 1.0, link="probit"), "link is 'probit'"),
        (lambda: GeneralisedLinear(np.ones((2, 2, 1)), 1.0, norm_bound=0), "norm_bound is 0"),
        (lambda: GeneralisedLinear(np.ones((2, 2)), 1.0), "shape"),
        (
            lambda: GeneralisedLinear(np.ones((2, 2, 1)), 1.0, width_method="exact"),
            "width_method is 'exact'",
        ),
        (lambda: Network(np.ones((2, 2)), 1.0), "inputs have shape"),
        (lambda: Network(np.ones((2, 2, 1)), 1.0, hidden=()), "hidden"),
        (lambda: Network(np.ones((2, 2, 1)), 1.0, width_method="exact"), "width_method"),
        (lambda: Network(np.ones((2, 2, 1)), 1.0, max_steps=0), "max_steps is 0"),
        (lambda: Finite(np.zeros((0, 2, 2))), "shape"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_makes_no_class_is_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize("scale", [0.01, 1.0, 90.0])
def test_a_network_interpolates_values_of_any_size_again_and_again(scale):
    rng = np.random.default_rng(0)
    network = Network(with_actions(np.eye(30), 4), 100.0)
    params = None
    for _ in range(10):
        weight = rng.poisson(3, size=(30, 4))
        target = scale * rng.uniform(size=(30, 4))
        params = network.fit(target, weight, params)
        error = np.sqrt(np.sum(weight * (network(params) - target) ** 2) / weight.sum())
        assert error <= 1e-3 * scale
