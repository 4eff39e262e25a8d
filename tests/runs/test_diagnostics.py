from eniac.runs.diagnostics import COLLAPSED, DIVERGED, NO_SAY, Adviser


def record(epoch=1, seed=0, count=1, **more):
    quiet = {
        "width/collapsed": 0,
        "width/diverged": 0,
        "explore/bonus": 0.2,
        "explore/bonus_decides": 0.9,
    }
    return {"epoch": epoch, "seed": seed, "cover/count": count} | quiet | more


def test_a_healthy_run_is_not_disturbed():
    adviser = Adviser()
    assert adviser.advice([record()]) == []
    assert adviser.advice([{"epoch": 1, "seed": 0, "loss": 1.0}]) == []
    assert adviser.advice([]) == []


def test_a_width_that_fails_is_told_once_a_fit():
    adviser = Adviser()
    bad = {"width/collapsed": 1}
    assert adviser.advice([record(1, **bad)]) == [f"epoch 1, seed 0: {COLLAPSED}"]
    assert adviser.advice([record(2, **bad)]) == []
    assert adviser.advice([record(3, count=2)]) == []
    assert adviser.advice([record(5, count=3, **bad)]) == [f"epoch 5, seed 0: {COLLAPSED}"]


def test_a_width_that_diverged_is_not_also_called_collapsed():
    both = {"width/collapsed": 1, "width/diverged": 1}
    assert Adviser().advice([record(**both)]) == [f"epoch 1, seed 0: {DIVERGED}"]


def test_seeds_with_the_same_trouble_share_a_line():
    rows = [record(4, seed, **{"width/diverged": int(seed != 1)}) for seed in range(3)]
    assert Adviser().advice(rows) == [f"epoch 4, seeds 0, 2: {DIVERGED}"]


def test_a_bonus_below_the_rewards_has_no_say():
    low = {"explore/bonus_decides": 0.0005}
    assert Adviser().advice([record(**low)]) == [f"epoch 1, seed 0: {NO_SAY}"]
    assert Adviser().advice([record(**low, **{"explore/bonus": 0.0})]) == []  # ZERO
    assert Adviser().advice([record(**{"explore/bonus_decides": None})]) == []
