"""A run that is asked to stop stops as soon as nothing is lost by it, and says what is true."""

import errno
import json
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest
from rich.console import Console

import toy
from eniac import load_run
from eniac.cli.show import report
from eniac.runs.engine import resume, train
from eniac.runs.files import write_json
from eniac.runs.lock import LOCK
from eniac.runs.program import CompiledProgram
from eniac.runs.signals import STOPPING
from eniac.runs.workers import HostProgram

PROGRAMS = {"compiled": CompiledProgram, "host": HostProgram}


@pytest.fixture(autouse=True)
def _no_figure(monkeypatch):
    monkeypatch.setattr("eniac.training.draw", lambda run: [])


def _toy(kind):
    return toy.Toy(on_host=kind == "host")


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_finishes_the_epoch_and_saves(
    toy_config, tmp_path, console, monkeypatch, number, kind
):
    whole = train(toy_config(_toy(kind), epochs=6, out=tmp_path / "whole"), console=console)
    epoch = PROGRAMS[kind].epoch

    def interrupted(self, states, active, until):
        if states.epoch[0] == 2:
            os.kill(os.getpid(), number)
        return epoch(self, states, active, until)

    before = signal.getsignal(number)
    with monkeypatch.context() as patch:
        patch.setattr(PROGRAMS[kind], "epoch", interrupted)
        result = train(toy_config(_toy(kind), epochs=6, checkpoint_every=100), console=console)
    assert signal.getsignal(number) is before
    assert result.signal == number
    assert result.progress.epoch == 3
    assert result.ended == f"interrupted by {number.name}"
    assert report(console, result) == 128 + number
    assert "Stopped after epoch 3, and saved" in console.file.getvalue()
    resume(result.path, console=console)
    assert (whole.path / "metrics.jsonl").read_bytes() == (
        result.path / "metrics.jsonl"
    ).read_bytes()


@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_that_is_ignored_on_purpose_stays_ignored(
    toy_config, tmp_path, console, monkeypatch, number
):
    epoch = CompiledProgram.epoch

    def ignored(self, states, active, until):
        os.kill(os.getpid(), number)
        return epoch(self, states, active, until)

    monkeypatch.setattr(CompiledProgram, "epoch", ignored)
    before = signal.signal(number, signal.SIG_IGN)  # as nohup does
    try:
        assert train(toy_config(), console=console).signal is None
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("number", STOPPING)
def test_a_signal_while_compiling_is_obeyed_at_once_and_nothing_is_in_the_way_of_the_next_try(
    toy_config, tmp_path, console, monkeypatch, number, kind
):
    whole = train(toy_config(_toy(kind), out=tmp_path / "whole"), console=console)
    ended = threading.Event()

    def endless(self, states):
        threading.Timer(0.01, os.kill, (os.getpid(), number)).start()
        ended.wait(60)
        raise AssertionError("it was waited for")

    with monkeypatch.context() as patch:
        patch.setattr(PROGRAMS[kind], "compile", endless)
        result = train(toy_config(_toy(kind)), console=console)
        assert result.signal == number
        assert report(console, result) == 128 + number
    printed = console.file.getvalue()
    assert "Stopped before epoch 1: nothing was trained in this session" in printed
    assert "Finishing the epoch" not in printed
    assert not (tmp_path / "run" / LOCK).exists()
    again = tmp_path / "again"
    (tmp_path / "run").rename(again)
    resume(again, console=console)  # which works
    train(toy_config(_toy(kind)), console=console)
    for folder in (again, tmp_path / "run"):
        assert (folder / "metrics.jsonl").read_bytes() == (
            whole.path / "metrics.jsonl"
        ).read_bytes()


def test_the_compiler_is_not_waited_for(toy_config, console, monkeypatch):
    began, go_on = threading.Event(), threading.Event()

    def compile_for_ever(*arguments, **more):
        began.set()
        go_on.wait(60)

    def interrupt():
        began.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("jax.stages.Lowered.compile", compile_for_ever)
    threading.Thread(target=interrupt).start()
    try:
        result = train(toy_config(), console=console)
        assert (result.signal, go_on.is_set()) == (signal.SIGINT, False)
    finally:
        go_on.set()


def test_a_second_interrupt_aborts_at_once(toy_config, tmp_path, console, monkeypatch):
    def never_ends(self, states, active, until):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the second signal came through")

    monkeypatch.setattr(CompiledProgram, "epoch", never_ends)
    with pytest.raises(KeyboardInterrupt, match=r"up to epoch 0: `eniac resume"):
        train(toy_config(), console=console)
    assert json.loads((tmp_path / "run/manifest.json").read_text())["ended"] == "aborted"
    assert load_run(tmp_path / "run").progress.epoch == 0


class _Gone:
    """A terminal that is closed after some lines."""

    encoding = "utf-8"

    def __init__(self, error, terminal):
        self.error, self.terminal, self.left = error, terminal, 3

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.left -= 1
        if self.left < 0:
            raise OSError(self.error, os.strerror(self.error))

    def flush(self):
        if self.left < 0:
            raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize("terminal", [True, False])
def test_a_run_whose_terminal_was_closed_goes_on_in_silence(toy_config, terminal):
    console = Console(file=_Gone(errno.EIO, terminal), force_terminal=terminal)
    result = train(toy_config(epochs=6), console=console)
    assert result.ended == "6 epochs"


IN_A_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
import toy
from eniac.cli.main import main
toy.register()
main()
"""


def test_closing_the_terminal_of_a_command_saves_its_run(tmp_path, toy_config):
    template = toy_config(epochs=10**6, checkpoint_every=10**6, out=tmp_path / "template")
    write_json(tmp_path / "config.json", template.to_dict())
    run, (ours, theirs) = tmp_path / "run", pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, "train", tmp_path / "config.json", "--out", run],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").stat().st_size:
        os.read(ours, 4096)
    os.close(ours)  # whereupon the system sends SIGHUP
    assert process.wait(60) == 128 + signal.SIGHUP
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["ended"] == "interrupted by SIGHUP"
    assert load_run(run).progress.epoch == manifest["epoch"] > 0
