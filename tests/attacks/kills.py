"""Runs that are killed again and again, and must end with the bytes of one that never was."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attacks.outcome import Outcome, shown
from eniac.runs.checkpoint import epoch_of, list_checkpoints
from processes import Starter, assert_same_run

CALLS = ("write", "write", "fsync", "replace", "unlink")
"""Where a process dies in the middle of saving."""


def kills(folder: Path, learner: str, count: int, epochs: int = 30) -> Iterator[Outcome | str]:
    """Kills runs of `learner` so many times, by turns at a random moment of a session, inside a
    write, and while it learns. Each is resumed, killed again, and so on to its end; all kills of a
    run count by it."""
    moments = random.Random(learner)
    with contextlib.closing(Starter(folder / "output")) as starter:
        whole = folder / "whole"
        assert starter.run(whole, learner, epochs=epochs) == 0, starter.output.read_text()
        # Once more, as it is when all is in the cache.
        seconds = _seconds(starter, folder / "warm", learner, epochs)
        done, run = 0, 0
        while done < count:
            killed = folder / f"killed-{run}"
            run += 1
            found = []
            for what in _killed_to_the_end(
                starter, killed, learner, epochs, count - done, seconds, moments
            ):
                found.append(what)
                yield f"{done + len(found)} of {count}"
            yield from _judge(starter, whole, killed, epochs, found)
            done += len(found)
            shutil.rmtree(killed)


def _seconds(starter: Starter, folder: Path, learner: str, epochs: int) -> float:
    began = time.monotonic()
    assert starter.run(folder, learner, epochs=epochs) == 0, starter.output.read_text()
    return time.monotonic() - began


def _killed_to_the_end(
    starter: Starter,
    folder: Path,
    learner: str,
    epochs: int,
    most: int,
    seconds: float,
    moments: random.Random,
) -> Iterator[str]:
    """What each kill was, until the run has come to its end; the last session is left alone when
    there were `most` of them."""
    where = "on the host" if "host" in learner or learner == "spi" else "compiled"
    for number in range(most):
        what, when = WAYS[number % len(WAYS)](folder, seconds, moments)
        if starter.run(folder, learner, epochs=epochs, **when) != -signal.SIGKILL:
            break  # it has ended before
        yield f"{what}, {where}"
    else:
        starter.run(folder, learner, epochs=epochs)


Way = tuple[str, dict[str, Any]]
"""What a kill is called, and what makes `Starter.run` do it."""


def _any_moment(folder: Path, seconds: float, moments: random.Random) -> Way:
    """Most of such short sessions is their start, so this is where most of these fall."""
    return "at a random moment", {"kill_when": "", "kill_after": moments.uniform(0, seconds)}


def _in_a_write(folder: Path, seconds: float, moments: random.Random) -> Way:
    return "inside a write", {"death": f"{moments.choice(CALLS)}:{moments.randrange(2, 14)}"}


def _after_an_epoch(folder: Path, seconds: float, moments: random.Random) -> Way:
    saved = list_checkpoints(folder / "checkpoints")
    epoch = (epoch_of(saved[0]) if saved else 0) + moments.randrange(1, 6)
    when = {"kill_when": f"epoch {epoch}/", "kill_after": moments.uniform(0, 0.05)}
    return "while it learns", when


WAYS = (_any_moment, _in_a_write, _after_an_epoch)


def _judge(
    starter: Starter, whole: Path, killed: Path, epochs: int, found: list[str]
) -> Iterator[Outcome]:
    try:
        assert_same_run(whole, killed, epochs)
    except Exception as error:
        told = f"{killed}: {shown(error)}; it printed: {starter.output.read_text()[-500:]!r}"
        yield from (Outcome(what, "else", told) for what in found)
    else:
        yield from (Outcome(what, "survived") for what in found)
