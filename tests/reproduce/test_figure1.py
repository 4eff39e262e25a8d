"""Figure 1 from files of results that were made up."""

import numpy as np
import pytest

from eniac.errors import ConfigError
from eniac.report.plot_style import save
from eniac.reproduce.choice import Choice
from eniac.reproduce.figure1 import SEEDS, group_of, report, runs
from eniac.reproduce.results import rows_of
from reproduce.fake_results import result_of, write_result


def car(algorithm="eniac", seed=0, solved=None, depth=2, **more):
    """A run that gains 30 with every 200,000 steps until it is solved."""
    curve = [[200_000 * k, 30.0 * k - 40, None] for k in range(1, 5)]
    if solved is not None:
        curve = [*(point for point in curve if point[0] < solved), [solved, 94.0, None]]
    task = {"task": f"mountain-car-{depth}", "algorithm": algorithm, "seed": seed}
    return result_of(**task, solved=solved, curve=curve, **more)


def test_there_are_five_algorithms_three_depths_two_settings_and_two_kinds_of_episodes():
    every = runs(Choice())
    assert len(every) == 5 * 3 * 2 * 2 * SEEDS
    assert len({run.file for run in every}) == len(every)
    few = runs(Choice(depths=(6,), settings=("paper",), episodes=("episodic",), seeds=2))
    assert {run.task for run in few} == {"mountain-car-episodic-6"}
    assert {run.flags for run in few} == {("--preset", "paper-depth6")}
    assert len(few) == 10


def test_what_there_is_not_is_refused_with_what_there_is():
    with pytest.raises(ConfigError, match="--depths has 3; there are 2, 4, 6"):
        runs(Choice(depths=(3,)))


def test_a_seed_that_was_solved_beyond_the_limit_never_was():
    (row,) = rows_of([car(seed=0, solved=300_000), car(seed=1, solved=5_000_001)]).values()
    assert group_of(row).steps_to(93.0).tolist() == [300_000, np.inf]
    assert group_of(row).seconds_to(93.0).tolist() == [3.0, np.inf]


def test_a_table_has_success_steps_and_seconds_and_names_what_is_missing(tmp_path):
    for seed in range(SEEDS):
        write_result(tmp_path, car(seed=seed, solved=300_000 if seed < 8 else None, final=90.0))
    write_result(tmp_path, car("ppo", solved=None, final=-0.01))
    found = report(Choice(results=tmp_path))
    assert "| mountain-car-2 | eniac | 8 of 10 [0.49, 0.94] | 0.30 M [0.30 M, -] |" in found.text
    assert "| mountain-car-2 | ppo | 0 of 1 [0.00, 0.79] | - | - | 80.0 | 0.0 |" in found.text
    missing = "Not measured yet: mountain-car-2: pc-pg, zero, ppo-rnd, ppo (seeds 1-9); "
    assert missing in found.text
    assert list(found.pictures) == ["figure1-continuing-ours"]
    save(found.pictures["figure1-continuing-ours"], tmp_path / "figure.png")
    assert 10_000 < (tmp_path / "figure.png").stat().st_size < 300_000


def test_a_quick_version_is_small_and_says_so_everywhere(tmp_path):
    folder = tmp_path / "quick"
    every = runs(Choice(quick=True, results=folder))
    assert {run.task for run in every} == {"mountain-car-2", "mountain-car-episodic-2"}
    assert max(run.steps for run in every) <= 3_000_000
    write_result(folder, car(solved=300_000))
    found = report(Choice(quick=True, results=folder))
    assert "### QUICK, NOT THE RESULT: Continuing, our settings" in found.text
    assert found.text.count("###") == found.text.count("QUICK")
    (picture,) = found.pictures.values()
    assert picture.get_suptitle().startswith("QUICK")
