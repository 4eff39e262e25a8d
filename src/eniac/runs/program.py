"""One epoch of all seeds of a run as one compiled program.

The seeds of a device run one after another (`lax.map`), the devices side by side (`shard_map`): per
core as fast as `vmap`, and a seed that has come to its end costs nothing. Each seed takes the same
operations as in a run of its own. Small programs agree to the last bit; in larger ones XLA rounds
differently when it compiles for several devices: `eniac train ppo --loops 3 --epochs 3` with two
seeds had for seed 1 a return 6e-5 (relative) from that of the single run after one epoch, and 5e-4
after three. The same
command on the same machine gives the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Int, UInt

from eniac.deep import Learner, run_if
from eniac.envs import Environment
from eniac.runs.config import Evaluation
from eniac.sampling.compiled import evaluate

T = TypeVar("T")

_EVALUATION = 0x65766C
"""Tells the keys of evaluations from those that the learner derives from the same seed."""
_ON_CPU = {"xla_backend_optimization_level": 1}
"""Level 3, XLA's default, takes a third longer to compile on a CPU, and the program is not faster:
what takes time in an epoch are matrix multiplications, which are not LLVM's."""


class Outcome(NamedTuple):
    """What an epoch of all seeds gave. Rows of seeds that were not active mean nothing."""

    states: Any
    metrics: dict[str, np.ndarray]


class Program:
    """Init and epoch of a `learner` for several seeds, compiled once."""

    def __init__(
        self, learner: Learner, env: Environment, evaluation: Evaluation, seeds: list[int]
    ):
        self.learner = learner
        self.seeds = np.array(seeds, np.uint32)
        devices = jax.devices()
        # Every device must get the same number of seeds.
        count = max(n for n in range(1, len(devices) + 1) if len(seeds) % n == 0)
        mesh = jax.make_mesh(
            (count,), ("seeds",), axis_types=(AxisType.Auto,), devices=devices[:count]
        )
        spec = PartitionSpec("seeds")
        self._sharding = NamedSharding(mesh, spec)

        def start(seed: UInt[Array, ""]) -> Any:
            return learner.init(jax.random.key(seed))

        def epoch(
            state: Any, seed: UInt[Array, ""], number: Int[Array, ""], active: Bool[Array, ""]
        ) -> tuple[Any, dict[str, Array]]:
            def go(state: Any):
                state, metrics = learner.epoch(state)
                key = jax.random.fold_in(jax.random.key(seed), _EVALUATION)
                result = evaluate(
                    env,
                    learner.policy(state),
                    jax.random.fold_in(key, number),
                    evaluation.episodes,
                    evaluation.deterministic,
                    evaluation.first,
                )
                judged = {
                    "return_mean": jnp.mean(result.returns),
                    "return_std": jnp.std(result.returns),
                    "return_min": jnp.min(result.returns),
                    "return_max": jnp.max(result.returns),
                    "length_mean": jnp.mean(result.lengths.astype(jnp.float32)),
                }
                if evaluation.first is not None:
                    judged["return_first_mean"] = jnp.mean(result.first_returns)
                return state, judged | metrics

            return run_if(active, go, state)

        def over_seeds(function: Callable[..., T]) -> Any:
            def on_a_device(*arguments: Any) -> T:
                return jax.lax.map(lambda row: function(*row), arguments)

            on_a_device.__name__ = f"over_{function.__name__}"
            return jax.jit(
                jax.shard_map(
                    on_a_device, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
                ),
                compiler_options=_ON_CPU if devices[0].platform == "cpu" else None,
            )

        self._start = over_seeds(start)
        self._epoch = over_seeds(epoch)
        self.shapes = jax.eval_shape(self._start, self.seeds)
        self._compiled: Any = None

    def init(self) -> Any:
        """The states of all seeds before the first epoch, stacked."""
        seeds = jax.device_put(self.seeds, self._sharding)
        return interruptible(lambda: jax.block_until_ready(self._start(seeds)))

    def place(self, states: Any) -> Any:
        """`states` from a checkpoint, put on the devices where `epoch` expects them."""
        return jax.device_put(states, self._sharding)

    def compile(self, states: Any) -> None:
        """Compiles the epoch ahead, so that it never compiles again while the run goes on."""
        lowered = self._epoch.lower(*self._arguments(states, np.zeros(len(self.seeds)), None))
        self._compiled = interruptible(lowered.compile)

    def epoch(self, states: Any, epochs: np.ndarray, active: np.ndarray) -> Outcome:
        """One epoch of the active seeds, of which `epochs` are behind them."""

        def work() -> Outcome:
            out, metrics = self._compiled(*self._arguments(states, epochs, active))
            # To the host only after the program: reading the metrics waits for all of it.
            return Outcome(out, {name: np.asarray(value) for name, value in metrics.items()})

        return interruptible(work)

    def _arguments(self, states: Any, epochs: np.ndarray, active: np.ndarray | None) -> tuple:
        active = np.ones(len(self.seeds), bool) if active is None else active
        rows = (self.seeds, epochs.astype(np.int32), active)
        return states, *jax.device_put(rows, self._sharding)


def nonfinite_leaves(states: Any) -> dict[str, np.ndarray]:
    """For each leaf of floating-point numbers, by its name, the seeds in which it has NaN or
    infinity. On the host, where a hundred small checks need no compilation."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): ~np.isfinite(leaf).all(
            axis=tuple(range(1, leaf.ndim))
        )
        for path, leaf in jax.tree_util.tree_leaves_with_path(states)
        if jnp.issubdtype(leaf.dtype, jnp.inexact)
    }


def interruptible(function: Callable[[], T]) -> T:
    """`function()`, computed in a thread: the main thread can then handle signals meanwhile."""
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # handed on to the thread that waits
            future.set_exception(error)

    # A daemon, because a run that is aborted does not wait for the epoch to end.
    threading.Thread(target=work, daemon=True).start()
    return future.result()
