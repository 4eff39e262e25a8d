import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given

from eniac.envs.mdp import river_swim
from eniac.theory import planning
from eniac.theory.planning import Model
from random_mdps import cases, exact, random_rows


def rollout_occupancy(model, policy, joint, steps=1500):
    """d^pi_nu by adding up the series: slow, and independent of any solve."""
    total = np.zeros_like(joint)
    for t in range(steps):
        total += (1 - model.gamma) * model.gamma**t * joint
        joint = np.einsum("sa,sat->t", joint, model.transition)[:, None] * policy
    return total


@exact
@given(cases)
def test_values_satisfy_bellmans_equation(case):
    values = planning.state_values(case.model, case.policy)
    q = planning.action_values(case.model, case.policy)
    m = case.model
    np.testing.assert_allclose(q, m.reward + m.gamma * m.transition @ values, atol=1e-11)
    np.testing.assert_allclose((case.policy * q).sum(1), values, atol=1e-11)
    np.testing.assert_allclose(planning.advantages(m, case.policy), q - values[:, None], atol=1e-11)


@exact
@given(cases)
def test_value_is_the_occupancys_mean_reward_over_one_minus_gamma(case):
    d = planning.occupancy(case.model, case.policy)
    assert d.sum() == pytest.approx(1.0, abs=1e-12)
    assert planning.value(case.model, case.policy) == pytest.approx(
        (d * case.model.reward).sum() / (1 - case.model.gamma), abs=1e-10
    )


