"""What a checkpoint says of a run, and how a diagnosis is told."""

import json

import jax
import numpy as np
import pytest

from eniac import RunError, diagnose_run, train
from eniac.cli.main import main
from eniac.report.coverage import visits_of
from eniac.report.diagnose import Answer, Diagnosis, Looker, critic
from eniac.runs.checks import CHECKS, Finding
from eniac.runs.program import take_seed
from eniac.sampling.base import Trajectory


def rollout(reward, value, terminated, observation=None):
    """A rollout in one environment that goes on after its last step if it is not `terminated`."""
    reward, value = (np.asarray(x, np.float32)[:, None] for x in (reward, value))
    no = np.zeros(reward.shape, bool)
    ends = no.copy()
    ends[-1] = terminated
    following = np.concatenate([value[1:], np.full((1, 1), 10.0, np.float32)])
    observation = np.zeros((len(reward), 1, 1)) if observation is None else observation
    action = np.zeros(reward.shape, np.int32)
    steps = np.asarray(len(reward), np.int32)
    return Trajectory(
        observation, action, 0 * reward, value, following, reward, ends, no, ~no, steps
    )


def test_a_critic_is_held_against_the_returns_of_a_rollout():
    values = [0.5, 0.5, 1.0]
    found = critic(rollout([0, 0, 2], values, terminated=True), gamma=0.5)
    returns = np.array([0.5, 1.0, 2.0])
    assert (found["value_low"], found["value_high"]) == (0.5, 1.0)
    assert (found["return_low"], found["return_high"]) == (0.5, 2.0)
    explained = 1 - np.var(returns - values) / np.var(returns)
    assert found["explained_variance"] == pytest.approx(explained)
    goes_on = critic(rollout([0, 0, 2], values, terminated=False), gamma=0.5)
    assert goes_on["return_high"] == 2 + 0.5 * 10, "what comes after is the critic's to say"
    assert np.isnan(critic(rollout([0], [1.0], terminated=True), 0.5)["explained_variance"])


def looked(run, name=None):
    """What is seen of a run of the tests, as if it had learned for an epoch."""
    states = run.states._replace(epoch=run.states.epoch + 1)
    looker = Looker(type(run)(run.path, run.built, states, run.progress, []))
    return looker, take_seed(states, 0)


def test_the_state_of_a_finite_run_is_counted_out(run_of):
    run = run_of("sea")
    looker, state = looked(run)
    found = looker.look(0)
    visits = visits_of(run, jax.device_get(state))
    cells = [set(map(tuple, visited.observations)) for visited in visits]
    assert found["cells"]["new"][0] == len(cells[0])
    assert sum(found["cells"]["new"]) == len(set.union(*cells))
    assert found["cells"]["total"] == 10, "all cells that a dive of 4 reaches"
    assert found["reach"]["steps"] == 10 * 20
    assert found["bonus"]["unit"] == "states"
    assert found["critic"].keys() == {
        *("value_low", "value_high", "return_low", "return_high", "explained_variance"),
    }
    # A policy that never leaves the start, where a visit of ten steps, in dives of four, is thrice.
    start = np.tile(np.eye(16, dtype=np.float32)[0], (2000, 1, 1))
    still = rollout(np.zeros(2000), np.zeros(2000), False, start)
    _, reach = looker._where(jax.device_get(state), still)
    assert reach["beyond"] == pytest.approx(0.7, abs=0.04)
    assert reach["other"] == 0


def test_without_a_cover_the_bonus_is_part_of_what_the_critic_learns(run_of):
    looker, _ = looked(run_of("rnd"))
    found = looker.look(0)
    assert found.keys() == {"bonus", "bonus_to_reward", "critic"}
    assert found["bonus_to_reward"] > 0
    assert found["critic"]["return_high"] > 0, "rewards alone are costs"


def test_on_the_host_the_same_is_seen(run_of):
    looker, _ = looked(run_of("lake"))
    found = looker.look(0)
    looker.learner.close()
    assert found["cells"]["total"] == 11, "the squares of the lake in which one acts"
    assert found.keys() == {"bonus", "critic", "cells", "reach"}


def test_before_the_first_epoch_there_is_nothing_to_see(run_of):
    assert Looker(run_of("sea")).look(0) == {}


def test_a_run_is_diagnosed_by_the_command_line_and_left_alone(run_of, capsys):
    folder = run_of("car").path
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["diagnose", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    asked = [check for check in CHECKS if check.name not in ("step-size", "episodes")]
    assert {(answer["check"], answer["seed"]) for answer in found["answers"]} == {
        (check.name, seed) for check in asked for seed in (0, 1)
    }
    assert main(["diagnose", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert all(check.question in shown for check in asked)
    assert "left out: episodes" in shown
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("made", ["finished", "failed", "no checkpoint", "no epoch", "going on"])
def test_whatever_became_of_a_run_it_is_diagnosed(made, toy_config, console):
    config = toy_config(seeds=2)
    if made == "failed":
        config = toy_config(type(config.algorithm)(nan_at=3))
        with pytest.raises(RunError):
            train(config, console=console)
    else:
        train(config, console=console)
    folder = config.out
    if made == "no checkpoint":
        for path in (folder / "checkpoints").iterdir():
            path.unlink()
    if made == "no epoch":
        (folder / "metrics.jsonl").unlink()
    if made == "going on":
        with open(folder / "metrics.jsonl", "a") as file:
            file.write('{"epoch": 5, "seed": 0, "env_st')
    found = diagnose_run(folder)
    unknown = {"step-size", "episodes"} if made == "no epoch" else set()
    assert {answer.check for answer in found.answers} == {"incumbent"} | unknown
    assert {"bonus", "cover", "critic"} <= found.left_out.keys()
    assert ("failed" in found.title) == (made == "failed")
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_of_several_seeds_the_worst_is_told_and_which_are_like_it():
    def of(seed, verdict, **more):
        finding = Finding(verdict, 1.0, f"seen in {seed}", **more)
        return Answer("bonus", "Is it alive?", seed, finding)

    bad = {"trouble": "nothing leads on", "advice": "--bonus kernel"}
    answers = [of(0, "good"), of(1, "bad", **bad), of(2, "good"), of(3, "bad", **bad)]
    told = str(Diagnosis("A run", answers, {"cover": "it has none"}, {}))
    assert told.splitlines() == [
        "A run",
        "",
        "bad     Is it alive?",
        "        Seed 1: seen in 1.",
        "        The same verdict: seed 3.",
        "        Good: seeds 0, 2.",
        "        Nothing leads on.",
        "        Try --bonus kernel.",
        "",
        "left out: cover (it has none)",
    ]
    alone = Diagnosis("A run", [of(0, "unknown")], {}, {})
    assert "?       Is it alive?\n        Cannot be told: seen in 0." in str(alone)
