"""The audit of a bonus: its numbers against SciPy and scikit-learn, the states it lists against
those that are known, and a run's bonus through the command line."""

import hashlib
import json
from dataclasses import replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

import eniac
from eniac.bonuses import Bonus, Counts, Kernel
from eniac.buffer import Buffer, Pairs
from eniac.cli.main import main
from eniac.cover import Uniform
from eniac.envs import CombinationLock, DeepSea
from eniac.errors import RunError
from eniac.report.audit import Judged, area_under_curve, judge_all, rank_correlation, scores
from eniac.report.far import Distance, draw
from eniac.report.states import acted_in, count_visits, list_states
from eniac.spaces import Spaces


def test_the_area_is_that_of_scikit_learn_with_ties():
    rng = np.random.default_rng(0)
    larger, smaller = rng.integers(2, 9, 40), rng.integers(0, 7, 60)
    truth = np.repeat([1, 0], [40, 60])
    wanted = sklearn.metrics.roc_auc_score(truth, np.concatenate([larger, smaller]))
    assert area_under_curve(larger, smaller) == pytest.approx(wanted)
    assert area_under_curve(np.array([3.0]), np.array([1.0, 3.0])) == 0.75
    assert area_under_curve(np.array([]), np.array([1.0])) is None


def test_the_correlation_is_spearmans_with_ties():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, 50)
    y = x + rng.integers(0, 5, 50)
    assert rank_correlation(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic)
    assert rank_correlation(x, x**3) == pytest.approx(1)
    assert rank_correlation(x, np.ones(50)) is None


def test_the_threshold_is_judged_from_both_sides():
    bonus = np.array([0.1, 0.2, 0.7, 0.3, 0.9, 1.0])
    visited = np.array([True, True, True, False, False, False])
    found = scores(Judged(bonus, visited, np.where(visited, 0.5, 1.0)))
    assert found["threshold"] == 0.5
    assert found["visited_above"] == pytest.approx(1 / 3)
    assert found["unvisited_below"] == pytest.approx(1 / 3)
    assert found["auc"] == pytest.approx(8 / 9)
    assert scores(Judged(bonus, visited, bonus), threshold=0.25)["unvisited_below"] == 0


# Lists of states


def test_all_cells_that_a_dive_reaches_are_listed_and_no_others():
    notes = []
    listed = list_states(DeepSea(7), notes)
    cells = [row * 7 + column for row in range(7) for column in range(row + 1)]
    assert sorted(listed.argmax(axis=1).tolist()) == cells
    np.testing.assert_array_equal(listed.sum(axis=1), np.ones(len(cells)))
    assert notes == []


def test_all_states_of_the_lock_are_listed_though_chance_leads_there():
    lock = CombinationLock(4, seed=3)
    listed = list_states(lock, [])
    # The choice; in each lock two good cells at every time, and the dead one after the first.
    assert len(listed) == 1 + 2 * (4 * 3 - 1)
    assert len(np.unique(listed, axis=0)) == len(listed)


def test_the_observation_of_a_table_is_its_number():
    env = eniac.make("RiverSwim-5")
    np.testing.assert_array_equal(list_states(env, []), np.arange(5))
    assert list_states(eniac.make("MountainCarContinuous-v0"), []) is None


def test_ends_are_not_acted_in():
    table = eniac.make("LogisticMDP-v0").tabular()
    acted = acted_in(table)
    assert not acted[-1]
    assert np.all(acted[:-1])


# Exact and useless bonuses

SEA = DeepSea(6)
SPACES = Spaces(SEA.observation_space, SEA.action_space)
STATES = list_states(SEA, [])


