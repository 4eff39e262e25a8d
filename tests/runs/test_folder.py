"""Where a run may begin, and what one that never began leaves."""

import errno
import os
from pathlib import Path

import pytest

import toy
from eniac import ConfigError, RunError, load_run
from eniac.cli.main import main
from eniac.runs.engine import resume, train
from eniac.runs.files import TEMPORARY, write_json
from eniac.runs.program import CompiledProgram
from eniac.runs.workers import HostProgram

PROGRAMS = {"compiled": CompiledProgram, "host": HostProgram}


def _toy(kind):
    return toy.Toy(on_host=kind == "host")


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_run_that_failed_before_its_first_checkpoint_leaves_nothing(
    toy_config, tmp_path, console, monkeypatch, kind
):
    def fails(self):
        assert (tmp_path / "run/config.json").exists()
        raise ZeroDivisionError("a bad environment")

    with monkeypatch.context() as patch:
        patch.setattr(PROGRAMS[kind], "init", fails)
        with pytest.raises(ZeroDivisionError):
            train(toy_config(_toy(kind)), console=console)
    assert not (tmp_path / "run").exists()
    assert train(toy_config(_toy(kind)), console=console).progress.epoch == 4


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_run_that_failed_in_its_first_epoch_can_be_resumed_or_begun_anew(
    toy_config, tmp_path, console, monkeypatch, kind
):
    def fails(*arguments):
        raise ZeroDivisionError("a bad environment")

    with monkeypatch.context() as patch:
        patch.setattr(PROGRAMS[kind], "epoch", fails)
        with pytest.raises(ZeroDivisionError):
            train(toy_config(_toy(kind)), console=console)
    assert load_run(tmp_path / "run").progress.epoch == 0
    # What a process that was killed there would leave besides.
    (tmp_path / "run" / "checkpoints" / f"epoch-000000.safetensors{TEMPORARY}").touch()
    (tmp_path / "run" / f"manifest.json{TEMPORARY}").touch()
    (tmp_path / "run" / "writer.json").touch()
    result = train(toy_config(_toy(kind), seed=7, epochs=2), console=console)
    assert load_run(tmp_path / "run").states.epoch.tolist() == [2]
    assert result.config.seed == 7
    assert sorted(result.path.rglob(f"*{TEMPORARY}")) == []
    with pytest.raises(ConfigError, match="already holds a run"):
        train(toy_config(_toy(kind)), console=console)


def test_a_disk_that_is_full_from_the_start_leaves_nothing(
    toy_config, tmp_path, console, monkeypatch
):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "run").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(RunError, match=r"No space left on device\. Nothing was saved yet"):
            train(toy_config(), console=console)
    assert list(tmp_path.iterdir()) == []
    assert train(toy_config(), console=console).progress.epoch == 4


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("thesis.txt", "all of it"),
        ("config.json", '{"port": 80}'),
        ("config.json", "no JSON"),
        ("figures/mine.png", ""),
        ("checkpoints/epoch-000000.pt", ""),
        ("notes/config.json", "{}"),
    ],
)
def test_a_folder_of_something_else_is_left_alone(toy_config, tmp_path, console, name, content):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(ConfigError, match=rf"is not empty: it has {name}\. Choose another"):
        train(toy_config(), console=console)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [path]
    assert path.read_text() == content


def test_a_link_out_of_the_folder_is_not_followed(toy_config, tmp_path, console):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/epoch-000000.safetensors").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="it has checkpoints"):
        train(toy_config(), console=console)
    assert (tmp_path / "elsewhere/epoch-000000.safetensors").exists()


def test_an_empty_name_is_no_folder(toy_config, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for out in ("", ".", "./"):
        assert main(["train", "ppo", "--env", "Chain-4", "--out", out]) == 2
        assert "out is empty" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="out is empty, or the folder that you are in"):
        train(toy_config(out=Path("")))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_and_one_that_is_not_there_are_both_fine(toy_config, tmp_path, console):
    (tmp_path / "there").mkdir()
    for name in ("there", "not/yet/there"):
        result = train(toy_config(epochs=1, out=tmp_path / name), console=console)
        assert result.path == tmp_path / name


def test_a_run_that_was_cut_off_before_its_manifest_starts_over(toy_config, tmp_path, console):
    whole = train(toy_config(out=tmp_path / "whole"), console=console)
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run/config.json", toy_config().to_dict())
    result = resume(tmp_path / "run", console=console)
    assert (result.path / "metrics.jsonl").read_bytes() == (
        whole.path / "metrics.jsonl"
    ).read_bytes()
