"""Sweeps: each run is an ordinary one, made once, and what they came to is told."""

import json
import os
import re
import signal
from dataclasses import replace

import pytest

import eniac
from eniac import ConfigError, RunError
from eniac.cli.main import main
from eniac.runs.engine import train
from eniac.runs.manifest import read_manifest
from eniac.runs.plan import plan
from eniac.runs.program import CompiledProgram
from eniac.runs.sweep import make_run, run_sweep, table
from eniac.runs.work import Failure, Outcome
from processes import assert_same_run

SPI, SEA = "eniac-spi-sample", "DeepSea-3"
FEW = {"epochs": 2, "T": 2, "M": 50, "m": 5.0}


class Idle:
    """An executor that nothing may be asked of."""

    def capacity(self):
        raise AssertionError("something is to be run")

    start = close = capacity


def test_a_sweep_makes_ordinary_runs_and_goes_on_with_what_is_missing(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    words = ["sweep", "--algorithms", SPI, "--envs", SEA, "--vary", "K", "50", "60"]
    few = ["--", "--epochs", "2", "--T", "2", "--M", "50", "--m", "5.0", "--return-above", "-9"]
    assert main([*words, "--dry-run", *few]) == 0
    assert re.search(r"DeepSea-3 +eniac-spi-sample +K=60 +0 *\n", capsys.readouterr().out)
    assert not (tmp_path / "runs").exists()
    assert main([*words, "--workers", "2", *few]) == 0
    said = capsys.readouterr().out
    assert re.search(r"DeepSea-3 +eniac-spi-sample +K=50 +1 +[-0-9.]+ +1 +[\d,]+ +\d+ s", said)
    out = tmp_path / "runs" / "sweep"
    names = {f"{SPI}-{SEA}-K-{k}-0" for k in (50, 60)}
    assert {path.name for path in out.iterdir()} == {*names, "sweep.json", "results", "logs"}
    config = plan(SPI, SEA, {**FEW, "return_above": -9}, {"K": [50]})[0].config
    alone = train(replace(config, out=tmp_path / "alone")).path
    assert_same_run(alone, out / f"{SPI}-{SEA}-K-50-0", epochs=1)
    capsys.readouterr()
    # It is all there; and with what it says to do next, all of it is found.
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert main([*words, *few]) == 0
    assert before.items() <= {path: path.stat().st_mtime_ns for path in out.rglob("*")}.items()
    for command in re.findall(r"eniac (.*)", capsys.readouterr().out):
        assert main(command.split()) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in names)
    assert "eniac-spi-sample K=60" in said
    # Another definition is refused in a line, unless it only adds runs.
    assert main([*words, *few[:-1], "-8"]) == 2
    told = capsys.readouterr().err
    assert "runs/sweep holds another sweep" in told
    assert "has return_above -9.0, and now it is -8.0" in told


def test_a_run_of_a_sweep_that_was_interrupted_goes_on(toy_config, tmp_path, monkeypatch):
    config = toy_config(epochs=6, out=tmp_path / "run").to_dict()
    whole = train(toy_config(epochs=6, out=tmp_path / "whole")).path
    product = tmp_path / "product.json"
    epoch = CompiledProgram.epoch

    def interrupted(self, states, active, until):
        if states.epoch[0] == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return epoch(self, states, active, until)

    with monkeypatch.context() as patch:
        patch.setattr(CompiledProgram, "epoch", interrupted)
        make_run(config, str(product))
    assert not product.exists()
    make_run(config, str(product))
    assert_same_run(whole, tmp_path / "run", epochs=6)
    manifest = read_manifest(tmp_path / "run")
    assert [session["from_epoch"] for session in manifest["sessions"]] == [0, 3]
    told = json.loads(product.read_text())
    assert (told["epochs"], told["ended"], told["solved"]) == (6, "6 epochs", None)
    last = json.loads((whole / "metrics.jsonl").read_text().splitlines()[-1])
    assert (told["steps"], told["return_mean"]) == (last["env_steps"], last["return_mean"])
    # Killed after the end of the run: only what it came to is written.
    product.unlink()
    make_run(config, str(product))
    assert json.loads(product.read_text()) == told
    assert len(read_manifest(tmp_path / "run")["sessions"]) == 2


