"""The tasks, and the runs that are asked for."""

import dataclasses

import pytest

from eniac.algorithms import ALGORITHMS
from eniac.errors import ConfigError
from eniac.reproduce.tasks import TASKS, find_task
from eniac.reproduce.theory_tasks import THEORY
from eniac.reproduce.wanted import Wanted, settings_of
from eniac.runs.options import parse_config
from reproduce.fake_results import result_of, write_result


@pytest.mark.parametrize("name", ["eniac", "pc-pg", "zero", "ppo-rnd", "ppo"])
def test_a_task_sets_nothing_of_an_algorithm_but_depth_and_kind_of_episodes(name):
    default = parse_config([name])
    tasks = TASKS.values()
    if name != "eniac":  # one of each family: reading a command line takes a while
        tasks = {task.family: task for task in tasks}.values()
    for task in tasks:
        found = parse_config([name, *task.options(7)])
        chosen = {"depth": task.depth} if task.depth else {}
        episodes = {"episodes": "episodic"} if task.episodic else {}
        assert found.algorithm == ALGORITHMS[name].settings(**chosen, **episodes)
        assert found.env_options == ({"seed": 7} if task.seeded else {})
        changed = {
            item.name
            for item in dataclasses.fields(found)
            if getattr(found, item.name) != getattr(default, item.name)
        }
        allowed = {"algorithm", "env", "env_options", "observation_keys", "evaluation"}
        assert changed <= allowed


def test_a_return_that_equals_the_threshold_is_enough_where_it_says_at_least():
    lock, car = TASKS["lock-5"], TASKS["mountain-car-2"]
    assert lock.solves(3.8)
    assert not lock.solves(3.79)
    assert not car.solves(93.0)
    assert car.solves(93.01)


def test_the_papers_settings_are_a_flag_of_the_same_task():
    run = Wanted("mountain-car-episodic-4", "eniac", 3, ("--preset", "paper-depth4"))
    config = parse_config(run.words)
    assert config.algorithm == ALGORITHMS["eniac"].settings(
        preset="paper-depth4", episodes="episodic"
    )
    assert config.steps == 15_000_000
    assert dataclasses.replace(run, algorithm="ppo").steps == 7_500_000
    assert config.return_above == 93
    assert run.name == "eniac+preset-paper-depth4-3"
    assert str(run.file) == "results/runs/mountain-car-episodic-4/eniac+preset-paper-depth4-3.json"


@pytest.mark.parametrize("name", ["provable-linear-mdp", "provable-logistic-mdp", "random-mdp-5"])
def test_a_task_of_the_provable_algorithms_is_a_command_of_eniac_train(name):
    task = THEORY[name]
    algorithm, flags = task.variants[0]
    config = parse_config(Wanted(name, algorithm, 100, flags).words)
    drawn = {"seed": 100} if task.seeded else {}
    assert config.env_options == task.env_options | drawn
    assert config.algorithm.function_class == task.function_class
    assert config.algorithm.class_options == task.class_options
    assert (config.steps, config.return_above) == (None, None)


def test_no_name_is_a_task_twice():
    assert not TASKS.keys() & THEORY.keys()


def test_an_unknown_task_is_refused_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"Did you mean 'lock-2'.*random-mdp-40"):
        find_task("lock2")


def test_a_run_survives_being_told_to_another_process(tmp_path):
    run = Wanted("lock-5", "ppo", 2, ("--restart", "0"), 1000, True, tmp_path)
    assert Wanted.from_dict(run.to_dict()) == run


def test_a_run_is_done_if_it_was_solved_or_came_to_its_limit(tmp_path):
    run = Wanted("lock-2", "eniac", 0, results=tmp_path)
    assert not run.is_done()
    write_result(tmp_path, result_of(solved=1000))
    assert run.is_done()
    assert not dataclasses.replace(run, to_the_end=True).is_done()
    write_result(tmp_path, result_of(steps=500_000))
    assert not run.is_done()
    assert dataclasses.replace(run, limit=400_000).is_done()


def test_settings_are_the_same_for_all_seeds_and_stop_rules_and_for_no_others():
    config = parse_config(["ppo", "--env", "CombinationLock-2", "--env-options", "seed", "1"])
    other = dataclasses.replace(config, seed=4, steps=9, return_above=1.0, env_options={"seed": 2})
    assert settings_of(config.to_dict(), True) == settings_of(other.to_dict(), True)
    assert settings_of(config.to_dict(), False) != settings_of(other.to_dict(), False)
    longer = dataclasses.replace(config, horizon=7)
    assert settings_of(config.to_dict(), True) != settings_of(longer.to_dict(), True)


def test_a_setting_that_is_new_changes_no_settings_where_it_is_off():
    settings = {"horizon": 7, "algorithm": {"update": {"clip": 0.2, "imitate": True}}}
    for value in (False, None):
        new = {**settings, "new": value, "algorithm": {"update": {"new": value, "clip": 0.2}}}
        new["algorithm"]["update"]["imitate"] = True
        assert settings_of(new, False) == settings_of(settings, False)
    for value in (True, 0, 0.0, 1, ""):
        assert settings_of({**settings, "new": value}, False) != settings_of(settings, False)
