"""The critic fits of Equations 8 and 13 against closed forms, cvxpy and each other."""

import cvxpy as cp
import numpy as np
import pytest

from eniac.envs.mdp import random_mdp
from eniac.functions.base import tangent_features
from eniac.functions.linear import Linear
from eniac.functions.tabular import Tabular
from eniac.functions.trees import Trees
from eniac.provable.policies import known_set_policy, mixed_policy, softmax
from eniac.theory.planning import Model, action_values, advantages, bonus_model
from eniac.updates.npg import NPG, tabular_fit, tangent_fit
from eniac.updates.spi import SPI, PairMeans, pair_means


def rng(seed=0):
    return np.random.default_rng(seed)


def test_samples_are_gathered_pair_by_pair():
    found = pair_means(np.array([0, 3, 3]), np.array([1.0, 2.0, 6.0]), (2, 2))
    np.testing.assert_array_equal(found.mean, [[1.0, 0.0], [0.0, 4.0]])
    np.testing.assert_array_equal(found.weight, [[1.0, 0.0], [0.0, 2.0]])


def test_spi_takes_the_bonus_off_before_it_fits():
    update = SPI(Tabular(2, 2, bound=100.0), eta=0.5)
    bonus = np.array([[10.0, 0.0], [0.0, 10.0]])
    found = PairMeans(np.array([[12.0, 3.0], [4.0, 15.0]]), np.ones((2, 2)))
    params, critic = update.fit(update.start(), np.full((2, 2), 0.5), found, bonus)
    np.testing.assert_allclose(critic, [[2.0, 3.0], [4.0, 5.0]])
    actor = update.advance(update.start(), params, critic)
    np.testing.assert_allclose(actor.logits, 0.5 * critic)


def test_spi_updates_multiply_probabilities_by_exponentials():
    update = SPI(Tabular(1, 3, bound=10.0), eta=2.0)
    actor = update.start()
    weights = np.ones(3)
    for critic in rng().normal(size=(4, 1, 3)):
        actor = update.advance(actor, critic.ravel(), critic)
        weights = weights * np.exp(2.0 * critic[0])
    np.testing.assert_allclose(softmax(actor.logits)[0], weights / weights.sum())


def test_spi_and_npg_make_the_same_policies_on_the_tabular_class_given_exact_critics():
    """u_t solves the regression on A exactly up to a constant a state, which softmax forgets."""
    mdp = random_mdp(0, num_states=5, num_actions=3)
    model = Model.of(mdp, 0.8)
    functions = Tabular(5, 3, bound=25.0)
    spi = SPI(functions, 0.7)
    npg = NPG(functions, 0.7, norm_bound=1e6, ridge=0.0)
    unknown = np.zeros((5, 3), bool)
    unknown[2, 1] = True
    bonus = np.where(unknown, 5.0, 0.0)
    rewarded, weight = bonus_model(model, bonus), rng().uniform(1, 2, (5, 3))
    one, other = spi.start(), npg.start()
    for _ in range(6):
        policy = known_set_policy(one.logits, unknown)
        np.testing.assert_allclose(known_set_policy(other.logits, unknown), policy, atol=1e-9)
        critic = spi.fit(one, policy, PairMeans(action_values(rewarded, policy), weight), bonus)
        one = spi.advance(one, *critic)
        critic = npg.fit(other, policy, PairMeans(advantages(rewarded, policy), weight), bonus)
        # A - b-bar = (Q - b) centred under the policy, where the problem has a solution.
        q = action_values(rewarded, policy) - bonus
        expected = q - np.sum(policy * q, axis=1, keepdims=True)
        np.testing.assert_allclose(critic[1], expected, atol=1e-9)
        other = npg.advance(other, *critic)


