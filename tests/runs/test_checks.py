"""Every check: what makes it good, doubtful, bad, and impossible to tell."""

import re
from dataclasses import replace

import pytest

from eniac import Config
from eniac.algorithms import ALGORITHMS
from eniac.bonuses.rnd import RND
from eniac.cli.main import main
from eniac.runs import checks
from eniac.runs.checks import CHECKS, Evidence, find

BY_NAME = {check.name: check for check in CHECKS}
GOOD_CRITIC = {
    "value_low": 0.0,
    "value_high": 1.0,
    "return_low": -0.5,
    "return_high": 1.5,
    "explained_variance": 0.9,
}
GOOD_BONUS = {
    "auc": 0.9,
    "visited_mean": 0.1,
    "unvisited_mean": 0.4,
    "visited": 9,
    "unvisited": 9,
    "unit": "pairs",
    "constant": False,
}


def answer(name, *records, algorithm="eniac", looked=None, **config):
    """What the check finds in such records, each with its number of steps."""
    row = ALGORITHMS[algorithm].default
    rows = [{"epoch": n, "seed": 0, "env_steps": 100 * n} | x for n, x in enumerate(records, 1)]
    return find(BY_NAME[name], Evidence(Config(row, **config), rows, looked or {}, "not looked"))


def learning(prefix="exploit/", **numbers):
    found = {"entropy": 1.0, "clipped": 0.05, "kl": 0.005} | numbers
    return {prefix + name: value for name, value in found.items()}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_without_records_nothing_can_be_told(check):
    assert find(check, Evidence(Config(ALGORITHMS["eniac"].default), [], {})).verdict == "unknown"


@pytest.mark.parametrize(
    ("records", "looked", "verdict", "trouble"),
    [
        ([{"explore/bonus": 0.2}], {}, "good", ""),
        ([{"explore/bonus": 0.0}], {}, "bad", checks.NO_BONUS),
        ([{"explore/bonus": 0.2, "width/diverged": 1}], {}, "bad", checks.DIVERGED),
        ([{"explore/bonus": 0.2, "width/collapsed": 1}], {}, "bad", checks.COLLAPSED),
        ([{"explore/bonus": 0.2, "explore/bonus_decides": 0.0}], {}, "bad", checks.NO_SAY),
        ([{"explore/bonus": 1.0}] + [{"explore/bonus": 0.001}] * 5, {}, "look", checks.IS_KNOWN),
        ([{"loss": 1.0}], {}, "unknown", ""),
    ],
)
def test_bonus(records, looked, verdict, trouble):
    found = answer("bonus", *records, looked=looked)
    assert (found.verdict, found.trouble) == (verdict, trouble)


def test_rounds_in_which_a_policy_did_not_learn_do_not_count():
    idle = {"explore/bonus": 0.0, "explore/bonus_decides": 0.0, "explore/entropy": 0.0}
    learned = {"explore/bonus": 0.2, "explore/bonus_decides": 0.9, "explore/entropy": 1.0}
    found = answer("bonus", learned, *[idle] * 9)
    assert (found.verdict, found.number) == ("good", 0.2)
    rows = [learning(clipped=0.4)] * 3 + [learning(clipped=0.0, kl=0.0, entropy=0.0)] * 9
    assert answer("step-size", *rows).verdict == "bad"


def test_one_policy_that_hardly_hears_the_reward_for_its_bonus():
    heard = {"algorithm": "ppo-rnd", "looked": {"bonus_to_reward": 2.0}}
    assert answer("bonus", {"bonus": 1.0}, **heard).verdict == "good"
    found = answer("bonus", {"bonus": 1.0}, algorithm="ppo-rnd", looked={"bonus_to_reward": 50.0})
    assert (found.verdict, found.number) == ("look", 50.0)


@pytest.mark.parametrize(
    ("bonus", "verdict"),
    [
        (GOOD_BONUS, "good"),
        (GOOD_BONUS | {"auc": 0.7}, "look"),
        (GOOD_BONUS | {"auc": 0.5}, "bad"),
        (GOOD_BONUS | {"auc": None, "unvisited": 0}, "unknown"),
        (GOOD_BONUS | {"constant": True}, "unknown"),
        (None, "unknown"),
    ],
)
def test_visited(bonus, verdict):
    assert answer("visited", {}, looked={"bonus": bonus}).verdict == verdict


