"""How fast deep ENIAC is: a round is 10 updates on 500 x 100 steps for each of two policies, which
makes a million environment steps; the first of an epoch's three rounds has the training of the
width too.

One core, the paper's settings, and the program that `eniac train` runs: a round includes the
evaluation of the exploiting policy by 100 episodes, and the time to compile is for all that a run
compiles, with nothing cached. Memory is that of the process after the first measurement, and how
much it grew by the last. The parts are timed alone too: one PPO minibatch and one step of width
training, each with its share of the largest matrix-multiply speed that the same core reaches.

With `--baseline DIR`, another checkout of this repository, both are measured in the same run: a
process each, which compiles, warms up and then waits; they are asked in turns, so that whatever
else the machine does falls on both alike, and ratios are taken within a turn. Compilation is timed
in fresh processes, in turns as well. Wall-clock and processor time are both told: on a machine
that does other things the second is the steadier.

    python benchmarks/epoch_speed.py                 depths 2, 4, 6
    python benchmarks/epoch_speed.py --depths 2 --rounds 5 --baseline ../before

Prints a table and writes benchmarks/results/epoch_speed.json, where rows of other depths stay as
they are.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "epoch_speed.json"
ENV = "MountainCarContinuous-v0"
HERE = Path(__file__).parents[1]

Times = dict[str, float]


# What is measured: `this` code, and that of commit 30fd952 and its like. Each compiles when it is
# made and returns a function that runs an epoch and says how long its rounds took.


def this_code(depth: int, seeds: int) -> Callable[[], Times]:
    import jax.numpy as jnp
    import numpy as np

    from eniac.algorithms import ALGORITHMS
    from eniac.runs.config import Config
    from eniac.runs.program import make_program

    settings = ALGORITHMS["eniac"].settings(preset=f"paper-depth{depth}")
    program = make_program(Config(settings, env=ENV, seeds=seeds).build())
    states = program.init()
    program.compile(states)
    # The first epoch has no exploiting policy yet.
    states = states._replace(epoch=jnp.ones(seeds, jnp.int32))
    active = np.ones(seeds, bool)

    def measure() -> Times:
        # Every return is above -inf, so that only the first round is run.
        first = timed(lambda: program.epoch(states, active, -np.inf))
        whole = timed(lambda: program.epoch(states, active, None))
        later = {name: (whole[name] - first[name]) / 2 for name in ("s", "cpu_s")}
        return rates(first, later, seeds)

    return measure


def code_with_rounds_as_epochs(depth: int, seeds: int) -> Callable[[], Times]:
    import jax.numpy as jnp
    import numpy as np
    from eniac.experiments.config import Evaluation
    from eniac.experiments.program import Program

    from eniac.algorithms import ALGORITHMS
    from eniac.envs import make

    settings = ALGORITHMS["eniac"].settings(preset=f"paper-depth{depth}")
    env = make(ENV)
    program = Program(settings.build(env), env, Evaluation(), list(range(seeds)))
    states = program.init()
    program.compile(states)
    states = states._replace(epoch=jnp.full(seeds, settings.exploit_from, jnp.int32))
    active = np.ones(seeds, bool)

    def measure() -> Times:
        now, times = states, []
        for epoch in range(settings.exploit_from, settings.exploit_from + settings.interval):

            def run(now: Any = now, epoch: int = epoch) -> Any:
                return program.epoch(now, np.full(seeds, epoch), active)

            times.append(timed(run))
            now = times[-1].pop("result").states
        first, *others = times
        later = {name: statistics.mean(one[name] for one in others) for name in ("s", "cpu_s")}
        return rates(first, later, seeds)

    return measure


def timed(run: Callable[[], Any]) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return {"s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "result": result}


def rates(first: dict[str, Any], later: dict[str, Any], seeds: int) -> Times:
    """Seconds of a round of one seed, that with the fit and one without."""
    return {
        f"{kind}_{name}": times[name] / seeds
        for kind, times in (("round", later), ("round_with_fit", first))
        for name in ("s", "cpu_s")
    }


def time_parts(depth: int) -> Times:
    """Microseconds of a PPO minibatch and of a width step, and their shares of the peak."""
    import jax
    import jax.numpy as jnp

    from eniac.algorithms import ALGORITHMS
    from eniac.buffer import Buffer, Pairs
    from eniac.envs import make
    from eniac.sampling.base import Evaluation
    from eniac.updates.ppo import Rows

    def seconds(function: Any, *arguments: Any, repeats: int = 3) -> float:
        """The best of some calls after the one that compiles."""
        jax.block_until_ready(function(*arguments))
        return min(
            timed(lambda: jax.block_until_ready(function(*arguments)))["s"] for _ in range(repeats)
        )

    def weights_in(tree: Any) -> int:
        """Entries of the matrices of a network: what its multiplications are over."""
        return sum(x.size for x in jax.tree.leaves(tree) if x.ndim == 2)

    matrix = jnp.ones((1024, 1024))
    peak = 2 * 1024**3 / seconds(jax.jit(jnp.matmul), matrix, matrix, repeats=10)
    config: Any = ALGORITHMS["eniac"].settings(preset=f"paper-depth{depth}")
    env = make(ENV)
    learner = config.build(env, env, Evaluation())
    spaces, ppo, width = learner.sampler.spaces, config.update, config.bonus
    rows = config.num_envs * config.rollout_length
    key = jax.random.key(0)
    seen = Pairs(
        jnp.ones((rows, *spaces.observation.shape)), jnp.ones((rows, *spaces.action.shape))
    )
    batch = Rows(*seen, jnp.zeros(rows), jax.random.normal(key, (rows,)), jnp.zeros(rows))
    actor = jax.jit(learner.new_actor)(key)
    minibatches = ppo.passes * -(-rows // ppo.minibatch)
    one = seconds(jax.jit(ppo.update), key, actor.policy, actor.memory, batch) / minibatches
    buffer = Buffer.empty(spaces, config.capacity * config.visit_rows)
    first = jax.tree.map(lambda x: x[: config.visit_rows], seen)
    buffer = buffer.add(key, first, config.visit_rows, 0)
    queries = jax.tree.map(lambda x: x[: width.query_size], seen)
    bonus = width.init(key, spaces, config.hidden)
    fitting = seconds(jax.jit(width.fit), key, bonus, buffer, queries, repeats=2)
    step = fitting / (width.outer * width.inner)
    # Forward is 2 flops an entry and row, backward twice that.
    ppo_flops = 6 * weights_in(actor.policy) * ppo.minibatch
    width_flops = 6 * weights_in(bonus.f) * (width.buffer_batch + width.query_batch)
    return {
        "peak_gflops": peak / 1e9,
        "ppo_minibatch_us": 1e6 * one,
        "ppo_share_of_peak": ppo_flops / one / peak,
        "width_training_s": fitting,
        "width_step_us": 1e6 * step,
        "width_share_of_peak": width_flops / step / peak,
    }


def resident() -> float:
    """Memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def serve(depth: int, seeds: int) -> None:
    """The process of one checkout: compile, then a measurement for every line of stdin."""
    # Before JAX starts its threads, which it does at the first computation.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    old = importlib.util.find_spec("eniac.experiments") is not None
    subject = code_with_rounds_as_epochs if old else this_code
    import jax

    # What is imported is no part of compiling.
    importlib.import_module("eniac.experiments.program" if old else "eniac.runs.program")
    importlib.import_module("eniac.algorithms")
    jax.block_until_ready(jax.numpy.zeros(()))
    compiling = timed(lambda: subject(depth, seeds))
    measure = compiling.pop("result")
    say({f"compile_{name}": value for name, value in compiling.items()})
    for line in sys.stdin:
        say(time_parts(depth) if line.strip() == "parts" else measure() | {"memory": resident()})


