"""The loop: what an epoch does, that it learns, and that a run of it is like any other run."""

from dataclasses import replace

import numpy as np
import pytest

from eniac import Config, ConfigError, evaluate_run, load_run, resume, train
from eniac.algorithms import ALGORITHMS
from eniac.cli.main import main
from eniac.envs import make
from eniac.provable import PROVABLE, Provable
from eniac.provable.learner import pack, unpack
from eniac.report.play import play_episode
from eniac.runs.export import load_policy
from eniac.runs.tensors import flatten
from eniac.theory.planning import mixture_value, value

SMALL = {"N": 4, "K": 300, "T": 4, "M": 300, "m": 5.0}


def learner(name="eniac-spi-sample", env="DeepSea-3", **settings):
    parts = replace(PROVABLE[name].default, **{**SMALL, **settings}).for_env(env, {})
    return parts.build(parts.adapt(make(env)))


def run(learner, seed=0):
    state, metrics = learner.init(seed), {}
    for _ in range(learner.parts.N):
        state, metrics = learner.epoch(state)
    return state, metrics


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
    assert metrics["return_mean"] == pytest.approx(state.values[-1, 0])


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
    assert metrics["return_mean"] == pytest.approx(value(given.model, state.last), abs=1e-6)
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
        given.epoch(state)


def config(folder, **changes):
    algorithm = replace(ALGORITHMS["eniac-spi-sample"].default, **SMALL)
    given = {"env": "DeepSea-3", "seeds": 2, "checkpoint_every": 1, "out": folder}
    return Config(algorithm, **{**given, **changes})


@pytest.fixture(autouse=True)
def _no_figure(monkeypatch):
    monkeypatch.setattr("eniac.runs.engine.draw_all", lambda run, folder: ([], []))


def test_a_run_can_be_evaluated_played_exported_and_loaded(tmp_path):
    train(config(tmp_path / "run"))
    loaded = load_run(tmp_path / "run")
    assert loaded.states.rng.dtype == np.uint64
    judged = evaluate_run(loaded, episodes=20)
    assert [row["epoch"] for row in judged["seeds"]] == [4, 4]
    assert play_episode(loaded).length == 3
    policy = load_policy(tmp_path / "run" / "policy" / "seed-1")
    np.testing.assert_array_equal(policy.probabilities, loaded.states.last[1])


def test_a_run_resumed_is_a_run_never_interrupted(tmp_path):
    train(config(tmp_path / "whole"))
    train(config(tmp_path / "parts", epochs=2))
    resume(tmp_path / "parts", epochs=4)
    whole, parts = (flatten(load_run(tmp_path / name).states) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    for name in whole:
        np.testing.assert_array_equal(whole[name], parts[name], err_msg=name)
    lines = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "parts")]
    assert lines[0] == lines[1]


def test_a_seed_that_has_met_its_goal_rests_while_others_go_on(tmp_path):
    given = config(tmp_path / "run", epochs=4, return_above=0.0)
    result = train(given)
    alone = train(replace(given, out=tmp_path / "alone", seed=1, seeds=1))
    assert result.progress.epochs[1] == alone.progress.epochs[0]
    assert result.progress.returns[1] == alone.progress.returns[0]


@pytest.mark.parametrize(
    ("settings", "changes", "words"),
    [
        ({}, {"env": "MountainCarContinuous-v0"}, "finitely many states and actions"),
        ({"bound": 2.0}, {"env": "DeepSea-10"}, "Assumption 4.2"),
        ({"rewards": "refuse"}, {}, "rewards lie in"),
        ({"theory_constants": True}, {}, r"takes N \(K \+ T M\) = .* samples"),
        ({"function_class": "tables"}, {}, "no function class is called 'tables'"),
        ({}, {"epochs": 9}, "a larger N"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(tmp_path, settings, changes, words):
    algorithm = replace(Provable(), **{**SMALL, **settings})
    given = {"env": "DeepSea-3", "out": tmp_path / "run", **changes}
    with pytest.raises(ConfigError, match=words):
        train(Config(algorithm, **given))
    assert not (tmp_path / "run").exists()


def test_a_run_ends_when_its_cover_is_full_whatever_its_other_rules(tmp_path):
    result = train(config(tmp_path / "run", return_above=100.0))
    assert result.progress.epochs.tolist() == [4, 4]
    assert result.ended == "4 epochs"


def test_npg_refuses_trees_before_any_work(tmp_path):
    algorithm = replace(ALGORITHMS["eniac-npg-sample"].default, function_class="trees", **SMALL)
    with pytest.raises(ConfigError, match="use SPI"):
        train(Config(algorithm, env="DeepSea-3", out=tmp_path / "run"))


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
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ValueError, match=" is "):
        Provable(**settings)


def test_a_setting_that_is_given_is_kept_and_others_are_chosen_for_the_environment():
    parts = Provable(K=77, m=3.0).for_env("DeepSea-10", {})
    assert (parts.K, parts.m, parts.gamma, parts.rewards) == (77, 3.0, 0.9, "scale")
    assert Provable(epsilon=2.0).for_env("DeepSea-10", {}).m is None
    assert Provable().for_env("MountainCarContinuous-v0", {}) == Provable()


def test_the_command_line_trains_with_any_class_and_resumes(tmp_path, capsys):
    folder = str(tmp_path / "run")
    small = ["--N", "3", "--K", "200", "--T", "2", "--M", "200", "--epochs", "2"]
    options = ["--env", "DeepSea-3", "--function-class", "aggregation"]
    options += ["--class-options", "num_groups", "10", "--out", folder]
    assert main(["train", "eniac-npg-compute", *options, *small]) == 0
    assert "exact discounted values" in capsys.readouterr().out
    assert main(["resume", folder, "--epochs", "3"]) == 0
    assert main(["train", "eniac-npg-compute", "--depth", "4"]) == 2
    assert "has no network" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eniac-spi-sample", "eniac-npg-sample"])
@pytest.mark.parametrize("env", ["DeepSea-10", "RiverSwim-v0", "CombinationLock-5"])
def test_the_last_iterate_is_nearly_optimal_where_exploration_is_hard(name, env):
    parts = PROVABLE[name].default.for_env(env, {})
    for seed in range(3):
        _, metrics = run(parts.build(parts.adapt(make(env))), seed)
        assert metrics["share/last"] >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spi", "npg"])
@pytest.mark.parametrize("env", ["DeepSea-20", "CombinationLock-5"])
def test_without_a_bonus_the_treasure_stays_hidden(name, env):
    parts = PROVABLE[name].default.for_env(env, {})
    _, metrics = run(parts.build(parts.adapt(make(env))))
    assert metrics["share/last"] < 0.5