def test_another_bonus_is_one_that_the_algorithm_can_have():
    bad = {"bonus": GOOD_BONUS | {"auc": 0.5}}
    assert "--bonus kernel" in answer("visited", {}, looked=bad).advice
    kernel = {"kernel/inverse_width": 1.0}
    assert "--bonus width" in answer("visited", kernel, algorithm="pc-pg", looked=bad).advice
    assert "with a cover" in answer("visited", {}, algorithm="ppo-rnd", looked=bad).advice


@pytest.mark.parametrize(
    ("new", "total", "verdict"),
    [
        ([10, 5, 5, 5], None, "good"),
        ([100, 5, 5, 0], None, "look"),
        ([100, 0, 0, 0], 100, "good"),
        ([100], None, "unknown"),
    ],
)
def test_cover(new, total, verdict):
    found = answer("cover", {}, looked={"cells": {"new": new, "total": total}})
    assert found.verdict == verdict


def test_the_cover_of_a_provable_algorithm_grows_by_pairs():
    def after(*counts, known=0):
        rows = [{"visited/pairs": n, "known/pairs": known} for n in counts]
        return answer("cover", *rows, algorithm="eniac-spi-sample")

    assert after(10, 20, 30, 40).number == 0.25
    assert after(10, 20, 40, 40).verdict == "look"
    assert after(10, 20, 40, 40, known=40).verdict == "good", "there is nothing left to find"


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.5, "good"), (0.1, "look"), (0.01, "bad"), (None, "unknown")]
)
def test_reach(share, verdict):
    reach = None if share is None else {"beyond": share, "other": 0.0, "steps": 10}
    assert answer("reach", learning(), looked={"reach": reach}).verdict == verdict


def test_an_exploiting_policy_that_does_not_learn_yet_is_not_compared():
    reach = {"beyond": 0.5, "other": 0.0, "steps": 10}
    found = answer("reach", learning(entropy=0.0), looked={"reach": reach})
    assert found.verdict == "unknown"


@pytest.mark.parametrize(
    ("changes", "verdict", "trouble"),
    [
        ({}, "good", ""),
        ({"value_high": 9.0}, "bad", checks.OUT_OF_RANGE),
        ({"value_low": -9.0}, "bad", checks.OUT_OF_RANGE),
        ({"explained_variance": -2.0}, "look", checks.EXPLAINS_LITTLE),
        ({"return_low": 1.5}, "unknown", ""),
    ],
)
def test_critic(changes, verdict, trouble):
    numbers = GOOD_CRITIC | changes
    found = answer("critic", {}, looked={"critic": numbers})
    assert (found.verdict, found.trouble) == (verdict, trouble)
    recorded = {f"exploit/{name}": value for name, value in numbers.items()}
    assert answer("critic", recorded) == found, "records do as well as a look"


def test_the_critic_of_another_policy_is_not_judged():
    found = answer("critic", {"exploit/handed_over": 1}, looked={"critic": GOOD_CRITIC})
    assert found.verdict == "unknown"
    assert answer("critic", {}).verdict == "unknown"


def test_the_critic_of_a_class_has_a_bound():
    row = {"critic/bound": 10.0}
    spi = {"algorithm": "eniac-spi-sample"}
    assert answer("critic", row | {"critic/largest": 1.0}, **spi).verdict == "good"
    assert answer("critic", row | {"critic/largest": 10.0}, **spi).verdict == "look"


@pytest.mark.parametrize(
    ("numbers", "verdict", "trouble"),
    [
        ({}, "good", ""),
        ({"clipped": 0.2}, "look", checks.LARGE_STEPS),
        ({"clipped": 0.4}, "bad", checks.LARGE_STEPS),
        ({"kl": 0.05}, "look", checks.LARGE_STEPS),
        ({"kl": 0.5}, "bad", checks.LARGE_STEPS),
        ({"clipped": 0.0, "kl": 1e-5}, "look", checks.SMALL_STEPS),
        ({"clipped": 0.0, "kl": 1e-5, "entropy": 0.001}, "look", checks.DECIDED),
        ({"entropy": 0.0}, "unknown", ""),
    ],
)
def test_step_size(numbers, verdict, trouble):
    rows = [learning("", **numbers)] * 3
    found = answer("step-size", *rows, algorithm="ppo")
    assert (found.verdict, found.trouble) == (verdict, trouble)


def test_the_worse_of_two_policies_decides_on_the_step_size():
    both = learning("explore/") | learning("exploit/", clipped=0.4)
    assert answer("step-size", both).seen.startswith("exploiting policy")


