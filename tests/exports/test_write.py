"""Exports as files: from a run, from an agent and from the command line; and what is refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import onnxruntime
import pytest
from gymnasium import spaces
from huggingface_hub import ModelCard

import eniac
import toy
from eniac.algorithms import ALGORITHMS
from eniac.cli.main import main
from eniac.exports.write import FORMATS
from eniac.runs.export import load_exported

EVERY = {"README.md", "config.json", "policy.safetensors"}


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """An agent with a network, in an environment of its own, that was saved."""
    agent = eniac.PPO(
        Lamps,
        num_envs=2,
        rollout_length=4,
        updates_per_round=1,
        hidden=(4,),
        fit_episodes=False,
        evaluation={"episodes": 8},
        incumbent={"episodes": 1, "share": 0.0},
        seed=5,
    )
    folder = tmp_path_factory.mktemp("deep") / "agent"
    agent.learn(epochs=1).save(folder)
    return agent, folder


class Lamps(gymnasium.Env):
    """A Dict of observations and a Box of 64-bit actions."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-1.0, 1.0, (2,), np.float64), "door": spaces.Discrete(3, start=1)}
    )
    action_space = spaces.Box(-0.1, 0.3, (2,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(1000)))
        self.left = 4
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.left -= 1
        return self.observation_space.sample(), 1.0, self.left == 0, False, {}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the toy, whose policies are tables, with two seeds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ALGORITHMS, "toy", toy.Row())
        patch.setattr("eniac.training.draw", lambda run: [])
        evaluation = eniac.Evaluation(episodes=3)
        out = tmp_path_factory.mktemp("toy") / "run"
        settings = {"horizon": 5, "epochs": 4, "seeds": 2, "evaluation": evaluation, "out": out}
        eniac.train(eniac.Config(toy.Toy(), env="Chain-4", **settings))
        return eniac.load_run(out)


def names(folder):
    return {path.name for path in folder.iterdir()}


