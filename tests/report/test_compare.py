"""Comparisons of runs that were made up, so that the answers are known."""

import json

import pytest

from eniac import ConfigError, RunError, compare_runs
from eniac.report.compare import Asked
from fake_runs import write_run


@pytest.fixture
def better(tmp_path):
    """Six seeds that end at 5, 6, ..., 10 and are above 4.5 after one, two, ... epochs."""
    return write_run(
        tmp_path / "better", [[0.0] * k + [5.0 + k] * (6 - k) for k in range(6)], name="eniac"
    )


@pytest.fixture
def worse(tmp_path):
    """Six seeds that end at 0, 1, ..., 5; only the last is ever above 4.5."""
    return write_run(tmp_path / "worse", [[0.0] * 5 + [float(k)] for k in range(6)])


def rows_of(result, place=0):
    return {row["method"]: row for row in result["environments"][place]["methods"]}


def test_two_methods_that_differ_are_told_apart(better, worse):
    result = compare_runs([worse, better], threshold=4.5)
    rows = rows_of(result)
    assert list(rows) == ["ppo", "eniac"]
    assert rows["eniac"]["final"] == [5, 6, 7, 8, 9, 10]
    assert rows["eniac"]["iqm"] == 7.5
    low, high = rows["eniac"]["iqm_interval"]
    assert 5 < low < 7.5 < high < 10
    assert rows["eniac"]["success"]["count"] == 6
    assert rows["ppo"]["success"]["rate"] == pytest.approx(1 / 6)
    assert rows["eniac"]["steps_to_threshold"]["median"] == 35
    assert rows["eniac"]["seconds_to_threshold"]["seeds"] == [2, 4, 6, 8, 10, 12]
    # Five of six seeds never got there.
    assert rows["ppo"]["steps_to_threshold"]["median"] is None
    assert rows["ppo"]["steps_to_threshold"]["seeds"] == [None] * 5 + [60]
    (pair,) = result["pairs"]
    assert (pair["first"], pair["second"]) == ("eniac", "ppo")
    assert pair["probability"] == pytest.approx(35.5 / 36)
    assert pair["decided"]
    assert pair["sentence"].startswith("eniac is better than ppo: a seed of eniac ends higher")
    assert result["notes"] == []
    json.dumps(result, allow_nan=False)


@pytest.mark.parametrize(("by", "probability"), [("steps", 35.5 / 36), ("seconds", 35.5 / 36)])
def test_how_soon_a_threshold_is_passed_can_decide(by, probability, better, worse):
    (pair,) = compare_runs([worse, better], by=by, threshold=4.5)["pairs"]
    assert pair["first"] == "eniac"
    assert pair["probability"] == pytest.approx(probability)
    assert pair["decided"]


def test_the_profile_is_the_share_of_seeds_above_each_level(better, worse):
    result = compare_runs([better, worse])
    levels = result["environments"][0]["levels"]
    assert (levels[0], levels[-1]) == (0, 10)
    for row in rows_of(result).values():
        shares = [sum(x > level for x in row["final"]) / 6 for level in levels]
        assert row["profile"] == pytest.approx(shares)
        low, high = row["profile_interval"]
        assert all(a <= b <= c for a, b, c in zip(low, row["profile"], high, strict=True))


def test_three_seeds_decide_nothing_however_far_apart(tmp_path):
    """The interval is [1, 1] then, but the smallest p-value that there can be is 0.1."""
    a = write_run(tmp_path / "a", [[100.0], [101.0], [102.0]], name="eniac")
    b = write_run(tmp_path / "b", [[0.0], [1.0], [2.0]])
    result = compare_runs([a, b])
    (pair,) = result["pairs"]
    assert pair["interval"] == [1, 1]
    assert pair["p_value"] == pytest.approx(0.1)
    assert not pair["decided"]
    assert pair["seeds_to_settle"] == 4
    assert pair["sentence"].startswith("Undecided between eniac and ppo")
    assert "about 4 of each would settle it, 1 more" in pair["sentence"]
    assert "Fewer than 5 seeds: eniac (3), ppo (3)" in result["notes"][0]


