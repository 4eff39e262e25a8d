"""The benchmark of exploration: its tasks, its tables, and runs that survive a kill."""

import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eniac.algorithms import ALGORITHMS
from eniac.cli.options import parse_config

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "benchmarks" / "exploration.py"
TINY = ["--num-envs", "4", "--rollout-length", "4", "--updates-per-round", "1", "--hidden", "4"]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def benchmark():
    yield load("exploration")
    del sys.modules["exploration"]


def result_of(task="lock-2", algorithm="eniac", seed=0, solved=None, final=4.0, **more):
    at = None if solved is None else {"steps": solved, "seconds": solved / 1e5}
    return {
        "task": task,
        "algorithm": algorithm,
        "flags": [],
        "seed": seed,
        "limit": 20_000_000,
        "to_the_end": False,
        "solved_at": at,
        "steps": solved or 20_000_000,
        "final": {"return_mean": final},
        "curve": [[1000, 0.0, None], [2000, 4.0, 1.0]],
        **more,
    }


def test_the_page_says_what_the_files_say(benchmark):
    page = benchmark.PAGE.read_text()
    assert page == benchmark.with_tables(page, benchmark.read_results())


def test_a_row_counts_what_was_not_solved_within_the_limit_as_infinity(benchmark):
    def row(*solved):
        runs = [result_of(seed=k, solved=steps) for k, steps in enumerate(solved)]
        return benchmark.row("lock-2", "eniac", runs).split(" | ")[2:5]

    assert row(1_000_000, 3_000_000, None) == ["2 of 3", "3.00 M", "30"]
    assert row(50_000, None, None) == ["1 of 3", "-", "-"]
    assert row(1_000_000, 20_000_001) == ["1 of 2", "-", "-"]


def test_a_row_says_what_the_final_judgement_came_to(benchmark):
    runs = [result_of(solved=1000, final=4.0), result_of(seed=1, final=1.0, limit=5_000_000)]
    assert benchmark.row("lock-2", "eniac", runs).endswith("| 2.5 | 1 of 2 | 5.00 M |")


def test_tables_name_what_is_missing_and_keep_variants_apart(benchmark):
    variant = result_of(solved=1000, flags=["--restart", "0"])
    text = benchmark.tables([result_of(solved=1000), variant])
    assert "\n| lock-2 | eniac | 1 of 1 | 1.0 k |" in text
    assert "\n| lock-2 | eniac+restart-0 | 1 of 1 |" in text
    assert "Not measured yet: lock-2 (pc-pg, zero, ppo-rnd, ppo); lock-5 (all);" in text


def test_a_file_that_cannot_be_of_a_run_is_not_passed_over(benchmark, tmp_path):
    (tmp_path / "lock-2").mkdir()
    (tmp_path / "lock-2" / "eniac-0.json").write_text('{"task": "lock-2"')
    with pytest.raises(json.JSONDecodeError):
        benchmark.read_results(tmp_path)


def test_curves_are_drawn_in_a_small_picture(benchmark, tmp_path):
    curve = [[1000 * k, float(k % 7), None] for k in range(1, 200)]
    runs = [
        result_of(task, algorithm, seed, curve=curve)
        for task in ("lock-2", "lock-5", "acrobot-v1")
        for algorithm in ("eniac", "ppo")
        for seed in range(3)
    ]
    benchmark.draw(runs, tmp_path / "curves.png")
    assert 5_000 < (tmp_path / "curves.png").stat().st_size < 300_000


def test_a_long_curve_keeps_its_end_and_where_it_was_solved(benchmark):
    curve = benchmark.thinned(list(range(1001)), solved=501)
    assert len(curve) < 210
    assert {0, 501, 1000} <= set(curve)


@pytest.mark.parametrize("name", ["eniac", "pc-pg", "zero", "ppo-rnd", "ppo"])
def test_a_task_sets_nothing_of_an_algorithm_but_depth_and_kind_of_episodes(benchmark, name):
    default = parse_config([name])
    tasks = benchmark.TASKS.values()
    if name != "eniac":  # one of each family: reading a command line takes a while
        tasks = {task.family: task for task in tasks}.values()
    for task in tasks:
        found = parse_config([name, *task.options(7)])
        chosen = {"depth": task.depth} if task.depth else {}
        episodes = {"episodes": "episodic"} if task.episodic else {}
        assert found.algorithm == ALGORITHMS[name].settings(**chosen, **episodes)
        assert found.env_options == ({"seed": 7} if task.seeded else {})
        changed = {
            item.name
            for item in dataclasses.fields(found)
            if getattr(found, item.name) != getattr(default, item.name)
        }
        allowed = {"algorithm", "env", "env_options", "observation_keys", "evaluation"}
        assert changed <= allowed


