"""Lists of jobs: done once, whatever fails, is stopped or killed meanwhile."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from eniac import ConfigError, RunError
from eniac.runs.board import Board, Row
from eniac.runs.lock import claim, is_claimed
from eniac.runs.work import Job, execute
from fake_runs import write_run

PARENT = """
import json, sys
from pathlib import Path
from eniac.runs.work import Job, execute
jobs = [
    Job(name, call, arguments, Path(arguments["path"]))
    for name, call, arguments in json.loads(sys.argv[1])
]
sys.exit(execute(jobs, workers=2).code)
"""


def make(folder, name, call="tell", **arguments):
    product = folder / f"{name}.json"
    return Job(name, f"jobs:{call}", {"path": str(product), **arguments}, product)


@pytest.fixture
def begin():
    """Begins a list of jobs in a process of its own."""
    started = []

    def start(jobs):
        listed = [(job.name, job.call, dict(job.arguments)) for job in jobs]
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT, json.dumps(listed)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for(*paths):
    until = time.monotonic() + 60
    while not all(path.exists() and path.read_text() for path in paths):
        assert time.monotonic() < until, f"{paths} are not all there"
        time.sleep(0.01)


def test_every_job_has_a_process_and_a_core_of_its_own_and_is_done_once(tmp_path, console):
    jobs = [make(tmp_path, f"job-{n}", note=str(tmp_path / "note")) for n in range(3)]
    jobs[1].product.write_text("{}")
    outcome = execute(jobs, workers=2, console=console)
    assert (outcome.code, outcome.failed, outcome.left) == (0, (), ())
    assert {job.name for job in outcome.done} == {"job-0", "job-1", "job-2"}
    assert sorted((tmp_path / "note").read_text().split()) == ["job-0.json", "job-2.json"]
    told = [json.loads(jobs[n].product.read_text()) for n in (0, 2)]
    assert len({each["process"] for each in told} | {os.getpid()}) == 3
    assert [len(each["cores"]) for each in told] == [1, 1]
    assert [each["devices"] for each in told] == ["1", "1"]
    assert not list(tmp_path.glob("*.lock"))
    said = console.file.getvalue()
    assert "begun: job-0" in said
    assert "(3 of 3 done, 0 running, 0 to begin)" in said
    execute(jobs, console=console)
    assert len((tmp_path / "note").read_text().split()) == 2


def test_more_jobs_than_cores_take_all_of_them(tmp_path, console):
    cores = sorted(os.sched_getaffinity(0))
    number = 2 * len(cores)
    jobs = [make(tmp_path, f"job-{n}", "meet", number=number) for n in range(number)]
    execute(jobs, workers=number, console=console)
    taken = {tuple(json.loads(job.product.read_text())["cores"]) for job in jobs}
    assert taken == {(core,) for core in cores}


def test_a_job_that_fails_is_tried_again_at_the_end_and_does_not_stop_the_rest(tmp_path, console):
    jobs = [
        make(tmp_path, "once", "fail", times=1),
        make(tmp_path, "always", "fail"),
        make(tmp_path, "never", "fail", kind="ConfigError"),
        make(tmp_path, "killed", "fail", kind="killed"),
        make(tmp_path, "forgetful", "nothing"),
        make(tmp_path, "good"),
    ]
    outcome = execute(jobs, workers=1, console=console)
    assert outcome.code == 1
    assert {job.name for job in outcome.done} == {"once", "good"}
    assert {failure.job.name: failure.text for failure in outcome.failed} == {
        "always": "ValueError: no good",
        "never": "and more",
        "killed": "killed by SIGKILL",
        "forgetful": f"It ended without {tmp_path / 'forgetful.json'}.",
    }
    tries = {name: len((tmp_path / f"{name}.json.tries").read_text()) for name in ("once", "never")}
    assert tries == {"once": 2, "never": 1}
    said = console.file.getvalue()
    assert said.index("done: good") < said.index("done: once")
    told = said[said.index("Failed: 4.") :]
    assert "always: ValueError: no good" in told
    assert str(tmp_path / "always.json.log") in told
    assert "Traceback" in (tmp_path / "always.json.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_jobs_save_and_the_next_call_goes_on(tmp_path, begin, number):
    jobs = [make(tmp_path, f"count-{n}", "count", until=40) for n in range(3)]
    process = begin(jobs)
    counted = [tmp_path / f"count-{n}.json.counted" for n in range(3)]
    wait_for(*counted[:2])
    process.send_signal(number)
    said = process.communicate()[0]
    assert process.returncode == 128 + number
    assert f"Stopped by {number.name}, and saved; 3 left. The same command goes on." in said
    assert not counted[2].exists()
    for path in counted[:2]:
        assert path.with_suffix(".saved").read_text() == path.read_text().split()[-1]
    process = begin(jobs)
    process.wait()
    assert process.returncode == 0
    whole = [str(number) for number in range(1, 41)]
    assert [path.read_text().split() for path in counted] == [whole] * 3


def test_jobs_end_with_a_parent_that_was_killed(tmp_path, begin):
    jobs = [make(tmp_path, f"count-{n}", "count", until=10**6) for n in range(2)]
    process = begin(jobs)
    wait_for(*(tmp_path / f"count-{n}.json.counted" for n in range(2)))
    process.kill()
    wait_for(*(tmp_path / f"count-{n}.json.saved" for n in range(2)))
    process.wait()


def test_two_calls_side_by_side_share_the_jobs(tmp_path, begin):
    jobs = [make(tmp_path, f"count-{n}", "count", until=20) for n in range(4)]
    calls = [begin(jobs), begin(jobs)]
    assert [call.wait() for call in calls] == [0, 0]
    for job in jobs:
        counted = Path(f"{job.product}.counted").read_text().split()
        assert counted == [str(number) for number in range(1, 21)]


def test_a_claim_is_held_by_one_and_left_by_nobody(tmp_path):
    path = tmp_path / "x.lock"
    with claim(path) as ours:
        assert ours
        assert is_claimed(path)
        with claim(path) as again:
            assert not again
    assert not path.exists()
    assert not is_claimed(path)


def test_jobs_that_cannot_be_told_apart_are_refused(tmp_path, console):
    with pytest.raises(ConfigError, match="two jobs have the name 'a'"):
        execute([make(tmp_path, "a"), make(tmp_path, "a")], console=console)
    with pytest.raises(ConfigError, match="workers is 0; it must be 1 or more"):
        execute([make(tmp_path, "a")], workers=0, console=console)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"Cannot write to .*file.* the same command goes on\."):
        execute([make(tmp_path / "file", "a")], console=console)


def test_a_terminal_shows_what_runs_how_far_it_is_and_how_long_it_will_take(tmp_path, monkeypatch):
    clock = iter(range(0, 10**6, 10))
    monkeypatch.setattr("eniac.runs.board.time.monotonic", lambda: float(next(clock)))
    run = write_run(tmp_path / "run", [[0.25] * 5], seconds=False)
    limits = {"resolved": {"epochs": 20, "steps": None}, "seeds": [0]}
    (run / "manifest.json").write_text(json.dumps(limits))
    console = Console(file=io.StringIO(), width=90, force_terminal=True, color_system=None)
    job = Job("ppo-Chain-4-0", "jobs:tell", {}, tmp_path / "product", run)
    with Board(console, 3) as board:
        board.counts.done, board.counts.running = 1, 1
        board.begin(job)
        board.look()
        assert board.time_left() == ""  # all of it was there before
        row = board.rows[job]
        assert (row.steps, row.mean_return, row.fraction) == (50, 0.25, 0.25)
        with open(run / "metrics.jsonl", "a") as log:
            log.write('{"epoch": 10, "round": 1, "seed": 0, "env_steps": 100, "return_mean": 1}\n')
        board.look()
        assert board.time_left()
        board.stopping()
    shown = console.file.getvalue()
    for words in ("1 of 3 done, 1 running, 1 to begin", "ppo-Chain-4-0", "100", "1.000", "Ctrl-C"):
        assert words in shown


def test_a_run_that_says_nothing_yet_is_shown_without_numbers(tmp_path):
    row = Row(Job("a", "jobs:tell", {}, tmp_path / "product", tmp_path / "run"), 0.0)
    row.look(5.0)
    assert (row.steps, row.fraction) == (None, 0.0)
