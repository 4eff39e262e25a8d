"""What a small run's memory consists of, and whether it stays the same over a thousand epochs.

    python benchmarks/memory.py              # all kinds; a minute each
    python benchmarks/memory.py eniac-host   # one of them

For each kind a process of its own prints its resident memory in MB: before anything is imported,
after JAX, after eniac, before and after compiling, after the first epoch and after every hundredth;
the most that it ever had; and the slope of a straight line through the last nine hundred epochs.
The programs are compiled anew, unless --cache is given.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = ("ppo", "eniac", "ppo-host", "eniac-host", "spi")


def resident() -> int:
    """MB of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


class Watch:
    """Where a run prints to; notes the memory at the moments that it speaks of."""

    encoding = "utf-8"

    def __init__(self, moments: dict[str, int], epochs: list[int]):
        self.moments = moments
        self.words = {"Compiling": "before compiling"}
        self.words |= {f"epoch {n}/": f"after epoch {n}" for n in epochs}

    def write(self, text: str) -> int:
        for word, moment in self.words.items():
            if text.startswith(word):
                self.moments[moment] = resident()
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def measure(kind: str, epochs: int) -> None:
    moments = {"python": resident()}
    import jax

    moments["import jax"] = resident()
    from dataclasses import replace

    from rich.console import Console

    from eniac import ALGORITHMS, Config, Evaluation
    from eniac.runs import engine, program

    moments["import eniac"] = resident()
    name, _, where = kind.partition("-")
    small: dict = {"num_envs": 4, "rollout_length": 8, "updates_per_round": 1, "hidden": (8,)}
    if name == "eniac":
        small |= {"visit_steps": 16, "visit_envs": 4, "capacity": epochs, "rounds": 1}
        bonus = replace(ALGORITHMS["eniac"].default.bonus, outer=2, inner=2, buffer_batch=8)
        small["bonus"] = bonus
    if name == "spi":
        name, small = "eniac-spi-sample", {"N": epochs, "K": 20, "T": 1, "M": 20, "m": 5.0}
    env = {"host": "FrozenLake-v1"}.get(where, "DeepSea-3")
    compile_it = program.CompiledProgram.compile

    def watched(self: program.CompiledProgram, states: object) -> None:
        compile_it(self, states)
        moments["compiled"] = resident()

    program.CompiledProgram.compile = watched
    with tempfile.TemporaryDirectory() as folder:
        config = Config(
            replace(ALGORITHMS[name].default, **small),
            env=env,
            horizon=6,
            epochs=epochs,
            evaluation=Evaluation(episodes=2),
            out=Path(folder) / "run",
        )
        told = [1, *range(100, epochs + 1, 100)]
        engine.train(config, console=Console(file=Watch(moments, told)))  # pyright: ignore
    moments["most"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10
    devices = f"{len(jax.devices())} devices"
    print(f"{kind} ({devices}): " + ", ".join(f"{key} {n}" for key, n in moments.items()))
    later = [n for n in told if n >= 100]
    if len(later) > 1:
        grown = [moments[f"after epoch {n}"] for n in later]
        slope = statistics.linear_regression(later, grown).slope
        print(f"{kind}: {1000 * slope:+.1f} MB in a thousand epochs, from epoch 100 on", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # pyright: ignore
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument(
        "--cache", action="store_true", help="take compiled programs from the cache"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        measure(given.kinds[0], given.epochs)
        return
    env = os.environ if given.cache else os.environ | {"ENIAC_CACHE": ""}
    for kind in given.kinds or KINDS:
        if kind not in KINDS:
            parser.error(f"{kind} is none of {', '.join(KINDS)}")
        command = [sys.executable, __file__, kind, "--here", "--epochs", str(given.epochs)]
        subprocess.run(command, env=env, check=True)


if __name__ == "__main__":
    main()
