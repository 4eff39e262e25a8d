"""The epochs of all seeds of a run: one compiled program, or processes on the host.

Compiled, the seeds of a device run one after another (`lax.map`), the devices side by side
(`shard_map`): per core as fast as `vmap`, and a seed that has come to its end costs nothing. Each
seed takes the same operations as in a run of its own. Small programs agree to the last bit; in
larger ones XLA rounds differently when it compiles for several devices. The same command on the
same machine gives the same bits.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, UInt

from eniac.algorithm1 import Learner, epoch
from eniac.runs.cache import default_devices
from eniac.runs.config import Built
from eniac.sampling.compiled import when

T = TypeVar("T")

_ON_CPU = {"xla_backend_optimization_level": 1, "xla_llvm_disable_expensive_passes": True}
"""Level 3, XLA's default, takes half as long again to compile on a CPU, and the program is not
faster: what takes time in an epoch are matrix multiplications, which are not LLVM's. So it is with
the passes of LLVM that XLA calls expensive. (Level 0 would be a third quicker to compile, and four
times slower to run.)"""


_ONCE_ON_CPU = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""For what runs once: a third of the time to compile. An epoch would take far longer than that
saves: half as long again without the fusion emitters, four times as long at level 0."""


class Outcome(NamedTuple):
    """What an epoch of all seeds gave: metrics have an axis of seeds and one of rounds. Rows of
    seeds that were not active mean nothing."""

    states: Any
    metrics: dict[str, np.ndarray]


@runtime_checkable
class Program(Protocol):
    """Init and epoch of a learner for several seeds. States are stacked over the seeds."""

    @property
    def shapes(self) -> Any:
        """The states of all seeds, or their shapes."""
        ...

    @property
    def devices(self) -> int:
        """Devices that one program is spread over."""
        ...

    def init(self) -> Any:
        """The states of all seeds before the first epoch, stacked."""
        ...

    def place(self, states: Any) -> Any:
        """`states` from a checkpoint, where `epoch` expects them."""
        ...

    def compile(self, states: Any) -> None:
        """Whatever can be done ahead, so that no epoch has to wait for it."""
        ...

    def epoch(self, states: Any, active: np.ndarray, until: float | None) -> Outcome:
        """One epoch of the active seeds, whose rounds stop above the return `until`."""
        ...

    def events(self) -> list[str]:
        """What has happened since this was last asked that the user should know."""
        ...

    def close(self) -> None: ...


def make_program(built: Built) -> Program:
    """What runs the epochs of `built`: compiled, unless its learner is not."""
    if built.learner.compiled:
        return CompiledProgram(built.learner, list(built.config.seed_numbers))
    from eniac.runs.workers import HostProgram

    return HostProgram(built)


class CompiledProgram:
    def __init__(self, learner: Learner[Any], seeds: list[int]):
        self.seeds = np.array(seeds, np.uint32)
        devices = jax.devices()
        self.devices = devices_for(len(seeds), len(devices))
        mesh = jax.make_mesh(
            (self.devices,),
            ("seeds",),
            axis_types=(AxisType.Auto,),
            devices=devices[: self.devices],
        )
        spec = PartitionSpec("seeds")
        self._sharding = NamedSharding(mesh, spec)

        def start(seed: UInt[Array, ""]) -> Any:
            return learner.init(seed)

        def one_epoch(
            state: Any, active: Bool[Array, ""], until: Float[Array, ""]
        ) -> tuple[Any, dict[str, Array]]:
            return when(active, lambda state: epoch(learner, state, until), state)

        def over_seeds(function: Callable[..., Any], row: tuple[Any, ...], on_cpu: Any) -> Any:
            """`function`, whose arguments for one seed are like `row`, for all seeds."""
            constants, lifted = with_constants(function, *row)

            def on_a_device(constants: Any, *arguments: Any) -> Any:
                return jax.lax.map(lambda row: lifted(constants, *row), arguments)

            on_a_device.__name__ = f"over_{function.__name__}"
            mapped = jax.shard_map(
                on_a_device,
                mesh=mesh,
                in_specs=(PartitionSpec(), *(spec for _ in row)),
                out_specs=spec,
                check_vma=False,
            )
            options = on_cpu if devices[0].platform == "cpu" else None
            return jax.jit(mapped, compiler_options=options), constants

        seed, state = jnp.zeros((), jnp.uint32), learner.shapes()
        flag, number = jnp.asarray(True), jnp.zeros(())
        self._start, self._start_constants = over_seeds(start, (seed,), _ONCE_ON_CPU)
        self._epoch, self._epoch_constants = over_seeds(one_epoch, (state, flag, number), _ON_CPU)
        self.shapes = jax.eval_shape(self._start, self._start_constants, self.seeds)
        self._compiled: Any = None

    def init(self) -> Any:
        seeds = jax.device_put(self.seeds, self._sharding)
        # As `place` has them: where arrays lie is part of a program, and a run that is resumed has
        # to compile, or find in the cache, the program that it began with.

        def work() -> Any:
            return jax.block_until_ready(self.place(self._start(self._start_constants, seeds)))

        return interruptible(work)

    def place(self, states: Any) -> Any:
        return jax.device_put(states, self._sharding)

    def compile(self, states: Any) -> None:
        lowered = self._epoch.lower(*self._arguments(states, np.ones(len(self.seeds), bool), None))
        self._compiled = interruptible(lowered.compile)

    def epoch(self, states: Any, active: np.ndarray, until: float | None) -> Outcome:
        def work() -> Outcome:
            out, metrics = self._compiled(*self._arguments(states, active, until))
            # To the host only after the program: reading the metrics waits for all of it.
            return Outcome(out, {name: np.asarray(value) for name, value in metrics.items()})

        return interruptible(work)

    def events(self) -> list[str]:
        return []

    def close(self) -> None:
        pass

    def _arguments(self, states: Any, active: np.ndarray, until: float | None) -> tuple:
        bound = np.full(len(self.seeds), np.inf if until is None else until, np.float32)
        return self._epoch_constants, states, *jax.device_put((active, bound), self._sharding)


