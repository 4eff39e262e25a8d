"""Whole runs in environments that misbehave."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from gymnasium.vector import SyncVectorEnv
from rich.console import Console

from attacks.outcome import Outcome, judge
from eniac.envs import MountainCarContinuous, TabularMDP
from eniac.errors import EniacError
from eniac.runs.config import Config, Evaluation
from eniac.runs.engine import resume, train
from eniac.runs.folder import check_out
from envs.faulty import SPACES, Faulty, FaultyVector
from envs.test_faults import (
    AT_THE_START,
    IN_A_STEP,
    MAKING,
    NATIVE,
    PURE,
    SYNC,
    Pure,
    makes,
    tiny,
)

LATE, AT_ONCE = "environments that fail later, resumed", "environments that fail at once"
JAX, OURS = "environments in JAX", "our own environments"
RESTARTED = "environments that fail and are replaced"
QUIET = 32 + 2 * 32
"""Steps of a run before its third epoch: those that show whether the environment is deterministic,
and two epochs of 20 to learn and 12 to judge."""


def faults(folder: Path, part: str, every: int) -> Iterator[Outcome | str]:
    """Runs with each fault, every so-manieth of them: `part` is one of PARTS."""
    for number, (what, name, words, attack) in enumerate(PARTS[part]()):
        if number % every == 0:
            Faulty.made = Faulty.steps = Faulty.quiet = 0
            out = folder / str(number)
            found = judge(what, functools.partial(attack, out), _ends(what), words)
            yield found._replace(told=f"{name}: {found.told}")


def _ends(what: str) -> Any:
    return "survived" if what == RESTARTED else "refused"


Fault = tuple[str, str, str, Callable[[Path], Any]]
"""Line of the table, name, what is to be told, and what runs it in a folder."""


def _config(out: Path, **changes: Any) -> Config:
    config = Config(tiny(), epochs=3, checkpoint_every=10, evaluation=Evaluation(2), out=out)
    return replace(config, **changes)


def _train(config: Config, env: Any = None) -> None:
    """A run that fails before it has saved anything, and leaves nothing in the way."""
    try:
        train(config, env, console=Console(file=io.StringIO()))
    except EniacError:
        assert config.out is not None
        check_out(config.out)
        raise


# gymnasium's


def _later() -> Iterator[Fault]:
    for fault, words in IN_A_STEP.items():
        if fault != "second reset raises":  # which is never quiet
            yield LATE, fault, _what_came(words), functools.partial(_fail_later, fault)


def _what_came(words: str) -> str:
    """What is told of a fault, without the step, which is another one here."""
    return words.partition("step 3) ")[2] or words


def _fail_later(fault: str, out: Path) -> None:
    """A run that fails in its third epoch is told, and resumed; it must then end like one in which
    nothing failed."""
    console = Console(file=io.StringIO())
    whole = _never_failed(fault, out.parent)
    Faulty.steps, Faulty.quiet = 0, QUIET
    try:
        train(_config(out), makes(fault), console=console)
    except EniacError as error:
        told = error
    else:
        return
    Faulty.quiet = 10**9
    resume(out, makes(fault), console=console)
    assert "It was in epoch 3." in str(told), told
    assert (out / "metrics.jsonl").read_bytes() == whole, "another log than if it had not failed"
    raise told


_logs: dict[str, bytes] = {}


def _never_failed(fault: str, folder: Path) -> bytes:
    """The log of a run in an environment with the same spaces and no fault."""
    name = fault if fault in SPACES else "none"
    if name not in _logs:
        Faulty.quiet = 10**9
        console = Console(file=io.StringIO())
        whole = train(_config(folder / f"whole {name}"), makes(fault), console=console).path
        _logs[name] = (whole / "metrics.jsonl").read_bytes()
    return _logs[name]


def _at_once() -> Iterator[Fault]:
    second = {"second reset raises": IN_A_STEP["second reset raises"]}
    for fault, words in (AT_THE_START | MAKING | second).items():
        yield _at_start(fault, words, lambda fault=fault: makes(fault))
    for fault, words in SYNC.items():
        make = functools.partial(_sync, fault)
        yield _at_start(f"{fault}, SyncVectorEnv", words, make)
    for fault, words in NATIVE.items():
        yield _at_start(f"{fault}, VectorEnv", words, lambda fault=fault: FaultyVector(fault))
    asynchronous = {"vectorization": "async", "env_timeout": 20.0}
    for fault, words in (("step raises", IN_A_STEP["step raises"]), ("dies", "died with its pr")):
        yield _at_start(f"{fault}, async", words, lambda f=fault: makes(f), **asynchronous)
    for fault in ("step hangs", "reset hangs", "make hangs"):
        hanging = {"env_timeout": 2.0}
        words = "did not come back within 2 s"
        yield _at_start(fault, words, lambda f=fault: makes(f), **hanging)
    yield _at_start(
        "step hangs, async",
        "did not come back within 5 s",
        lambda: makes("step hangs"),
        vectorization="async",
        env_timeout=5.0,
    )


def _sync(fault: str) -> Any:
    return SyncVectorEnv([makes(fault)] * 2)


def _at_start(name: str, words: str, make: Callable[[], Any], **changes: Any) -> Fault:
    return AT_ONCE, name, words, lambda out: _train(_config(out, **changes), make())


def _restarted() -> Iterator[Fault]:
    def go_on(fault: str, out: Path) -> None:
        Faulty.quiet = QUIET
        console = Console(file=io.StringIO())
        made = train(_config(out, restart_failed_envs=True), makes(fault, first=6), console=console)
        assert made.progress.epoch == 3
        assert "was replaced by a new one" in console.file.getvalue()  # pyright: ignore

    for fault in IN_A_STEP:
        # What is only a wrong value is noticed after its rollout, too late to replace anything; and
        # those in the place of an environment with spaces of its own would not have them.
        wrong_value = any(word in fault for word in ("NaN", "infinite", "outside"))
        if not wrong_value and fault not in SPACES and fault != "second reset raises":
            yield RESTARTED, fault, "", functools.partial(go_on, fault)


# In JAX


def _in_jax() -> Iterator[Fault]:
    for fault, words in PURE.items():
        yield JAX, fault, words, lambda out, f=fault: _train(_config(out, horizon=9), Pure(f))
    words = "observations that are NaN or infinite in epoch 1"
    yield JAX, "NaN", words, lambda out: _train(_config(out, horizon=9), Pure("observation is NaN"))


class BrokenCar(MountainCarContinuous):
    """Our mountain car, which pays NaN from the start."""

    def step(self, key: Any, state: Any, action: Any) -> Any:
        return super().step(key, state, action)._replace(reward=jnp.asarray(jnp.nan))


def _ours() -> Iterator[Fault]:
    yield OURS, "NaN", "rewards that are NaN", lambda out: _train(_config(out), BrokenCar())
    half, pay, start = np.full((2, 2, 2), 0.5), np.zeros((2, 2)), np.array([1.0, 0.0])
    tables = {
        "NaN in the rewards": ((half, pay * np.nan, start), "must be finite"),
        "NaN in the transitions": ((half * np.nan, pay, start), "raised ValueError"),
        "chances that sum to 2": ((half * 2, pay, start), "raised ValueError"),
        "chances below 0": ((half - [1.0, -1.0], pay, start), "raised ValueError"),
        "rewards of another shape": ((half, pay[:1], start), "reward has shape (1, 2)"),
        "transitions of another shape": ((half[0], pay, start), "transition has shape (2, 2)"),
        "a start of another shape": ((half, pay, start[:1]), "start has shape (1,)"),
        "an end that can be left": ((half, pay, start, [False, True]), "raised ValueError"),
        "text": (("far", pay, start), "raised ValueError"),
    }
    for name, (table, words) in tables.items():
        make = functools.partial(TabularMDP, *table)
        yield OURS, name, words, lambda out, make=make: _train(_config(out, horizon=9), make)
    for env, options, words in (
        ("DeepSea-0", {}, "size"),
        ("Chain-1", {}, "length"),
        ("CombinationLock-0", {}, "length"),
        ("RiverSwim-1", {}, "num_states"),
        ("DeepSea-4", {"randomize_actions": "false"}, "True or False"),
        ("DeepSea-4", {"sise": 4}, "sise"),
        ("Chain-4", {"lure": "much"}, "a number"),
        ("MountainCarContinuous-v0", {"gravity": 3}, "gravity"),
    ):
        run = functools.partial(_train_named, env, options)
        yield OURS, f"{env} {options}", words, run


def _train_named(env: str, options: dict[str, Any], out: Path) -> None:
    _train(_config(out, env=env, env_options=options))


PARTS: dict[str, Callable[[], Iterator[Fault]]] = {
    "later": _later,
    "at once": _at_once,
    "replaced": _restarted,
    "jax": _in_jax,
    "ours": _ours,
}
