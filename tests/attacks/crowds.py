"""Several processes that want the same run, and runs that go on elsewhere."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import toy
from attacks.outcome import Outcome, judge, shown
from eniac.cli.main import main
from eniac.errors import RunError
from eniac.runs.checkpoint import newest_checkpoint
from eniac.runs.load import load_run
from eniac.runs.program import make_program
from processes import Starter, assert_same_run, config_of
from runs.random_configs import check_line


def writers(folder: Path, seconds: float, epochs: int = 120) -> Iterator[Outcome | str]:
    """For so many seconds: two processes that resume the same run at the same moment, over and over
    again, and readers of all kinds beside them."""
    toy.register()
    with contextlib.ExitStack() as stack:
        starters = [Starter(folder / f"output-{k}") for k in range(2)]
        for starter in starters:
            stack.callback(starter.close)
        whole = folder / "whole"
        assert starters[0].run(whole, epochs=epochs) == 0, starters[0].output.read_text()
        pool = stack.enter_context(ThreadPoolExecutor(2))
        until = time.monotonic() + seconds
        for number in itertools.count():
            if time.monotonic() > until:
                break
            run = folder / f"run-{number}"
            starters[0].run(run, epochs=epochs, death="write:8")
            tries = [pool.submit(_try_until_written, starter, run) for starter in starters]
            yield from _read(run, tries, epochs)
            found = [outcome for one in tries for outcome in one.result()]
            yield from found
            ended_once = functools.partial(_ended_once, found, whole, run, epochs)
            yield judge("runs that two wanted to write", ended_once, "survived")


def _try_until_written(starter: Starter, run: Path) -> list[Outcome]:
    """Resumes until the run has come to its end, by this process or another."""
    found: list[Outcome] = []
    while not found or (found[-1].ended == "refused" and "being written" in found[-1].told):
        code = starter.run(run, command=["resume", str(run)])
        found.append(_told("writers", code, starter.output.read_text()))
    return found


def _told(what: str, code: int, text: str) -> Outcome:
    """What a command made of it: it went well, or there is one line of ours at the end."""
    if code == 0:
        return Outcome(what, "survived")
    *_, last = text.rstrip("\n").split("\n")
    try:
        assert code in (1, 2), f"exit code {code}"
        assert last.startswith("Error: "), text[-500:]
        assert "Traceback" not in text, text[-500:]
        check_line(last)
    except AssertionError as error:
        return Outcome(what, "else", shown(error))
    return Outcome(what, "refused", last)


def _ended_once(found: list[Outcome], whole: Path, run: Path, epochs: int) -> None:
    """One of them brought it to its end, which is that of a run that one alone wrote."""
    assert [one.ended for one in found].count("survived") == 1, found
    assert_same_run(whole, run, epochs)


def _read(run: Path, tries: list[Future[Any]], epochs: int) -> Iterator[Outcome]:
    """Looks at the run in every way, while anybody writes."""
    shapes = make_program(config_of("toy", run, epochs).build()).shapes
    out = run.parent
    commands = (
        ["evaluate", str(run), "--episodes", "1"],
        ["export", str(run), "--out", str(out / "policy")],
        ["plot", str(run), "--out", str(out / "curve.png")],
        ["list", "runs", str(out)],
    )

    def load() -> None:
        found, warnings = newest_checkpoint(run / "checkpoints", shapes)
        assert warnings == []
        assert found is not None
        assert int(found.state.epoch[0]) == found.progress.epoch

    for number in itertools.count():
        if all(one.done() for one in tries):
            break
        for _ in range(5):
            yield judge("readers", load, "survived")
        if number % 3:
            yield judge("readers", lambda: _whole(run), "survived")
        else:
            words = commands[number // 3 % len(commands)]
            yield judge("readers", lambda words=words: _command(words), "survived")


def _whole(run: Path) -> None:
    assert load_run(run).warnings == []


def _command(words: list[str]) -> None:
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        code = main(words)
    if code:
        raise RunError(told.getvalue().strip())


# Other devices

WORDS = "can differ in the last bits"


def devices(folder: Path, learner: str, few: bool) -> Iterator[Outcome | str]:
    """Runs that are killed and go on with other devices, or on other cores; or with the same."""
    with contextlib.closing(Starter(folder / "output")) as starter:
        for number, (before, after) in enumerate(_changes(learner)[:: 3 if few else 1]):
            run = folder / str(number)
            what = "other devices" if "devices" in before else "other cores"
            told = f"{learner}, {before} then {after}"
            found = judge(
                what,
                lambda run=run, b=before, a=after: _move(starter, run, learner, b, a),
                "survived",
            )
            yield found._replace(told=f"{told}: {found.told}")


def _move(
    starter: Starter, run: Path, learner: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    job: dict[str, Any] = {"kind": learner, "seeds": 4, "epochs": 12}
    code = starter.run(run, death="write:5", **job, **before)
    assert code == -signal.SIGKILL, starter.output.read_text()
    assert starter.run(run, **job, **after) == 0, starter.output.read_text()
    printed = starter.output.read_text()
    assert (WORDS in printed) == (before != after), printed
    assert "epoch 12/12" in printed, printed
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 12 * job["seeds"]


def _changes(learner: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """From every number of devices to every other, and to the same; and of cores. Learners on the
    host use one device, whatever there is."""
    numbers = [{"devices": number} for number in (1, 2, 4) if learner != "spi"]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    bound = [{"cores": cores[:number]} for number in (1, 2) if len(cores) >= number]
    return [pair for kind in (numbers, bound) for pair in itertools.product(kind, kind)]
