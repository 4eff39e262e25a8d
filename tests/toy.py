"""A learner that compiles in no time: a random walk of a few weights, with all a learner has.

Run as a program, it is given lines of `FOLDER OUTPUT DEATH`. For each it starts a process that
trains or resumes in FOLDER and prints to OUTPUT; it writes the process's number and, when that has
ended, its exit code. DEATH is `-`, or `CALL:COUNT`: then the process kills itself with SIGKILL just
before the COUNT-th call of `os.fsync`, `os.replace` or `Path.unlink`, or in the middle of the
COUNT-th `write` of a whole file.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.algorithms import ALGORITHMS

EPOCHS = 120


class Policy(eqx.Module):
    """Takes action 1 with the probability that its first weight says."""

    weights: Float[Array, " width"]

    def sample(self, key: PRNGKeyArray, observation: Array) -> Int[Array, ""]:
        return jax.random.bernoulli(key, jax.nn.sigmoid(self.weights[0])).astype(jnp.int32)

    def mode(self, observation: Array) -> Int[Array, ""]:
        return (self.weights[0] > 0).astype(jnp.int32)


class State(NamedTuple):
    key: PRNGKeyArray
    epoch: Int[Array, ""]
    policy: Policy
    flag: Array


@dataclass(frozen=True)
class Step:
    rate: float = 0.1
    kind: Literal["up", "down"] = "up"

    def __post_init__(self):
        if self.rate <= 0:
            raise ValueError(f"step.rate is {self.rate}; it must be above 0.")


@dataclass(frozen=True)
class Toy:
    name: str = "toy"
    width: int = 3
    sizes: tuple[int, ...] = (2, 3)
    nan_at: int | None = None
    bad_reward_at: int | None = None
    step: Step = field(default_factory=Step)

    def build(self, env: Any) -> Learner:
        return Learner(self)


class Learner(NamedTuple):
    toy: Toy

    def init(self, key: PRNGKeyArray) -> State:
        key, weight_key = jax.random.split(key)
        policy = Policy(jax.random.normal(weight_key, (self.toy.width,)))
        return State(key, jnp.zeros((), jnp.int32), policy, jnp.asarray(True))

    def epoch(self, state: State) -> tuple[State, dict[str, Array]]:
        key, noise_key = jax.random.split(state.key)
        epoch = state.epoch + 1
        noise = jax.random.normal(noise_key, (self.toy.width,))
        weights = state.policy.weights + self.toy.step.rate * noise
        weights = jnp.where(epoch == (self.toy.nan_at or -1), jnp.nan, weights)
        metrics = {
            "steps": jnp.asarray(7, jnp.int32),
            "nonfinite_rewards": (epoch == (self.toy.bad_reward_at or -1)).astype(jnp.int32),
            "loss": jnp.sum(weights**2),
            "undefined": jnp.asarray(jnp.nan),
        }
        return State(key, epoch, Policy(weights), ~state.flag), metrics

    def policy(self, state: State) -> Policy:
        return state.policy


@dataclass(frozen=True)
class Row:
    name: str
    description: str
    default: Toy


def register() -> None:
    ALGORITHMS["toy"] = Row("toy", "a random walk of weights", Toy())  # pyright: ignore


def _die_at(call: str, count: int) -> None:
    from eniac import files

    calls = 0

    def count_or_die() -> None:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)

    def dying(function: Any) -> Any:
        def wrapper(*arguments: Any, **more: Any) -> Any:
            count_or_die()
            return function(*arguments, **more)

        return wrapper

    class HalfWritten:
        def __init__(self, file: Any):
            self.file = file

        def __enter__(self) -> HalfWritten:
            self.file.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self.file.__exit__(*error)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, content: bytes) -> None:
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            count_or_die()
            self.file.write(content[len(content) // 2 :])

    if call == "write":
        files.open = lambda *arguments: HalfWritten(open(*arguments))  # noqa: SIM115
    elif call == "unlink":
        Path.unlink = dying(Path.unlink)
    else:
        setattr(os, call, dying(getattr(os, call)))


def _run(folder: Path, death: str) -> None:
    if death != "-":
        call, count = death.split(":")
        _die_at(call, int(count))
    if (folder / "config.json").exists():
        resume(folder)
    else:
        train(
            Config(
                Toy(),  # pyright: ignore
                env="Chain-4",
                horizon=5,
                seeds=2,
                epochs=EPOCHS,
                evaluation=Evaluation(episodes=3),
                checkpoint_every=3,
                keep=2,
                out=folder,
            )
        )


def main() -> None:
    # Everything is imported once, but JAX's backend, which does not survive a fork, is started by
    # each process for itself.
    register()
    for line in sys.stdin:
        folder, output, death = line.split()
        process = os.fork()
        if process == 0:
            with open(output, "w", buffering=1) as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
                _run(Path(folder), death)
            os._exit(0)
        print(process, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    from eniac import Config, Evaluation, resume, train

    main()
