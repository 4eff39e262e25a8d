"""Too little of disk or memory: told in a line, and nothing is lost."""

import errno
import json
import os
import resource
import shutil
from pathlib import Path

import jax
import pytest

import toy
from eniac import ConfigError, RunError, load_policy, load_run
from eniac.runs.engine import resume, train
from eniac.runs.program import CompiledProgram
from eniac.runs.workers import HostProgram

PROGRAMS = {"compiled": CompiledProgram, "host": HostProgram}


def _toy(kind):
    return toy.Toy(on_host=kind == "host")


def _same_log(a, b):
    return (a / "metrics.jsonl").read_bytes() == (b / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_a_disk_that_fails_is_told_and_what_was_saved_stays(
    toy_config, tmp_path, console, monkeypatch, kind, number
):
    whole = train(toy_config(_toy(kind), epochs=6, out=tmp_path / "whole"), console=console)
    fsync, epoch, failing = os.fsync, PROGRAMS[kind].epoch, [False]

    def sometimes(descriptor):
        if failing[0]:
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    def counting(self, states, active, until):
        failing[0] = bool(states.epoch[0] >= 3)
        return epoch(self, states, active, until)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sometimes)
        patch.setattr(PROGRAMS[kind], "epoch", counting)
        with pytest.raises(RunError) as caught:
            train(toy_config(_toy(kind), epochs=6), console=console)
    for words in (os.strerror(number), "up to epoch 2", f"`eniac resume {tmp_path / 'run'}`"):
        assert words in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert load_run(tmp_path / "run").progress.epoch == 2
    resumed = resume(tmp_path / "run", console=console)
    assert _same_log(whole.path, resumed.path)


def test_a_disk_that_is_full_after_the_last_epoch_costs_no_policy(
    toy_config, tmp_path, console, monkeypatch
):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("eniac.runs.engine.export_policies", full)
        with pytest.raises(RunError, match=r"up to epoch 4; .*`eniac resume"):
            train(toy_config(), console=console)
    result = resume(tmp_path / "run", console=console)
    assert (result.ended, result.steps) == ("4 epochs", 0)
    assert load_policy(tmp_path / "run/policy") is not None
    with pytest.raises(ConfigError, match="already come to its end"):
        resume(tmp_path / "run", console=console)


def test_files_that_may_not_grow_are_told(toy_config, tmp_path, console):
    """A limit of the system's own, so that no call of ours is replaced."""
    whole = train(toy_config(epochs=30, out=tmp_path / "whole"), console=console)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, limits[1]))
    try:
        with pytest.raises(RunError, match=r"File too large\. What was saved is still there"):
            train(toy_config(epochs=30), console=console)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert load_run(tmp_path / "run").progress.epoch > 0
    resumed = resume(tmp_path / "run", console=console)
    assert _same_log(whole.path, resumed.path)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_folder_that_vanishes_is_told(toy_config, tmp_path, console, monkeypatch, kind):
    epoch = PROGRAMS[kind].epoch

    def vanishing(self, states, active, until):
        if states.epoch[0] == 2:
            shutil.rmtree(tmp_path / "run")
        return epoch(self, states, active, until)

    monkeypatch.setattr(PROGRAMS[kind], "epoch", vanishing)
    with pytest.raises(RunError, match=r"No such file or directory\. The folder is gone"):
        train(toy_config(_toy(kind)), console=console)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_told(toy_config, tmp_path, console):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="is a file"):
        train(toy_config(out=tmp_path / "file"), console=console)
    with pytest.raises(RunError, match=r"Cannot write to .*Not a directory\. Nothing was saved"):
        train(toy_config(out=tmp_path / "file" / "run"), console=console)
    with pytest.raises(RunError, match="Cannot write to /proc/run"):
        train(toy_config(out=Path("/proc/run")), console=console)


SHORTAGES = {
    "python": MemoryError("Unable to allocate 3.00 TiB"),
    "xla": jax.errors.JaxRuntimeError(
        "RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.\nTrace"
    ),
}


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("error", SHORTAGES)
def test_memory_that_runs_out_is_told_and_no_epoch_is_lost(
    toy_config, tmp_path, console, monkeypatch, kind, error
):
    whole = train(toy_config(_toy(kind), epochs=6, out=tmp_path / "whole"), console=console)
    epoch = PROGRAMS[kind].epoch

    def exhausted(self, states, active, until):
        if states.epoch[0] == 3:
            raise SHORTAGES[error]
        return epoch(self, states, active, until)

    with monkeypatch.context() as patch:
        patch.setattr(PROGRAMS[kind], "epoch", exhausted)
        with pytest.raises(RunError, match="There is not enough memory: ") as caught:
            train(toy_config(_toy(kind), epochs=6, checkpoint_every=100), console=console)
    assert "up to epoch 3" in str(caught.value)
    assert str(caught.value).count("\n") == 0
    ended = json.loads((tmp_path / "run/manifest.json").read_text())["ended"]
    assert ended.startswith("failed: ")
    resumed = resume(tmp_path / "run", console=console)
    assert _same_log(whole.path, resumed.path)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_whatever_fails_in_an_epoch_those_before_it_are_saved(
    toy_config, tmp_path, console, monkeypatch, kind
):
    epoch = PROGRAMS[kind].epoch

    def fails(self, states, active, until):
        if states.epoch[0] == 3:
            raise ZeroDivisionError("an environment's fault")
        return epoch(self, states, active, until)

    monkeypatch.setattr(PROGRAMS[kind], "epoch", fails)
    with pytest.raises(ZeroDivisionError):
        train(toy_config(_toy(kind), epochs=6, checkpoint_every=100), console=console)
    assert load_run(tmp_path / "run").progress.epoch == 3