def say(answer: dict[str, float]) -> None:
    print(json.dumps(answer), flush=True)


# The parent.


class Contender:
    """One checkout in a process that waits for its turn."""

    def __init__(self, checkout: Path, depth: int, seeds: int):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(depth), str(seeds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(checkout / "src"), "ENIAC_CACHE": ""},
        )
        self.compiling = self.read()

    def read(self) -> Times:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a process ended with code {self.process.wait()}; see above")
        return json.loads(line)

    def ask(self, what: str = "round") -> Times:
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def compile_alone(checkout: Path, depth: int, seeds: int) -> Times:
    contender = Contender(checkout, depth, seeds)
    contender.close()
    return contender.compiling


def compare(depth: int, args: argparse.Namespace) -> dict[str, Any]:
    """One row of the results: medians of this checkout, those of the other, and their ratios."""
    checkouts = {"this": HERE} | ({"baseline": args.baseline} if args.baseline else {})
    compiled: dict[str, list[Times]] = {name: [] for name in checkouts}
    asked: dict[str, list[Times]] = {name: [] for name in checkouts}
    for _ in range(args.compiles - 1):
        for name, checkout in checkouts.items():
            compiled[name].append(compile_alone(checkout, depth, args.seeds))
    with ExitStack() as stack:
        contenders = {}
        for name, checkout in checkouts.items():
            contenders[name] = Contender(checkout, depth, args.seeds)
            stack.callback(contenders[name].close)
            compiled[name].append(contenders[name].compiling)
            print(
                f"depth {depth}, {name}: compiled in",
                *(
                    f"{times['compile_s']:.1f} s (CPU {times['compile_cpu_s']:.1f} s)"
                    for times in compiled[name]
                ),
                flush=True,
            )
        for name in checkouts:
            contenders[name].ask()  # the first is not counted
        for turn in range(args.rounds):
            for name in checkouts:
                asked[name].append(contenders[name].ask())
            print(
                f"depth {depth}, turn {turn + 1} of {args.rounds}:",
                *(
                    f"{name} {asked[name][-1]['round_s']:.2f} s "
                    f"(CPU {asked[name][-1]['round_cpu_s']:.2f} s)"
                    for name in checkouts
                ),
                flush=True,
            )
        parts = contenders["this"].ask("parts")
    row: dict[str, Any] = {"depth": depth, "seeds": args.seeds}
    for name in checkouts:
        measured = medians(compiled[name]) | medians(asked[name])
        memory = [times["memory"] for times in asked[name]]
        measured |= {"memory_mb": memory[0], "memory_growth_mb": memory[-1] - memory[0]}
        measured["steps_per_second"] = 1e6 / measured["round_s"]
        del measured["memory"]
        if name == "this":
            row |= rounded(measured | parts)
        else:
            row["baseline"] = rounded(measured)
            row["ratio"] = rounded(ratios(compiled) | ratios(asked))
    return row


