"""Known sets against brute force and against each other; weights of the cover; reward units."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from eniac import cover
from eniac.functions.finite import Finite
from eniac.functions.linear import Linear
from eniac.functions.tabular import Aggregation, Tabular
from eniac.provable.exploration import (
    Exploration,
    find_unknown,
    log_det,
    log_det_weights,
    rescale_rewards,
)

BETA = 0.7


def explored(functions, kind="width", epsilon=2.0, features=None, norm_bound=10.0, ridge=1.0):
    features = np.zeros((*functions.shape, 0)) if features is None else features
    return Exploration(kind, functions, features, epsilon, BETA, norm_bound, ridge)


def brute_force(tables, counts, epsilon):
    """Pairs at which two of the tables that agree on the data differ by beta or more."""
    unknown = np.zeros(counts.shape, bool)
    for f, g in itertools.product(tables, tables):
        if np.sum(counts * (f - g) ** 2) <= epsilon**2:
            unknown |= f - g >= BETA
    return unknown


def test_the_known_set_of_a_finite_class_is_that_of_brute_force():
    rng = np.random.default_rng(0)
    tables = np.concatenate([np.zeros((1, 3, 2)), rng.uniform(-1, 1, (40, 3, 2))])
    functions = Finite(tables)
    for counts in (np.zeros((3, 2)), rng.integers(0, 3, (3, 2)), rng.integers(0, 20, (3, 2))):
        expected = brute_force(tables, counts, 2.0)
        np.testing.assert_array_equal(find_unknown(explored(functions), counts), expected)


def test_the_known_set_of_the_tabular_class_is_that_of_brute_force_on_a_grid():
    grid = np.array(list(itertools.product(np.linspace(-1, 1, 9), repeat=4))).reshape(-1, 2, 2)
    grid = grid[np.random.default_rng(0).permutation(len(grid))[:400]]
    counts = np.array([[0, 1], [6, 40]])
    expected = find_unknown(explored(Tabular(2, 2, bound=1.0)), counts)
    # The grid has members at distance 0.75, the first step at or above beta.
    np.testing.assert_array_equal(expected, [[True, True], [True, False]])
    found = brute_force(grid, counts, 2.0)
    assert not np.any(found & ~expected)  # a part of the class can only be narrower
    singles = np.concatenate([np.zeros((1, 2, 2)), 0.75 * np.eye(4).reshape(4, 2, 2)])
    np.testing.assert_array_equal(brute_force(singles, counts, 2.0), expected)


def test_linear_on_one_hot_pairs_is_tabular_inside_its_ball():
    counts = np.random.default_rng(0).integers(0, 30, (4, 3))
    features = np.eye(12).reshape(4, 3, 12)
    tabular = explored(Tabular(4, 3, bound=100.0))
    linear = explored(Linear(features, norm_bound=100.0))
    np.testing.assert_array_equal(find_unknown(linear, counts), find_unknown(tabular, counts))
    groups = np.arange(12).reshape(4, 3)
    aggregated = explored(Aggregation(groups, bound=100.0))
    np.testing.assert_array_equal(find_unknown(aggregated, counts), find_unknown(tabular, counts))


@pytest.mark.parametrize("seed", range(5))
def test_eniac_with_a_linear_class_has_the_known_set_of_pc_pg_at_the_matched_threshold(seed):
    """Without the ball, w >= beta is phi' Sigma^-1 phi >= (beta / epsilon)^2."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(6, 3, 4))
    functions = Linear(features, norm_bound=1e7)
    counts = rng.integers(0, 4, (6, 3))
    eniac = find_unknown(explored(functions), counts)
    pc_pg = find_unknown(explored(functions, "ellipsoid", features=features, ridge=1e-12), counts)
    np.testing.assert_array_equal(eniac, pc_pg)
    assert eniac.any()
    assert not eniac.all()


def test_gradient_widths_of_a_linear_class_are_its_own():
    rng = np.random.default_rng(0)
    features, counts = rng.normal(size=(5, 2, 3)), rng.integers(0, 6, (5, 2))
    functions = Linear(features, norm_bound=10.0)
    by_gradient = explored(functions, features=features, norm_bound=10.0)
    np.testing.assert_array_equal(
        find_unknown(explored(functions), counts), find_unknown(by_gradient, counts)
    )


def test_the_count_is_the_width_of_the_tangent_class_of_tables():
    """Some theta has a tangent function that is x at one action and 0 at all others of its state,
    so only the data at the pair itself hold a difference back: the width is epsilon/sqrt(count).
    At theta_0 alone (centred under the uniform policy) an action never tried can look known."""
    counts = np.array([[50.0, 0.0]])
    assert find_unknown(explored(Tabular(1, 2, bound=10.0)), counts).tolist() == [[False, True]]
    # pi_theta nearly on the first action: u = (0, x) is x there and 0 here.
    theta, x = np.array([40.0, 0.0]), 3.0
    policy = np.exp(theta - theta.max()) / np.exp(theta - theta.max()).sum()
    u = np.array([0.0, x])
    np.testing.assert_allclose(u - policy @ u, [0.0, x], atol=1e-12)
    centred = np.eye(2).reshape(1, 2, 2) - 0.5
    at_start = explored(Tabular(1, 2, bound=10.0), features=centred)
    assert find_unknown(at_start, counts).tolist() == [[False, False]]


def test_no_bonus_means_all_known():
    assert not find_unknown(explored(Tabular(2, 2, bound=5.0), "none"), np.zeros((2, 2))).any()


@pytest.mark.parametrize("kind", ["width", "ellipsoid"])
def test_empty_data_leave_everything_unknown_and_much_data_nothing(kind):
    features = np.random.default_rng(0).normal(size=(4, 2, 3))
    given = explored(Linear(features, norm_bound=50.0), kind, features=features, ridge=1e-3)
    assert find_unknown(given, np.zeros((4, 2))).all()
    assert not find_unknown(given, np.full((4, 2), 10**6)).any()


def test_log_det_weights_are_those_of_the_cover():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(3, 5, 4))
    covariances = np.einsum("nij,nik->njk", parts, parts)
    expected = cover.log_det(jnp.asarray(covariances, jnp.float32), jnp.asarray(3))
    np.testing.assert_allclose(log_det(covariances, 500), expected, atol=1e-4)


def test_log_det_weights_favour_the_policy_that_sees_more_directions():
    visits = np.zeros((2, 4, 1), int)
    visits[0, 0] = 100  # one pair, again and again
    visits[1] = 25
    weights = log_det_weights(visits, np.eye(4).reshape(4, 1, 4))
    assert weights.sum() == pytest.approx(1.0)
    assert weights[1] > 0.99


def test_rewards_are_scaled_without_a_shift_or_refused():
    reward = np.array([[-0.25, 0.0], [0.0, 5.0]])
    np.testing.assert_allclose(rescale_rewards(reward, "scale"), reward / 5)
    np.testing.assert_allclose(rescale_rewards(reward / 5, "scale"), reward / 5)
    shifted = rescale_rewards(reward, "shift")
    assert (shifted.min(), shifted.max()) == (0.0, 1.0)
    with pytest.raises(ValueError, match=r"\[-0.25, 5\].*--rewards scale"):
        rescale_rewards(reward, "refuse")
    np.testing.assert_array_equal(rescale_rewards(abs(reward) / 5, "refuse"), abs(reward) / 5)
