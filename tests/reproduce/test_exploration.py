"""The tables and the picture of the hard tasks."""

from eniac.report.plot_style import save
from eniac.reproduce.exploration import curves, row, tables
from eniac.reproduce.judged import thinned
from eniac.reproduce.results import rows_of
from eniac.reproduce.tasks import TASKS
from reproduce.fake_results import result_of


def line_of(results):
    (found,) = rows_of(results).values()
    return row(found)


def test_a_row_counts_what_was_not_solved_within_the_limit_as_infinity():
    def cells(*solved):
        runs = [result_of(seed=k, solved=steps) for k, steps in enumerate(solved)]
        return line_of(runs).split(" | ")[2:5]

    assert cells(1_000_000, 1_500_000, None) == ["2 of 3", "1.50 M", "15"]
    assert cells(50_000, None, None) == ["1 of 3", "-", "-"]
    limit = TASKS["lock-2"].limit
    assert cells(1_000_000, limit + 1) == ["1 of 2", "-", "-"]


def test_a_row_says_what_the_final_judgement_came_to():
    runs = [result_of(solved=1000, final=4.0), result_of(seed=1, final=1.0, limit=5_000_000)]
    assert line_of(runs).endswith("| 2.5 | 1 of 2 | 5.00 M |")


def test_runs_with_the_papers_settings_have_more_steps():
    car = {"task": "mountain-car-2", "flags": ["--preset", "paper-depth2"]}
    assert " 1 of 1 " in line_of([result_of(solved=14_000_000, **car)])
    assert " 0 of 1 " in line_of([result_of(solved=14_000_000, task="mountain-car-2")])


def test_tables_name_what_is_missing_or_left_out_and_keep_variants_apart():
    variant = result_of(solved=1000, flags=["--restart", "0"])
    other = result_of(solved=1000, seed=1, settings="other")
    text = tables([result_of(solved=1000), result_of(solved=1000, seed=2), other, variant])
    assert "\n| lock-2 | eniac | 2 of 2 | 1.0 k |" in text
    assert "\n| lock-2 | eniac+restart-0 | 1 of 1 |" in text
    assert "Not measured yet: lock-2 (pc-pg, zero, ppo-rnd, ppo); lock-5 (all);" in text
    assert "To know: lock-2 eniac: seed 1 left out, made with other settings" in text


def test_curves_are_drawn_in_a_small_picture(tmp_path):
    curve = [[1000 * k, float(k % 7), None] for k in range(1, 200)]
    runs = [
        result_of(task, algorithm, seed, curve=curve)
        for task in ("lock-2", "lock-5", "acrobot-v1")
        for algorithm in ("eniac", "ppo")
        for seed in range(3)
    ]
    save(curves(runs), tmp_path / "curves.png")
    assert 5_000 < (tmp_path / "curves.png").stat().st_size < 300_000


def test_a_long_curve_keeps_its_end_and_where_it_was_solved():
    curve = thinned(list(range(1001)), solved=501)
    assert len(curve) < 210
    assert {0, 501, 1000} <= set(curve)
