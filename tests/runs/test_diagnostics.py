import pytest

from eniac import Config
from eniac.algorithms import ALGORITHMS
from eniac.runs.checks import COLLAPSED, DIVERGED, LARGE_STEPS, NO_SAY
from eniac.runs.diagnostics import REMEMBERED, Adviser


@pytest.fixture
def adviser():
    return Adviser(Config(ALGORITHMS["eniac"].default))


def record(epoch=1, seed=0, count=1, **more):
    quiet = {
        "env_steps": 100 * epoch,
        "width/collapsed": 0,
        "width/diverged": 0,
        "explore/bonus": 0.2,
        "explore/bonus_decides": 0.9,
    }
    return {"epoch": epoch, "seed": seed, "cover/count": count} | quiet | more


def test_a_healthy_run_is_not_disturbed(adviser):
    assert adviser.advice([record()]) == []
    assert adviser.advice([{"epoch": 1, "seed": 0, "loss": 1.0}]) == []
    assert adviser.advice([]) == []


def test_a_width_that_fails_is_told_once_a_fit(adviser):
    bad = {"width/collapsed": 1}
    (told,) = adviser.advice([record(1, **bad)])
    assert told.startswith(f"epoch 1, seed 0: {COLLAPSED}. Try --bonus.training constrained")
    assert adviser.advice([record(2, **bad)]) == []
    assert adviser.advice([record(3, count=2)]) == []
    (told,) = adviser.advice([record(5, count=3, **bad)])
    assert told.startswith(f"epoch 5, seed 0: {COLLAPSED}.")


def test_a_width_that_diverged_is_not_also_called_collapsed(adviser):
    both = {"width/collapsed": 1, "width/diverged": 1}
    (told,) = adviser.advice([record(**both)])
    assert told.startswith(f"epoch 1, seed 0: {DIVERGED}.")


def test_seeds_with_the_same_trouble_share_a_line(adviser):
    rows = [record(4, seed, **{"width/diverged": int(seed != 1)}) for seed in range(3)]
    (told,) = adviser.advice(rows)
    assert told.startswith(f"epoch 4, seeds 0, 2: {DIVERGED}.")


def test_a_bonus_below_the_rewards_has_no_say(adviser):
    (told,) = adviser.advice([record(**{"explore/bonus_decides": 0.0005})])
    assert told.startswith(f"epoch 1, seed 0: {NO_SAY}.")
    assert adviser.advice([record(seed=1, **{"explore/bonus_decides": None})]) == []


def test_a_trouble_that_is_no_matter_of_a_fit_is_told_once(adviser):
    large = {"explore/entropy": 1.0, "explore/clipped": 0.5, "explore/kl": 0.01}
    (told,) = adviser.advice([record(1, **large)])
    assert LARGE_STEPS in told
    assert adviser.advice([record(2, count=2, **large)]) == []


def test_what_was_before_a_session_counts_and_little_of_it_is_kept():
    before = [record(epoch, return_mean=1.0) for epoch in range(1, 101)]
    config = Config(ALGORITHMS["eniac"].default, return_above=5)
    (told,) = Adviser(config, before).advice([record(101, return_mean=1.0)])
    assert "the return is not above 5" in told
    assert Adviser(config).advice([record(101, return_mean=1.0)]) == []
    adviser = Adviser(config, [*before, {"no": "seed"}])
    assert sum(map(len, adviser._recent.values())) == REMEMBERED
