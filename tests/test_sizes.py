"""Sizes that follow from the environment, by rules."""

from dataclasses import replace

import pytest

from eniac import ALGORITHMS, Config
from eniac.incumbent import IncumbentRule

COVERS = ("eniac", "pc-pg", "zero")


def resolved(env, name="eniac", **settings):
    return Config(ALGORITHMS[name].settings(**settings), env=env).build().config.algorithm


@pytest.mark.parametrize(
    ("env", "num_envs", "length"),
    [
        ("MountainCarContinuous-v0", 20, 249),  # episodes of 999 steps
        ("CombinationLock-10", 450, 11),
        ("DeepSea-20", 250, 20),
        ("DeepSea-1", 2500, 2),
    ],
)
def test_a_rollout_is_between_a_quarter_and_the_whole_of_an_episode_and_has_as_many_rows(
    env, num_envs, length
):
    got = resolved(env)
    assert (got.num_envs, got.rollout_length) == (num_envs, length)


def test_where_the_length_fits_the_number_of_environments_stays_as_it_was_given():
    config = replace(ALGORITHMS["eniac"].settings(), num_envs=12, rollout_length=50)
    got = Config(config, env="Acrobot-v1").build().config.algorithm
    assert (got.num_envs, got.rollout_length) == (10, 125)  # 600 rows, in tens of environments
    got = Config(config, env="gymnasium:CartPole-v1", horizon=80).build()
    assert got.config.algorithm.num_envs == 12


def test_resolving_twice_changes_nothing_more():
    config = Config(ALGORITHMS["eniac"].settings(), env="CombinationLock-10")
    once = config.build().config
    assert once.build().config == once


def test_the_papers_sizes_stay_in_every_environment():
    got = resolved("CombinationLock-10", preset="paper-depth2")
    assert (got.num_envs, got.rollout_length) == (500, 100)


def test_a_horizon_of_100_stays_one():
    got = resolved("MountainCarContinuous-v0", episodes="episodic")
    assert (got.num_envs, got.rollout_length) == (50, 100)


def test_on_the_host_sizes_follow_the_same_rule():
    got = resolved("Acrobot-v1")  # episodes of 500 steps
    assert (got.num_envs, got.rollout_length, got.visit_envs) == (40, 125, 10)
    got = resolved("FrozenLake-v1")
    assert (got.num_envs, got.rollout_length) == (50, 100)
    assert got.incumbent.episodes == 38  # 0.025 x 150,000 / 100


@pytest.mark.parametrize(
    ("steps", "longest", "num_envs", "episodes"),
    [
        (150_000, 999, 0, 5),  # too long for more
        (150_000, 100, 0, 38),
        (150_000, 11, 0, 100),  # enough
        (150_000, None, 0, 5),
        (150_000, 999, 64, 32),  # these many environments step anyway
    ],
)
def test_short_episodes_are_more_when_policies_are_compared(steps, longest, num_envs, episodes):
    rule = IncumbentRule(share=0.025)
    assert rule.resolve(steps, longest, num_envs).episodes == episodes


def test_no_share_and_no_incumbent_stay_what_they_are():
    assert IncumbentRule(episodes=7).resolve(150_000, 11, 64).episodes == 7
    assert IncumbentRule(episodes=0, share=0.5).resolve(150_000, 11, 64).episodes == 0


@pytest.mark.parametrize("name", COVERS)
def test_all_algorithms_with_a_cover_have_the_same_sizes_and_update(name):
    eniac, other = ALGORITHMS["eniac"].default, ALGORITHMS[name].default
    same = ("num_envs", "updates_per_round", "rounds", "capacity", "update", "incumbent")
    assert [getattr(other, field) for field in same] == [getattr(eniac, field) for field in same]
