"""The examples run, and learn what they say."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import eniac
from eniac import load
from eniac.cli.main import main
from eniac.runs.log import read_records

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY = {"num_envs": 4, "rollout_length": 8, "updates_per_round": 1, "hidden": (8,)}
SMALL = [
    *("--num-envs", "4", "--rollout-length", "8", "--updates-per-round", "1", "--hidden", "8"),
    *("--evaluation.episodes", "2", "--epochs", "1", "--horizon", "10", "--visit-steps", "40"),
]


@pytest.fixture(autouse=True)
def _in_the_folder_of_the_examples(monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for path in EXAMPLES.glob("*.py"):
        sys.modules.pop(path.stem, None)


def program(name):
    return importlib.import_module(name).main


SHORT = TINY | {"visit_steps": 40, "fit_episodes": False}
JUDGED = {"evaluation": {"episodes": 2}}


@pytest.mark.slow
def test_eniac_solves_mountain_car_from_python(tmp_path):
    assert program("train_eniac")(tmp_path / "run") > 93
    drawn = {path.name for path in (tmp_path / "run" / "figures").iterdir()}
    assert drawn == {"learning_curve.png", "visits.png", "bonus.png"}


@pytest.mark.filterwarnings("ignore:.*the bonus is 0 wherever the policy goes")
def test_the_tutorials_run_in_short(tmp_path, monkeypatch):
    monkeypatch.setattr("eniac.training.draw", lambda run: [])
    out = iter(tmp_path / str(number) for number in range(9))
    assert program("train_eniac")(next(out), epochs=1, episodes=2, **SHORT) < 93
    on_host = SHORT | JUDGED | {"rollout_length": 32}
    del on_host["num_envs"]
    assert 0 <= program("own_gymnasium_environment")(next(out), epochs=1, **on_host) <= 1
    assert program("own_bonus")(next(out), epochs=1, **SHORT, **JUDGED) > 0.9
    tried = ("ppo", "eniac")
    opened = program("sparse_reward")(next(out), tried, "DeepSea-3", seeds=1, steps=1, **SHORT)
    assert opened == {"ppo": 0, "eniac": 0}
    assert program("certificate")(next(out), env="DeepSea-4") == pytest.approx(0, abs=1e-6)
    found = program("hundred_runs")(next(out), depths=[3], seeds=1)
    assert found == {"spi": [1], "eniac-spi-sample": [1]}


@pytest.mark.slow
def test_the_tutorials_come_to_what_they_say(tmp_path):
    assert program("own_gymnasium_environment")(tmp_path / "corridor") > 0.99
    assert program("own_bonus")(tmp_path / "counts") > 0.999
    assert program("certificate")(tmp_path / "sea") == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_only_a_cover_and_a_bonus_together_open_the_lock(tmp_path):
    opened = program("sparse_reward")(tmp_path)
    assert opened["ppo"] == opened["ppo-rnd"] == 0
    assert opened["eniac"] >= 4 > opened["zero"]


@pytest.mark.slow
def test_eniac_finds_the_lamp_in_an_environment_of_ones_own(tmp_path):
    assert program("own_environment")(tmp_path / "run") > 0.99


def test_an_agent_learns_is_saved_and_goes_on(tmp_path):
    main = program("agent")
    assert -1 <= main(tmp_path / "agent", env="DeepSea-3", epochs=1, **SHORT, **JUDGED) <= 1
    assert load(tmp_path / "agent").epochs == 1


def test_a_policy_acts_alike_without_its_environment_and_without_eniac(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(eniac.__file__).parents[1]))
    small = {name: value for name, value in TINY.items() if name != "num_envs"}
    small |= {"fit_episodes": False, "evaluation": {"episodes": 2}}
    main = importlib.import_module("leave_the_library").main
    here, *elsewhere = main(tmp_path / "out", epochs=1, horizon=8, **small)
    assert here != 0
    assert elsewhere == pytest.approx([here, here], rel=1e-5)


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES.glob("*.py")])
def test_an_example_is_short_and_can_be_read_without_running_anything(name):
    assert importlib.import_module(name).main.__doc__
    lines = (EXAMPLES / f"{name}.py").read_text().splitlines()
    assert len(lines) <= 75
    assert sum(bool(line.strip()) for line in lines) < 60


@pytest.mark.parametrize(
    ("arguments", "part", "named"),
    [
        (
            ["eniac", "--env", "RiverSwim-v0", "--bonus", "own_bonus:Counts", *SMALL],
            ("algorithm", "bonus", "type"),
            "own_bonus:Counts",
        ),
        (
            ["zero", "--env", "RiverSwim-v0", "--cover", "own_cover:Newest", *SMALL],
            ("algorithm", "cover", "type"),
            "own_cover:Newest",
        ),
        (
            ["ppo", "--env", "RiverSwim-v0", "--update", "own_update:PolicyGradient", *SMALL],
            ("algorithm", "update", "type"),
            "own_update:PolicyGradient",
        ),
        (
            ["ppo", "--env", "own_gymnasium_environment:make_env", *SMALL],
            ("env",),
            "own_gymnasium_environment:make_env",
        ),
        (
            ["ppo", "--env", "own_environment:DarkRoom", *SMALL],
            ("env",),
            "own_environment:DarkRoom",
        ),
        (
            [
                *("eniac-spi-sample", "--env", "RiverSwim-v0", "--epochs", "1"),
                *("--function-class", "own_function_class:StateOnly"),
                *("--K", "50", "--T", "2", "--M", "50"),
            ],
            ("algorithm", "function_class"),
            "own_function_class:StateOnly",
        ),
    ],
    ids=["bonus", "cover", "update", "gymnasium", "jax", "function-class"],
)
def test_a_part_of_ones_own_trains_is_stored_by_its_name_and_found_again(
    tmp_path, monkeypatch, arguments, part, named
):
    monkeypatch.setattr("eniac.training.draw", lambda run: [])
    out = tmp_path / "run"
    assert main(["train", *arguments, "--out", str(out)]) == 0
    stored = json.loads((out / "config.json").read_text())
    for name in part:
        stored = stored[name]
    assert stored == named
    sys.modules.pop(named.split(":")[0])
    assert main(["resume", str(out), "--epochs", "2"]) == 0
    assert [record["epoch"] for record in read_records(out / "metrics.jsonl")][-1] == 2
