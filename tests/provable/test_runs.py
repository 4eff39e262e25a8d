"""A run of a provable algorithm is like any other run."""

from dataclasses import replace

import numpy as np
import pytest

from eniac import Config, ConfigError, evaluate_run, load_run, resume, train
from eniac.algorithms import ALGORITHMS
from eniac.cli.main import main
from eniac.provable import ProvableConfig
from eniac.report.play import play_episode
from eniac.runs.export import load_policy
from eniac.runs.tensors import flatten

SMALL = {"N": 4, "K": 300, "T": 4, "M": 300, "m": 5.0}


def config(folder, **changes):
    algorithm = replace(ALGORITHMS["eniac-spi-sample"].default, **SMALL)
    given = {"env": "DeepSea-3", "seeds": 2, "checkpoint_every": 1, "out": folder}
    return Config(algorithm, **{**given, **changes})


@pytest.fixture(autouse=True)
def _no_figure(monkeypatch):
    monkeypatch.setattr("eniac.training.draw_all", lambda run, folder: ([], []))


def test_a_run_can_be_evaluated_played_exported_and_loaded(tmp_path):
    train(config(tmp_path / "run"))
    loaded = load_run(tmp_path / "run")
    assert loaded.states.rng.dtype == np.uint64
    judged = evaluate_run(loaded, episodes=20)
    assert [row["epoch"] for row in judged["seeds"]] == [4, 4]
    assert play_episode(loaded).length == 3
    last = load_policy(tmp_path / "run" / "policy" / "seed-1")
    np.testing.assert_array_equal(last.policy.probabilities, loaded.states.last[1])
    assert not last.greedy
    assert list(loaded.policies(1)) == ["last"]


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
    algorithm = replace(ProvableConfig(), **{**SMALL, **settings})
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


def test_the_command_line_trains_with_any_class_and_resumes(tmp_path, capsys):
    folder = str(tmp_path / "run")
    small = ["--N", "3", "--K", "200", "--T", "2", "--M", "200", "--epochs", "2"]
    options = ["--env", "DeepSea-3", "--function-class", "aggregation"]
    options += ["--class-options", "num_groups", "10", "--out", folder]
    assert main(["train", "eniac-npg-compute", *options, *small]) == 0
    assert "epoch 2/2" in capsys.readouterr().out
    assert main(["resume", folder, "--epochs", "3"]) == 0
    assert main(["train", "eniac-npg-compute", "--depth", "4"]) == 2
    assert "eniac-npg-compute has no --depth" in capsys.readouterr().err