def test_the_same_results_stay_undecided_and_no_number_of_seeds_is_promised(tmp_path):
    values = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    a = write_run(tmp_path / "a", values, name="eniac")
    b = write_run(tmp_path / "b", values)
    (pair,) = compare_runs([a, b])["pairs"]
    assert pair["probability"] == 0.5
    assert not pair["decided"]
    assert "more than 100 of each" in pair["sentence"]


def test_one_seed_has_no_interval_and_decides_nothing(tmp_path, better):
    one = write_run(tmp_path / "one", [[1.0]])
    result = compare_runs([one, better])
    assert rows_of(result)["ppo"]["iqm_interval"] == [None, None]
    (pair,) = result["pairs"]
    assert pair["interval"] == [None, None]
    assert "1 seed can decide nothing" in pair["sentence"]


def test_runs_that_differ_in_seeds_alone_are_one_method(tmp_path, better):
    for k in range(3):
        write_run(tmp_path / f"ppo-{k}", [[float(k)]], first_seed=k, out=f"runs/{k}")
    result = compare_runs([*sorted(tmp_path.glob("ppo-*")), better])
    rows = rows_of(result)
    assert rows["ppo"]["final"] == [0, 1, 2]
    assert len(rows["ppo"]["runs"]) == 3


def test_methods_of_one_algorithm_are_named_by_the_settings_that_differ(tmp_path):
    runs = [
        write_run(tmp_path / str(width), [[1.0], [2.0]], width=width, gamma=0.9)
        for width in (32, 64)
    ]
    assert list(rows_of(compare_runs(runs))) == ["ppo width=32", "ppo width=64"]


def test_methods_that_differ_in_much_are_named_by_their_folders(tmp_path):
    runs = [
        write_run(tmp_path / str(k), [[1.0], [2.0]], width=k, gamma=k, depth=k, steps_each=k)
        for k in (1, 2)
    ]
    assert list(rows_of(compare_runs(runs))) == [f"ppo ({run})" for run in runs]


def test_of_three_methods_all_pairs_are_compared_and_corrected_for(tmp_path):
    runs = [
        write_run(tmp_path / name, [[float(10 * k + s)] for s in range(6)], name=name)
        for k, name in enumerate(("zero", "ppo", "eniac"))
    ]
    pairs = compare_runs(runs)["pairs"]
    assert {(p["first"], p["second"]) for p in pairs} == {
        ("ppo", "zero"),
        ("eniac", "zero"),
        ("eniac", "ppo"),
    }
    for pair in pairs:
        assert pair["p_value"] == pytest.approx(2 / 924)
        assert pair["p_value_corrected"] == pytest.approx(6 / 924)
        assert pair["decided"]
        assert "for 3 pairs" in pair["sentence"]


def test_environments_are_strata_and_settings_may_follow_them(tmp_path):
    """Three seeds decide nothing in one environment, and do in two of which both say the same."""
    runs = [
        write_run(
            tmp_path / f"{name}-{env}",
            [[base + s + 5.0 * better] for s in range(3)],
            name=name,
            env=env,
            width=len(env) * 10 if better else None,
        )
        for better, name in enumerate(("ppo", "eniac"))
        for env, base in (("Chain-4", 0.0), ("DeepSea-10", 1000.0))
    ]
    result = compare_runs(runs)
    assert [place["environment"] for place in result["environments"]] == ["Chain-4", "DeepSea-10"]
    (pair,) = result["pairs"]
    assert pair["first"] == "eniac"
    assert pair["decided"]
    assert "the mean of 2 environments" in pair["sentence"]
    with pytest.raises(ConfigError, match=r"threshold is 3, but the runs are of 2 environments"):
        compare_runs(runs, threshold=3)


