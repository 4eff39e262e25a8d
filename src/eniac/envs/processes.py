"""Environments that have a process each.

It pays only where a step is expensive, a millisecond and more; and a process can be ended where a
call cannot, so that an environment that hangs or crashes can be told, and replaced.

A process runs `LoopEnvs` with one environment. It never loads JAX.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import gymnasium
import numpy as np

from eniac.child_process import answering, how_it_ended, start_child
from eniac.envs import faults
from eniac.envs.faults import CLOSE_SECONDS, FAILURES, Fault, Hangs
from eniac.envs.loop_envs import LoopEnvs
from eniac.envs.observations import empty, take, write
from eniac.envs.stepping import HostEnvs, HostStep
from eniac.errors import RunError

Make = Callable[[], gymnasium.Env[Any, Any]]


class ProcessEnvs(HostEnvs):
    """`num_envs` environments that `make` makes, each in a process of its own.

    With `restart`, one that fails is replaced, whether it raises, hangs or has died.
    """

    def __init__(
        self,
        name: str,
        make: Make,
        num_envs: int,
        keys: tuple[str, ...],
        observation_space: Any,
        action_space: Any,
        timeout: float | None = None,
        restart: bool = False,
    ):
        # Processes are waited for here, with a limit of their own: no thread need watch them.
        super().__init__(name, num_envs, observation_space, action_space)
        self._limit, self._restart = timeout, restart
        self._task = cloudpickle.dumps((name, make, keys))
        self._observation = empty(observation_space, num_envs)
        self._reward = np.zeros(num_envs)
        self._children: list[_Child] = []
        try:
            self._children = [self._start(i) for i in range(num_envs)]
            for i, child in enumerate(self._children):
                self._made(i, child)
        except BaseException:
            self._close()
            raise

    def _start(self, i: int) -> _Child:
        return _Child(self._task, (i, self.num_envs))

    def _made(self, i: int, child: _Child) -> None:
        """Waits until the environment of a child is made."""
        try:
            child.receive(None)  # it has started, which is not the environment's affair
            spaces = child.receive(self._limit)
        except Fault as fault:
            raise self.told(fault, i) from None
        expected = self.observation_space, self.action_space
        if spaces != expected:
            raise self.told(
                Fault(
                    f"has other spaces in its process than the one that was made first: "
                    f"{spaces!s:.200}, not {expected!s:.200}. All must have the same."
                ),
                i,
            )

    def _begin(self, seeds: list[int]) -> Any:
        return self._start_all([("begin_with", [seed]) for seed in seeds])

    def _reset(self) -> Any:
        return self._start_all([("reset",)] * self.num_envs)

    def _start_all(self, requests: list[tuple[Any, ...]]) -> Any:
        answers, _ = self._ask(requests)
        for i, answer in enumerate(answers):
            if answer is not None:
                write(self._observation, i, answer)
        return self._observation

    def _step(self, actions: Any) -> HostStep:
        requests = [("step", take(actions, slice(i, i + 1))) for i in range(self.num_envs)]
        answers, failed = self._ask(requests)
        terminated, truncated = self._none.copy(), self._none.copy()
        real = ~self._none
        finals = []
        for i, answer in enumerate(answers):
            if answer is None:
                self._reward[i], real[i] = 0.0, False
                continue
            observation, self._reward[i], terminated[i], truncated[i], final = answer
            write(self._observation, i, observation)
            if truncated[i]:
                finals.append(final)
        index = np.flatnonzero(truncated)
        final = self._no_observation
        if len(index):
            final = empty(self.observation_space, len(index))
            for row, one in enumerate(finals):
                write(final, row, one)
        return HostStep(
            self._observation, self._reward, terminated, truncated, real, index, final, failed
        )

    def _ask(self, requests: list[tuple[Any, ...]]) -> tuple[list[Any], tuple[int, ...]]:
        """The answers of all children; None where one failed and was replaced, and who these are.

        All are waited for before a failure is told: no answer may be left for the next question.
        """
        until = None if self._limit is None else time.monotonic() + self._limit
        for child, request in zip(self._children, requests, strict=True):
            child.send(request)
        answers: list[Any] = []
        wrong: dict[int, Exception] = {}
        for i, child in enumerate(self._children):
            left = None if until is None else max(until - time.monotonic(), 0.0)
            answers.append(None)
            try:
                answers[i] = child.receive(left)
            except (Fault, RunError) as error:
                wrong[i] = error if not isinstance(error, Hangs) else Hangs(self._limit or 0.0)
        for i, error in wrong.items():
            told = error if isinstance(error, RunError) else self.told(error, i)
            if not self._restart:
                raise told
            self._recover(i, told)
        return answers, tuple(wrong)

    def _recover(self, i: int, told: RunError) -> None:
        while True:
            self._replaced(told)
            self._children[i].kill()
            self._children[i] = self._start(i)
            try:
                self._made(i, self._children[i])
                self._children[i].send(("begin_with", [self._fresh_seed(i)]))
                write(self._observation, i, self._children[i].receive(self._limit))
                return
            except Fault as fault:
                told = self.told(fault, i)
            except RunError as again:
                told = again

    def _close(self) -> None:
        for child in self._children:
            child.send(("close",))
        until = time.monotonic() + CLOSE_SECONDS
        for child in self._children:
            child.end(max(until - time.monotonic(), 0.0))
        self._children = []


class _Child:
    """Our end of one process."""

    def __init__(self, task: bytes, copies: tuple[int, int]):
        self._process, self._connection = start_child("eniac.envs.processes")
        self.send((sys.path, task, copies))

    def send(self, message: Any) -> None:
        with suppress(OSError):  # `receive` says what became of it
            self._connection.send(message)

    def receive(self, seconds: float | None) -> Any:
        """Its next answer. **Raises** RunError with what the process tells, Fault if it is dead or
        takes longer than `seconds`, after which it is ended."""
        try:
            if seconds is not None and not self._connection.poll(seconds):
                self.kill()
                raise Hangs(seconds)
            kind, content = self._connection.recv()
        except (EOFError, OSError):
            raise Fault(
                f"died with its process ({how_it_ended(self._process)}). It may have crashed, or "
                "was ended for want of memory."
            ) from None
        if kind == "failed":
            raise RunError(content)
        return content

    def end(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._connection.close()


def _serve(connection: Connection) -> None:
    """What a child does: makes an environment, then begins, resets and steps it on demand."""
    path, task, copies = connection.recv()
    sys.path[:] = path
    connection.send(("done", None))
    envs: LoopEnvs | None = None
    try:
        envs = _make(task, copies)
        connection.send(("done", (envs.observation_space, envs.action_space)))
        while True:
            name, *arguments = connection.recv()
            if name == "close":
                break
            answer = getattr(envs, name)(*arguments)
            connection.send(("done", _row(answer) if name == "step" else take(answer, 0)))
    except RunError as error:
        connection.send(("failed", str(error)))
    finally:
        if envs is not None:
            envs.close()


def _make(task: bytes, copies: tuple[int, int]) -> LoopEnvs:
    name = "the environment"
    try:
        name, make, keys = cloudpickle.loads(task)
        envs = LoopEnvs(name, [make()], keys, owned=True)
    except FAILURES as error:
        copy = f"copy {copies[0] + 1} of {copies[1]}"
        raise RunError(f"{name} ({copy}) {faults.raised(error, 'make')}") from error
    envs.copies = copies
    return envs


def _row(step: HostStep) -> tuple[Any, ...]:
    """A step of one environment without what is always the same."""
    final = take(step.final_observation, 0) if step.truncated[0] else None
    return (
        take(step.observation, 0),
        step.reward[0],
        bool(step.terminated[0]),
        bool(step.truncated[0]),
        final,
    )


if __name__ == "__main__":
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _serve(answering(sys.argv[1]))
