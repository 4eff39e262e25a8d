"""Where the time of a run of Figure 1 goes, from the start of its process to the final judgement.

Each kind of run has a process of its own, twice: the first fills the cache of compiled programs,
the second is measured. Seconds are of processor time, so that other work on the machine counts
little. Two epochs are trained, in the second of which the exploiting policy learns too.

    taskset -c 0 python benchmarks/reproduce_speed.py [--depths 2 6]

Prints a table; docs/reproduce.md has one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PARTS = ("process and imports", "build and trace", "compile or load", "epochs", "write", "judge")
ALGORITHMS = ("eniac", "pc-pg", "ppo")
EPOCHS = 2


def one(algorithm: str, settings: str, depth: int) -> list[float]:
    """Seconds of each part, in this process, from its start on; and the steps of its epochs."""
    seconds = [time.process_time()]

    def lap() -> None:
        seconds.append(time.process_time() - sum(seconds))

    import jax
    import numpy as np

    from eniac.reproduce.figure1 import flags
    from eniac.reproduce.judged import judge_result
    from eniac.reproduce.make import config_of
    from eniac.reproduce.tasks import car
    from eniac.reproduce.wanted import Wanted
    from eniac.runs.cache import prepare_jax
    from eniac.runs.export import export_policies
    from eniac.runs.load import Run
    from eniac.runs.program import make_program
    from eniac.runs.progress import Progress

    run = Wanted(car(depth, episodic=False), algorithm, 100, flags(settings, depth))
    seconds = [time.process_time()]
    prepare_jax()
    built = config_of(run).build()
    program = make_program(built)
    states = program.init()
    lap()
    program.compile(states)
    lap()
    progress = Progress.start(1)
    for _ in range(EPOCHS):
        active = np.array([True])
        states, metrics = program.epoch(states, active, None)
        progress = progress.advance(active, metrics, 1.0)
    lap()
    states = jax.device_get(states)
    with tempfile.TemporaryDirectory() as folder:
        export_policies(Path(folder) / "policy", built.config, built.learner, states, progress)
        lap()
        judge_result(Run(Path(folder), built, states, progress, []), run.of, run.seed)
    lap()
    return [*seconds, float(progress.steps[0])]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--depths", type=int, nargs="+", default=[2, 4, 6])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        algorithm, settings, depth = arguments.one
        print(json.dumps(one(algorithm, settings, int(depth))))
        return
    print(f"| run | steps | {' | '.join(PARTS)} |\n| --- | --- |{' --- |' * len(PARTS)}")
    for settings, depth, algorithm in itertools.product(
        ("paper", "ours"), arguments.depths, ALGORITHMS
    ):
        command = [sys.executable, __file__, "--one", algorithm, settings, str(depth)]
        environment = os.environ | {"JAX_NUM_CPU_DEVICES": "1"}
        for _ in range(2):
            done = subprocess.run(command, env=environment, check=True, capture_output=True)
        *seconds, steps = json.loads(done.stdout)
        cells = [f"{settings}, depth {depth}, {algorithm}", f"{steps / 1e6:.2f} M"]
        print(f"| {' | '.join([*cells, *(f'{x:.1f}' for x in seconds)])} |", flush=True)


if __name__ == "__main__":
    main()
