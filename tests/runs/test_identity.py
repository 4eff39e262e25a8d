"""A checkpoint belongs to its run, and a run to its settings."""

import json
import shutil

import pytest

import toy
from eniac import ConfigError, RunError, load_run
from eniac.cli.main import main
from eniac.runs import identity
from eniac.runs.checkpoint import list_checkpoints
from eniac.runs.engine import resume, train
from eniac.runs.identity import edits, fingerprint
from eniac.runs.tensors import read_header

KINDS = {"compiled": toy.Toy(), "host": toy.Toy(on_host=True)}


def _edit(folder, change):
    path = folder / "config.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def _change_the_rate(data):
    data["algorithm"]["step"]["rate"] = 0.7


def _manifest(folder):
    return json.loads((folder / "manifest.json").read_text())


def test_a_fingerprint_is_of_what_decides_results():
    asked = {"seed": 0, "env": "Chain-4", "epochs": 3, "keep": 2, "out": "a"}
    same = {"out": "b", "keep": 9, "epochs": None, "env": "Chain-4", "seed": 0}
    assert fingerprint(asked) == fingerprint(same)
    assert edits(asked, same) == []
    other = asked | {"seed": 1, "algorithm": {"step": {"rate": 0.5}}}
    assert fingerprint(asked) != fingerprint(other)
    told = ["seed was 0 and is 1", "algorithm.step.rate was left out and is 0.5"]
    assert edits(asked, other) == told


def test_a_checkpoint_says_where_it_comes_from(toy_config, tmp_path, console):
    train(toy_config(seeds=2), console=console)
    resume(tmp_path / "run", epochs=5, console=console)
    folders = sorted((tmp_path / "run/checkpoints").iterdir())
    origins = [read_header(path).note["origin"] for path in folders]
    assert all(origin == origins[0] for origin in origins)
    manifest = _manifest(tmp_path / "run")
    assert origins[0]["run"] == manifest["run"]
    assert origins[0]["config"] == fingerprint(manifest["config"])
    made_with = origins[0]["made_with"]
    assert made_with["devices"] == 2
    assert {"eniac", "jax", "jaxlib", "numpy", "cores", "processor"} <= made_with.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_of_another_seed_is_passed_over_and_the_log_stays_whole(
    toy_config, tmp_path, console, kind
):
    whole = train(toy_config(KINDS[kind], epochs=6, out=tmp_path / "whole"), console=console)
    other = train(toy_config(KINDS[kind], seed=5, epochs=3, out=tmp_path / "o"), console=console)
    train(toy_config(KINDS[kind], epochs=2), console=console)
    foreign = list_checkpoints(other.path / "checkpoints")[0]
    shutil.copy(foreign, tmp_path / "run/checkpoints" / foreign.name)
    assert "is of another run" in load_run(tmp_path / "run").warnings[0]
    resumed = resume(tmp_path / "run", epochs=6, console=console)
    assert "epoch-000003.safetensors is of another run" in console.file.getvalue()
    assert (resumed.path / "metrics.jsonl").read_bytes() == (
        whole.path / "metrics.jsonl"
    ).read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_config_edited_by_hand_is_said_and_refused_unless_accepted(
    toy_config, tmp_path, console, capsys, kind
):
    folder = train(toy_config(KINDS[kind], epochs=2), console=console).path
    _edit(folder, _change_the_rate)
    told = "algorithm.step.rate was 0.1 and is 0.7"
    before = (folder / "config.json").read_bytes()
    with pytest.raises(ConfigError, match=rf"{told}.*--accept-edited-config"):
        resume(folder, epochs=3, console=console)
    assert (folder / "config.json").read_bytes() == before
    assert told in load_run(folder).warnings[0]
    assert main(["resume", str(folder), "--epochs", "3", "--accept-edited-config"]) == 0
    assert f"Warning: config.json was edited after the run began: {told}" in capsys.readouterr().out
    manifest = _manifest(folder)
    assert told in manifest["sessions"][1]["warnings"][0]
    # From now on that is its config, and the checkpoints of before are still its own.
    shutil.rmtree(folder / "policy")
    list_checkpoints(folder / "checkpoints")[0].unlink()
    assert resume(folder, epochs=4, console=console).progress.epoch == 4


def test_settings_that_change_the_state_are_refused_even_if_accepted(toy_config, tmp_path, console):
    train(toy_config(), console=console)
    _edit(tmp_path / "run", lambda data: data["algorithm"].update(width=6))
    with pytest.raises(RunError, match=r"expected float32 of shape \(1, 6, 2\)"):
        resume(tmp_path / "run", epochs=9, accept_edited_config=True, console=console)


def test_what_may_change_from_session_to_session_may_be_edited(toy_config, tmp_path, console):
    train(toy_config(epochs=2), console=console)
    _edit(tmp_path / "run", lambda data: data.update(epochs=3, keep=5, checkpoint_every=1))
    assert resume(tmp_path / "run", console=console).progress.epoch == 3
    assert "edited" not in console.file.getvalue()


def test_a_run_without_its_manifest_goes_on_and_says_so(toy_config, tmp_path, console):
    folder = train(toy_config(epochs=2), console=console).path
    run = _manifest(folder)["run"]
    (folder / "manifest.json").write_text("{")
    assert "manifest.json is missing or damaged" in load_run(folder).warnings[0]
    _edit(folder, _change_the_rate)
    with pytest.raises(RunError, match="was saved under other settings"):
        resume(folder, epochs=3, console=console)
    _edit(folder, lambda data: data["algorithm"]["step"].update(rate=0.1))
    assert resume(folder, epochs=3, console=console).progress.epoch == 3
    assert "manifest.json is missing or damaged" in console.file.getvalue()
    assert _manifest(folder)["run"] == run


def test_a_run_that_goes_on_under_other_circumstances_says_so(
    toy_config, tmp_path, console, monkeypatch
):
    folder = train(toy_config(epochs=2), console=console).path
    resume(folder, epochs=3, console=console)
    assert "circumstances" not in console.file.getvalue()
    with monkeypatch.context() as patch:
        patch.setattr(identity, "version", lambda name: f"9.9 of {name}")
        patch.setattr(identity, "num_cores", lambda: 77)
        resume(folder, epochs=4, console=console)
    printed = console.file.getvalue()
    assert "then and 9.9 of jax now" in printed
    assert "then and 77 now" in printed
    assert "can differ in the last bits" in printed
    assert "circumstances" in _manifest(folder)["sessions"][2]["warnings"][0]
