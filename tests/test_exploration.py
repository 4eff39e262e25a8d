"""The benchmark of exploration: what it refuses, and runs that survive a kill."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
    (path,) = (folder / "results" / "runs" / "lock-2").iterdir()
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
    assert not list(tmp_path.rglob("results/**/*.json"))

    (log,) = tmp_path.glob("runs/lock-2/*.log")
    before = len(log.read_text())
    again = program(tmp_path, *words)
    told = again.communicate()[0]
    assert again.returncode == 0, told
    since = log.read_text()[before:]
    assert "epoch 1 " not in since
    assert "epoch " in since
    assert "begins anew" not in since
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
    assert not list(tmp_path.rglob("results/**/*.json"))


BENCH = ROOT / ".venv-bench" / "bin" / "python"


@pytest.mark.slow
@pytest.mark.skipif(not BENCH.exists(), reason="`make bench` sets it up")
def test_stable_baselines_runs_in_the_same_program(tmp_path):
    run = program(tmp_path, "pendulum-v1", "sb3-sac", "--steps", "64", flags=[])
    told = run.communicate()[0]
    assert run.returncode == 0, told
    found = json.loads(
        (tmp_path / "results" / "runs" / "pendulum-v1" / "sb3-sac-0.json").read_text()
    )
    assert found["steps"] == found["curve"][-1][0] == 64
    assert found["solved_at"] is None
    assert -2000 < found["final"]["return_mean"] < -500
