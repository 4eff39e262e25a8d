"""Real processes, killed with SIGKILL, end as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from eniac.runs.checkpoint import list_checkpoints
from eniac.runs.tensors import read_tensors
from toy import EPOCHS

TOY = Path(__file__).parents[1] / "toy.py"


class _Starter:
    """Starts processes that run the toy."""

    def __init__(self, output):
        self.output = output
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", TOY],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, folder, death="-", kill_after=None):
        """The exit code of a run that dies by itself, or is killed so long after an epoch."""
        print(folder, self.output, death, file=self.process.stdin, flush=True)
        number = int(self.process.stdout.readline())
        if kill_after is not None:
            while "epoch" not in self.output.read_text():
                time.sleep(0.001)
            time.sleep(kill_after)
            os.kill(number, signal.SIGKILL)
        return int(self.process.stdout.readline())


@pytest.fixture
def starter(tmp_path):
    (tmp_path / "output").touch()
    starter = _Starter(tmp_path / "output")
    yield starter
    starter.process.stdin.close()
    starter.process.stdout.close()
    starter.process.wait(timeout=60)


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
        assert starter.run(killed, death) == -signal.SIGKILL, (death, starter.output.read_text())
    for _ in range(3):
        seconds = moments.uniform(0.0, 0.03)
        assert starter.run(killed, kill_after=seconds) == -signal.SIGKILL
    assert starter.run(killed) == 0, starter.output.read_text()
    assert f"epoch {EPOCHS}/{EPOCHS}" in starter.output.read_text()

    assert (killed / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()
    newest = [list_checkpoints(folder / "checkpoints")[0] for folder in (whole, killed)]
    assert newest[0].name == newest[1].name == f"epoch-{EPOCHS:06d}.safetensors"
    (a, _), (b, _) = map(read_tensors, newest)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    for seed in (0, 1):
        name = f"policy/seed-{seed}/policy.safetensors"
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert sorted(killed.rglob("*.writing")) == []
