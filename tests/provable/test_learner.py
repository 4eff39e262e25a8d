"""The five lines: what each of them does, that they learn, and what a policy is judged by."""

from dataclasses import replace

import numpy as np
import pytest

from eniac.algorithm1 import epoch
from eniac.envs import make
from eniac.provable import PROVABLE, ProvableConfig
from eniac.provable.learner import pack, unpack
from eniac.sampling.base import Evaluation
from eniac.theory.planning import mixture_value, value
from eniac.widths.sensitivity import subsample

SMALL = {"N": 4, "K": 300, "T": 4, "M": 300, "m": 5.0}


def learner(name="eniac-spi-sample", env="DeepSea-3", evaluation=None, **settings):
    made = make(env)
    config = replace(PROVABLE[name].default, **{**SMALL, **settings}).resolve(made, env)
    return config.build(made, made, evaluation or Evaluation(episodes=20, horizon=made.time_limit))


def run(learner, seed=0):
    """The state after all epochs, and the metrics of the last as numbers."""
    state, metrics = learner.init(seed), {}
    for _ in range(learner.config.N):
        state, metrics = epoch(learner, state, np.inf)
    return state, {name: number[0] for name, number in metrics.items()}


def test_a_generator_survives_its_journey_through_an_array():
    rng = np.random.Generator(np.random.SFC64(3))
    rng.random(5, dtype=np.float32)  # leaves half a word behind
    other = unpack(pack(rng))
    np.testing.assert_array_equal(
        rng.random(9, dtype=np.float32), other.random(9, dtype=np.float32)
    )


@pytest.mark.parametrize("name", PROVABLE)
def test_every_row_finds_the_treasure_of_a_small_sea(name):
    """Three rows: even play without a bonus finds it, so this checks the parts, not exploration."""
    compute = {"alpha": 0.1} if name.endswith("compute") else {}
    state, metrics = run(learner(name, M=1500, T=8, **compute))
    assert metrics["share/last"] > 0.95
    assert metrics["value/last"] == pytest.approx(state.values[-1, 0])
    assert metrics["return_mean"] > 0.9


@pytest.mark.parametrize(("name", "unit"), [("spi-sample", 10.0), ("npg-compute", 2 * 10.0 / 0.5)])
def test_the_bonus_is_that_of_the_newest_known_set(name, unit):
    made = learner(f"eniac-{name}", gamma=0.9, **({"alpha": 0.5} if "compute" in name else {}))
    assert (made.bonus(made.init(0)).worth == unit).all()  # nothing is known yet
    state, _ = epoch(made, made.init(0), np.inf)
    bonus = made.bonus(state)
    for pair in np.ndindex(state.unknown[0].shape):
        assert bonus(*pair) == unit * state.unknown[0][pair]
    assert learner("spi").bonus(learner("spi").init(0)) is None


def test_an_epoch_counts_what_it_visited_and_what_it_knows():
    first = learner()
    state, metrics = run(first)
    assert state.visits.sum(axis=(1, 2)).tolist() == [300] * 4
    expected = np.cumsum(state.visits, axis=0) < 5
    np.testing.assert_array_equal(state.unknown, expected)
    assert metrics["known/pairs"] == (~expected[-1]).sum()


def test_steps_are_those_of_the_paper():
    """1/(1-gamma) for each of K; (1+gamma)/(1-gamma) for SPI's M, (2+gamma)/(1-gamma) for NPG's."""
    for name, per_sample in (("eniac-spi-sample", 1.9), ("eniac-npg-sample", 2.9)):
        given = learner(name, gamma=0.9, K=20_000, M=20_000, N=1)
        _, metrics = run(given)
        expected = 10 * 20_000 + 4 * 20_000 * 10 * per_sample
        assert metrics["steps"] == pytest.approx(expected, rel=0.02)


def test_the_metrics_are_exact_values_in_the_units_of_the_environment():
    given = learner("eniac-spi-compute", "CombinationLock-2", alpha=0.2, N=2)
    state, metrics = run(given)
    assert given.reward.max() == 1.0
    assert given.model.reward.max() == 5.0
    assert metrics["value/last"] == pytest.approx(value(given.model, state.last), abs=1e-6)
    inner = [mixture_value(given.model, list(policies)) for policies in state.policies]
    assert metrics["value/inner_mixture"] == pytest.approx(inner[-1])
    assert metrics["value/outer_mixture"] == pytest.approx(np.mean(inner))
    mixed = 0.8 * state.last + 0.02
    assert metrics["value/executed"] == pytest.approx(value(given.model, mixed), abs=1e-5)


def test_first_policies_are_uniform_over_unknown_actions_or_over_all():
    state, _ = run(learner(N=2))
    unknown = state.unknown[0]
    rows = unknown.any(axis=1)
    np.testing.assert_allclose(
        state.policies[0, :, rows],
        np.repeat((unknown / np.maximum(unknown.sum(1), 1)[:, None])[rows][:, None], 4, 1),
        atol=1e-7,
    )
    np.testing.assert_allclose(state.policies[0, 0, ~rows], 0.5)
    state, _ = run(learner("eniac-spi-compute", N=2, alpha=0.2))
    np.testing.assert_allclose(state.policies[:, 0], 0.5)
    assert state.policies.min() >= 0.1 - 1e-6


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    given = learner()
    one, again, other = run(given, 0)[0], run(given, 0)[0], run(given, 1)[0]
    for a, b in zip(one, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.visits, other.visits)


