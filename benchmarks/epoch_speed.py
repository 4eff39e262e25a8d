"""How fast an epoch of deep ENIAC is: 10 updates on 500 x 100 steps for each of two policies, which
makes a million environment steps, and the training of the width when it is due.

One core, and the program that `eniac train` runs: an epoch includes the evaluation of the
exploiting policy by 100 episodes, and the time to compile is for all that a run compiles, with
nothing cached. Memory is that of the process after the first epoch, and how much it grew in the
epochs after it. The parts are timed alone too: one PPO minibatch and one step of
width training, each with its share of the largest matrix-multiply speed that the same core reaches
in the same run. Several seeds are one program that computes them one after another, as
`eniac train --seeds` does on a core.

    python benchmarks/epoch_speed.py                 depths 2, 4, 6; 1 and 10 seeds
    python benchmarks/epoch_speed.py --depths 2 --seeds 1

Prints a table and writes benchmarks/results/epoch_speed.json, where rows of other depths and seeds
stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from eniac.algorithms import ALGORITHMS, Deep
from eniac.bonuses.base import Buffer, Pairs
from eniac.deep import DeepLearner
from eniac.envs import make
from eniac.runs.config import Evaluation
from eniac.runs.program import Program
from eniac.updates.ppo import Rows

RESULTS = Path(__file__).parent / "results" / "epoch_speed.json"
ENV = "MountainCarContinuous-v0"


def seconds(function: Any, *arguments: Any, repeats: int = 3) -> float:
    """The best of some calls after the one that compiles."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return min(times)


def peak_flops(size: int = 1024) -> float:
    matrix = jnp.ones((size, size))
    return 2 * size**3 / seconds(jax.jit(jnp.matmul), matrix, matrix, repeats=10)


def weights_in(tree: Any) -> int:
    """Entries of the matrices of a network: what its multiplications are over."""
    return sum(x.size for x in jax.tree.leaves(tree) if x.ndim == 2)


def time_parts(learner: DeepLearner, parts: Deep, state: Any, peak: float) -> dict[str, float]:
    """Microseconds of a PPO minibatch and of a width step, and their shares of the peak."""
    rows = parts.num_envs * parts.trajectory
    key = jax.random.key(0)
    space = learner.spaces
    seen = Pairs(jnp.ones((rows, *space.observation.shape)), jnp.ones((rows, *space.action.shape)))
    batch = Rows(*seen, jnp.zeros(rows), jax.random.normal(key, (rows,)), jnp.zeros(rows))
    actor = state.explore
    update = jax.jit(parts.ppo.update)
    minibatches = parts.ppo.passes * -(-rows // parts.ppo.minibatch)
    ppo = seconds(update, key, actor.policy, actor.optimiser, batch) / minibatches
    width = parts.bonus
    buffer = Buffer.empty(space, parts.capacity * parts.visits)
    buffer = buffer.add(Pairs(*(x[: parts.visits] for x in seen)))
    query = Pairs(*(x[: width.query_size] for x in seen))
    fitting = seconds(jax.jit(width.fit), key, state.bonus, buffer, query, query, repeats=2)
    step = fitting / (width.outer * width.inner)
    # Forward is 2 flops an entry and row, backward twice that.
    ppo_flops = 6 * weights_in(actor.policy) * parts.ppo.minibatch
    width_flops = 6 * weights_in(state.bonus.f) * (width.buffer_batch + width.query_batch)
    return {
        "ppo_minibatch_us": 1e6 * ppo,
        "ppo_share_of_peak": ppo_flops / ppo / peak,
        "width_training_s": fitting,
        "width_step_us": 1e6 * step,
        "width_share_of_peak": width_flops / step / peak,
    }


def resident() -> float:
    """Memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def time_epochs(learner: DeepLearner, parts: Deep, seeds: int) -> dict[str, float]:
    """Seconds of an epoch of both policies, a seed, without and with the fit of the bonus: of the
    program that `eniac train` runs, so the evaluation by 100 episodes is in them."""
    start = time.perf_counter()
    program = Program(learner, learner.env, Evaluation(), list(range(seeds)))
    states = program.init()
    program.compile(states)
    compiling = time.perf_counter() - start
    # The first epochs have no exploiting policy yet: they are left out.
    first = parts.exploit_from
    states = states._replace(epoch=jnp.full(seeds, first, jnp.int32))
    plain, fitted, memory = [], [], []
    for epoch in range(first, first + (2 * parts.interval + 1 if seeds == 1 else 2)):
        start = time.perf_counter()
        done = program.epoch(states, np.full(seeds, epoch), np.ones(seeds, bool))
        states = done.states
        kind = fitted if epoch % parts.interval == 0 else plain
        kind.append((time.perf_counter() - start) / seeds)
        memory.append(resident())
    return {
        "compile_s": compiling,
        "epoch_s": statistics.median(plain),
        "epoch_with_fit_s": statistics.median(fitted),
        "steps_per_second": float(done.metrics["steps"][0]) / statistics.median(plain),
        "memory_mb": memory[0],
        "memory_growth_mb": memory[-1] - memory[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--depths", type=int, nargs="*", default=[2, 4, 6], choices=[2, 4, 6])
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 10])
    arguments = parser.parse_args()
    # Before JAX starts its threads, which it does at the first computation.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    table = Table(title="An epoch of ENIAC (paper preset, a million steps) on one core")
    for name in (
        "depth",
        "seeds",
        "compile",
        "epoch a seed",
        "with width",
        "steps/s",
        "memory",
        "PPO minibatch",
        "width step",
    ):
        table.add_column(name, justify="right")
    results = {}
    if RESULTS.exists():
        results = {(row["depth"], row["seeds"]): row for row in json.loads(RESULTS.read_text())}
    for depth in arguments.depths:
        parts = ALGORITHMS["eniac"].settings(preset=f"paper-depth{depth}")
        learner = parts.build(make(ENV))
        peak = peak_flops()
        alone = time_parts(learner, parts, jax.jit(learner.init)(jax.random.key(0)), peak)
        for seeds in arguments.seeds:
            row = {"depth": depth, "seeds": seeds, "peak_gflops": peak / 1e9}
            row |= alone | time_epochs(learner, parts, seeds)
            results[depth, seeds] = {name: round(value, 4) for name, value in row.items()}
            table.add_row(
                str(depth),
                str(seeds),
                f"{row['compile_s']:.1f} s",
                f"{row['epoch_s']:.2f} s",
                f"{row['epoch_with_fit_s']:.2f} s",
                f"{row['steps_per_second']:,.0f}",
                f"{row['memory_mb']:.0f} + {row['memory_growth_mb']:.0f} MiB",
                f"{row['ppo_minibatch_us']:.0f} us, {row['ppo_share_of_peak']:.0%} of peak",
                f"{row['width_step_us']:.0f} us, {row['width_share_of_peak']:.0%} of peak",
            )
            RESULTS.parent.mkdir(exist_ok=True)
            ordered = [results[place] for place in sorted(results)]
            RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
