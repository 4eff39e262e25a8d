import json
import os
import re
import subprocess
import sys

import pytest
from PIL import Image

import eniac
from eniac import load_policy, load_run
from eniac.cli.main import COMMANDS, main
from eniac.runs.log import read_records
from eniac.runs.terminal import number

SMALL = [
    *("--num-envs", "8", "--rollout-length", "16", "--updates-per-round", "1"),
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
    """The folder of a run that was trained from the command line."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    options = ["--env", "Chain-4", "--horizon", "6", "--seeds", "2", "--epochs", "2"]
    assert _run("train", "ppo", *options, *SMALL, "--update.clip", "0.3", "--out", str(folder)) == 0
    return folder


@pytest.fixture(scope="module")
def host_run(tmp_path_factory):
    """The same in an environment of gymnasium's."""
    folder = tmp_path_factory.mktemp("cli") / "host"
    options = ["--env", "FrozenLake-v1", "--horizon", "9", "--epochs", "1", "--out", str(folder)]
    assert _run("train", "ppo", *options, *SMALL) == 0
    return folder


def test_alone_it_welcomes(capsys):
    assert _run() == 0
    assert "eniac train ppo" in capsys.readouterr().out


def test_the_version_is_the_one_of_the_package(capsys):
    assert _run("--version") == 0
    assert capsys.readouterr().out.strip() == f"eniac {eniac.__version__}"


def test_it_is_a_module_too():
    words = [sys.executable, "-m", "eniac", "--version"]
    assert subprocess.check_output(words, text=True).strip() == f"eniac {eniac.__version__}"


def test_help_names_every_command(capsys):
    assert _run("--help") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("argument", ["--help", "--version", None])
def test_help_comes_at_once_because_it_imports_nothing_heavy(argument):
    program = (
        "import sys; from eniac.cli.main import main; main(sys.argv[1:]); "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-c", program, *([argument] if argument else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = set(done.stdout.splitlines()[-1].split())
    assert "eniac" in imported
    assert imported & {"jax", "numpy", "gymnasium", "tyro", "rich", "matplotlib"} == set()


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
        ("train ppo --update.clip -1", ["clip is -1.0", "above 0"]),
        ("train ppo --update.clap 1", ["--update.clap", "--update.clip"]),
        ("train ppo --update.optimizer sgd", ["'sgd'", "rmsprop"]),
        ("train eniac-spi-sample --env DeepSea-4 --gamma 1.5", ["gamma is 1.5", "between 0 and 1"]),
        ("train eniac-spi-sample --depth 4", ["eniac-spi-sample has no --depth"]),
        ("train eniac --depth 3", ["depth is 3", "one of 2, 4, 6"]),
        ("train eniac --preset paper", ["preset is 'paper'", "paper-depth2"]),
        ("train eniac --bonus widht", ["bonus is 'widht'", "Did you mean 'width'"]),
        ("train ppo --name other", ["--name"]),
        ("train nowhere/config.json", ["nowhere is not the folder of a run"]),
        ("resume nowhere", ["nowhere is not the folder of a run"]),
        ("evaluate nowhere --episodes 0", ["episodes is 0", "1 or more"]),
        ("plot nowhere", ["no epoch in metrics.jsonl"]),
        ("list envz", ["'envz'", "Did you mean 'envs'"]),
        ("list envs --json", ["only for `eniac list runs`"]),
        ("list runs nowhere", ["nowhere is not a folder"]),
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
    shown = capsys.readouterr().out
    for words in ("MountainCarContinuous-v0", "gymnasium:ID", "envpool:ID", "module:function"):
        assert words in shown
    assert _run("list", "algorithms") == 0
    assert "ppo" in capsys.readouterr().out


def test_options_reach_the_config(run):
    config = json.loads((run / "config.json").read_text())
    assert config["algorithm"]["name"] == "ppo"
    assert config["algorithm"]["update"]["clip"] == 0.3
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


def test_a_policy_is_chosen_by_name_and_acts_as_it_was_judged_unless_told_otherwise(run, capsys):
    def rows(*more):
        assert _run("evaluate", str(run), "--episodes", "5", "--json", *more) == 0
        return json.loads(capsys.readouterr().out)["seeds"]

    judged = load_run(run)
    for k, row in enumerate(rows()):
        assert row["policy"] == "incumbent"
        assert row["deterministic"] == bool(judged.policy(k).greedy)
    for row in rows("--policy", "exploiting"):
        assert (row["policy"], row["deterministic"]) == ("exploiting", False)
    for flag, greedy in (("--deterministic", True), ("--no-deterministic", False)):
        for name in ("incumbent", "exploiting"):
            found = rows("--policy", name, flag)
            assert [row["deterministic"] for row in found] == [greedy, greedy]
    assert _run("evaluate", str(run), "--policy", "exploiting", "--deterministic") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "exploiting: 100 episodes a seed, cut after 6 steps, most likely actions" in shown


@pytest.mark.parametrize("command", ["evaluate", "play", "export"])
def test_a_policy_that_is_not_there_is_refused_with_those_that_are(command, run, tmp_path, capsys):
    out = tmp_path / "out"
    more = ["--out", str(out)] if command != "evaluate" else []
    assert _run(command, str(run), "--policy", "cover:1", *more) == 2
    error = capsys.readouterr().err
    assert "policy is 'cover:1'; there are incumbent, exploiting." in error
    assert error.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("command", ["evaluate", "play"])
def test_a_policy_cannot_act_in_both_ways(command, run, capsys):
    assert _run(command, str(run), "--deterministic", "--no-deterministic") == 2
    assert "both given; give one" in capsys.readouterr().err


def test_the_end_of_a_run_tells_the_incumbents_return_and_the_exploiting_policys(
    run, tmp_path, capsys
):
    assert _run("train", str(run / "config.json"), "--out", str(tmp_path / "again")) == 0
    told = capsys.readouterr().out
    last = [record for record in read_records(run / "metrics.jsonl") if record["epoch"] == 2]
    for name, key in (("return", "return_mean"), ("exploiting", "sampled_return")):
        value = number(sum(record[key] for record in last) / 2)
        assert re.search(rf"{name} +{re.escape(value)}", told.split("ppo on Chain-4")[-1]), name
        assert f"{name} {value}" in told


def test_a_run_on_the_host_is_evaluated_with_another_horizon(host_run, capsys):
    line = ["evaluate", str(host_run), "--episodes", "13", "--horizon", "2", "--json"]
    assert _run(*line) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["seeds"][0]["length_mean"] == pytest.approx(2, abs=0.5)
    assert _run(*line) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_an_episode_is_played_to_a_gif(run, capsys):
    assert _run("play", str(run), "--deterministic", "--seed", "1") == 0
    shown = capsys.readouterr().out
    assert "after 6 steps" in shown
    assert "(incumbent, most likely actions)" in shown
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
    loaded = load_policy(tmp_path / "out" / "seed-1")
    assert type(loaded.policy).__module__ == "eniac.policies"
    assert _run("export", str(run), "--policy", "exploiting", "--out", str(tmp_path / "other")) == 0
    about = json.loads((tmp_path / "other" / "seed-1" / "config.json").read_text())
    assert (about["policy_name"], about["deterministic"]) == ("exploiting", False)


def test_a_run_without_a_theorem_has_no_certificate(run, capsys):
    assert _run("certify", str(run)) == 2
    assert "no theorem speaks of" in capsys.readouterr().err


def test_runs_are_listed_with_how_they_ended_and_damaged_ones_with_the_reason(
    run, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "300")
    bad = tmp_path / "bad"
    (bad / "checkpoints").mkdir(parents=True)
    (bad / "config.json").write_text("{")
    good = tmp_path / "inner" / "good"
    good.mkdir(parents=True)
    (good / "checkpoints").mkdir()
    for name in ("config.json", "metrics.jsonl", "manifest.json"):
        (good / name).write_bytes((run / name).read_bytes())
    assert _run("list", "runs", str(tmp_path), "--json") == 0
    rows = {row["folder"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {str(bad), str(good)}
    row = rows[str(good)]
    assert (row["algorithm"], row["env"], row["seeds"]) == ("ppo", "Chain-4", 2)
    last = [record for record in read_records(run / "metrics.jsonl") if record["epoch"] == 2]
    # What is learned from, and 10 episodes of 6 steps an epoch to see how the policy does.
    assert all(record["env_steps"] >= 2 * (8 * 16 + 60) for record in last)
    steps = sum(record["env_steps"] for record in last)
    assert (row["epochs"], row["steps"], row["ended"]) == (2, steps, "2 epochs")
    assert row["return_mean"] == pytest.approx(sum(r["return_mean"] for r in last) / 2)
    assert rows[str(bad)]["problem"].startswith("config.json is damaged")
    assert _run("list", "runs", str(tmp_path)) == 0
    shown = capsys.readouterr().out
    assert "ppo" in shown
    assert "damaged" in " ".join(shown.split())


@pytest.mark.parametrize("command", ["resume", "evaluate", "play", "cover", "certify", "export"])
def test_a_run_in_an_environment_given_as_an_object_needs_python(command, run, tmp_path, capsys):
    config = json.loads((run / "config.json").read_text()) | {"env": "given: my.package.Cave"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    more = ["--out", str(tmp_path / "out")] if command == "export" else []
    assert _run(command, str(tmp_path), *more) == 2
    error = capsys.readouterr().err
    assert "my.package.Cave" in error
    assert "In Python" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("train", "ppo", "--out", ""),
        ("train", "ppo", "--out="),
        ("train", "ppo", "--env", ""),
        ("train", "ppo", "--out", "a\0b"),
        ("train", "ppo", "--out", "a" * 300),
        ("train", "ppo", "--out", "a/" + "b" * 300),
        ("train", "ppo", "--env", "a" * 300),
        ("train", "ppo", "--observation-keys", "a\nb"),
        ("train", "ppo", "--num-envs", "9" * 400),
        ("train", "ppo", "--num-envs", "9" * 5000),
        ("train", "ppo", "--env-options", "size", "[" * 100_000),
        ("evaluate", "a\0b"),
        ("evaluate", "a" * 300),
        ("evaluate", "\ud800"),
        ("list", "runs", "a" * 300),
        ("plot", "a" * 300),
        ("export", "run", "--out", ""),
        ("evaluate", "run", "--episodes", "9" * 30),
        ("evaluate", "run", "--seed", "9" * 30),
        ("evaluate", "run", "--horizon", "9" * 30),
        ("play", "run", "--episode", "9" * 30),
        ("cover", "run", "--episodes", "9" * 30),
        ("a" * 300,),
        ("\x1b[2J",),
    ],
)
def test_words_that_mean_nothing_are_refused_in_a_line(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert _run(*words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Error: ")
    assert shown.err.count("\n") == 1
    assert shown.err.strip().isprintable()
    assert list(tmp_path.iterdir()) == []


def test_folders_of_bad_files_are_listed_with_what_is_wrong(tmp_path, capsys):
    bad = {
        "list": "[]",
        "number": '{"algorithm": {"name": 3}, "env": "x", "seeds": 1}',
        "deep": "[" * 10_000 + "]" * 10_000,
        "digits": '{"algorithm": {"name": "ppo"}, "env": "x", "seeds": ' + "9" * 5000 + "}",
        "twice": '{"env": "x", "env": "y"}',
    }
    for name, text in bad.items():
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(text)
    (tmp_path / "pipe" / "checkpoints").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe" / "config.json")
    for name, record in (("record", "[1]"), ("epoch", '{"seed": 0, "epoch": "x"}')):
        folder = tmp_path / name
        (folder / "checkpoints").mkdir(parents=True)
        good = {"algorithm": {"name": "ppo"}, "env": "x", "seeds": 1}
        (folder / "config.json").write_text(json.dumps(good))
        (folder / "metrics.jsonl").write_text(record + "\n")
    assert _run("list", "runs", str(tmp_path), "--json") == 0
    rows = {row["folder"]: row["problem"] for row in json.loads(capsys.readouterr().out)}
    assert len(rows) == len(bad) + 3
    assert all(problem and "\n" not in problem for problem in rows.values())
    assert _run("list", "runs", str(tmp_path)) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1]\n", "line 1 of"),
        ('{"seed": 0, "env_steps": 1, "return_mean": 2}\n{"seed": "x"}\n', "line 2 of"),
        ('{"seed": 0, "env_steps": 1, "return_mean": NaN}\n', "NaN"),
        ('{"return_mean": 1}\n', "no seed"),
        ('{"seed": 0, "env_steps": ' + "9" * 5000 + "}\n", "digits"),
        ("[" * 10_000 + "\n", "deep"),
        ("\n", "is empty"),
    ],
)
def test_a_damaged_log_is_told_with_the_line(content, words, tmp_path, capsys):
    (tmp_path / "metrics.jsonl").write_text(content)
    assert _run("plot", str(tmp_path)) in (1, 2)
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1


def test_numbers_that_a_theorem_cannot_be_computed_with_are_told(capsys):
    line = "guarantee spi-sample --accuracy 1e-300 --gamma 0.9 --num-actions 2 --num-states 10"
    assert _run(*line.split()) == 2
    assert "too small or too large" in capsys.readouterr().err
