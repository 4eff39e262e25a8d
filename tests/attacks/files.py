"""Files that were damaged, made up, or made to do harm."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import shutil
import sys
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from attacks.outcome import Ended, Outcome, judge, shown
from eniac import load_policy, load_run
from eniac.cli.main import main
from eniac.errors import ConfigError, RunError
from eniac.runs.checkpoint import list_checkpoints, newest_checkpoint
from eniac.runs.config import Config
from eniac.runs.engine import resume, train
from eniac.runs.manifest import owner_of, read_manifest
from eniac.runs.program import make_program
from eniac.runs.tensors import flatten
from processes import assert_same_run, config_of
from runs import malicious
from runs.random_configs import draw_command, draw_config, judge_command, judge_config
from runs.test_bad_values import BAD, BAD_PROVABLE, changed
from test_memory import ABSURD, GIB

# Flipped bits

EPOCHS = 6


def flips(folder: Path, learner: str, count: int, resumed: int) -> Iterator[Outcome | str]:
    """Flips a random bit of a run's newest checkpoint, so many times. The one before it must be
    used; `resumed` of them go on to the end, and must end as if nothing had been flipped."""
    quiet = Console(file=io.StringIO())
    whole, run = folder / "whole", folder / "run"
    train(config_of(learner, whole, EPOCHS), console=quiet)
    shutil.copytree(whole, run)
    newest = list_checkpoints(run / "checkpoints")[0]
    good, draw = newest.read_bytes(), random.Random(learner)
    shapes = make_program(config_of(learner, run, EPOCHS).build()).shapes
    owner = owner_of(read_manifest(run))
    states = [_bytes(newest_checkpoint(run / "checkpoints", shapes, owner, run)[0])]
    newest.unlink()
    states.append(_bytes(newest_checkpoint(run / "checkpoints", shapes, owner, run)[0]))
    assert states[0] != states[1]
    for number in range(count):
        newest.write_bytes(_flipped(good, draw.randrange(8 * len(good))))

        def load() -> None:
            found, warnings = newest_checkpoint(run / "checkpoints", shapes, owner, run)
            # Padding is nothing that is read: then it is the newest itself.
            assert _bytes(found) == states[len(warnings)], warnings

        yield judge("a bit of a checkpoint", load, "survived")
        if number % max(1, count // resumed) == 0:
            yield judge(
                "a bit of a checkpoint, resumed", lambda: _go_on(run, whole, quiet), "survived"
            )


def _flipped(data: bytes, bit: int) -> bytes:
    place = bit // 8
    return data[:place] + bytes([data[place] ^ (1 << bit % 8)]) + data[place + 1 :]


def _bytes(checkpoint: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in flatten(checkpoint.state).items()}


def _go_on(run: Path, whole: Path, console: Console) -> None:
    copy = run.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    with contextlib.suppress(ConfigError):  # in the padding, it is as good as before: at its end
        resume(copy, console=console)
    assert_same_run(whole, copy, EPOCHS)


# Configs


def configs(folder: Path, first: int, count: int) -> Iterator[Outcome | str]:
    """Random configs, each drawn with a number of its own."""
    del folder
    for seed in range(first, first + count):
        yield _drawn("random configs", seed, lambda seed=seed: judge_config(draw_config(seed)))


def commands(folder: Path, first: int, count: int) -> Iterator[Outcome | str]:
    """Random command lines."""
    del folder
    for seed in range(first, first + count):
        yield _drawn("random command lines", seed, lambda s=seed: judge_command(draw_command(s)))


def _drawn(what: str, seed: int, found: Callable[[], str]) -> Outcome:
    try:
        return Outcome(what, "survived" if found() == "taken" else "refused")
    except (Exception, SystemExit) as error:
        return Outcome(what, "else", f"number {seed}: {shown(error)}")


def by_hand(folder: Path, every: int) -> Iterator[Outcome | str]:
    """Bad values that somebody thought of, every so-manieth of them."""
    del folder
    rows = [("eniac", *row) for row in BAD] + [("spi", *row) for row in BAD_PROVABLE]
    for row, path, value, word in rows[::every]:
        read = functools.partial(Config.from_dict, changed(row, path, value))
        found = judge("hand-made configs", read, "refused", word)
        yield found._replace(told=f"{path}: {found.told}")
    with unittest.mock.patch("eniac.memory.available", return_value=16 * GIB):
        for make, words in list(ABSURD.values())[::every]:
            yield judge(
                "hand-made configs that fit no memory",
                lambda make=make: make().build().require_memory(),
                "refused",
                words,
            )


# Folders


def folders(folder: Path, every: int) -> Iterator[Outcome | str]:
    """Folders that were made to do harm, every so-manieth of them."""
    for name, spoil in list(malicious.POLICIES.items())[::every]:
        yield _policy(folder / "policy", spoil, "refused", f"malicious policies: {name}")
    for name, spoil in list(malicious.NAMED.items())[::every]:
        yield _policy(folder / "policy", spoil, "survived", f"policies that name code: {name}")
    for name, make in list(malicious.RUNS.items())[::every]:
        for where in ("inside", "above", "on the path"):
            yield _run(folder / "run", make, where, load_run, f"malicious runs: {name}, {where}")
        yield _run(folder / "run", make, "inside", _evaluate, f"malicious runs: {name}, shell")


def _policy(folder: Path, spoil: malicious.Spoil, expected: Ended, name: str) -> Outcome:
    def attack() -> None:
        malicious.good_policy(folder)
        malicious.plant(folder)
        spoil(folder)
        with _standing(folder, on_path=expected == "survived"):
            load_policy(folder)

    return _unharmed(folder, attack, expected, name)


def _run(
    folder: Path, make: Callable[[Path], Path], where: str, load: Callable[[Path], Any], name: str
) -> Outcome:
    def attack() -> None:
        make(folder)
        malicious.plant(folder)
        with _standing(folder.parent if where == "above" else folder, where == "on the path"):
            load(folder)

    return _unharmed(folder, attack, "refused", name)


def _unharmed(folder: Path, attack: Callable[[], Any], expected: Ended, name: str) -> Outcome:
    what, _, which = name.partition(": ")

    def watched() -> None:
        with malicious.nothing_runs(folder):
            attack()

    found = judge(what, watched, expected, after=lambda: _clean(folder))
    return found._replace(told=f"{which}: {found.told}")


def _clean(folder: Path) -> None:
    assert malicious.CANARY not in sys.modules
    assert list(folder.rglob("executed")) == []
    shutil.rmtree(folder)


@contextlib.contextmanager
def _standing(folder: Path, on_path: bool) -> Iterator[None]:
    """In the folder, as a program that was started there; its modules can be found, if asked."""
    before, path = os.getcwd(), list(sys.path)
    os.chdir(folder)
    sys.path[:0] = [str(folder)] if on_path else []
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path


def _evaluate(folder: Path) -> None:
    """As a command: one line on standard error is what it refuses with."""
    told = io.StringIO()
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
        code = main(["evaluate", str(folder), "--episodes", "1"])
    if code in (1, 2):
        text = told.getvalue().removesuffix("\n")
        assert text.startswith("Error: "), text
        raise RunError(text)
    assert code == 0, code