def medians(times: list[Times]) -> Times:
    return {name: statistics.median(one[name] for one in times) for name in times[0]}


def ratios(times: dict[str, list[Times]]) -> Times:
    """The median over the turns of this over the baseline."""
    pairs = list(zip(times["this"], times["baseline"], strict=True))
    return {
        name: statistics.median(ours[name] / theirs[name] for ours, theirs in pairs)
        for name in times["this"][0]
    }


def rounded(times: Times) -> Times:
    return {name: round(value, 4) for name, value in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--depths", type=int, nargs="*", default=[2, 4, 6], choices=[2, 4, 6])
    parser.add_argument("--seeds", type=int, default=1, help="seeds, one after another")
    parser.add_argument("--rounds", type=int, default=3, help="turns that are timed")
    parser.add_argument("--compiles", type=int, default=1, help="compilations that are timed")
    parser.add_argument("--baseline", type=Path, help="another checkout to measure beside this one")
    parser.add_argument("--serve", type=int, nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(*args.serve)
        return
    results = {}
    if RESULTS.exists():
        results = {(row["depth"], row["seeds"]): row for row in json.loads(RESULTS.read_text())}
    for depth in args.depths:
        results[depth, args.seeds] = compare(depth, args)
        RESULTS.parent.mkdir(exist_ok=True)
        ordered = [results[place] for place in sorted(results)]
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    show([results[depth, args.seeds] for depth in args.depths])


def show(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="A round of ENIAC (paper's settings, a million steps) on one core")
    names = ("depth", "", "compile", "a round", "with width", "steps/s", "memory")
    for name in (*names, "PPO minibatch", "width step"):
        table.add_column(name, justify="right")
    for row in rows:
        for name, times in (("this", row), ("baseline", row.get("baseline"))):
            if times is None:
                continue
            table.add_row(
                str(row["depth"]),
                name,
                f"{times['compile_s']:.1f} s",
                f"{times['round_s']:.2f} s",
                f"{times['round_with_fit_s']:.2f} s",
                f"{times['steps_per_second']:,.0f}",
                f"{times['memory_mb']:.0f} + {times['memory_growth_mb']:.0f} MiB",
                *(
                    f"{times[f'{part}_us']:.0f} us, {times[f'{kind}_share_of_peak']:.0%} of peak"
                    for part, kind in (("ppo_minibatch", "ppo"), ("width_step", "width"))
                    if name == "this"
                ),
            )
        if "ratio" in row:
            for clock in ("s", "cpu_s"):
                table.add_row(
                    str(row["depth"]),
                    "ratio" if clock == "s" else "of CPU time",
                    *(
                        f"{row['ratio'][f'{what}_{clock}']:.2f}"
                        for what in ("compile", "round", "round_with_fit")
                    ),
                )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