def test_a_return_that_equals_the_threshold_is_enough_where_it_says_at_least(benchmark):
    lock, car = benchmark.TASKS["lock-5"], benchmark.TASKS["mountain-car-2"]
    assert lock.solves(3.8)
    assert not lock.solves(3.79)
    assert not car.solves(93.0)
    assert car.solves(93.01)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lock-3", "eniac"], "lock-2, lock-5, lock-10, lock-15, lock-25"),
        (["lock-2", "dqn"], "eniac, pc-pg, zero, ppo-rnd, ppo, sb3-ppo, sb3-sac"),
        (["lock-2", "sb3-ppo"], "eniac, pc-pg, zero, ppo-rnd, ppo can"),
        (["cartpole-v1", "sb3-sac"], "ppo, sb3-ppo can"),
        (["lock-2"], "--list shows them"),
        (["lock-2", "eniac", "--seeds", "0"], "--seeds is 0; it must be 1 or more"),
        (["lock-2", "eniac", "--core", "4096"], "--core is 4096"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_can(benchmark, capsys, words, told):
    with pytest.raises(SystemExit, match="2"):
        benchmark.parse(words)
    assert told in " ".join(capsys.readouterr().err.split())


def program(folder, *words, flags=TINY, **how):
    """The benchmark in a process of its own, whose files all go to `folder`."""
    places = ["--results", str(folder / "results"), "--runs", str(folder / "runs")]
    line = [sys.executable, str(PROGRAM), *words, *places, "--seeds", "1", "--", *flags]
    return subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how
    )


def only_file(folder):
    (path,) = (folder / "results" / "lock-2").iterdir()
    return path


def test_a_killed_run_goes_on_and_a_finished_one_is_not_made_again(tmp_path):
    words = ["lock-2", "ppo", "--steps", "8000"]
    killed = program(tmp_path, *words, start_new_session=True)
    deadline = time.monotonic() + 240
    while not any(
        log.read_text().count("\n") > 3 for log in tmp_path.glob("runs/lock-2/*/metrics.jsonl")
    ):
        assert killed.poll() is None, killed.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "results").exists()

    again = program(tmp_path, *words)
    told = again.communicate()[0]
    assert again.returncode == 0, told
    assert "epoch 1 " not in told
    assert "begins anew" not in told
    whole = program(tmp_path / "whole", *words)
    assert whole.wait() == 0, whole.communicate()[0]
    whole.communicate()
    path = only_file(tmp_path)
    found, other = (json.loads(only_file(x).read_text()) for x in (tmp_path, tmp_path / "whole"))
    told = ("curve", "solved_at", "steps", "final", "command", "limit")
    assert [found[name] for name in told] == [other[name] for name in told]
    assert found["steps"] >= 8000
    assert found["steps"] == found["curve"][-1][0]
    assert not list(tmp_path.glob("runs/lock-2/*/"))

    written = path.stat().st_mtime_ns
    last = program(tmp_path, *words)
    assert last.communicate()[0] == ""
    assert last.returncode == 0
    assert path.stat().st_mtime_ns == written


def test_flags_that_there_are_not_end_it_at_once(tmp_path):
    refused = program(tmp_path, "lock-2", "ppo", flags=["--num-env", "4"])
    told = refused.communicate()[0]
    assert refused.returncode == 2, told
    assert "--num-env" in told
    assert not (tmp_path / "results").exists()


BENCH = ROOT / ".venv-bench" / "bin" / "python"


@pytest.mark.slow
@pytest.mark.skipif(not BENCH.exists(), reason="`make bench` sets it up")
def test_stable_baselines_runs_in_the_same_program(tmp_path):
    run = program(tmp_path, "pendulum-v1", "sb3-sac", "--steps", "64", flags=[])
    told = run.communicate()[0]
    assert run.returncode == 0, told
    found = json.loads((tmp_path / "results" / "pendulum-v1" / "sb3-sac-0.json").read_text())
    assert found["steps"] == found["curve"][-1][0] == 64
    assert found["solved_at"] is None
    assert -2000 < found["final"]["return_mean"] < -500
