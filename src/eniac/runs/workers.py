"""Learners that run on the host: one seed here, several side by side in processes, one a core."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eniac.algorithm1 import Learner, epoch
from eniac.child_process import answering, how_it_ended, start_child
from eniac.errors import ConfigError, EniacError, NonFiniteError, RunError
from eniac.runs.config import Built, Config
from eniac.runs.program import Outcome, interruptible, take_seed
from eniac.runs.tensors import flatten, unflatten

_ERRORS: dict[str, type[EniacError]] = {
    kind.__name__: kind for kind in (ConfigError, RunError, NonFiniteError)
}


class HostProgram:
    """Init and epoch of a host learner for several seeds.

    Seeds are spread over processes, as many as there are cores. A learner whose environment was
    given as an object cannot be built in another process: its seeds run here, one after another.
    States are stacked over the seeds, and NumPy's: JAX would make 32 bits of 64.
    """

    devices = 1

    def __init__(self, built: Built):
        self._built = built
        self.seeds = list(built.config.seed_numbers)
        self.shapes = stack([built.learner.shapes()] * len(self.seeds))
        self._workers: list[_Worker] = []
        self._events: list[str] = []

    def init(self) -> Any:
        learner = self._built.learner
        return interruptible(lambda: stack([learner.init(seed) for seed in self.seeds]))

    def place(self, states: Any) -> Any:
        return states

    def compile(self, states: Any) -> None:
        """Starts the processes; what is compiled is small, and is compiled when it is needed."""
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if self._built.given is None and min(len(self.seeds), len(cores)) > 1:
            config = self._built.config.to_dict() | {"seeds": 1}
            num = min(len(self.seeds), len(cores))
            self._workers = [_Worker(config, core) for core in cores[:num]]

    def epoch(self, states: Any, active: np.ndarray, until: float | None) -> Outcome:
        bound = np.inf if until is None else until

        def work() -> Outcome:
            rows = [take_seed(states, k) for k in range(len(self.seeds))]
            found: list[dict[str, np.ndarray]] = [{} for _ in rows]
            todo = [k for k in range(len(rows)) if active[k]]
            if not self._workers:
                for k in todo:
                    with self._telling(k):
                        rows[k], found[k] = run_epoch(self._built.learner, rows[k], bound)
                        self._note(k, self._built.learner.events())
            else:
                self._spread(todo, rows, found, bound)
            names = next(metrics for metrics in found if metrics)
            return Outcome(
                stack(rows),
                {
                    name: np.stack([m.get(name, np.zeros_like(names[name])) for m in found])
                    for name in names
                },
            )

        return interruptible(work)

    def events(self) -> list[str]:
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []

    def _spread(
        self, todo: list[int], rows: list[Any], found: list[dict[str, np.ndarray]], until: float
    ) -> None:
        """Gives every process a seed, and the next one to whoever has finished."""
        waiting = list(todo)
        busy: dict[_Worker, int] = {}
        while waiting or busy:
            for worker in self._workers:
                if waiting and worker not in busy:
                    busy[worker] = waiting.pop(0)
                    worker.send(("epoch", flatten(rows[busy[worker]]), until))
            for worker in [worker for worker in busy if worker.connection.poll(0.02)]:
                k = busy.pop(worker)
                with self._telling(k):
                    arrays, found[k], events = worker.receive(self.seeds[k])
                rows[k] = unflatten(rows[k], arrays, None)
                self._note(k, events)

    def _note(self, k: int, events: list[str]) -> None:
        self._events += [f"{text}{self._of_seed(k)}" for text in events]

    @contextlib.contextmanager
    def _telling(self, k: int) -> Iterator[None]:
        """Says of what goes wrong in whose epoch it was, if there are several seeds."""
        try:
            yield
        except RunError as error:
            raise type(error)(f"{error}{self._of_seed(k)}") from error

    def _of_seed(self, k: int) -> str:
        return f" It was with seed {self.seeds[k]} of the run." if len(self.seeds) > 1 else ""


def run_epoch(learner: Learner[Any], state: Any, until: float) -> tuple[Any, dict[str, np.ndarray]]:
    """One epoch, its metrics as NumPy arrays."""
    with _one_blas_thread():
        state, metrics = epoch(learner, state, until)
    return state, {name: np.asarray(value) for name, value in metrics.items()}


def stack(states: list[Any]) -> Any:
    """States, or their shapes, one after another in a new leading axis."""

    def join(*leaves: Any) -> Any:
        if isinstance(leaves[0], jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct((len(leaves), *leaves[0].shape), leaves[0].dtype)
        if jnp.issubdtype(leaves[0].dtype, jax.dtypes.prng_key):
            return jnp.stack(leaves)
        return np.stack(leaves)

    return jax.tree.map(join, *states)


class _Worker:
    """A process that computes epochs of one seed at a time, on a core of its own."""

    def __init__(self, config: dict[str, Any], core: int):
        self._process, self.connection = start_child("eniac.runs.workers")
        self.connection.send((config, core, sys.path))

    def send(self, message: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # `receive` says what became of it
            self.connection.send(message)

    def receive(self, seed: int) -> Any:
        try:
            kind, *content = self.connection.recv()
        except (EOFError, OSError):
            raise RunError(
                f"The process that computed seed {seed} ended by itself "
                f"({how_it_ended(self._process)}). What was saved stays: `eniac resume` goes on "
                "from there."
            ) from None
        if kind == "failed":
            name, text = content
            raise _ERRORS.get(name, RunError)(text if name in _ERRORS else f"{name}: {text}")
        return content

    def close(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


def _work(connection: Connection) -> None:
    """What a worker does: builds the learner of the config it is sent, then epochs on demand."""
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        config, core, path = connection.recv()
        sys.path[:] = path
        os.sched_setaffinity(0, {core})
        answer: Callable[[Any], Any] | None = None
        while True:
            _, arrays, until = connection.recv()
            try:
                if answer is None:
                    answer = _answers(config)
                connection.send(("done", *answer((arrays, until))))
            except Exception as error:
                connection.send(("failed", type(error).__name__, str(error)))


def _answers(config: dict[str, Any]) -> Callable[[Any], Any]:
    from eniac.runs.cache import prepare_jax

    prepare_jax()
    learner = Config.from_dict(config).build().learner
    like = learner.shapes()

    def answer(question: Any) -> Any:
        arrays, until = question
        state, metrics = run_epoch(learner, unflatten(like, arrays, None), until)
        return flatten(state), metrics, learner.events()

    return answer


def _one_blas_thread() -> contextlib.AbstractContextManager[Any]:
    """Keeps linear algebra to one thread: for small matrices more of them only wait for each other,
    and a busy machine makes that many times slower."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    return threadpool_limits(1, "blas")


if __name__ == "__main__":
    _work(answering(sys.argv[1]))
