import json
import re

import pytest
from PIL import Image

import eniac
from eniac import load_policy
from eniac.cli.main import COMMANDS, main
from eniac.runs.log import read_records

SMALL = [
    *("--num-envs", "8", "--trajectory", "16", "--loops", "1"),
    *("--hidden", "8", "--evaluation.episodes", "4"),
]


def _run(*arguments):
    """Exit code of the command line; tyro leaves by SystemExit."""
    try:
        return main(list(arguments))
    except SystemExit as end:
        return end.code


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run that was trained and made longer from the command line."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    options = ["--env", "Chain-4", "--horizon", "6", "--seeds", "2", "--epochs", "2"]
    assert _run("train", "ppo", *options, *SMALL, "--ppo.clip", "0.3", "--out", str(folder)) == 0
    return folder


def test_alone_it_welcomes(capsys):
    assert _run() == 0
    assert "eniac train ppo" in capsys.readouterr().out


def test_the_version_is_the_one_of_the_package(capsys):
    assert _run("--version") == 0
    assert capsys.readouterr().out.strip() == f"eniac {eniac.__version__}"


def test_help_names_every_command(capsys):
    assert _run("--help") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_with_an_example(name, capsys):
    assert _run(name, "--help") == 0
    assert f"eniac {name} " in capsys.readouterr().out.split("Examples:")[1]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "train"])
def test_every_option_of_a_command_is_explained(name, capsys):
    assert _run(name, "--help") == 0
    text = " ".join(re.sub(r"[│|] *\n *[│|]", " ", capsys.readouterr().out).split())
    assert "(default:" in text or "(required)" in text
    assert re.findall(r"--[\w-]+(?: [^\s(]+)? \((?:default|required)", text) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("trian ppo", ["'trian' is not a command", "Did you mean 'train'"]),
        ("train", ["Which algorithm?"]),
        ("train pppo", ["'pppo'", "Did you mean 'ppo'"]),
        ("train ppo --env DeepSee-5", ["'DeepSee-5'", "DeepSea-v0"]),
        ("train ppo --epochs 0", ["epochs is 0", "1 or more"]),
        ("train ppo --epochs many", ["--epochs", "many"]),
        ("train ppo --ppo.clip -1", ["ppo.clip is -1.0", "above 0"]),
        ("train ppo --ppo.clap 1", ["--ppo.clap", "--ppo.clip"]),
        ("train ppo --ppo.optimizer sgd", ["'sgd'", "rmsprop"]),
        ("train eniac-spi-sample --env DeepSea-4 --gamma 1.5", ["gamma is 1.5", "between 0 and 1"]),
        ("train eniac --depth 3", ["depth is 3", "one of 2, 4, 6"]),
        ("train eniac --preset paper", ["preset is 'paper'", "paper-depth2"]),
        ("train ppo --name other", ["--name"]),
        ("train nowhere/config.json", ["nowhere is not the folder of a run"]),
        ("resume nowhere", ["nowhere is not the folder of a run"]),
        ("evaluate nowhere --episodes 0", ["episodes is 0", "1 or more"]),
        ("plot nowhere", ["no epoch in metrics.jsonl"]),
        ("list envz", ["'envz'", "Did you mean 'envs'"]),
    ],
)
def test_mistakes_are_told_in_a_few_words_with_exit_code_2(
    line, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert _run(*line.split()) == 2
    error = " ".join(capsys.readouterr().err.replace("│", " ").split())
    for word in words:
        assert word in error
    assert "Traceback" not in error
    assert list(tmp_path.iterdir()) == []


def test_environments_and_algorithms_are_listed(capsys):
    assert _run("list", "envs") == 0
    assert "MountainCarContinuous-v0" in capsys.readouterr().out
    assert _run("list", "algorithms") == 0
    assert "ppo" in capsys.readouterr().out


def test_options_reach_the_config(run):
    config = json.loads((run / "config.json").read_text())
    assert config["algorithm"]["name"] == "ppo"
    assert config["algorithm"]["ppo"]["clip"] == 0.3
    assert config["algorithm"]["hidden"] == [8]
    assert (config["epochs"], config["seeds"], config["horizon"]) == (2, 2, 6)


def test_a_run_can_be_run_again_from_its_config(run, tmp_path, capsys):
    again = tmp_path / "again"
    assert _run("train", str(run / "config.json"), "--out", str(again)) == 0
    assert (again / "metrics.jsonl").read_bytes() == (run / "metrics.jsonl").read_bytes()
    assert f"eniac play {again}\n" in capsys.readouterr().out


def test_seed_1_of_a_run_is_the_single_run_of_seed_1_bit_for_bit(run, tmp_path):
    alone = tmp_path / "alone"
    options = ["--seed", "1", "--seeds", "1", "--out", str(alone)]
    assert _run("train", str(run / "config.json"), *options) == 0
    assert read_records(alone / "metrics.jsonl") == [
        record for record in read_records(run / "metrics.jsonl") if record["seed"] == 1
    ]
    name = "policy/seed-1/policy.safetensors"
    assert (alone / name).read_bytes() == (run / name).read_bytes()


def test_a_folder_with_a_run_is_not_overwritten(run, capsys):
    assert _run("train", "ppo", "--out", str(run)) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert _run("resume", str(run)) == 2
    assert "already come to its end" in capsys.readouterr().err


def test_evaluation_prints_json_that_a_program_can_read(run, capsys):
    assert _run("evaluate", str(run), "--episodes", "5", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["seed"] for row in result["seeds"]] == [0, 1]
    assert result["episodes"] == 5
    assert result["horizon"] == 6
    assert _run("evaluate", str(run), "--episodes", "5") == 0
    assert "cut after 6 steps" in capsys.readouterr().out


def test_an_episode_is_played_to_a_gif(run, capsys):
    assert _run("play", str(run), "--deterministic", "--seed", "1") == 0
    assert "after 6 steps" in capsys.readouterr().out
    with Image.open(run / "figures" / "play.gif") as film:
        frames = film.n_frames
    assert 1 <= frames <= 7  # Pillow joins frames that are the same
    assert _run("play", str(run), "--seed", "9") == 2
    assert "seed is 9" in capsys.readouterr().err


def test_learning_curves_are_plotted(run, tmp_path, capsys):
    out = tmp_path / "curves.png"
    assert _run("plot", str(run), str(run), "--out", str(out), "--metric", "entropy") == 0
    with Image.open(out) as image:
        assert image.width > image.height > 300


def test_policies_are_exported(run, tmp_path):
    assert _run("export", str(run), "--out", str(tmp_path / "out")) == 0
    policy = load_policy(tmp_path / "out" / "seed-1")
    assert type(policy).__module__ == "eniac.policies"