def test_to_a_sweep_runs_can_be_added_and_none_taken(tmp_path, monkeypatch):
    begun = []

    def execute(jobs, *_, **__):
        begun.append(jobs)
        return Outcome((), (), (), None)

    monkeypatch.setattr("eniac.runs.sweep.execute", execute)
    out = tmp_path / "sweep"

    def make(**more):
        run_sweep(plan(SPI, SEA, FEW | more.pop("settings", {}), **more), out, Idle())
        return [job.name for job in begun[-1]]

    assert make(seeds=2) == [f"{SPI}-{SEA}-0", f"{SPI}-{SEA}-1"]
    assert make(seeds=3)[-1] == f"{SPI}-{SEA}-2"
    with pytest.raises(ConfigError, match=r"holds another sweep: .*-2 is not among them now"):
        make(seeds=2)
    with pytest.raises(ConfigError, match=r"has algorithm.K None, and now it is 50"):
        make(seeds=3, settings={"K": 50})
    for folder in (tmp_path, "file"):
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match="is there already, and holds no sweep"):
            run_sweep(plan(SPI, SEA, FEW), tmp_path / folder, Idle())
    (out / "sweep.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"sweep.json is no sweep's"):
        make(seeds=3)


def test_a_sweep_from_python_raises_what_went_wrong(tmp_path, monkeypatch):
    outcomes = []

    def ended(jobs, *_, **__):
        failed, left, caught = outcomes.pop(0)
        failures = tuple(Failure(job, "the door is stuck.") for job in jobs[:failed])
        return Outcome(tuple(jobs[failed + left :]), failures, tuple(jobs[:left]), caught)

    monkeypatch.setattr("eniac.runs.sweep.execute", ended)

    def call():
        return eniac.sweep(SPI, [SEA], settings=FEW, seeds=3, out=tmp_path / "sweep")

    outcomes += [(1, 0, None), (0, 2, signal.SIGINT), (0, 0, None)]
    told = rf"1 of 3 runs failed\. {SPI}-{SEA}-0: the door is stuck\. What it said is in .*-0\.log"
    with pytest.raises(RunError, match=told):
        call()
    with pytest.raises(KeyboardInterrupt, match="2 of 3 left"):
        call()
    assert call() == []  # what there is, which is nothing


def test_the_table_has_a_row_for_all_seeds_of_a_method():
    head = {"env": "a", "algorithm": "ppo", "setting": ""}
    rows = [
        {**head, "return_mean": 1.0, "solved": True, "steps": 10, "seconds": 1.0},
        {**head, "return_mean": 3.0, "solved": False, "steps": 30, "seconds": 3.0},
        {**head, "env": "b", "return_mean": None, "solved": None, "steps": 5, "seconds": 1.0},
    ]
    first, second = table(rows)
    assert (first["seeds"], first["returns"], first["solved"]) == (2, [1.0, 3.0], 1)
    assert (first["steps"], first["seconds"]) == (20, 2.0)
    assert (second["env"], second["returns"], second["solved"]) == ("b", [], None)


def test_what_is_only_for_ray_or_for_a_file_is_refused_without_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(f'algorithms = "{SPI}"\nenvs = "{SEA}"\n')
    assert main(["sweep", "a.toml", "--seeds", "3"]) == 2
    assert "a.toml says which runs there are; leave out" in capsys.readouterr().err
    assert main(["sweep", "a.toml", "--address", "a:1"]) == 2
    assert "address is 'a:1', which is only for Ray" in capsys.readouterr().err
    assert main(["sweep", "a.toml", "--workers", "0"]) == 2
    assert "workers is 0; it must be 1 or more" in capsys.readouterr().err
    assert main(["sweep"]) == 2
    assert "Which algorithms?" in capsys.readouterr().err
    assert main(["sweep", "a.toml", "--dry-run"]) == 0
    assert "1 run in runs/a; nothing was run." in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()
