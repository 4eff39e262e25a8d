import json

import numpy as np
import pytest

from eniac import (
    CheckpointError,
    ConfigError,
    RunError,
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
        policy, original = load_policy(folder), run.policy(seed)
        assert type(policy) is type(original)
        np.testing.assert_array_equal(policy.probabilities, original.probabilities)
        assert int(policy.mode(0)) == int(original.mode(0))
    # What the end of the training wrote is the same.
    for name in ("config.json", "policy.safetensors"):
        written = (run.path / "policy" / "seed-1" / name).read_bytes()
        assert written == (folders[1] / name).read_bytes()


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
