"""What a run tells its user to type works as it stands."""

import itertools
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import toy
from eniac import ALGORITHMS, Config, ConfigError, load_run, resume, train
from eniac.cli.main import main
from eniac.runs.log import read_records
from eniac.runs.options import parse_config
from eniac.runs.progress import Progress
from eniac.runs.proposals import in_shell, longer_command, resume_command


@pytest.fixture(autouse=True)
def _no_figure(monkeypatch):
    monkeypatch.setattr("eniac.training.draw", lambda run: [])


KINDS = {"compiled": toy.Toy(), "host": toy.Toy(on_host=True)}
ENDS = {
    "epochs": {"epochs": 2},
    "steps": {"epochs": None, "steps": 14},
    "seconds": {"epochs": None, "seconds": 1e-9},
    "return above": {"epochs": None, "return_above": -1e9},
    "one of two": {"epochs": 9, "return_above": -1e9},
    "room left": {"epochs": 2, "algorithm": {"room": 3}},
    "no room": {"epochs": 2, "algorithm": {"room": 2}},
    "no room and a goal": {"epochs": None, "return_above": -1e9, "algorithm": {"room": 1}},
}


def _words(command):
    """The arguments of a printed command line."""
    words = shlex.split(command)
    assert words[0] == "eniac"
    return words[1:]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ENDS)
def test_the_command_that_a_finished_run_prints_makes_it_twice_as_long(
    toy_config, tmp_path, console, capsys, kind, end
):
    changes = dict(ENDS[end])
    algorithm = replace(KINDS[kind], **changes.pop("algorithm", {}))
    template = toy_config(algorithm, **changes, out=tmp_path / "a template")
    (tmp_path / "a template").mkdir()
    (tmp_path / "a template/config.json").write_text(json.dumps(template.to_dict()))
    run = tmp_path / "a run"
    assert main(["train", str(tmp_path / "a template/config.json"), "--out", str(run)]) == 0
    (command,) = re.findall(r"go on +(.*)", capsys.readouterr().out)
    before = load_run(run).progress.epoch
    # Without a new rule there is nothing to do, and the same command is proposed.
    assert main(["resume", str(run)]) == 2
    assert "has already come to its end" in (error := capsys.readouterr().err)
    assert f"To go on: `{command}`" in error
    words = _words(command)
    assert main(words) == 0
    folder = Path(words[words.index("--out") + 1]) if "--out" in words else run
    wanted = 3 if end == "room left" else 2 * before
    assert load_run(folder).progress.epoch == wanted
    assert [record["epoch"] for record in read_records(folder / "metrics.jsonl")] == list(
        range(1, wanted + 1)
    )


def test_a_goal_that_was_met_is_dropped_and_one_that_was_not_stays(toy_config, tmp_path, console):
    config = toy_config(epochs=None, steps=14, return_above=1e9)
    train(config, console=console)
    resume(tmp_path / "run", epochs=3, console=console)
    stored = json.loads((tmp_path / "run/config.json").read_text())
    assert (stored["epochs"], stored["steps"], stored["return_above"]) == (3, None, 1e9)


def test_a_seed_behind_the_others_goes_on_alone_and_is_saved(toy_config, tmp_path, console):
    whole = train(toy_config(seeds=2, epochs=9, out=tmp_path / "whole"), console=console)
    returns = [
        [r["return_mean"] for r in read_records(whole.path / "metrics.jsonl") if r["seed"] == seed]
        for seed in (0, 1)
    ]
    # A goal that the seeds meet at different times.
    values = sorted({*returns[0], *returns[1]})
    goal = next(
        (low + high) / 2
        for low, high in itertools.pairwise(values)
        if len({_first(row, (low + high) / 2) for row in returns} - {99}) == 2
    )
    train(toy_config(seeds=2, epochs=None, return_above=goal), console=console)
    ended = load_run(tmp_path / "run").progress.epochs
    behind, ahead = int(ended.argmin()), int(ended.max())
    assert ended.min() < ended.max()
    resumed = resume(tmp_path / "run", epochs=ahead, console=console)
    assert resumed.progress.epochs.tolist() == [ahead, ahead]
    loaded = load_run(tmp_path / "run")
    assert loaded.states.epoch.tolist() == [ahead, ahead]
    records = [r for r in read_records(tmp_path / "run/metrics.jsonl") if r["seed"] == behind]
    assert [r["return_mean"] for r in records] == returns[behind][:ahead]


def _first(returns, goal):
    """The epoch after which a seed is above `goal`."""
    return next((n + 1 for n, value in enumerate(returns) if value > goal), 99)


@pytest.mark.parametrize(("name", "setting"), [("eniac", "capacity"), ("eniac-spi-sample", "N")])
def test_a_full_cover_asks_for_a_new_run_with_more_room(tmp_path, name, setting):
    algorithm = replace(ALGORITHMS[name].default, **{setting: 7})
    env = "DeepSea-3"
    config = Config(algorithm, env=env, epochs=7, return_above=3.0, out=tmp_path / "-odd name")
    progress = Progress(np.array([7]), np.array([70]), np.array([0.5]), np.array([np.nan]), 1.0)
    (tmp_path / "-odd name").mkdir()
    (tmp_path / "-odd name/config.json").write_text(json.dumps(config.to_dict()))
    words = _words(longer_command(tmp_path / "-odd name", config, progress))
    assert words[0] == "train"
    longer = parse_config(words[1:])
    assert getattr(longer.algorithm, setting) == longer.epochs == 14
    assert longer.return_above is None
    assert longer.out == tmp_path / "-odd name-longer"
    assert replace(longer, algorithm=config.algorithm, epochs=7, return_above=3.0) == replace(
        config, out=longer.out
    )
    half = Progress(np.array([5]), np.array([50]), np.array([0.5]), np.array([np.nan]), 1.0)
    command = longer_command(Path("-run"), config, half)
    assert command == "eniac resume ./-run --epochs 7"


def test_a_run_with_an_environment_given_as_an_object_is_continued_in_python(toy_config):
    config = toy_config(env="given: my.package.Cave")
    command = resume_command(Path("my runs/cave"), config, 8)
    assert command == "eniac.resume('my runs/cave', env, epochs=8)"
    assert in_shell(Path("my runs/cave")) == "'my runs/cave'"


def test_rules_that_cannot_be_are_refused_before_anything_is_written(toy_config, tmp_path, console):
    train(toy_config(toy.Toy(room=5), epochs=2), console=console)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")}
    for rules in ({"epochs": 0}, {"epochs": 6}, {"seconds": -1.0}, {"epochs": 2}, {}):
        with pytest.raises(ConfigError):
            resume(tmp_path / "run", console=console, **rules)
    files = {p: t for p, t in before.items() if p.is_file()}
    assert {p: p.stat().st_mtime_ns for p in files} == files
