import datetime
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

import toy
from eniac import Config, ConfigError, Evaluation
from eniac.algorithms import ALGORITHMS


def test_a_config_survives_json(toy_config):
    config = toy_config(
        toy.Toy(sizes=(4, 5, 6), step=toy.Step(rate=2.0, kind="down")),
        env="DeepSea-v0",
        env_options={"size": 4},
        return_above=1.0,
        seconds=3,
    )
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_every_algorithm_of_the_table_survives_json():
    for row in ALGORITHMS.values():
        config = Config(row.default)
        assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_config_without_any_stop_rule_gets_a_number_of_epochs(toy_config):
    assert toy_config(epochs=None).epochs == 50
    assert toy_config(epochs=None, steps=10).epochs is None


def test_whole_numbers_are_numbers_and_text_is_a_path(toy_config):
    config = toy_config(seconds=3, out="somewhere")
    assert isinstance(config.seconds, float)
    assert config.out == Path("somewhere")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epoch": 3}, ["epoch is not a field", "Did you mean 'epochs'"]),
        ({"epochs": "3"}, ["epochs is '3'", "a whole number"]),
        ({"epochs": True}, ["epochs is True", "a whole number"]),
        ({"epochs": 3.0}, ["epochs is 3.0", "a whole number"]),
        ({"epochs": 0}, ["epochs is 0", "1 or more"]),
        ({"steps": -5}, ["steps is -5", "1 or more"]),
        ({"seconds": 0.0}, ["seconds is 0.0", "more than 0"]),
        ({"return_above": float("nan")}, ["return_above is nan", "number"]),
        ({"seed": -1}, ["seed is -1", "0 or more"]),
        ({"seed": 2**31}, ["seed is 2147483648", "below 2**31"]),
        ({"seeds": 0}, ["seeds is 0", "1 or more"]),
        ({"keep": 1}, ["keep is 1", "2 or more"]),
        ({"checkpoint_every": 0}, ["checkpoint_every is 0", "1 or more"]),
        ({"wandb": 1}, ["wandb is 1", "true or false"]),
        ({"env": "Chian-4"}, ["env is 'Chian-4'", "Chain-v0"]),
        ({"env_options": {"lenght": 3}}, ["lenght", "lure"]),
        ({"env_options": {"lure": [1]}}, ["env_options.lure is [1]"]),
        ({"evaluation": {"episodes": 0}}, ["evaluation.episodes is 0", "1 or more"]),
        ({"evaluation": {"episode": 1}}, ["evaluation.episode is not", "'episodes'"]),
        ({"evaluation": 3}, ["evaluation is 3", "Evaluation"]),
        ({"algorithm": {"name": "toi"}}, ["'toi'", "Did you mean 'toy'"]),
        ({"algorithm": {"width": 3}}, ["algorithm is", "name"]),
        ({"algorithm": "toy"}, ["algorithm is 'toy'"]),
        ({"algorithm": {"name": "toy", "wdth": 3}}, ["algorithm.wdth is not", "'width'"]),
        ({"algorithm": {"name": "toy", "width": 1.5}}, ["algorithm.width is 1.5", "whole number"]),
        ({"algorithm": {"name": "toy", "sizes": 3}}, ["algorithm.sizes is 3", "list"]),
        ({"algorithm": {"name": "toy", "sizes": [1, "x"]}}, ["algorithm.sizes[1] is 'x'"]),
        (
            {"algorithm": {"name": "toy", "step": {"kind": "upp"}}},
            ["algorithm.step.kind is 'upp'", "'up', 'down'", "Did you mean 'up'"],
        ),
        ({"algorithm": {"name": "toy", "step": {"rate": -1}}}, ["step.rate is -1", "above 0"]),
    ],
)
def test_what_does_not_belong_is_refused_by_name_value_and_what_is_allowed(
    toy_config, change, words
):
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(toy_config().to_dict() | change)
    for word in words:
        assert word in str(caught.value)


def test_python_is_checked_as_strictly_as_files(toy_config):
    with pytest.raises(ConfigError, match=r"algorithm.width is '3'"):
        toy_config(toy.Toy(width="3"))
    with pytest.raises(ConfigError, match=r"evaluation.episodes is None"):
        toy_config(evaluation=Evaluation(episodes=None))
    with pytest.raises(ConfigError, match="takes a Toy"):
        toy_config(replace(ALGORITHMS["ppo"].default, name="toy"))
    with pytest.raises(ConfigError, match="algorithm is 'ppo'"):
        Config("ppo")


def test_the_evaluation_is_cut_where_the_config_says_else_as_in_training(toy_config):
    assert toy_config().evaluation_horizon == 5
    assert toy_config(evaluation=Evaluation(horizon=7)).evaluation_horizon == 7
    assert toy_config(horizon=None).evaluation_horizon == 100  # of Chain itself
    assert toy_config(env="DeepSea-4", horizon=None).evaluation_horizon is None


def test_episodic_runs_report_the_return_of_a_trajectory_too(toy_config):
    def first(episodes, **changes):
        settings = ALGORITHMS["ppo"].settings(episodes=episodes)
        return toy_config(settings, **changes).evaluation.first

    assert first("continuing") is None
    assert first("episodic") == 100
    assert first("episodic", evaluation=Evaluation(first=7)) == 7


def test_the_default_folder_says_what_the_run_is(toy_config):
    now = datetime.datetime(2030, 1, 2, 3, 4, 5)
    assert toy_config(seed=7).default_out(now) == Path("runs/toy-Chain-4-7-20300102-030405")


def test_wandb_without_the_package_is_refused(toy_config, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'eniac\[wandb\]'"):
        toy_config(wandb=True)
