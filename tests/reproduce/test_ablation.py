"""What each setting brings, from files of results that were made up."""

import pytest

from eniac.reproduce.ablation import report, runs, table
from eniac.reproduce.ablation_tasks import SETTINGS
from eniac.reproduce.choice import Choice
from eniac.reproduce.exploration import tables
from eniac.reproduce.make import config_of
from eniac.reproduce.results import rows_of
from eniac.reproduce.tasks import TASKS
from reproduce.fake_results import result_of, write_result

SETTING = SETTINGS[0]
TASK = SETTING.tasks[0]


def results(undone, ours):
    """Files of runs that needed so many steps, or never solved it."""
    return [
        result_of(TASK, seed=seed, solved=steps, flags=list(flags))
        for flags, each in ((SETTING.flags, undone), ((), ours))
        for seed, steps in enumerate(each)
    ]


def test_each_setting_is_undone_on_three_tasks_and_is_one_of_ours():
    for setting in SETTINGS:
        assert len(set(setting.tasks)) == 3
        assert set(setting.tasks) <= TASKS.keys()
    wanted = runs(Choice())
    assert len({(run.task, run.name) for run in wanted}) == len(wanted)
    ours = {run.task: config_of(run).to_dict() for run in wanted if not run.flags}
    for run in wanted:
        if run.flags and run.seed == 0:
            undone = config_of(run).to_dict()
            assert undone["algorithm"] != ours[run.task]["algorithm"], run.flags


def test_a_setting_without_which_nothing_is_solved_is_clearly_of_use():
    found = table(rows_of(results([None] * 5, [1_000_000 + k for k in range(5)])))
    assert f"| {TASK} | 0 of 5, - | 5 of 5, 1.00 M | **1.00** | 0.008 |" in found
    assert found.endswith(f"{SETTING.what}: 1 of 1.\n")


def test_a_setting_that_changes_nothing_is_of_no_clear_use():
    steps = [1_000_000 + k for k in range(5)]
    found = table(rows_of(results(steps, steps)))
    assert "| 0.50 | 1.000 |" in found
    assert found.endswith(f"{SETTING.what}: 0 of 1.\n")


def test_one_that_does_harm_is_clear_and_of_no_use():
    found = table(rows_of(results([1_000_000 + k for k in range(5)], [None] * 5)))
    assert "| **0.00** | 0.008 |" in found
    assert found.endswith(f"{SETTING.what}: 0 of 1.\n")


def test_what_was_not_measured_is_named(tmp_path):
    for result in results([1_000_000], [2_000_000, None]):
        write_result(tmp_path / "results", result)
    told = report(Choice(results=tmp_path / "results")).text
    assert "| 1 of 1, 1.00 M | 1 of 2, - |" in told
    assert f"Not measured yet: {TASK}: eniac (seeds 2-4), eniac+incumbent.episodes-0" in told


@pytest.mark.parametrize("flags", [SETTING.flags, ("--preset", "paper-depth2")])
def test_the_page_of_hard_tasks_leaves_these_variants_to_other_pages(flags):
    variant = result_of(TASK, solved=1000, flags=list(flags))
    assert "eniac+" not in tables([result_of(TASK, solved=1000), variant])
