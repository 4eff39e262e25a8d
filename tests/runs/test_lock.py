"""One process at a time writes to a run."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import toy
from eniac import RunError
from eniac.runs import lock
from eniac.runs.engine import resume, train
from eniac.runs.lock import LOCK, Holder, Writer
from eniac.runs.program import CompiledProgram
from eniac.runs.workers import HostProgram

HOLD = """
import os, sys, time
from pathlib import Path
from eniac.runs.lock import Writer
with Writer(Path(sys.argv[1])):
    if "fork" not in sys.argv or os.fork() == 0:
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


@pytest.fixture
def hold(tmp_path):
    """Starts processes that hold the right to write to a folder, until they are killed."""
    started = []

    def start(*options):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, tmp_path, *options],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def _leave(folder, **changes):
    """What a writer that was killed leaves behind."""
    holder = vars(Holder.this()) | changes
    (folder / LOCK).write_text(json.dumps(holder))


def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path, hold):
    process, _ = hold()
    with pytest.raises(RunError) as caught, Writer(tmp_path):
        pass
    told = Holder.read((tmp_path / LOCK).read_bytes())
    assert told.process == process.pid
    assert f"process {process.pid} on {told.host} since {told.since}" in str(caught.value)


def test_a_lock_left_by_a_killed_process_is_not_in_the_way(tmp_path, hold):
    process, _ = hold()
    process.kill()
    process.wait()
    assert (tmp_path / LOCK).exists()
    with Writer(tmp_path):
        assert Holder.read((tmp_path / LOCK).read_bytes()).process == os.getpid()


def test_a_child_that_outlives_its_killed_parent_does_not_hold_the_lock(tmp_path, hold):
    process, child = hold("fork")
    try:
        process.kill()
        process.wait()
        os.kill(child, 0)  # it lives
        with Writer(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_writer_that_ends_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), Writer(tmp_path):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with Writer(tmp_path), pytest.raises(RunError), Writer(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_writer_on_another_machine_that_gives_signs_of_life_is_left_alone(tmp_path, monkeypatch):
    _leave(tmp_path, machine="another", host="node7", process=12)
    said = []

    def touch(seconds):
        os.utime(tmp_path / LOCK, ns=(1, time.time_ns()))

    monkeypatch.setattr(lock.time, "sleep", touch)
    with pytest.raises(RunError, match="process 12 on node7"), Writer(tmp_path, said.append):
        pass
    assert "Waiting up to 60 s to see whether process 12 on node7" in said[0]
    assert Holder.read((tmp_path / LOCK).read_bytes()).host == "node7"


def test_a_writer_on_another_machine_without_signs_of_life_is_taken_over(tmp_path, monkeypatch):
    _leave(tmp_path, machine="another")
    os.utime(tmp_path / LOCK, (0, time.time() - lock.STALE - 5))
    said = []
    with Writer(tmp_path, said.append):
        assert said == []  # it has been silent for long enough
    _leave(tmp_path, machine="another")
    monkeypatch.setattr(lock, "STALE", 0.05)
    with Writer(tmp_path):
        assert Holder.read((tmp_path / LOCK).read_bytes()).process == os.getpid()


def test_where_the_file_system_knows_no_locks_the_signs_of_life_decide(tmp_path, monkeypatch):
    def unsupported(descriptor, operation):
        raise OSError(lock.errno.ENOLCK, "no locks")

    monkeypatch.setattr(lock.fcntl, "flock", unsupported)
    monkeypatch.setattr(lock, "BEAT", 0.01)
    monkeypatch.setattr(lock, "STALE", 1.0)
    alive = pytest.raises(RunError, match=f"process {os.getpid()} on")
    with Writer(tmp_path), alive, Writer(tmp_path):
        pass
    _leave(tmp_path)
    os.utime(tmp_path / LOCK, (0, time.time() - 5))
    with Writer(tmp_path):
        pass


def test_a_writer_whose_run_was_taken_over_notices(tmp_path):
    with Writer(tmp_path) as writer:
        writer.check()
        _leave(tmp_path, host="node7")
        with pytest.raises(RunError, match=r"was taken over by .* on node7"):
            writer.check()
    assert Holder.read((tmp_path / LOCK).read_bytes()).host == "node7"  # which is not ours


PROGRAMS = {"compiled": CompiledProgram, "host": HostProgram}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_of_several_that_want_to_write_a_run_all_but_one_are_refused_and_that_one_ends_well(
    toy_config, tmp_path, console, monkeypatch, kind
):
    algorithm = toy.Toy(on_host=kind == "host")
    whole = train(toy_config(algorithm, epochs=6, out=tmp_path / "whole"), console=console)
    refused, epoch = [], PROGRAMS[kind].epoch

    def another():
        for start in (
            lambda: resume(tmp_path / "run", epochs=6, console=console),
            lambda: train(toy_config(algorithm, epochs=6), console=console),
        ):
            with pytest.raises(RunError, match=f"is being written by process {os.getpid()}"):
                start()
            refused.append(start)

    def disturbed(*arguments):
        if not refused:
            thread = threading.Thread(target=another)
            thread.start()
            thread.join()
        return epoch(*arguments)

    monkeypatch.setattr(PROGRAMS[kind], "epoch", disturbed)
    ended = train(toy_config(algorithm, epochs=6), console=console)
    assert len(refused) == 2
    assert (ended.path / "metrics.jsonl").read_bytes() == (
        whole.path / "metrics.jsonl"
    ).read_bytes()
    assert not (ended.path / LOCK).exists()


def test_a_run_that_was_taken_over_writes_nothing_more(toy_config, tmp_path, console, monkeypatch):
    epoch = CompiledProgram.epoch

    def overtaken(self, states, active, until):
        if states.epoch[0] == 2:
            _leave(tmp_path / "run", host="node7")
        return epoch(self, states, active, until)

    monkeypatch.setattr(CompiledProgram, "epoch", overtaken)
    with pytest.raises(RunError, match="taken over"):
        train(toy_config(), console=console)
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 2