def test_a_full_cover_takes_no_more():
    given = learner(N=1)
    state, _ = run(given)
    with pytest.raises(ValueError, match="full after N = 1"):
        given.visit(state)


def test_metrics_have_an_axis_of_one_round():
    given = learner(N=1)
    _, metrics = epoch(given, given.init(0), np.inf)
    assert given.rounds == 1
    assert {name: number.shape for name, number in metrics.items()} == dict.fromkeys(metrics, (1,))
    assert metrics["ran"].tolist() == [True]
    judged = ("return_mean", "return_std", "return_min", "return_max", "length_mean", "steps")
    assert {*judged} <= metrics.keys()


def test_a_line_changes_only_its_own_part_of_the_state_and_nothing_in_place():
    given = learner()
    state = run(given)[0]._replace(epoch=np.asarray(2))
    before = {name: array.copy() for name, array in state._asdict().items()}

    def changed(old, new):
        pairs = zip(old._fields, old, new, strict=True)
        return {name for name, a, b in pairs if not np.array_equal(a, b)}

    visited, samples = given.visit(state)
    assert changed(state, visited) == {"rng"}
    assert len(samples.pairs) == 300
    merged = given.merge(visited, samples)
    assert changed(visited, merged) == {"visits", "visit_steps"}
    extended = given.extend(merged, samples)
    assert changed(merged, extended) == {"weights"}
    known = given.fit_bonus(extended)
    assert changed(extended, known) <= {"unknown", "kept"}
    given.improve(known, np.inf)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(state, name), array, err_msg=name)


def test_how_a_policy_is_judged_changes_nothing_that_is_learned():
    one, other = (
        run(learner(evaluation=Evaluation(episodes=n, horizon=h)))[0] for n, h in ((1, 2), (50, 9))
    )
    for name, a, b in zip(one._fields, one, other, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


def test_the_evaluation_is_of_the_policy_that_is_played():
    given = learner(
        "eniac-spi-compute", evaluation=Evaluation(episodes=5, horizon=2, first=1), alpha=0.2
    )
    state = given.init(0)._replace(epoch=np.asarray(1))
    right = given.model.reward.argmin(axis=1)  # the costly move of a deep sea
    cost = given.model.reward.min()
    state = state._replace(last=np.eye(2, dtype=np.float32)[right])
    found = given.evaluate(state)
    assert float(found["return_mean"]) == pytest.approx(2 * cost)
    assert float(found["return_first_mean"]) == pytest.approx(cost)
    assert float(found["return_std"]) == pytest.approx(0.0, abs=1e-6)
    assert float(found["length_mean"]) == 2.0
    again, later = given.evaluate(state), given.evaluate(state._replace(last=given.init(0).last))
    assert float(again["return_mean"]) == float(found["return_mean"])
    assert float(later["return_std"]) > 0


def test_few_of_the_data_are_kept_and_the_known_set_stays():
    """A pair of the tabular class needs ten data or so, and hundreds are kept of each."""
    plain, few = (run(learner(K=20_000, N=2, subsample=flag)) for flag in (False, True))
    np.testing.assert_array_equal(plain[0].unknown, few[0].unknown)
    assert plain[0].kept == 40_000
    assert few[1]["data/kept"] == few[0].kept < 20_000
    given = learner(K=20_000, N=2, subsample=True)
    kept = subsample(
        given.functions, few[0].visits.sum(0), given.config.epsilon**2, np.random.default_rng(0)
    )
    assert few[0].kept == pytest.approx(kept.num_kept, rel=0.2)


def test_a_policy_can_be_read_back_by_its_number_of_states_and_actions():
    given = learner()
    assert given.policy_format() == {"kind": "table", "num_states": 10, "num_actions": 2}
    assert given.policy(given.init(0)).probabilities.shape == (10, 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"gamma": 1.0},
        {"gamma": 0.0},
        {"N": 0},
        {"M": -1},
        {"eta": 0.0},
        {"m": 0.5},
        {"beta": 0.0},
        {"alpha": 0.1},
        {"alpha": 1.5, "version": "compute"},
        {"m": 5.0, "epsilon": 1.0},
        {"ridge": -1.0},
        {"update": "ppo"},
        {"bonus": "widths"},
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueError, match=" is "):
        ProvableConfig(**settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eniac-spi-sample", "eniac-npg-sample"])
@pytest.mark.parametrize("env", ["DeepSea-10", "RiverSwim-v0", "CombinationLock-5"])
def test_the_last_iterate_is_nearly_optimal_where_exploration_is_hard(name, env):
    given = learner(name, env, **dict.fromkeys(SMALL))
    for seed in range(3):
        _, metrics = run(given, seed)
        assert metrics["share/last"] >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spi", "npg"])
@pytest.mark.parametrize("env", ["DeepSea-20", "CombinationLock-5"])
def test_without_a_bonus_the_treasure_stays_hidden(name, env):
    _, metrics = run(learner(name, env, **dict.fromkeys(SMALL)))
    assert metrics["share/last"] < 0.5
