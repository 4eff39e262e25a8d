"""The certificate: its parts are the proof's identity, and each of them equals a recomputation."""

from dataclasses import replace

import numpy as np
import pytest

from eniac.algorithm1 import epoch
from eniac.envs import make
from eniac.provable import PROVABLE
from eniac.sampling.base import Evaluation
from eniac.theory.certify import Line, certify
from eniac.theory.planning import (
    action_values,
    advantages,
    auxiliary_comparator,
    auxiliary_model,
    bonus_model,
    mixture_occupancy,
    mixture_value,
    occupancy,
    optimal,
    uniform_policy,
    value,
)
from eniac.theory.run_bounds import RunBounds
from eniac.theory.terms import best_fit, measure
from eniac.widths.exact import bonus_from_unknown

SMALL = {"N": 3, "K": 60, "T": 3, "M": 60, "m": 4.0, "eta": 2.0}


def finished(name="eniac-spi-sample", env="RiverSwim-v0", **settings):
    """A learner and its state after all its epochs, tiny unless `settings` say more."""
    made = make(env)
    config = replace(PROVABLE[name].default, **{**SMALL, **settings}).resolve(made, env)
    learner = config.build(made, made, Evaluation(episodes=1, horizon=5))
    state = learner.init(0)
    for _ in range(learner.config.N):
        state, _ = epoch(learner, state, np.inf)
    return learner, state


def certified(**settings):
    learner, state = finished(**settings)
    return certify(learner.record(state))


def policies_of(state, n):
    found = state.policies[n].astype(np.float64)
    return list(found / found.sum(axis=2, keepdims=True))


def bonus_of(learner, state, n):
    return bonus_from_unknown(state.unknown[n], learner.config.gamma, learner.config.alpha)


@pytest.mark.parametrize("env", ["RiverSwim-v0", "DeepSea-4"])
@pytest.mark.parametrize("name", PROVABLE)
def test_the_parts_of_the_proof_add_up_to_the_gap(name, env):
    learner, state = finished(name, env)
    certificate = certify(learner.record(state))
    assert certificate.residual < 1e-12 / (1 - learner.config.gamma) ** 3
    model = learner.record(state).learned_model
    gap = value(model, optimal(model).policy) - np.mean(
        [mixture_value(model, policies_of(state, n)) for n in range(3)]
    )
    parts = [line.measured for line in certificate.lines if line.section == "parts"]
    assert sum(parts) == pytest.approx(gap, abs=1e-9)
    assert certificate.line("gap, outer mixture").measured == pytest.approx(gap, abs=1e-12)


@pytest.mark.parametrize("name", ["eniac-spi-sample", "eniac-spi-compute", "eniac-npg-sample"])
def test_every_term_equals_its_definition_solved_anew(name):
    learner, state = finished(name)
    model, gamma = learner.record(state).learned_model, learner.config.gamma
    comparator = optimal(model).policy
    assert state.unknown[1].any()
    assert not state.unknown[1].all()
    for n, found in enumerate(measure(learner.record(state))):
        bonus, known = bonus_of(learner, state, n), ~state.unknown[n].any(axis=1)
        policies, plus = policies_of(state, n), bonus_model(model, bonus)
        auxiliary, aware = auxiliary_model(model, bonus), auxiliary_comparator(comparator, known)
        there = occupancy(auxiliary, aware)
        # What is on the two sides of the performance difference lemma.
        regret = value(auxiliary, aware) - mixture_value(plus, policies)
        split = found.optimisation + found.approximation + found.dagger
        assert split == pytest.approx(regret, abs=1e-8)
        assert found.approximation == pytest.approx(found.transfer + found.statistical, abs=1e-8)
        # V_b - V is the mass of the unknown pairs times the bonus: the factor the lemma lost.
        mass = mixture_occupancy(model, policies)[state.unknown[n]].sum()
        assert found.bonus == pytest.approx(mass * bonus.max(initial=0) / (1 - gamma), abs=1e-8)
        assert found.pessimism == pytest.approx(
            value(model, comparator) - value(auxiliary, aware), abs=1e-9
        )
        optimisation = 0.0
        for policy, critic in zip(policies, state.critics[n], strict=True):
            for s in np.flatnonzero(known):
                centre = policy[s] @ (critic[s] + bonus[s])
                optimisation += there[s, :-1] @ (critic[s] + bonus[s] - centre)
        optimisation /= learner.config.T * (1 - gamma)
        assert found.optimisation == pytest.approx(optimisation, abs=1e-8)


def test_the_statistical_error_is_the_loss_under_the_exact_cover():
    learner, state = finished()
    model = learner.record(state).learned_model
    first = [uniform_policy(model)]
    inner = [policies_of(state, n) for n in range(3)]
    for n, found in enumerate(measure(learner.record(state))):
        cover = np.mean([mixture_occupancy(model, p) for p in [first, *inner[:n]]], axis=0)
        plus, bonus = bonus_model(model, bonus_of(learner, state, n)), bonus_of(learner, state, n)
        losses, distances = [], []
        for policy, critic in zip(inner[n], state.critics[n], strict=True):
            # W = 1/(1-gamma)^2 reaches every Q_b - b, so the best fit leaves no loss.
            missed = critic - (action_values(plus, policy) - bonus)
            losses.append(np.sum(cover * missed**2))
            distances.append(np.sum(state.visits[: n + 1].sum(0) * missed**2) ** 0.5)
        assert found.excess_loss == pytest.approx(max(losses), rel=1e-6)
        assert found.distance == pytest.approx(max(distances), rel=1e-6)
        assert found.bias == 0.0


