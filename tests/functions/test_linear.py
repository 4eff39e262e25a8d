import cvxpy as cp
import numpy as np
import pytest

from eniac.functions.ball import least_squares_in_ball
from eniac.functions.linear import Linear


@pytest.mark.parametrize("seed", range(12))
def test_least_squares_in_a_ball_equals_a_conic_solvers(seed):
    rng = np.random.default_rng(seed)
    dim, num = rng.integers(1, 6), rng.integers(1, 12)
    data, target = rng.normal(size=(num, dim)), rng.normal(size=num)
    norm_bound = 10 ** rng.uniform(-1, 1)
    u = cp.Variable(dim)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(data @ u - target)), [cp.norm(u) <= norm_bound])
    best = problem.solve(solver=cp.CLARABEL)
    found = least_squares_in_ball(data.T @ data, data.T @ target, norm_bound)
    assert np.linalg.norm(found) <= norm_bound * (1 + 1e-15)
    assert np.sum((data @ found - target) ** 2) == pytest.approx(best, rel=1e-6, abs=1e-7)


def test_on_the_ball_the_residual_is_normal_to_it():
    rng = np.random.default_rng(0)
    data, target = rng.normal(size=(20, 4)), 100 * rng.normal(size=20)
    u = least_squares_in_ball(data.T @ data, data.T @ target, 1.0)
    pull = data.T @ (target - data @ u)
    assert np.linalg.norm(u) == pytest.approx(1.0, rel=1e-14)
    assert pull == pytest.approx(np.linalg.norm(pull) * u, rel=1e-12)


def test_without_a_bound_the_shortest_of_the_solutions_is_taken():
    rng = np.random.default_rng(0)
    data, target = rng.normal(size=(3, 6)), rng.normal(size=3)
    shortest = np.linalg.lstsq(data, target, rcond=None)[0]
    found = least_squares_in_ball(data.T @ data, data.T @ target, np.inf)
    assert found == pytest.approx(shortest, rel=1e-9)


def test_a_ridge_is_ridge_regression():
    rng = np.random.default_rng(0)
    data, target = rng.normal(size=(10, 4)), rng.normal(size=10)
    exact = np.linalg.solve(data.T @ data + 0.3 * np.eye(4), data.T @ target)
    found = least_squares_in_ball(data.T @ data, data.T @ target, 100.0, ridge=0.3)
    assert found == pytest.approx(exact, rel=1e-12)


def test_no_moment_gives_zero():
    assert np.all(least_squares_in_ball(np.zeros((3, 3)), np.zeros(3), 1.0) == 0)


@pytest.mark.parametrize(
    ("features", "norm_bound", "reason"),
    [
        (np.ones((2, 2)), 1.0, "shape"),
        (np.zeros((2, 2, 1)), 1.0, "zero function"),
        (np.ones((2, 2, 1)), np.inf, "norm_bound"),
        (np.full((2, 2, 1), np.nan), 1.0, "finite"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_features_that_make_no_class_are_refused(features, norm_bound, reason):
    with pytest.raises(ValueError, match=reason):
        Linear(features, norm_bound)