def test_one_large_divergence_of_many_is_no_alarm():
    rows = [learning("", kl=kl) for kl in (0.005, 9.0, 0.005)]
    assert answer("step-size", *rows, algorithm="ppo").verdict == "good"
    assert answer("step-size", learning("", kl=9.0), algorithm="ppo").verdict == "look"


def test_a_policy_that_falls_back_again_and_again_takes_steps_that_are_too_large():
    def rows(own):
        returns = {"sampled_return": own, "greedy_return": own, "return_mean": 100.0}
        return learning("") | returns | {"incumbent/estimate": 100.0}

    fallen = [rows(own) for own in (0.0, 90.0, 10.0, 95.0, 20.0)]
    assert answer("step-size", *fallen, algorithm="ppo").verdict == "look"
    steady = [rows(own) for own in (0.0, 90.0, 90.0, 95.0, 80.0)]
    assert answer("step-size", *steady, algorithm="ppo").verdict == "good"
    assert answer("step-size", *fallen, algorithm="ppo-rnd").verdict == "good", "it seeks a bonus"


def judged(*returns, std=0.0):
    return [{"return_mean": value, "return_std": std} for value in returns]


@pytest.mark.parametrize(
    ("rows", "goal", "verdict"),
    [
        (judged(0, 1, 2, 3), None, "good"),
        (judged(0, 9, 9, 9, 9, 9), None, "look"),
        (judged(0, 9, 9, 9, 9, 9), 10, "bad"),
        (judged(0, 9, 9, 9, 9, 9), 8, "good"),
        (judged(0, 0, 0, 0), None, "look"),
        (judged(0, 1, 2), None, "unknown"),
        (judged(0, 100, 100, 100, 100, 100.5), None, "look"),
        (judged(0, 1, 1, 1, 1, 1.5, std=50.0), None, "look"),
        ([{"return_mean": None}] * 5, None, "unknown"),
    ],
    ids=["rises", "stands", "short of its goal", "above it", "never", "few", "tiny", "noise", "no"],
)
def test_incumbent(rows, goal, verdict):
    assert answer("incumbent", *rows, return_above=goal).verdict == verdict


def test_the_optimum_is_good_enough():
    rows = [row | {"share/last": 1.0} for row in judged(1, 1, 1, 1)]
    assert answer("incumbent", *rows, algorithm="eniac-spi-sample").verdict == "good"


def test_episodes_that_do_not_end():
    assert answer("episodes", {"episodes_cut": 0}).verdict == "good"
    assert answer("episodes", {"episodes_cut": 3}).verdict == "bad"


LEFT_OUT = {
    "eniac": {"episodes"},
    "pc-pg": {"episodes"},
    "zero": {"bonus", "visited", "episodes"},
    "ppo-rnd": {"cover", "reach", "episodes"},
    "ppo": {"bonus", "visited", "cover", "reach", "episodes"},
    "spi": {"bonus", "visited", "reach", "step-size", "episodes"},
    "eniac-spi-sample": {"bonus", "visited", "reach", "step-size", "episodes"},
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_checks_that_are_none_for_an_algorithm_are_left_out(name):
    deep = {"clipped": 0.1} if name not in ("spi", "eniac-spi-sample") else {"critic/bound": 1.0}
    algorithm = ALGORITHMS[name].default
    why = {check.name: check.applies(algorithm, deep) for check in CHECKS}
    assert {check for check, reason in why.items() if reason} == LEFT_OUT[name]
    assert all(name in why[check] for check in LEFT_OUT[name] - {"episodes"})
    with_bonus = replace(ALGORITHMS["ppo"].default, bonus=RND())
    assert not BY_NAME["bonus"].applies(with_bonus, {})


def test_all_that_is_to_be_tried_is_a_setting(capsys):
    told = " ".join(v for k, v in vars(checks).items() if k.isupper() and isinstance(v, str))
    flags = set(re.findall(r"--[a-zA-Z][\w.-]*\w|--[KTN]\b", told))
    assert {"--bonus.outer", "--update.learning-rate", "--K"} <= flags
    known = ""
    for name in ("eniac", "eniac-spi-sample"):
        with pytest.raises(SystemExit):
            main(["train", name, "--help"])
        known += capsys.readouterr().out
    known = set(re.findall(r"--[\w.-]+", known))
    assert flags <= known
