"""Real processes, killed with SIGKILL, end as if nothing had happened."""

import random
import signal

import pytest

from eniac.runs.checkpoint import list_checkpoints
from processes import assert_same_run

EPOCHS = 120


def test_a_run_killed_at_any_moment_ends_as_one_never_killed(tmp_path, starter):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert starter.run(whole) == 0, starter.output.read_text()
    moments = random.Random(20)
    # Each of the ways in which a write can be cut short: half of the bytes written, all of them but
    # not safely on the disk, no name yet, the old checkpoint not yet gone. The first dies before
    # there is any checkpoint.
    deaths = ["write:3", "write:5", "fsync:12", "replace:8", "unlink:5"]
    deaths += [f"{moments.choice(['write', 'fsync', 'replace'])}:{moments.randrange(5, 20)}"]
    for death in deaths:
        assert starter.run(killed, death=death) == -signal.SIGKILL, (
            death,
            starter.output.read_text(),
        )
    for _ in range(3):
        seconds = moments.uniform(0.0, 0.03)
        assert starter.run(killed, kill_after=seconds) == -signal.SIGKILL
    assert starter.run(killed) == 0, starter.output.read_text()
    assert f"epoch {EPOCHS}/{EPOCHS}" in starter.output.read_text()

    assert_same_run(whole, killed, EPOCHS)


def test_a_run_killed_after_its_last_epoch_is_finished_when_it_is_resumed(tmp_path, starter):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert starter.run(whole, epochs=3) == 0, starter.output.read_text()
    # Config, manifest, the first checkpoint and the last; then the policy of the first seed.
    assert starter.run(killed, epochs=3, death="write:5") == -signal.SIGKILL
    assert list_checkpoints(killed / "checkpoints")[0].name == "epoch-000003.safetensors"
    assert list(killed.rglob("policy.safetensors")) == []
    assert starter.run(killed) == 0, starter.output.read_text()
    assert_same_run(whole, killed, 3)


SLOW = pytest.mark.slow  # to compile, and no other code than the rest has


@pytest.mark.parametrize(
    "kind",
    [
        "eniac",
        "ppo-host",
        "spi",
        pytest.param("ppo", marks=SLOW),
        pytest.param("ppo-rnd", marks=SLOW),
        pytest.param("eniac-host", marks=SLOW),
    ],
)
def test_every_learner_killed_while_it_saves_ends_as_one_never_killed(tmp_path, starter, kind):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert starter.run(whole, kind) == 0, starter.output.read_text()
    # In the middle of the checkpoint of epoch 4, after epoch 3 was logged.
    assert starter.run(killed, kind, death="write:5") == -signal.SIGKILL
    assert list_checkpoints(killed / "checkpoints")[0].name == ("epoch-000002.safetensors")
    assert starter.run(killed, kind) == 0, starter.output.read_text()
    assert_same_run(whole, killed, 6)