def test_the_threshold_is_that_of_the_runs(tmp_path):
    a = write_run(tmp_path / "a", [[1.0], [3.0]], return_above=2)
    b = write_run(tmp_path / "b", [[1.0], [0.0]], name="eniac")
    result = compare_runs([a, b])
    assert result["environments"][0]["threshold"] == 2
    assert rows_of(result)["ppo"]["success"]["count"] == 1
    c = write_run(tmp_path / "c", [[1.0], [0.0]], name="zero", return_above=5)
    with pytest.raises(ConfigError, match=r"have return_above 2 and 5; .*--threshold"):
        compare_runs([a, c])
    assert compare_runs([a, c], threshold=0.5)["environments"][0]["threshold"] == 0.5


def test_different_numbers_of_steps_are_told_and_can_be_made_equal(tmp_path):
    long = write_run(tmp_path / "long", [[0.0, 1.0, 2.0, 3.0]] * 5, name="eniac")
    short = write_run(tmp_path / "short", [[0.0, 5.0]] * 5)
    notes = compare_runs([long, short])["notes"]
    assert notes[0].startswith("On Chain-4 seeds had different numbers of steps")
    assert "eniac 40, ppo 20" in notes[0]
    equal = compare_runs([long, short], steps=20)
    assert equal["notes"] == []
    assert rows_of(equal)["eniac"]["final"] == [1] * 5
    # Evaluations need not be at the same steps.
    assert compare_runs([long, short], steps=19)["notes"] == []


def test_seeds_that_a_threshold_stopped_are_not_short_of_steps(tmp_path):
    a = write_run(tmp_path / "a", [[0.0, 9.0]] * 5, name="eniac", return_above=8)
    b = write_run(tmp_path / "b", [[0.0] * 6] * 5, return_above=8)
    assert compare_runs([a, b])["notes"] == []


def test_seconds_that_are_not_known_are_not_made_up(tmp_path, better):
    a = write_run(tmp_path / "a", [[9.0]] * 5, seconds=False)
    result = compare_runs([a, better], threshold=1)
    assert rows_of(result)["ppo"]["seconds_to_threshold"] is None
    with pytest.raises(ConfigError, match=r"timings.jsonl is missing .*--by steps"):
        compare_runs([a, better], by="seconds", threshold=1)


def test_what_cannot_be_compared_is_refused(tmp_path, better, worse):
    with pytest.raises(ConfigError, match="Which runs"):
        compare_runs([])
    with pytest.raises(ConfigError, match=r"1 run of one method, eniac; two methods"):
        compare_runs([better])
    with pytest.raises(ConfigError, match=r"seed 0 of eniac on Chain-4 is in .* Leave one"):
        compare_runs([better, better, worse])
    sea = write_run(tmp_path / "sea", [[1.0]], name="zero", env="DeepSea-10")
    with pytest.raises(ConfigError, match=r"eniac on Chain-4; zero on DeepSea-10"):
        compare_runs([better, sea])
    with pytest.raises(ConfigError, match=r"by is 'steps', which needs a threshold"):
        compare_runs([better, worse], by="steps")
    with pytest.raises(ConfigError, match="no epoch"):
        compare_runs([better, tmp_path / "nowhere"])
    (worse / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        compare_runs([better, worse])
    unknown = write_run(tmp_path / "unknown", [[1.0], [None]])
    with pytest.raises(RunError, match=r"seed 1 of .* has no return_mean"):
        compare_runs([better, unknown])
    with pytest.raises(RunError, match="up to step 5"):
        compare_runs([better, unknown], steps=5)


@pytest.mark.parametrize(
    "asked", [{"level": 1.0}, {"level": 0.0}, {"steps": 0}, {"threshold": float("nan")}]
)
def test_numbers_that_mean_nothing_are_refused(asked):
    with pytest.raises(ConfigError, match=f"{next(iter(asked))} is"):
        Asked(**asked)
