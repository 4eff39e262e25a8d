"""What jobs of the tests call, each in a process of its own."""

import json
import os
import signal
import time
from pathlib import Path

from eniac.errors import ConfigError


def tell(path, note=None):
    """Writes where it runs."""
    where = {
        "process": os.getpid(),
        "cores": sorted(os.sched_getaffinity(0)),
        "devices": os.environ["JAX_NUM_CPU_DEVICES"],
        "accelerators": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }
    if note is not None:
        with open(note, "a") as file:
            file.write(f"{Path(path).name}\n")
    Path(path).write_text(json.dumps(where))


def meet(path, number):
    """Waits until so many jobs are there, and says where it runs."""
    here = Path(f"{path}.here")
    here.write_text("here")
    while len(list(here.parent.glob("*.here"))) < number:
        time.sleep(0.01)
    tell(path)


def fail(path, times=10**6, kind="ValueError"):
    """Fails so many times, and then writes."""
    tries = Path(f"{path}.tries")
    count = len(tries.read_text()) if tries.exists() else 0
    tries.write_text("x" * (count + 1))
    if count < times:
        if kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise {"ValueError": ValueError, "ConfigError": ConfigError}[kind]("no good\nand more")
    Path(path).write_text("at last")


def nothing(path):
    """Forgets its product."""


def count(path, until):
    """Counts, slowly, and saves every tenth number; asked to end, saves how far it is. Called
    again it goes on from there. What was counted is in a log."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
    Path(f"{path}.process").write_text(str(os.getpid()))
    saved = Path(f"{path}.saved")
    number = int(saved.read_text()) if saved.exists() else 0
    while number < until and not asked:
        number += 1
        with open(f"{path}.counted", "a") as file:
            file.write(f"{number}\n")
        if number % 10 == 0:
            _save(saved, number)
        time.sleep(0.02)
    _save(saved, number)
    if number == until:
        Path(path).write_text("counted")


def _save(path, number):
    temporary = path.with_suffix(".new")
    temporary.write_text(str(number))
    temporary.replace(path)
