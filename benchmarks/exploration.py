"""Who explores: every algorithm on every task of "Do I need a bonus?" (docs/exploration.md).

A run is one task, one algorithm, one seed. It goes on until the mean return of 100 episodes passes
the task's threshold, or to the task's limit of environment steps, and is one small file:
results/runs/TASK/ALGORITHM-SEED.json. Each run has a process of its own, on one core. A
run whose file is there is not made again, one that was interrupted or killed goes on from its last
checkpoint (Stable-Baselines3's begins anew). Calls side by side share the seeds: a run that another
process is making is left out.

    python benchmarks/exploration.py --list                        tasks and algorithms
    python benchmarks/exploration.py lock-5 eniac                  seeds 0 to 9
    python benchmarks/exploration.py lock-5 eniac --core 1         the same, on core 1 only
    python benchmarks/exploration.py deep-sea-10 ppo --seeds 5 --first-seed 100 --to-the-end
    python benchmarks/exploration.py lock-5 eniac -- --restart 0   a variant, kept under its flags
    python benchmarks/exploration.py --table                       the tables of the page

The tasks, and how a run is made, judged and shown, are those of `eniac.reproduce`: `eniac reproduce
exploration` makes the same files. Here are one task and one algorithm at a time, and the rows of
Stable-Baselines3 (exploration_sb3.py, run by .venv-bench's Python), which are tuned by task.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from eniac.errors import ConfigError, EniacError
from eniac.reproduce.tasks import ALGORITHMS, SB3, TASKS
from eniac.reproduce.wanted import Wanted

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
BENCH_PYTHON = ROOT / ".venv-bench" / "bin" / "python"


def main() -> int:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parse(words[:cut])
    flags = tuple(words[cut + 1 :])
    if arguments.list:
        for name, task in TASKS.items():
            print(f"{name:26} {task.goal:24} {task.limit / 1e6:g} M steps   {task.env}")
        print(f"\nalgorithms: {', '.join(ALGORITHMS)}")
        return 0
    if arguments.table or arguments.plot:
        return show(arguments)
    first = arguments.first_seed
    wanted = [
        Wanted(
            arguments.task,
            arguments.algorithm,
            seed,
            flags,
            arguments.steps,
            arguments.to_the_end,
            arguments.results,
            arguments.runs,
            arguments.keep,
        )
        for seed in range(first, first + arguments.seeds)
    ]
    # One at a time: calls side by side are for the other cores.
    core = min(os.sched_getaffinity(0)) if arguments.core is None else arguments.core
    os.sched_setaffinity(0, {core})
    if arguments.algorithm in SB3:
        return make_sb3(wanted, arguments.bench_python)
    from eniac.reproduce.make import config_of
    from eniac.reproduce.work import make_all

    missing = [run for run in wanted if not run.is_done()]
    try:
        for run in missing[:1]:
            config_of(run)  # flags that there are not end it here
        return make_all(missing, workers=1).code
    except EniacError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1


def show(arguments: argparse.Namespace) -> int:
    """Writes the tables of the page and the picture, as `eniac reproduce` does."""
    from eniac.reproduce.choice import Choice
    from eniac.reproduce.figures import find, write_report

    choice = Choice(results=arguments.results)
    (row,) = find("exploration")
    for path in write_report(row, row.report(choice), choice, arguments.results / "figures", "png"):
        print(f"Wrote {path}")
    return 0


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", nargs="?", metavar="TASK")
    parser.add_argument("algorithm", nargs="?", metavar="ALGORITHM")
    parser.add_argument("--seeds", type=int, default=10, help="how many (default: 10)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--steps", type=int, help="limit of steps (default: the task's)")
    parser.add_argument(
        "--to-the-end", action="store_true", help="go on to the limit when it is solved"
    )
    parser.add_argument("--core", type=int, help="the core to run on (default: the first allowed)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of finished runs")
    parser.add_argument("--runs", type=Path, default=Path("runs/exploration"), help="their folder")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the files")
    parser.add_argument(
        "--bench-python", type=Path, default=BENCH_PYTHON, help="one that has Stable-Baselines3"
    )
    parser.add_argument("--list", action="store_true", help="list tasks and algorithms")
    parser.add_argument("--table", action="store_true", help="write the tables and the picture")
    parser.add_argument("--plot", action="store_true", help="the same")
    found = parser.parse_args(words)
    if found.list or found.table or found.plot:
        return found
    if found.task is None or found.algorithm is None:
        parser.error("TASK and ALGORITHM are needed; --list shows them")
    if found.task not in TASKS:
        parser.error(f"no task is called {found.task!r}; there are {', '.join(TASKS)}")
    if found.algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        parser.error(f"no algorithm is called {found.algorithm!r}; there are {known}")
    fitting = TASKS[found.task].algorithms()
    if found.algorithm not in fitting:
        parser.error(f"{found.algorithm} cannot run on {found.task}; {', '.join(fitting)} can")
    for name, least in (("seeds", 1), ("first_seed", 0), ("steps", 1)):
        value = getattr(found, name)
        if value is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} is {value}; it must be {least} or more")
    if found.core is not None and found.core not in os.sched_getaffinity(0):
        parser.error(f"--core is {found.core}; there are {sorted(os.sched_getaffinity(0))}")
    if found.algorithm in SB3 and not found.bench_python.exists():
        parser.error(f"{found.bench_python} is missing: `make bench` makes it, or --bench-python")
    return found


def make_sb3(wanted: list[Wanted], python: Path) -> int:
    """Makes each run that is not done with another Python."""
    failed = 0
    for run in wanted:
        if not run.is_done():
            print(f"{run.task} {run.name}", flush=True)
            program = Path(__file__).with_name("exploration_sb3.py")
            command = [python.absolute(), program, json.dumps(run.to_dict())]
            path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
            environment = os.environ | {"PYTHONPATH": path}
            failed += subprocess.run(command, env=environment, check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
