from dataclasses import replace

import numpy as np
import pytest

from eniac.runs.progress import Progress, fraction, verdicts


def _progress(epochs=(0,), steps=(0,), returns=(np.nan,), seconds=0.0):
    exploiting = np.full(len(epochs), np.nan)
    return Progress(np.array(epochs), np.array(steps), np.array(returns), exploiting, seconds)


def test_each_seed_is_judged_by_itself(toy_config):
    config = toy_config(seeds=3, epochs=5, steps=100, return_above=1.5)
    progress = _progress((5, 4, 4), (10, 100, 99), (0.0, 1.5, 1.6))
    assert verdicts(config, progress) == ["5 epochs", "100 steps", "return above 1.5"]
    assert verdicts(config, _progress((4,), (99,), (1.5,))) == [""]


def test_a_seed_that_was_never_evaluated_is_not_above_anything(toy_config):
    assert verdicts(toy_config(epochs=None, return_above=-1e9), _progress()) == [""]


def test_the_clock_stops_all_seeds(toy_config):
    config = toy_config(seeds=2, epochs=None, seconds=2)
    progress = _progress((1, 1), (7, 7), (0.0, 0.0), 2.0)
    assert verdicts(config, progress) == ["2 seconds"] * 2


def test_the_nearest_limit_says_how_much_is_done(toy_config):
    config = toy_config(epochs=10, steps=100, seconds=50)
    assert fraction(config, _progress((2,), (30,), (0.0,), 5.0)) == pytest.approx(0.3)
    assert fraction(toy_config(epochs=None, return_above=1.0), _progress()) is None


def test_only_active_seeds_advance_and_the_last_round_that_ran_counts():
    progress = _progress((1, 1), (7, 7), (0.5, 0.6), 1.0)
    metrics = {
        "ran": np.array([[True, True, False], [False, False, False]]),
        "steps": np.array([[3, 4, 0], [0, 0, 0]]),
        "return_mean": np.array([[0.2, 0.9, 0.0], [0.0, 0.0, 0.0]]),
    }
    after = progress.advance(np.array([True, False]), metrics, 0.25)
    assert after.epochs.tolist() == [2, 1]
    assert after.steps.tolist() == [14, 7]
    assert after.returns.tolist() == [0.9, 0.6]
    assert after.seconds == 1.25
    again = Progress.from_dict(after.to_dict())
    assert again.to_dict() == after.to_dict()


@pytest.mark.parametrize("name", ["exploit/sampled_return", "sampled_return"])
def test_the_exploiting_policy_has_a_return_of_its_own(name):
    progress = replace(_progress((1, 1), (7, 7), (0.5, 0.6)), exploiting=np.array([0.1, 0.2]))
    metrics = {
        "ran": np.array([[True, True], [False, False]]),
        "steps": np.array([[3, 4], [0, 0]]),
        "return_mean": np.array([[0.2, 0.9], [0.0, 0.0]]),
        name: np.array([[0.3, 0.4], [0.0, 0.0]]),
    }
    after = progress.advance(np.array([True, False]), metrics, 0.25)
    assert after.returns.tolist() == [0.9, 0.6]
    assert after.exploiting.tolist() == [0.4, 0.2]
    metrics[name][0, 1] = np.nan  # a policy that does not learn yet
    told = progress.advance(np.array([True, False]), metrics, 0.25).to_dict()
    assert told["exploiting"] == [None, 0.2]
    assert Progress.from_dict(told).to_dict() == told
