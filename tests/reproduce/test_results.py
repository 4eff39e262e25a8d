"""Files of results, and what may stand in one row."""

import pytest

from eniac.errors import ConfigError, RunError
from eniac.reproduce.pages import with_block
from eniac.reproduce.results import notes_of, read_results, rows_of, seeds_shown
from reproduce.fake_results import result_of, write_result


def only_row(results):
    (row,) = rows_of(results).values()
    return row


def test_results_of_other_settings_are_left_out_and_named():
    row = only_row([result_of(seed=k, settings="new" if k < 3 else "old") for k in range(5)])
    assert row.seeds == [0, 1, 2]
    assert row.notes == ["lock-2 eniac: seeds 3-4 left out, made with other settings than the rest"]


def test_of_as_many_with_two_settings_the_newer_version_stays():
    made = {0: "0.9.0", 1: "0.10.0"}
    results = [result_of(seed=k, settings=str(k), versions={"eniac": v}) for k, v in made.items()]
    assert only_row(results).seeds == [1]


def test_a_row_that_mixes_versions_says_so():
    versions = ["0.2.0", "0.2.0", "0.3.0"]
    row = only_row([result_of(seed=k, versions={"eniac": v}) for k, v in enumerate(versions)])
    assert row.seeds == [0, 1, 2]
    (note,) = row.notes
    assert note == "lock-2 eniac mixes versions: eniac 0.2.0 (seeds 0-1), eniac 0.3.0 (seed 2)"


def test_rows_of_several_versions_beside_one_another_are_named():
    one, other = result_of(), result_of(algorithm="ppo", versions={"eniac": "0.3.0"})
    sb3 = result_of(algorithm="sb3-ppo", versions={"stable-baselines3": "2.9"})
    assert notes_of(rows_of([one, sb3]).values()) == []
    assert notes_of(rows_of([one, other]).values()) == [
        "rows are of several versions (eniac 0.2.0 lock-2 eniac; eniac 0.3.0 lock-2 ppo)"
    ]


def test_old_files_that_do_not_say_their_settings_are_read_and_named():
    old = result_of(seed=7)
    del old["settings"]
    assert only_row([old]).notes == []
    row = only_row([old, result_of(seed=1)])
    assert sorted(row.seeds) == [1, 7]
    assert row.notes == ["lock-2 eniac: it is not known with what settings seed 7 ran"]


def test_variants_are_rows_of_their_own():
    rows = rows_of([result_of(), result_of(flags=["--restart", "0"])])
    assert list(rows) == [("lock-2", "eniac"), ("lock-2", "eniac+restart-0")]


@pytest.mark.parametrize("text", ['{"task": "lock-2"', "[]", '{"task": "lock-2"}', ""])
def test_a_file_that_cannot_be_of_a_run_is_not_passed_over(tmp_path, text):
    write_result(tmp_path, result_of()).write_text(text)
    with pytest.raises(RunError, match=r"eniac-0\.json"):
        read_results(tmp_path)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        read_results(tmp_path / "none")


def test_seeds_are_told_in_spans():
    assert seeds_shown([3]) == "seed 3"
    assert seeds_shown([9, 0, 1, 2, 7]) == "seeds 0-2, 7, 9"


def test_a_block_of_a_page_is_replaced_and_nothing_else():
    page = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb <!-- y: begin -->"
    assert with_block(page, "x", "\\1 new\n") == page.replace("old", "\\1 new")
    with pytest.raises(ValueError, match="no block called 'y'"):
        with_block(page, "y", "new")