def test_occupancies_equal_the_discounted_series():
    rng = np.random.default_rng(3)
    model = Model(random_rows(rng, 4, 3, 4), rng.uniform(size=(4, 3)), random_rows(rng, 4), 0.9)
    policy = random_rows(rng, 4, 3)
    nu = random_rows(rng, 12).reshape(4, 3)
    np.testing.assert_allclose(
        planning.occupancy(model, policy),
        rollout_occupancy(model, policy, model.start[:, None] * policy),
        atol=1e-13,
    )
    np.testing.assert_allclose(
        planning.occupancy_from(model, policy, nu), rollout_occupancy(model, policy, nu), atol=1e-13
    )
    assert planning.value_from(model, policy, nu) == pytest.approx(
        (planning.occupancy_from(model, policy, nu) * model.reward).sum() / 0.1, abs=1e-11
    )
    elsewhere = np.array([0.0, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(
        planning.occupancy(model, policy, elsewhere),
        rollout_occupancy(model, policy, elsewhere[:, None] * policy),
        atol=1e-13,
    )


@exact
@given(cases)
def test_the_performance_difference_lemma(case):
    m = case.model
    difference = planning.value(m, case.policy) - planning.value(m, case.other)
    d = planning.occupancy(m, case.policy)
    mean_advantage = planning.expectation(d, planning.advantages(m, case.other))
    assert difference == pytest.approx(mean_advantage / (1 - m.gamma), abs=1e-9)


def test_optimal_policy_is_the_best_of_all_deterministic_ones():
    rng = np.random.default_rng(0)
    for _ in range(20):
        model = Model(random_rows(rng, 3, 3, 3), rng.uniform(size=(3, 3)), random_rows(rng, 3), 0.9)
        best = planning.optimal(model)
        policies = (np.eye(3)[list(a)] for a in itertools.product(range(3), repeat=3))
        values = np.array([planning.state_values(model, p) for p in policies])
        np.testing.assert_allclose(best.values, values.max(axis=0), atol=1e-10)
        np.testing.assert_allclose(
            best.action_values, model.reward + 0.9 * model.transition @ best.values, atol=1e-10
        )
        np.testing.assert_allclose(planning.state_values(model, best.policy), best.values)


@exact
@given(cases)
def test_optimal_values_solve_bellmans_optimality_equation(case):
    best = planning.optimal(case.model)
    np.testing.assert_allclose(best.action_values.max(axis=1), best.values, atol=1e-9)
    assert planning.value(case.model, case.policy) <= case.model.start @ best.values + 1e-10


def test_policy_iteration_ends_when_all_actions_are_equal():
    model = Model(np.full((3, 4, 3), 1 / 3), np.ones((3, 4)), np.full(3, 1 / 3), 0.99)
    np.testing.assert_allclose(planning.optimal(model).values, 100.0)


def test_mixtures_are_drawn_once_an_episode():
    # Two arms that pay only if held: a=0 in state 0 stays and pays, a=1 moves to state 1 where
    # a=1 stays and pays. Mixing at every step keeps falling off.
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, 1, 1] = transition[1, 0, 2] = 1
    transition[2, :, 2] = 1
    reward = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    model = Model(transition, reward, np.array([1.0, 0, 0]), 0.9)
    first, second = np.tile([1.0, 0.0], (3, 1)), np.tile([0.0, 1.0], (3, 1))
    assert planning.mixture_value(model, [first, second]) == pytest.approx((10 + 9) / 2)
    assert planning.mixture_value(model, [first, second], [0.25, 0.75]) == pytest.approx(9.25)
    np.testing.assert_allclose(
        planning.mixture_occupancy(model, [first, second], [0.25, 0.75]),
        0.25 * planning.occupancy(model, first) + 0.75 * planning.occupancy(model, second),
    )
    held = 0.5 / (1 - 0.45)  # from state 1, a coin at every step: V = (1 + 0.9 V) / 2
    mixed_at_each_step = (0.5 + 0.45 * held) / (1 - 0.45)
    assert planning.value(model, (first + second) / 2) == pytest.approx(mixed_at_each_step)


@exact
@given(cases)
def test_the_bonus_mdp_adds_the_mean_bonus_over_one_minus_gamma(case):
    bonus = case.rng.uniform(0, 5, size=case.unknown.shape) * case.unknown
    gain = planning.value(planning.bonus_model(case.model, bonus), case.policy)
    gain -= planning.value(case.model, case.policy)
    mass = (planning.occupancy(case.model, case.policy) * bonus).sum()
    assert gain == pytest.approx(mass / (1 - case.model.gamma), abs=1e-9)


@exact
@given(cases)
def test_policies_unaware_of_the_extra_action_have_the_same_values_in_both_mdps(case):
    bonus = case.unknown * 3.0
    auxiliary = planning.auxiliary_model(case.model, bonus)
    extended = planning.auxiliary_policy(case.policy)
    with_bonus = planning.bonus_model(case.model, bonus)
    np.testing.assert_allclose(
        planning.action_values(auxiliary, extended)[:, :-1],
        planning.action_values(with_bonus, case.policy),
        atol=1e-10,
    )


def test_the_extra_action_exists_only_outside_the_known_set():
    rng = np.random.default_rng(1)
    model = Model(random_rows(rng, 3, 2, 3), np.zeros((3, 2)), np.array([1.0, 0, 0]), 0.5)
    bonus = np.array([[0.0, 2.0], [0.0, 0.0], [2.0, 2.0]])
    known = planning.known_states(bonus)
    assert known.tolist() == [False, True, False]
    auxiliary = planning.auxiliary_model(model, bonus)
    assert auxiliary.available[:, -1].tolist() == [True, False, True]
    comparator = planning.auxiliary_comparator(planning.uniform_policy(model), known)
    np.testing.assert_array_equal(comparator, [[0, 0, 1], [0.5, 0.5, 0], [0, 0, 1]])
    values = planning.state_values(auxiliary, comparator)
    np.testing.assert_allclose(values[[0, 2]], 2.0)  # 1 for ever, at gamma 0.5
    q = planning.action_values(auxiliary, comparator)
    assert q[1, 2] == -np.inf
    np.testing.assert_allclose(q[0, 2], 2.0)
    takes_it_where_it_is_not = np.tile([0.0, 0.0, 1.0], (3, 1))
    with pytest.raises(ValueError, match="action 2 in state 1, which is not available"):
        planning.state_values(auxiliary, takes_it_where_it_is_not)


def test_the_models_of_the_package_are_read_as_they_are():
    model = Model.of(river_swim(), gamma=0.95)
    assert planning.optimal(model).policy.sum() == model.num_states
    with pytest.raises(ValueError, match="give gamma"):
        Model.of(river_swim())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 1.0}, "gamma is 1.0; expected a discount strictly between 0 and 1"),
        ({"gamma": 0.0}, "gamma is 0.0"),
        (
            {"transition": np.full((2, 2, 2), 0.4)},
            "transition rows must sum to one; one sums to 0.8",
        ),
        ({"transition": np.full((2, 2), 0.5)}, "expected \\(states, actions, states\\)"),
        ({"transition": np.tile([1.5, -0.5], (2, 2, 1))}, "not negative"),
        ({"reward": np.zeros(2)}, "expected \\(2, 2\\)"),
        ({"reward": np.full((2, 2), np.nan)}, "finite"),
        ({"start": np.array([0.5, 0.6])}, "start distribution must sum to one"),
        ({"available": np.zeros((2, 2), bool)}, "state 0 has no available action"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_models_are_refused(change, message):
    good = {
        "transition": np.full((2, 2, 2), 0.5),
        "reward": np.zeros((2, 2)),
        "start": np.array([1.0, 0.0]),
        "gamma": 0.9,
    }
    with pytest.raises(ValueError, match=message):
        Model(**(good | change))


def test_bad_policies_bonuses_and_mixtures_are_refused():
    model = Model(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), np.array([1.0, 0.0]), 0.9)
    uniform = planning.uniform_policy(model)
    with pytest.raises(ValueError, match="policy rows must sum to one"):
        planning.value(model, uniform * 0.9)
    with pytest.raises(ValueError, match="policy has shape"):
        planning.value(model, uniform[:1])
    with pytest.raises(ValueError, match="not negative"):
        planning.bonus_model(model, -uniform)
    with pytest.raises(ValueError, match="rescale them into"):
        planning.auxiliary_model(dataclasses.replace(model, reward=uniform * 4), uniform)
    with pytest.raises(ValueError, match="at least one policy"):
        planning.mixture_value(model, [])
    with pytest.raises(ValueError, match="mixture weights must sum to one"):
        planning.mixture_value(model, [uniform, uniform], [0.5, 0.6])