@pytest.mark.parametrize("radius", [0.3, 1e3])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_npg_fits_are_the_constrained_least_squares(radius, ridge):
    features = rng().normal(size=(4, 3, 5))
    target, weight = rng(1).normal(size=(4, 3)), rng(2).integers(0, 4, (4, 3)).astype(float)
    u, critic = tangent_fit(features, target, weight, radius, ridge)
    x = cp.Variable(5)
    residual = cp.multiply(np.sqrt(weight).ravel(), target.ravel() - features.reshape(12, 5) @ x)
    objective = cp.sum_squares(residual) + ridge * cp.sum_squares(x)
    cp.Problem(cp.Minimize(objective), [cp.norm(x) <= radius]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(u, x.value, atol=1e-4)
    np.testing.assert_allclose(critic, features @ u)
    assert np.linalg.norm(u) <= radius * (1 + 1e-12)


@pytest.mark.parametrize("radius", [0.5, 1e3])
def test_the_tabular_fit_by_states_is_the_fit_of_all_parameters(radius):
    policy = rng().dirichlet(np.ones(3), 4)
    target, weight = rng(1).normal(size=(4, 3)), rng(2).integers(0, 3, (4, 3)).astype(float)
    features = tangent_features(np.eye(12).reshape(4, 3, 12), policy)
    for ridge in (0.0, 0.01):
        one = tabular_fit(policy, target, weight, radius, ridge)
        other = tangent_fit(features, target, weight, radius, ridge)
        np.testing.assert_allclose(one[0], other[0], atol=1e-9)
        np.testing.assert_allclose(one[1], other[1], atol=1e-9)


def test_a_fit_with_more_parameters_than_pairs_is_the_same_fit():
    features, target = rng().normal(size=(2, 2, 30)), rng(1).normal(size=(2, 2))
    weight = np.array([[1.0, 2.0], [0.0, 1.0]])
    for radius in (0.1, 1e3):
        u, _ = tangent_fit(features, target, weight, radius, 0.01)
        rows = features.reshape(4, 30) * np.sqrt(weight.ravel())[:, None]
        # Padding with pairs of weight zero leads through the other branch.
        padded = np.concatenate([features, np.zeros((40, 2, 30))])
        far = np.concatenate([weight, np.full((40, 2), 1e-300)])
        same, _ = tangent_fit(padded, np.pad(target, ((0, 40), (0, 0))), far, radius, 0.01)
        np.testing.assert_allclose(u, same, atol=1e-9)
        assert np.linalg.matrix_rank(np.vstack([rows, u])) == 3


@pytest.mark.parametrize("weight", [np.zeros((3, 2)), np.eye(3)[:, :2]])
def test_fits_survive_empty_and_singular_data(weight):
    policy = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    found = PairMeans(np.ones((3, 2)) * (weight > 0), weight)
    linear = Linear(rng().normal(size=(3, 2, 4)), norm_bound=10.0)
    for functions in (Tabular(3, 2, bound=10.0), linear):
        for update in (SPI(functions, 1.0), NPG(functions, 1.0, 10.0, 0.0)):
            actor = update.start()
            params, critic = update.fit(actor, policy, found, np.zeros((3, 2)))
            assert np.all(np.isfinite(update.advance(actor, params, critic).logits))


def test_npg_refuses_a_class_without_gradients():
    trees = Trees(np.eye(4).reshape(2, 2, 4), bound=10.0)
    with pytest.raises(ValueError, match="use SPI"):
        NPG(trees, 1.0, 10.0, 0.0)
    SPI(trees, 1.0)


def test_unknown_states_keep_exploring_their_unknown_actions():
    logits = np.array([[3.0, 0.0, 0.0], [9.0, 0.0, 0.0]])
    unknown = np.array([[False, False, False], [False, True, True]])
    policy = known_set_policy(logits, unknown)
    np.testing.assert_allclose(policy[0], softmax(logits)[0])
    np.testing.assert_allclose(policy[1], [0.0, 0.5, 0.5])


@pytest.mark.parametrize("known", [True, False])
def test_all_known_is_a_softmax_and_all_unknown_is_uniform(known):
    logits = rng().normal(size=(4, 3))
    policy = known_set_policy(logits, np.full((4, 3), not known))
    np.testing.assert_allclose(policy, softmax(logits) if known else np.full((4, 3), 1 / 3))


def test_the_compute_version_mixes_in_uniform_actions():
    logits = np.array([[100.0, 0.0]])
    np.testing.assert_allclose(mixed_policy(logits, 0.2), [[0.9, 0.1]])