def alone(program, folder):
    """What a Python program prints that is started in `folder`, with neither eniac nor JAX."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    check = "\nimport sys; assert not {'eniac', 'jax', 'equinox'} & sys.modules.keys()"
    command = [sys.executable, "-c", program + check]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def snippet(folder):
    """The first program in a card."""
    return re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)[1]


# Files


@pytest.mark.parametrize("format", FORMATS)
def test_every_export_has_the_numbers_a_card_and_the_files_of_its_format(format, run, tmp_path):
    folders = eniac.export_run(run, tmp_path / "export", format=format)
    assert [folder.name for folder in folders] == ["seed-0", "seed-1"]
    for seed, folder in enumerate(folders):
        assert names(folder) == EVERY | {*FORMATS[format]}
        table = eniac.load_policy(folder).policy.probabilities
        np.testing.assert_array_equal(table, run.policy(seed).policy.probabilities)


def test_an_earlier_export_is_replaced_and_nothing_of_it_stays(run, tmp_path):
    [first, _] = eniac.export_run(run, tmp_path, format="numpy")
    (first / "__pycache__").mkdir()
    eniac.export_run(run, tmp_path, policy="exploiting")
    assert names(first) == EVERY | {"__pycache__"}
    assert load_exported(first).about["policy_name"] == "exploiting"


def test_an_agent_exports_what_predict_asks_and_needs_no_environment_for_it(deep, tmp_path):
    agent, folder = deep
    ours = agent.export(tmp_path / "ours", format="numpy")
    loaded = eniac.load(folder)  # its environment was given as an object
    theirs = loaded.export(tmp_path / "theirs", format="numpy")
    for name in ("policy.safetensors", "policy.json", "policy.py"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()
    assert loaded.steps == agent.steps
    again = eniac.load(theirs)
    one = {"place": [0.3, -0.2], "door": 2}
    np.testing.assert_array_equal(again.predict(one), agent.predict(one))
    with pytest.raises(eniac.ConfigError, match="holds a policy, and nothing to go on learning"):
        again.learn(epochs=1)
    with pytest.raises(eniac.ConfigError, match="seed is 4; it must be 5, whose policy"):
        eniac.load(theirs, seed=4)


# Without eniac


def batch(num=7):
    rng = np.random.default_rng(0)
    return {"place": rng.uniform(-2, 2, (num, 2)), "door": rng.integers(1, 4, num)}


def test_the_program_in_the_card_of_a_numpy_export_acts_as_the_agent(deep, tmp_path):
    agent, _ = deep
    folder = agent.export(tmp_path / "out", format="numpy")
    observations = batch()
    program = (
        "import json\nobservation = json.loads("
        f"{json.dumps({k: v[0].tolist() for k, v in observations.items()})!r})\n"
        + snippet(folder)
        .replace("FOLDER", ".")
        .replace("deterministic=False", "deterministic=True")
        + "print(json.dumps(action.tolist()))"
    )
    assert alone(program, folder) == pytest.approx(
        agent.predict(observations)[0].tolist(), rel=1e-5, abs=1e-6
    )


def test_the_program_in_the_card_of_an_onnx_export_acts_as_the_agent(deep, tmp_path):
    agent, _ = deep
    folder = agent.export(tmp_path / "out", format="onnx")
    observations = batch()
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    given = {f"observation.{name}": x for name, x in observations.items()}
    found = session.run(["action"], given)[0]
    assert found.dtype == np.float64
    assert all(map(Lamps.action_space.contains, found))
    np.testing.assert_allclose(found, agent.predict(observations), rtol=1e-5, atol=1e-6)
    program = (
        "import json\nobservation = json.loads("
        f"{json.dumps({k: v[0].tolist() for k, v in observations.items()})!r})\n"
        + snippet(folder)
        + "print(json.dumps(action.tolist()))"
    )
    assert alone(program, folder) == pytest.approx(found[0].tolist(), rel=1e-6)


# The card


def test_hubs_read_the_card(run, tmp_path):
    [folder, _] = eniac.export_run(run, tmp_path / "out")
    card = ModelCard.load(folder / "README.md")
    assert (card.data.library_name, card.data.pipeline_tag) == ("eniac", "reinforcement-learning")
    assert card.data.tags[-2:] == ["toy", "Chain-4"]
    assert card.data.model_name == "toy-Chain-4-seed-0"
    [result] = card.data.eval_results
    last = [x for x in eniac_records(run) if x["seed"] == 0][-1]
    assert result.metric_type == "mean_reward"
    assert result.metric_value == f"{last['return_mean']:.4g} +/- {last['return_std']:.4g}"
    assert result.dataset_name == "Chain-4"


def eniac_records(run):
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.filterwarnings("ignore:The run goes on under other circumstances")  # one seed of two
def test_a_card_says_what_was_learned_how_well_and_how(run, tmp_path):
    agent = eniac.load(run.path, seed=1)
    text = (agent.export(tmp_path / "out") / "README.md").read_text()
    last = agent.metrics[-1]
    half = 4.302653 * last["return_std"] / 2**0.5  # Student's t with 2 degrees of freedom
    ends = last["return_mean"] - half, last["return_mean"] + half
    told = re.search(r"mean (\S+), 95% interval (\S+) to (\S+) \(Student's t; 3 episodes", text)
    assert told is not None
    found = [float(x) for x in told.groups()]
    assert found == pytest.approx([last["return_mean"], *ends], rel=1e-3)
    for words in (
        "| task | `Chain-4`, episodes of at most 5 steps |",
        "| seed | 1 |",
        "| epochs | 4 |",
        "| environment steps | 28 |",
        "algorithm.step.rate = ",
        f"`eniac {eniac.__version__}`",
        "agent.predict(observation",
        "the number of a state",
    ):
        assert words in text, words
    config = json.loads((tmp_path / "out" / "config.json").read_text())["config"]
    assert eniac.Config.from_dict(config).epochs == 4, "as many as it has learned"


def test_a_card_says_how_to_train_in_an_environment_that_was_given_as_an_object(deep, tmp_path):
    agent, _ = deep
    text = (agent.export(tmp_path / "out") / "README.md").read_text()
    assert "exports.test_write.Lamps" in text
    assert "eniac.train(eniac.Config.from_dict(config), env)" in text


def test_a_policy_that_was_not_judged_has_no_return_in_its_card(run, tmp_path):
    [folder, _] = eniac.export_run(run, tmp_path / "out", policy="exploiting")
    card = ModelCard.load(folder / "README.md")
    assert card.data.eval_results is None
    assert "this policy was not evaluated" in card.text
    assert "| `exploiting` |" in card.text


def test_the_card_of_one_of_several_seeds_has_them_all(run, tmp_path):
    folder = eniac.export_run(run, tmp_path / "out")[1]
    text = (folder / "README.md").read_text()
    assert "| seed | 1, of 0 to 1 |" in text
    for seed in (0, 1):
        assert f"\n| {seed} | 28 | {run.progress.returns[seed]:.4g} |\n" in text


def test_the_command_in_the_card_trains_the_same_again(run, tmp_path, monkeypatch):
    [folder, _] = eniac.export_run(run, tmp_path / "out", format="numpy")
    command = re.search(r"```sh\neniac (.*?)\n```", (folder / "README.md").read_text())[1]
    monkeypatch.chdir(folder)
    assert main(command.split()) == 0
    again = (folder / "again/policy/seed-1/policy.safetensors").read_bytes()
    assert again == (run.path / "policy/seed-1/policy.safetensors").read_bytes()


def test_names_cannot_break_a_card(run, tmp_path):
    from eniac.exports.card import History, model_card

    exported = load_exported(eniac.export_run(run, tmp_path / "out")[0])
    exported.about["config"]["env"] = 'x`|"\n---\n# y'
    session = {"versions": {"eniac": "`|\n1"}, "commit": 3}
    record = {"seed": 0, "epoch": 4, "return_mean": 1.0, "return_std": 0.0}
    card = ModelCard(model_card(exported, "onnx", History([record], session, [])).decode())
    assert card.data.tags[-1] == 'x`|"\n---\n# y'
    assert "\n# y" not in card.text.split("## Settings")[0]


# The command line


def test_the_command_line_exports_every_format(run, tmp_path, capsys):
    assert main(["export", str(run.path), "--format", "onnx"]) == 0
    folder = run.path / "export" / "onnx" / "seed-1"
    assert f"Wrote {folder}" in capsys.readouterr().out
    session = onnxruntime.InferenceSession(folder / "policy.onnx")
    states = np.arange(5)
    table = np.asarray(run.policy(1).policy.probabilities)
    action, probabilities = session.run(None, {"observation": states})
    np.testing.assert_array_equal(action, table.argmax(axis=1))
    np.testing.assert_array_equal(probabilities, table)
    # From what was exported, a further format.
    out = tmp_path / "out"
    assert main(["export", str(folder), "--format", "numpy", "--out", str(out)]) == 0
    assert names(out / "seed-1") == EVERY | {"policy.py", "policy.json"}


def test_a_run_whose_environment_is_not_here_is_exported_all_the_same(deep, tmp_path, capsys):
    _, folder = deep
    assert main(["export", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert names(tmp_path / "out" / "seed-5") == EVERY
    assert main(["export", str(folder), "--policy", "exploiting", "--out", str(tmp_path)]) == 2
    assert "it was given as an object" in capsys.readouterr().err


# What is refused


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("format", "words"),
    [
        (
            "onxx",
            "format is 'onxx'; it must be one of safetensors, onnx, numpy. Did you mean 'onnx'?",
        ),
        (3, "format is 3; it must be one of safetensors, onnx, numpy."),
    ],
)
def test_an_unknown_format_is_refused(format, words, run, tmp_path):
    with pytest.raises(eniac.ConfigError) as error:
        eniac.export_run(run, tmp_path / "out", format=format)
    assert str(error.value) == words
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("package", ["jax2onnx", "onnx", "onnxruntime"])
def test_without_the_extra_the_way_to_install_it_is_told(package, run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(eniac.ConfigError, match=rf"{package}.* `pip install 'eniac\[onnx\]'`"):
        eniac.export_run(run, tmp_path / "out", format="onnx")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else_is_left_alone(run, deep, tmp_path):
    agent, saved = deep
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "README.md").write_text("mine")
    with pytest.raises(eniac.ConfigError, match=r"seed-1 is not empty: it has README\.md\. Export"):
        eniac.export_run(run, tmp_path)
    assert names(tmp_path) == {"seed-1"}, "nothing is written before all is well"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(eniac.ConfigError, match="file is a file; a policy is exported to a folder"):
        agent.export(tmp_path / "file")
    with pytest.raises(eniac.ConfigError, match="file is a file; a policy is exported to a folder"):
        agent.export(tmp_path / "file" / "inside")
    with pytest.raises(eniac.ConfigError, match="is not empty: it has checkpoints, "):
        agent.export(saved)
    with pytest.raises(eniac.ConfigError, match="the folder is the one that you are in"):
        agent.export(".")
    with pytest.raises(eniac.ConfigError, match="where the run itself has its policy"):
        eniac.export_run(run, run.path / "policy")


def test_a_policy_of_another_version_or_damaged_is_refused(run, tmp_path):
    [folder, _] = eniac.export_run(run, tmp_path / "out", format="numpy")
    program = "from policy import load\ntry:\n    load()\nexcept ValueError as error:\n    "
    program += "import json; print(json.dumps(str(error)))"
    assert "policy.safetensors is damaged, or is not the one" in _spoiled(
        folder / "policy.safetensors", lambda x: x[:-1] + bytes([x[-1] ^ 1]), program
    )
    assert "is of format 2, and this policy.py reads 1" in _spoiled(
        folder / "policy.json", lambda x: x.replace(b'"format": 1', b'"format": 2'), program
    )
    config = folder / "config.json"
    config.write_bytes(config.read_bytes().replace(b'"format": 1', b'"format": 2'))
    for load in (eniac.load, eniac.load_policy):
        with pytest.raises(eniac.RunError, match=rf"format 2, and eniac {eniac.__version__} reads"):
            load(folder)
    with pytest.raises(eniac.RunError, match="format 2"):
        main_raising(["export", str(folder), "--out", str(tmp_path / "more")])


def _spoiled(path, change, program):
    content = path.read_bytes()
    path.write_bytes(change(content))
    try:
        return alone(program, path.parent)
    finally:
        path.write_bytes(content)


def main_raising(arguments):
    from eniac.cli.reports import export

    return export(arguments[1:])


def test_an_exported_policy_is_no_run(run, tmp_path):
    [folder, _] = eniac.export_run(run, tmp_path / "out")
    with pytest.raises(eniac.ConfigError, match="holds an exported policy, and is not the folder"):
        eniac.load_run(folder)


def test_the_python_file_imports_numpy_and_what_comes_with_python_alone():
    from eniac.exports import numpy_policy

    source = Path(numpy_policy.__file__).read_text()
    found = set(re.findall(r"^\s*(?:import|from) (\w+)", source, re.MULTILINE))
    assert found == {
        "__future__",
        "hashlib",
        "json",
        "math",
        "pathlib",
        "typing",
        "numpy",
        "policy",
    }
    assert len(source.splitlines()) < 250