def visited_buffer():
    """A third of the states of a small sea, some of them often, with one action more than the
    other."""
    rng = np.random.default_rng(0)
    rows, actions = rng.integers(0, len(STATES) // 3, 200), (rng.random(200) < 0.3).astype(int)
    pairs = Pairs(jnp.asarray(STATES[rows]), jnp.asarray(actions, jnp.int32))
    buffer = Buffer.empty(SPACES, 300).add(jax.random.key(0), pairs, 200, 0)
    counts = np.zeros((len(STATES), 2))
    np.add.at(counts, (rows, actions), 1)
    return buffer, counts


class Noise(Bonus):
    """A number that hangs on the pair and on nothing else."""

    weight: jax.Array

    def __call__(self, observation, action):
        return jnp.abs(jnp.sin(1e3 * self.weight[action] @ observation))


class OfState(Bonus):
    visits: jax.Array

    def __call__(self, observation, action):
        del action
        return 1 / jnp.sqrt(1 + self.visits @ observation)


def test_visits_are_counted_by_observation_and_action():
    buffer, counts = visited_buffer()
    np.testing.assert_array_equal(count_visits(buffer, STATES, 2), counts)
    assert count_visits(buffer, STATES[-3:], 2).sum() == 0


def test_an_exact_bonus_is_found_to_be_exact():
    buffer, counts = visited_buffer()
    rule = Counts()
    bonus = rule.fit(
        jax.random.key(0), rule.init(jax.random.key(0), SPACES, (8,)), buffer, buffer.pairs
    )
    judged, unit = judge_all(bonus, buffer, STATES, 2, ridge=1.0)
    found = scores(judged)
    assert unit == "pairs"
    assert found["correlation"] == pytest.approx(1)
    assert found["auc"] == 1
    assert (found["visited"], found["unvisited"]) == ((counts > 0).sum(), (counts == 0).sum())
    assert found["unvisited_below"] == 0


def test_a_bonus_of_states_is_judged_on_states():
    buffer, counts = visited_buffer()
    bonus = OfState(jnp.asarray(counts.sum(axis=1) @ STATES, jnp.float32))
    judged, unit = judge_all(bonus, buffer, STATES, 2, ridge=1.0)
    assert unit == "states"
    assert len(judged.bonus) == len(STATES)
    assert scores(judged)["auc"] == 1
    assert scores(judged)["correlation"] == pytest.approx(1)


def test_a_random_bonus_is_found_to_be_chance():
    buffer, _ = visited_buffer()
    found = []
    for seed in range(20):
        weight = jax.random.normal(jax.random.key(seed), (2, STATES.shape[1]))
        found.append(scores(judge_all(Noise(weight), buffer, STATES, 2, 1.0)[0])["auc"])
    assert abs(np.mean(found) - 0.5) < 0.06


# Far states


def test_distances_are_to_the_nearest_visit_in_units_of_the_bounds():
    box = gymnasium.spaces.Box(np.array([0, 0], np.float32), np.array([2, 10], np.float32))
    distance = Distance(box, np.array([[0, 0], [2, 10]], np.float32))
    found = distance(np.array([[0, 5], [2, 9], [0, 0]], np.float32))
    np.testing.assert_allclose(found, [0.5, 0.1, 0], atol=1e-3)


def test_far_states_are_within_bounds_and_around_the_visits_where_there_are_none():
    low, high = np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32)
    space = gymnasium.spaces.Dict(
        place=gymnasium.spaces.Box(low, high),
        code=gymnasium.spaces.Box(0, 3, (2,), np.uint8),
        room=gymnasium.spaces.Discrete(3, start=5),
    )
    seen = {"place": np.array([[0, 10], [0.1, 14]], np.float32)}
    seen |= {"code": np.zeros((2, 2), np.uint8), "room": np.array([5, 5], np.int32)}
    drawn = draw(space, seen, 3000, np.random.default_rng(0))
    place = drawn["place"]
    assert place[:, 0].min() < -0.99 < 0.99 < place[:, 0].max()
    assert 8 <= place[:, 1].min() < 8.1 < 15.9 < place[:, 1].max() <= 16
    assert set(np.unique(drawn["code"])) == {0, 1, 2, 3}
    assert set(np.unique(drawn["room"])) == {5, 6, 7}


# Runs

SMALL = "--rounds 1 --updates-per-round 2 --num-envs 4 --rollout-length 8 --visit-steps 60"
SMALL = [*SMALL.split(), "--roll-in.group", "2", "--evaluation.episodes", "2", "--hidden", "8"]


def files(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_run_on_a_lock_through_the_command_line(tmp_path, capsys):
    out = str(tmp_path / "run")
    chosen = ["--env", "CombinationLock-3", "--bonus", "counts", "--epochs", "2"]
    assert main(["train", "eniac", *chosen, *SMALL, "--out", out]) == 0
    before = files(tmp_path / "run")
    capsys.readouterr()
    assert main(["audit-bonus", out, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["bonus"], found["how"], found["unit"]) == ("counts", "finite", "pairs")
    assert found["correlation"] == pytest.approx(1)
    assert found["auc"] == 1
    assert found["visited"] + found["unvisited"] == 10 * (1 + 2 * (3 * 3 - 1))
    assert found["fit_seconds"] > 0
    assert found["microseconds"] > 0
    assert main(["audit-bonus", out]) == 0
    shown = capsys.readouterr().out
    assert "counts bonus of eniac on CombinationLock-3" in shown
    assert "unvisited below" in shown
    assert files(tmp_path / "run") == before
    assert main(["audit-bonus", out, "--ridge", "0"]) == 2
    assert "ridge is 0.0; it must be above 0" in capsys.readouterr().err


def test_without_a_list_of_states_held_out_visits_are_compared_with_far_ones(tmp_path):
    algorithm = replace(
        eniac.ALGORITHMS["pc-pg"].default,
        bonus=Kernel(coefficient=2.0),
        cover=Uniform(),
        num_envs=4,
        rollout_length=8,
        updates_per_round=2,
        rounds=1,
        hidden=(8,),
        visit_steps=500,
    )
    config = eniac.Config(algorithm, env="MountainCarContinuous-v0", epochs=1, out=tmp_path / "run")
    eniac.train(replace(config, evaluation=eniac.Evaluation(episodes=2, horizon=10)))
    found = eniac.audit_bonus(eniac.load_run(tmp_path / "run"), pairs=200)
    assert (found["how"], found["visited"], found["unvisited"]) == ("held-out", 200, 200)
    assert found["auc"] > 0.95
    assert found["correlation"] > 0.5
    assert found["fit_seconds"] > 0
    assert found["visited_mean"] < found["unvisited_mean"] / 2
    assert any("uniform between the bounds" in note for note in found["notes"])


def test_an_algorithm_without_a_bonus_is_refused_in_a_line(tmp_path, toy_config):
    eniac.train(toy_config())
    run = eniac.load_run(tmp_path / "run")
    with pytest.raises(RunError, match="which has no bonus that can be audited"):
        eniac.audit_bonus(run)
