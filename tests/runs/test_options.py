"""A command line as a configuration."""

import math

import pytest

from eniac import Config, ConfigError
from eniac.algorithms import ALGORITHMS
from eniac.bonuses.rnd import RND
from eniac.bonuses.width import Width
from eniac.cover import LogDet
from eniac.runs.options import parse_config, read_option
from runs.random_configs import draw_command, judge_command


def parsed(line):
    return parse_config(line.split())


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_a_name_alone_is_the_row_of_the_table(name):
    assert parsed(name) == Config(ALGORITHMS[name].default)


def test_parts_are_chosen_by_name_and_have_their_own_options():
    config = parsed("eniac --bonus rnd --bonus.coefficient 3 --cover=log-det --cover.features 8")
    assert config.algorithm.bonus == RND(coefficient=3)
    assert config.algorithm.cover == LogDet(features=8)
    assert config.algorithm.update == ALGORITHMS["eniac"].default.update


def test_the_row_s_own_part_keeps_the_row_s_settings():
    paper = ALGORITHMS["eniac"].settings(preset="paper-depth6")
    chosen = parsed("eniac --preset paper-depth6 --bonus width").algorithm
    assert chosen == paper
    assert chosen.bonus != Width()


def test_no_cover_is_a_choice():
    assert parsed("ppo --cover none").algorithm.cover is None


def test_a_part_of_one_s_own_is_found_by_module_and_class(tmp_path, monkeypatch):
    (tmp_path / "mine_for_options.py").write_text(
        "from dataclasses import dataclass\n"
        "from eniac.bonuses.zero import Zero\n"
        "@dataclass(frozen=True)\n"
        "class Flat(Zero):\n"
        "    height: float = 1.0\n"
    )
    monkeypatch.chdir(tmp_path)
    config = parsed("zero --bonus mine_for_options:Flat --bonus.height 2")
    assert type(config.algorithm.bonus).__name__ == "Flat"
    assert config.algorithm.bonus.height == 2


def test_provable_rows_choose_their_parts_as_plain_settings():
    config = parsed("eniac-spi-sample --env DeepSea-4 --update npg --cover log-det --bonus width")
    settings = config.algorithm
    assert (settings.update, settings.cover, settings.bonus) == ("npg", "log-det", "width")


def test_a_stop_rule_that_is_given_is_the_only_one():
    config = parsed("ppo --steps 100")
    assert (config.epochs, config.steps) == (None, 100)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("true", True), ("False", False), ("3", 3), ("1e-3", 0.001), ("-2.5", -2.5)),
        *(("tanh", "tanh"), ("null", "null"), ("[1]", "[1]"), ("8x8", "8x8")),
        *(("no", "no"), ("off", "off"), ("0", 0), ("007", "007"), ("TRUE", True), ("٣", "٣")),
        *(("[" * 3000, "[" * 3000), ("1e400", math.inf), ("-Infinity", -math.inf)),
    ],
)
def test_options_of_environments_are_read_as_what_they_look_like(word, value):
    found = read_option(word)
    assert (found, type(found)) == (value, type(value))


def test_options_of_environments_are_pairs():
    config = parsed("ppo --env CombinationLock-5 --env-options randomize_actions false")
    assert config.env_options == {"randomize_actions": False}


def test_a_class_of_critics_has_options_too():
    config = parsed("spi --env DeepSea-4 --class-options link tanh num_groups 4")
    assert config.algorithm.class_options == {"link": "tanh", "num_groups": 4}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("eniac --depth", "--depth needs a value"),
        ("eniac --bonus --epochs 3", "--bonus needs a value, for instance `--bonus width`"),
        ("eniac --depth 2 --depth 4", "given twice: 2 and 4"),
        ("eniac --depth two", "depth is 'two'"),
        ("eniac --depth 2 --preset paper-depth2", "give one of the two"),
        ("npg --preset paper-depth2", "npg has no --preset"),
        ("eniac --update module_that_is_not:Mine", "there is no module 'module_that_is_not'"),
        ("run.json", "is not the config.json"),
    ],
)
def test_what_cannot_be_chosen_is_refused(line, words):
    with pytest.raises(ConfigError, match=words):
        parsed(line)


def test_parts_of_a_config_file_are_chosen_already(tmp_path):
    import json

    config = Config(ALGORITHMS["eniac"].default, out=tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    path = f"{tmp_path}/config.json"
    assert parsed(path) == Config(ALGORITHMS["eniac"].default)
    assert parsed(f"{path} --bonus.epsilon 0.5").algorithm.bonus.epsilon == 0.5
    with pytest.raises(ConfigError, match="chosen already"):
        parsed(f"{path} --bonus rnd")


def test_random_command_lines_are_taken_or_refused_and_nothing_else():
    found = [judge_command(draw_command(seed)) for seed in range(100)]
    # Some of each: a generator that is always refused, or never, tests nothing.
    assert found.count("taken") >= 3
    assert found.count("refused") >= 50


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ppo --num-envs 0", "num_envs is 0"),
        ("ppo --seconds nan", "seconds is nan"),
        ("ppo --seconds 1e400", "seconds is inf"),
        ("ppo --update.clip -1", "update.clip is -1.0"),
        ("ppo --evaluation.episodes 1000000000000", "evaluation.episodes is 1000000000000"),
        ("eniac --roll-in.share 7", "roll_in.share is 7.0"),
        (f"ppo --num-envs {'9' * 200}", "num_envs is a number of about 201 digits"),
        (f"ppo --env-options size {'9' * 200}", "env_options.size is a number of about 201 digits"),
        ("ppo --env-options size NaN", "env_options.size is nan"),
    ],
)
def test_a_value_that_is_refused_is_told_in_a_line_and_not_in_a_panel(line, words):
    with pytest.raises(ConfigError) as caught:
        parsed(line)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)
