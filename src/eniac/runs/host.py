"""The epochs of learners that run on the host: `Program` for learners that are not compiled."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import numpy as np

from eniac.deep import Learner
from eniac.envs import Environment
from eniac.runs.config import Evaluation
from eniac.runs.program import Outcome, Program, interruptible


class HostProgram:
    """Init and epoch of a host `learner` for several seeds, one after another.

    States are NumPy arrays stacked over the seeds, and never touch JAX, which would make 32 bits of
    64. The learner judges its policy itself: its metrics have `return_mean`.
    """

    def __init__(self, learner: Any, seeds: list[int]):
        self.learner = learner
        self.seeds = list(seeds)
        self.shapes = self.init()

    def init(self) -> Any:
        """The states of all seeds before the first epoch, stacked."""
        return _stack([self.learner.init(seed) for seed in self.seeds])

    def place(self, states: Any) -> Any:
        return states

    def compile(self, states: Any) -> None:
        """Nothing to do: there is no program to compile."""

    def epoch(self, states: Any, epochs: np.ndarray, active: np.ndarray) -> Outcome:
        """One epoch of the active seeds. The number of epochs behind them is in their states."""
        del epochs

        def work() -> Outcome:
            rows, found = [], []
            with _one_blas_thread():
                for k in range(len(self.seeds)):
                    state = jax.tree.map(lambda leaf, k=k: leaf[k], states)
                    metrics = {}
                    if active[k]:
                        state, metrics = self.learner.epoch(state)
                    rows.append(state)
                    found.append(metrics)
            names = next(metrics for metrics in found if metrics)
            metrics = {name: np.array([m.get(name, 0) for m in found]) for name in names}
            return Outcome(_stack(rows), metrics)

        return interruptible(work)


def make_program(
    learner: Learner, env: Environment, evaluation: Evaluation, seeds: list[int]
) -> Program | HostProgram:
    """What runs the epochs of `learner`: compiled, unless it says that it is not."""
    if getattr(learner, "compiled", True):
        return Program(learner, env, evaluation, seeds)
    return HostProgram(learner, seeds)


def _one_blas_thread() -> contextlib.AbstractContextManager[Any]:
    """Keeps linear algebra to one thread: for small matrices more of them only wait for each other,
    and a busy machine makes that many times slower."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return contextlib.nullcontext()
    return threadpool_limits(1, "blas")


def _stack(states: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)
