"""Real processes, killed with SIGKILL, end as if nothing had happened."""

import random
import signal

import numpy as np
import pytest

from eniac.runs.checkpoint import list_checkpoints
from eniac.runs.tensors import read_tensors

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

    _assert_same_run(whole, killed, EPOCHS)


SLOW = pytest.mark.slow  # to compile, and no other code than the rest has


@pytest.mark.parametrize(
    "kind",
    [
        "eniac",
        "ppo-host",
        "spi",
        pytest.param("ppo", marks=SLOW),
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
    _assert_same_run(whole, killed, 6)


def _assert_same_run(whole, killed, epochs):
    assert (killed / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    newest = [list_checkpoints(folder / "checkpoints")[0] for folder in (whole, killed)]
    assert newest[0].name == newest[1].name == f"epoch-{epochs:06d}.safetensors"
    (a, _), (b, _) = map(read_tensors, newest)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    policies = sorted((whole / "policy").glob("*/policy.safetensors"))
    assert policies
    for policy in policies:
        same = killed / policy.relative_to(whole)
        assert same.read_bytes() == policy.read_bytes()
    assert sorted(killed.rglob("*.writing")) == []