@pytest.mark.parametrize("name", ["eniac-spi-sample", "eniac-npg-sample", "eniac-npg-compute"])
def test_exact_critics_have_no_approximation_error(name):
    learner, state = finished(name, gamma=0.8)
    model = learner.record(state).learned_model
    critics = state.critics.copy()
    for n in range(3):
        bonus = bonus_of(learner, state, n)
        plus = bonus_model(model, bonus)
        for t, policy in enumerate(policies_of(state, n)):
            exact = action_values(plus, policy) - bonus
            if learner.config.update == "npg":
                centred = bonus - np.sum(policy * bonus, axis=1, keepdims=True)
                exact = advantages(plus, policy) - centred
            critics[n, t] = exact
    for found in measure(learner.record(state._replace(critics=critics))):
        assert found.approximation == pytest.approx(0, abs=1e-3)  # float32 of up to 10^3
        assert found.statistical == pytest.approx(0, abs=1e-3)
        assert found.excess_loss == pytest.approx(0, abs=1e-6)
        assert found.transfer == pytest.approx(0, abs=1e-9)


def test_the_best_linear_fit_is_least_squares_under_the_cover():
    learner, state = finished(env="LinearMDP-v0", function_class="linear")
    model, cover = (
        learner.record(state).learned_model,
        occupancy(learner.model, uniform_policy(learner.model)),
    )
    policy = policies_of(state, 0)[1]
    target = np.random.default_rng(0).normal(size=learner.shape)
    found = best_fit(learner.record(state), policy, target, cover)
    rows = learner.functions.features.reshape(-1, learner.functions.dim)
    root = np.sqrt(cover.ravel())
    u, *_ = np.linalg.lstsq(rows * root[:, None], target.ravel() * root, rcond=None)
    np.testing.assert_allclose(found.ravel(), rows @ u, atol=1e-8)
    # Every Q-function of a linear MDP is linear: the class is realisable, and nothing transfers.
    assert max(epoch.bias for epoch in measure(learner.record(state))) < 1e-12
    assert model.num_states > learner.functions.dim


def test_large_widths_are_counted_in_the_samples_of_the_next_epoch():
    learner, state = finished(N=4)
    found = [epoch.large_widths for epoch in measure(learner.record(state))]
    seen = np.cumsum(state.visits, axis=0)
    expected = [state.visits[n + 1][seen[n] < 4].sum() for n in range(3)]
    assert found[:3] == expected
    assert np.isnan(found[3])
    certificate = certify(learner.record(state))
    assert certificate.line("samples of large width").measured == sum(expected)
    assert sum(expected) <= certificate.bounds.large_widths


def test_bounds_at_the_theorems_step_size_are_those_of_the_lemmas():
    learner, state = finished(gamma=0.9, bound=100.0, T=16)
    W, steps = 100.0, 16
    eta = np.sqrt(np.log(2) / (16 * W**2 * steps))
    bounds = RunBounds(replace(learner.record(state), eta=eta), delta=0.1)
    assert bounds.optimisation == pytest.approx(10 * 8 * W * np.sqrt(np.log(2) / steps))
    # 6 states and 2 actions; epsilon^2 = 3.5 makes 4 visits known.
    count = (2 * 3.5 + 8 * W**2 * 60 + 1) * 12
    assert bounds.large_widths == pytest.approx(count)
    chance = 3 * np.sqrt(np.log(2 * 3 * 3 * 16 / 0.1) / (2 * 60))
    assert bounds.bonus == pytest.approx(10**2 * (count / 60 + chance))
    assert bounds.statistical == pytest.approx(20.0)
    assert bounds.transfer(0.02) == pytest.approx(10 * 4 * 0.2)


def test_the_lemmas_hold_when_rewards_lie_in_the_unit_interval():
    for name in ("eniac-spi-sample", "eniac-spi-compute", "eniac-npg-sample", "eniac-npg-compute"):
        learner, state = finished(name)
        certificate = certify(learner.record(state))
        terms = ("pessimism", "dagger", "d-tilde - d on K", "sup A(s, a-dagger)")
        assert [certificate.line(term).verdict for term in terms] == ["holds"] * 4
        for term in ("bonus", "optimisation", "samples of large width", "epsilon_stat"):
            assert certificate.line(term).verdict in ("holds", "vacuous")


def test_what_a_negative_reward_breaks_is_said():
    """Then an unknown state may be worth less than 1/(1-gamma), which Lemma C.2 excludes."""
    certificate = certified(env="DeepSea-4")
    assert certificate.line("rewards outside [0, 1]").verdict == "fails"
    assert certificate.line("rewards outside [0, 1]").measured == pytest.approx(0.01 / 4)
    assert certificate.line("pessimism").verdict == "holds"


def test_a_class_without_an_exact_best_fit_is_not_split():
    certificate = certified(env="LogisticMDP-v0", function_class="glm")
    assert certificate.residual < 1e-10
    assert certificate.line("approximation").verdict == "no bound"
    assert certificate.line("epsilon_stat").verdict == "unmeasured"
    assert certificate.to_dict()["epochs"][0]["bias"] is None


@pytest.mark.parametrize(
    ("measured", "largest", "bound", "verdict"),
    [
        (1.0, None, 2.0, "holds"),
        (1.0, 3.0, 2.0, "fails"),
        (1.0, None, 5.0, "vacuous"),
        (1.0, None, None, "no bound"),
        (np.nan, None, 2.0, "unmeasured"),
        (-np.inf, None, 0.0, "empty"),
    ],
)
def test_a_verdict_is_of_the_worst_epoch(measured, largest, bound, verdict):
    assert Line("parts", "x", measured, largest, bound, 4.0, "").verdict == verdict


def test_nothing_is_certified_before_the_first_epoch():
    learner, _ = finished()
    with pytest.raises(ValueError, match="no epoch is finished"):
        certify(learner.record(learner.init(0)))
