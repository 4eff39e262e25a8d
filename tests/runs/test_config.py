import datetime
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import parts_by_hand
import toy
from eniac import Config, ConfigError, Evaluation
from eniac.algorithms import ALGORITHMS
from eniac.algorithms.deep import DeepConfig, RollInRule
from eniac.bonuses import RND, Kernel, Width
from eniac.cover import LogDet, Uniform
from eniac.updates.ppo import PPO


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


COUNTS = some.integers(1, 10**4)
SHARES = some.floats(0, 1)
POSITIVE = some.floats(1e-12, 1e12)


def part(kind, **fields):
    """What a part is made of. It is made in the test: checks of types draw random numbers."""
    return some.tuples(some.just(kind), some.fixed_dictionaries(fields))


SETTINGS = some.fixed_dictionaries(
    {
        "name": some.sampled_from(["eniac", "pc-pg", "zero"]),
        "hidden": some.lists(COUNTS, min_size=1, max_size=4).map(tuple),
        "num_envs": COUNTS,
        "rollout_length": some.integers(2, 1000),
        "rounds": COUNTS,
        "episodes": some.sampled_from(["continuing", "episodic"]),
        "normalise_observations": some.booleans(),
        "buffer_rows": some.none() | COUNTS,
    }
)
PARTS = some.fixed_dictionaries(
    {
        "update": part(PPO, learning_rate=POSITIVE, minibatch=COUNTS, gae_lambda=SHARES),
        "cover": part(Uniform) | part(LogDet, features=COUNTS, ridge=POSITIVE),
        "bonus": part(Width, outer=COUNTS, threshold=some.none() | POSITIVE, uniform_share=SHARES)
        | part(Kernel, features=COUNTS, bandwidth=some.sampled_from(["median", "paper"]))
        | part(RND, coefficient=POSITIVE),
        "roll_in": part(RollInRule, share=SHARES, group=COUNTS),
    }
)


@settings(max_examples=50, deadline=None)
@given(SETTINGS, PARTS, some.integers(0, 1000), some.none() | some.floats(-1e37, 1e37))
def test_whatever_can_be_configured_survives_json(fields, parts, seed, bound):
    made = {name: kind(**inner) for name, (kind, inner) in parts.items()}
    config = Config(DeepConfig(**fields, **made), seed=seed, return_above=bound)
    again = Config.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.to_dict() == config.to_dict()


def test_a_run_without_any_stop_rule_gets_a_number_of_epochs_when_it_is_built(toy_config):
    assert toy_config(epochs=None).epochs is None
    assert toy_config(epochs=None).build().config.epochs == 50
    assert toy_config(epochs=None, steps=10).build().config.epochs is None


@pytest.mark.usefixtures("unchecked")
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
        ({"env": "Chian-4"}, ["'Chian-4'", "Chain-v0"]),
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


@pytest.mark.usefixtures("unchecked")
def test_python_is_checked_as_strictly_as_files(toy_config):
    with pytest.raises(ConfigError, match=r"algorithm.width is '3'"):
        toy_config(toy.Toy(width="3"))
    with pytest.raises(ConfigError, match=r"evaluation.episodes is None"):
        toy_config(evaluation=Evaluation(episodes=None))
    with pytest.raises(ConfigError, match="takes a Toy"):
        toy_config(replace(ALGORITHMS["ppo"].default, name="toy"))
    with pytest.raises(ConfigError, match="algorithm is 'ppo'"):
        Config("ppo")


def test_options_that_an_environment_does_not_take_are_refused_when_it_is_made(toy_config):
    with pytest.raises(ConfigError) as caught:
        toy_config(env_options={"lenght": 3}).build()
    for word in ("lenght", "lure"):
        assert word in str(caught.value)


def test_the_evaluation_is_cut_where_the_config_says_else_as_in_training(toy_config):
    def horizon(**changes):
        return toy_config(**changes).build().config.evaluation.horizon

    assert horizon() == 5
    assert horizon(evaluation=Evaluation(horizon=7)) == 7
    assert horizon(horizon=None) == 100  # of Chain itself
    assert horizon(env="DeepSea-4", horizon=None) is None


def test_episodic_runs_report_the_return_of_a_rollout_too(toy_config):
    def first(episodes, **changes):
        settings = ALGORITHMS["ppo"].settings(episodes=episodes)
        return toy_config(settings, **changes).build().config.evaluation.first

    assert first("continuing") is None
    assert first("episodic") == 5  # no rollout is longer than an episode, of five steps here
    assert first("episodic", evaluation=Evaluation(first=7)) == 7


def test_what_is_chosen_for_an_environment_follows_it():
    config = Config(ALGORITHMS["eniac-spi-sample"].default, env="DeepSea-10")
    assert config.build().config.algorithm.N == 14
    assert replace(config, env="DeepSea-20").build().config.algorithm.N == 28
    assert config.algorithm.N is None


def test_an_environment_given_as_an_object_has_a_name_but_must_be_given_again(toy_config):
    env = gymnasium.make("CartPole-v1")
    config = Config(ALGORITHMS["ppo"].default).for_object(env)
    assert config.env == "given: gymnasium.envs.classic_control.cartpole.CartPoleEnv"
    assert config.build(env).config.algorithm.num_envs == 1
    with pytest.raises(ConfigError, match=r"needed again.*load_run"):
        config.build()


def test_parts_of_ones_own_survive_json_by_module_and_name():
    config = Config(replace(ALGORITHMS["eniac"].default, bonus=parts_by_hand.Constant(size=2.0)))
    data = json.loads(json.dumps(config.to_dict()))
    assert data["algorithm"]["bonus"] == {"type": "parts_by_hand:Constant", "size": 2.0}
    assert data["algorithm"]["cover"] == {"type": "uniform"}
    assert data["algorithm"]["update"]["type"] == "ppo"
    assert Config.from_dict(data) == config


@pytest.mark.parametrize(
    ("bonus", "words"),
    [
        ({"type": "widht"}, ["bonus is 'widht'", "Did you mean 'width'"]),
        ({"type": "nowhere:Bonus"}, ["nowhere", "no module"]),
        ({"type": "parts_by_hand:Constnat"}, ["Constnat", "Did you mean 'Constant'"]),
        ({"type": "json:loads"}, ["json:loads", "comes with Python"]),
        ({"type": "toy:register"}, ["toy:register", "inherits from"]),
        ({"type": "parts_by_hand:Constant", "sise": 1.0}, ["bonus.sise is not a field", "'size'"]),
        ({"type": "parts_by_hand:Constant", "size": "big"}, ["bonus.size is 'big'", "a number"]),
        ({"size": 1.0}, ["bonus is", "type"]),
        ({"type": 3}, ["type is 3"]),
    ],
)
def test_parts_that_do_not_belong_are_refused_by_name(bonus, words):
    data = Config(ALGORITHMS["eniac"].default).to_dict()
    data["algorithm"]["bonus"] = bonus
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(data)
    for word in words:
        assert word in str(caught.value)


def test_the_default_folder_says_what_the_run_is(toy_config):
    now = datetime.datetime(2030, 1, 2, 3, 4, 5)
    assert toy_config(seed=7).default_out(now) == Path("runs/toy-Chain-4-7-20300102-030405")


def test_wandb_without_the_package_is_refused(toy_config, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'eniac\[wandb\]'"):
        toy_config(wandb=True)