def with_constants(function: Callable[..., Any], *shapes: Any) -> tuple[list[Any], Any]:
    """The arrays that `function` has in itself, such as the code of a lock, and the function that
    takes them as its first argument: one program for all locks of a length, compiled once.

    `shapes` are its arguments, or their shapes.
    """
    jaxpr, out = jax.make_jaxpr(function, return_shape=True)(*shapes)
    structure = jax.tree.structure(out)

    def lifted(constants: list[Any], *arguments: Any) -> Any:
        traced = jaxpr_as_fun(ClosedJaxpr(jaxpr.jaxpr, constants))
        return jax.tree.unflatten(structure, traced(*jax.tree.leaves(arguments)))

    return jaxpr.consts, lifted


def devices_for(num_seeds: int, num_devices: int) -> int:
    """How many of the devices seeds are spread over: each must get the same number of them."""
    return max(n for n in range(1, num_devices + 1) if num_seeds % n == 0)


def too_few_devices(program: Program, num_seeds: int) -> list[str]:
    """A warning, if seeds are spread over fewer devices than by default, because JAX was started
    by somebody else before: then XLA compiles, and rounds, differently."""
    wanted = devices_for(num_seeds, default_devices())
    if not isinstance(program, CompiledProgram) or program.devices >= wanted:
        return []
    if jax.devices()[0].platform != "cpu":
        return []
    return [
        f"JAX was started before this run, with {len(jax.devices())} of the "
        f"{default_devices()} devices that it would have had, so that the seeds are computed on "
        f"{program.devices} instead of {wanted}: slower, and results can differ in the last bits "
        f"from those of the command line. Setting JAX_NUM_CPU_DEVICES={default_devices()} in the "
        "environment, or using JAX only after `eniac.train` has begun, mends it."
    ]


def take_seed(states: Any, index: int) -> Any:
    """The state of one seed out of the stacked states of a run, on one device.

    A row of an array that is spread over devices is taken out of the part that it lies in. Indexing
    the whole would be a program for all devices, which wait for each other, and XLA ends the
    process if one of them is not given a core for 40 seconds.
    """

    def take(leaf: Any) -> Any:
        # A number taken out of an array of NumPy's is no array any more.
        if isinstance(leaf, np.ndarray):
            return np.asarray(leaf[index])
        for part in leaf.addressable_shards:
            rows = range(*part.index[0].indices(leaf.shape[0]))
            if index in rows:
                return jax.device_put(part.data[index - rows.start], jax.devices()[0])
        raise IndexError(f"seed {index} of {leaf.shape[0]}")

    return jax.tree.map(take, states)


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


def give_back_memory() -> None:
    """Returns to the system what compilers have freed, which is more than all else that a small run
    has. glibc keeps it otherwise, in case it is asked for again; other systems do not."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


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
    # In turns: a signal that another thread was given does not wake the one that handles it.
    while not future.done():
        wait([future], timeout=0.2)
    return future.result()
