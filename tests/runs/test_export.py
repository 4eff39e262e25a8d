import json

import numpy as np
import pytest

from eniac import (
    CheckpointError,
    ConfigError,
    RunError,
    evaluate_run,
    export_run,
    load_policy,
    load_run,
    play_episode,
    train,
)


@pytest.fixture
def run(toy_config, console, monkeypatch):
    monkeypatch.setattr("eniac.training.draw", lambda run: [])
    return load_run(train(toy_config(seeds=2), console=console).path)


def test_an_exported_policy_is_the_one_of_the_run(run, tmp_path):
    folders = export_run(run, tmp_path / "export")
    assert [folder.name for folder in folders] == ["seed-0", "seed-1"]
    for seed, folder in enumerate(folders):
        loaded, original = load_policy(folder), run.policy(seed)
        assert type(loaded.policy) is type(original.policy)
        np.testing.assert_array_equal(loaded.policy.probabilities, original.policy.probabilities)
        assert bool(loaded.greedy) == bool(original.greedy)
        assert int(loaded.mode(0)) == int(original.mode(0))
    # What the end of the training wrote is the same.
    for name in ("config.json", "policy.safetensors"):
        written = (run.path / "policy" / "seed-1" / name).read_bytes()
        assert written == (folders[1] / name).read_bytes()


@pytest.mark.parametrize("epochs", [3, 4])
def test_an_export_says_which_policy_it_is_and_how_it_was_judged_to_act_best(
    toy_config, console, monkeypatch, tmp_path, epochs
):
    """The toy's is greedy after every second epoch."""
    monkeypatch.setattr("eniac.training.draw", lambda run: [])
    run = load_run(train(toy_config(epochs=epochs), console=console).path)
    for name in (None, "exploiting"):
        (folder,) = export_run(run, tmp_path / str(name), name)
        about, loaded = json.loads((folder / "config.json").read_text()), load_policy(folder)
        greedy = epochs == 4 and name is None
        assert about["policy_name"] == (name or "incumbent")
        assert about["deterministic"] is bool(loaded.greedy) is greedy
        # Only the incumbent was judged.
        assert (about["return_mean"] is None) == (name is not None)
        table = run.policy(0, name).policy.probabilities
        np.testing.assert_array_equal(loaded.policy.probabilities, table)
    mine, theirs = (run.policy(0, x).policy.probabilities for x in ("incumbent", "exploiting"))
    assert not np.array_equal(mine, theirs)


def test_a_policy_that_a_run_has_not_is_refused_before_anything_is_written(run, tmp_path):
    known = "policy is 'cover:1'; there are incumbent, exploiting"
    with pytest.raises(ConfigError, match=known):
        export_run(run, tmp_path / "export", "cover:1")
    assert not (tmp_path / "export").exists()
    with pytest.raises(ConfigError, match="Did you mean 'incumbent'"):
        play_episode(run, policy="incumbant")
    with pytest.raises(ConfigError, match=known):
        evaluate_run(run, 3, policy="cover:1")


def test_a_policy_is_judged_as_it_acts_best_or_as_it_is_told_to(run):
    """In a chain without chance all episodes of a greedy policy are the same."""
    judged = evaluate_run(run, 40)
    assert [row["deterministic"] for row in judged["seeds"]] == [True, True]
    assert {row["policy"] for row in judged["seeds"]} == {"incumbent"}
    greedy, sampled = (evaluate_run(run, 40, deterministic=x) for x in (True, False))
    assert judged == greedy
    assert [row["deterministic"] for row in sampled["seeds"]] == [False, False]
    for row in greedy["seeds"]:
        assert row["return_min"] == row["return_max"]
    assert any(row["return_min"] < row["return_max"] for row in sampled["seeds"])
    other = evaluate_run(run, 40, policy="exploiting")
    assert [row["deterministic"] for row in other["seeds"]] == [False, False]
    assert other["return_mean"] != sampled["return_mean"]


def test_which_of_several_policies_must_be_said(run, tmp_path):
    export_run(run, tmp_path / "export")
    with pytest.raises(RunError, match="seed-0, seed-1"):
        load_policy(tmp_path / "export")
    with pytest.raises(RunError, match="holds no exported policy"):
        load_policy(tmp_path)


def test_a_policy_that_does_not_fit_its_config_is_refused_with_the_difference(run, tmp_path):
    folder = export_run(run, tmp_path / "export")[0]
    path = folder / "config.json"
    about = json.loads(path.read_text())
    about["policy"]["num_states"] = 4
    path.write_text(json.dumps(about))
    with pytest.raises(
        CheckpointError, match=r"probabilities: expected .*\(4, 2\), found .*\(5, 2\)"
    ):
        load_policy(folder)
    about["policy"]["num_states"] = 5
    about["epoch"] = 99
    path.write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="epoch is 4 in the one and 99 in the other"):
        load_policy(folder)
    about |= {"epoch": 4, "deterministic": not about["deterministic"]}
    path.write_text(json.dumps(about))
    with pytest.raises(CheckpointError, match="deterministic is True in the one and False in"):
        load_policy(folder)
    about["deterministic"] = "yes"
    path.write_text(json.dumps(about))
    with pytest.raises(ConfigError, match="deterministic is 'yes'; it must be true or false"):
        load_policy(folder)
    about["policy"]["kind"] = "unknown"
    path.write_text(json.dumps(about))
    with pytest.raises(ConfigError, match="'unknown'"):
        load_policy(folder)


def test_a_damaged_policy_is_refused(run, tmp_path):
    folder = export_run(run, tmp_path / "export")[0]
    content = bytearray((folder / "policy.safetensors").read_bytes())
    content[-1] ^= 128
    (folder / "policy.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        load_policy(folder)


def test_an_episode_is_the_same_again_and_its_reward_adds_up(run):
    played = play_episode(run, seed=1, episode=3)
    again = play_episode(run, seed=1, episode=3)
    assert played.length == 5  # the horizon of the evaluation
    assert played.total_reward == again.total_reward
    assert not played.terminated
    np.testing.assert_array_equal(played.observations, again.observations)
    assert played.total_reward == pytest.approx(sum(played.rewards))
    with pytest.raises(ConfigError, match="seed is 5"):
        play_episode(run, seed=5)
