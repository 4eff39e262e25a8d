"""Who explores: every algorithm on every task of "Do I need a bonus?" (docs/exploration.md).

A run is one task, one algorithm, one seed. It goes on until the mean return of 100 episodes passes
the task's threshold, or to the task's limit of environment steps, and is one small file:
docs/results/exploration/TASK/ALGORITHM-SEED.json. Each run has a process of its own, on one core. A
run whose file is there is not made again, one that was interrupted or killed goes on from its last
checkpoint (Stable-Baselines3's begins anew). Calls side by side share the seeds: a run that another
process is making is left out.

    python benchmarks/exploration.py --list                        tasks and algorithms
    python benchmarks/exploration.py lock-5 eniac                  seeds 0 to 9
    python benchmarks/exploration.py lock-5 eniac --core 1         the same, on core 1 only
    python benchmarks/exploration.py deep-sea-10 ppo --seeds 5 --first-seed 100 --to-the-end
    python benchmarks/exploration.py lock-5 eniac -- --restart 0   a variant, kept under its flags
    python benchmarks/exploration.py --table                       writes the tables of the page
    python benchmarks/exploration.py --plot                        draws docs/images/exploration.png

What differs from task to task is what defines the task: environment, kind of episodes, depth, the
keys of an observation, how the result is judged. All else are an algorithm's defaults; only
Stable-Baselines3's (exploration_sb3.py, run by .venv-bench's Python) are tuned by task.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import platform
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results" / "exploration"
PAGE = ROOT / "docs" / "exploration.md"
PICTURE = ROOT / "docs" / "images" / "exploration.png"
BENCH_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"

EPISODES = 100
"""Episodes that decide whether a task is solved, and fresh ones of the final judgement."""
FRESH = 20_260_000
"""Seed of the final judgement's episodes, which nothing else draws from."""
MOST_POINTS = 200
"""Points of a curve in a file."""
REFUSED, ELSEWHERE = 2, 75
"""Exit codes of a run's process: it cannot be made at all; another process is making it."""

OURS = ("eniac", "pc-pg", "zero", "ppo-rnd", "ppo")
SB3 = ("sb3-ppo", "sb3-sac")
ALGORITHMS = (*OURS, *SB3)

Result = dict[str, Any]
"""The content of a run's file."""


@dataclass(frozen=True)
class Task:
    family: str
    env: str
    threshold: float
    limit: int
    """environment steps within which it is to be solved"""
    at_least: bool = False
    """whether a return equal to the threshold is enough; else it has to be above"""
    depth: int | None = None
    episodic: bool = False
    keys: tuple[str, ...] = ()
    seeded: bool = False
    """whether the environment itself is drawn by the run's seed, so that ten seeds are ten codes"""
    greedy: bool = False
    """whether a policy is judged by its most likely actions"""
    continuous: bool = False

    def solves(self, mean_return: float) -> bool:
        return mean_return > self.above

    @property
    def above(self) -> float:
        """What `--return-above` is given. Returns are sums in float32."""
        return round(self.threshold - 1e-6, 7) if self.at_least else self.threshold

    def options(self, seed: int) -> list[str]:
        """What `eniac train` has to know of the task."""
        words = ["--env", self.env]
        words += ["--env-options", "seed", str(seed)] if self.seeded else []
        words += ["--observation-keys", *self.keys] if self.keys else []
        words += ["--depth", str(self.depth)] if self.depth else []
        words += ["--episodes", "episodic"] if self.episodic else []
        words += ["--evaluation.episodes", str(EPISODES)]
        return words + (["--evaluation.deterministic"] if self.greedy else [])

    @property
    def goal(self) -> str:
        words = f"{'at least' if self.at_least else 'above'} {self.threshold:g}"
        return words + (", greedy" if self.greedy else "")

    def algorithms(self) -> tuple[str, ...]:
        """Stable-Baselines3 has no use for environments in JAX, nor its SAC for discrete
        actions."""
        ours_only = self.seeded
        return OURS + (() if ours_only else SB3 if self.continuous else SB3[:1])


def _tasks() -> Iterator[tuple[str, Task]]:
    for episodic, depth in itertools.product((False, True), (2, 4, 6)):
        name = f"mountain-car-{'episodic-' if episodic else ''}{depth}"
        family = "Continuous mountain car, " + ("episodic" if episodic else "continuing")
        yield (
            name,
            Task(
                *(family, "MountainCarContinuous-v0", 93, 10_000_000 if episodic else 5_000_000),
                depth=depth,
                episodic=episodic,
                continuous=True,
            ),
        )
    for length in (2, 5, 10, 15, 25):
        lock = f"CombinationLock-{length}"
        task = Task("Combination lock", lock, 3.8, 20_000_000, at_least=True, seeded=True)
        yield f"lock-{length}", task
    for size in (10, 20, 30, 50):
        task = Task(
            *("Deep sea", f"DeepSea-{size}", 0.95 * 0.99, 20_000_000),
            at_least=True,
            seeded=True,
            greedy=True,
        )
        yield f"deep-sea-{size}", task
    yield (
        "cartpole-swingup-sparse",
        Task(
            *("Sparse swing-up of dm_control", "envpool:CartpoleSwingupSparse-v1", 700, 3_000_000),
            continuous=True,
        ),
    )
    for name, id in {
        "doorkey-8x8": "DoorKey-8x8",
        "multiroom-n4-s5": "MultiRoom-N4-S5",
        "keycorridor-s3r3": "KeyCorridorS3R3",
        "lockedroom": "LockedRoom",
        "obstructedmaze-2dlh": "ObstructedMaze-2Dlh",
    }.items():
        env = f"envpool:MiniGrid-{id}-v0"
        yield name, Task("MiniGrid", env, 0.7, 10_000_000, keys=("image", "direction"))
    classic = "Classic control"
    yield "mountain-car-v0", Task(classic, "envpool:MountainCar-v0", -110, 2_000_000)
    yield "acrobot-v1", Task(classic, "envpool:Acrobot-v1", -100, 1_000_000)
    yield "pendulum-v1", Task(classic, "envpool:Pendulum-v1", -200, 1_000_000, continuous=True)
    yield "cartpole-v1", Task(classic, "envpool:CartPole-v1", 475, 1_000_000)


TASKS: dict[str, Task] = dict(_tasks())


@dataclass(frozen=True)
class Wanted:
    """A run that was asked for."""

    task: str
    algorithm: str
    seed: int
    flags: tuple[str, ...]
    """for `eniac train`, beside those of the task"""
    limit: int
    to_the_end: bool
    results: Path
    runs: Path
    keep: bool

    @property
    def name(self) -> str:
        return f"{variant(self.algorithm, self.flags)}-{self.seed}"

    @property
    def file(self) -> Path:
        return self.results / self.task / f"{self.name}.json"

    @property
    def folder(self) -> Path:
        """Where it is made. One that goes on when it has solved the task is another run."""
        return self.runs / self.task / (self.name + ("-to-the-end" if self.to_the_end else ""))

    def is_done(self) -> bool:
        """Whether its file says all that was asked for."""
        if not self.file.exists():
            return False
        result = json.loads(self.file.read_text())
        solved = result["solved_at"] is not None
        return result["steps"] >= self.limit or (solved and not self.to_the_end)

    def keep_result(self, **more: Any) -> None:
        write(
            self.file,
            {
                "task": self.task,
                "algorithm": self.algorithm,
                "flags": list(self.flags),
                "seed": self.seed,
                "limit": self.limit,
                "to_the_end": self.to_the_end,
                **more,
            },
        )


def variant(algorithm: str, flags: Sequence[str]) -> str:
    """The name of an algorithm with other settings than its own: `eniac+restart-0`."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", " ".join(flags)).strip("-")
    return f"{algorithm}+{words}" if words else algorithm


def write(path: Path, result: Result) -> None:
    """Writes a file that is whole or not there, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with open(temporary, "w") as file:
        file.write(json.dumps(result, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def machine() -> dict[str, Any]:
    model = ""
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        model = found[1] if found else ""
    cores = len(os.sched_getaffinity(0))
    return {"processor": model or platform.machine(), "cores": cores, "of": os.cpu_count()}


def git(*arguments: str) -> str | None:
    words = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def thinned(curve: list[Any], solved: int | None) -> list[Any]:
    """At most `MOST_POINTS` or a few more: evenly, the last, and the one that solved the task."""
    step = -(-len(curve) // MOST_POINTS) or 1
    kept = {*range(0, len(curve), step), len(curve) - 1, *([] if solved is None else [solved])}
    return [curve[place] for place in sorted(kept) if place >= 0]


# Making runs


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
        results = read_results(arguments.results)
        if arguments.plot:
            draw(results, PICTURE)
        if arguments.table:
            PAGE.write_text(with_tables(PAGE.read_text(), results))
        return 0
    task = TASKS[arguments.task]
    first = arguments.first_seed
    wanted = [
        Wanted(
            arguments.task,
            arguments.algorithm,
            seed,
            flags,
            arguments.steps or task.limit,
            arguments.to_the_end,
            arguments.results,
            arguments.runs,
            arguments.keep,
        )
        for seed in range(first, first + arguments.seeds)
    ]
    if arguments.one:
        return make_here(wanted[0], arguments.core)
    return make_all(wanted, words, arguments)


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
    parser.add_argument("--table", action="store_true", help="write the tables of the page")
    parser.add_argument("--plot", action="store_true", help="draw the curves")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
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


def make_all(wanted: list[Wanted], words: list[str], arguments: argparse.Namespace) -> int:
    """Makes each run that is not done in a process of its own."""
    sb3 = arguments.algorithm in SB3
    python = str(arguments.bench_python.absolute()) if sb3 else sys.executable
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "JAX_NUM_CPU_DEVICES": "1"}
    flags = ["--", *wanted[0].flags] if wanted[0].flags else []
    own = words[: words.index("--")] if "--" in words else words
    failed = left_out = 0
    for run in wanted:
        if run.is_done():
            continue
        print(f"{run.task} {run.name}", flush=True)
        one = ["--one", "--first-seed", str(run.seed), "--seeds", "1"]
        process = subprocess.Popen([python, __file__, *own, *one, *flags], env=environment)
        code = wait(process)
        if code == REFUSED or code > 128:
            return code
        left_out += code == ELSEWHERE
        failed += code not in (0, ELSEWHERE)
        if code not in (0, ELSEWHERE):
            print(f"{run.task} {run.name} failed with code {code}", file=sys.stderr, flush=True)
    if left_out:
        print(f"{left_out} left to other processes that are making them")
    return 1 if failed else 0


def wait(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a run's process, which finishes its epoch after a Ctrl-C and saves; after
    one it is 130."""
    interrupted = False
    while True:
        try:
            code = process.wait()
            return 128 + signal.SIGINT if interrupted else code
        except KeyboardInterrupt:
            interrupted = True
            print("waiting for the run to save what it has", file=sys.stderr, flush=True)


def make_here(run: Wanted, core: int | None) -> int:
    """Makes a run in this process, unless another one does."""
    # When the process that we work for is killed, we save what there is and end.
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0)) if core is None else core})
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    with open(run.folder.parent / f"{run.name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ELSEWHERE
        if run.is_done():  # by now
            return 0
        if run.algorithm in SB3:
            from exploration_sb3 import make

            return make(run, TASKS[run.task])
        return make_ours(run, TASKS[run.task])


def make_ours(run: Wanted, task: Task) -> int:
    """Trains, or goes on with what is there; judges the incumbent; writes the file."""
    from eniac.cli.options import parse_config
    from eniac.errors import ConfigError, EniacError
    from eniac.runs import engine
    from eniac.runs.load import load_run
    from eniac.runs.manifest import read_manifest

    options = [run.algorithm, *task.options(run.seed), "--seed", str(run.seed)]
    options += ["--steps", str(run.limit)]
    options += [] if run.to_the_end else ["--return-above", repr(task.above)]
    options += [*run.flags]
    command = shlex.join(["eniac", "train", *options])
    print(f"  {command}", flush=True)
    compiling = Compiling(run.folder.with_name(run.folder.name + ".compiling"))
    try:
        often = [] if "--checkpoint-every" in run.flags else ["--checkpoint-every", "1"]
        config = parse_config([*options, *often, "--out", str(run.folder)])
        if not can_go_on(run.folder, config.to_dict()):
            shutil.rmtree(run.folder, ignore_errors=True)
            compiling.forget()
            result = engine.train(config)
        elif not has_ended(run, task):
            result = engine.resume(run.folder, steps=run.limit)
        else:
            result = None
        if result is not None and result.signal is not None:
            return 128 + result.signal
        compiled = compiling.total
        loaded = load_run(run.folder)
        final = judge_result(loaded, task, run.seed)
    except EniacError as error:
        print(error, file=sys.stderr)
        return REFUSED if isinstance(error, ConfigError) else 1
    curve, seconds = read_curve(run.folder, task)
    if not loaded.learner.compiled:
        # On the host nearly all is compiled in the first epoch, when it is first needed.
        seconds = [max(second - compiled, 0.0) for second in seconds]
    session = read_manifest(run.folder)["sessions"][-1]
    solved = next((k for k, point in enumerate(curve) if task.solves(point[1])), None)
    run.keep_result(
        command=command,
        commit=session["commit"],
        versions=session["versions"],
        machine=machine(),
        solved_at=None
        if solved is None
        else {"steps": curve[solved][0], "seconds": round(seconds[solved], 2)},
        steps=curve[-1][0],
        seconds=round(seconds[-1], 2),
        compile_seconds=round(compiled, 1),
        final=final,
        curve=thinned(curve, solved),
    )
    if not run.keep:
        shutil.rmtree(run.folder)
        compiling.forget()
    return 0


def can_go_on(folder: Path, asked: dict[str, Any]) -> bool:
    """Whether what is in `folder` was begun with the same settings and the same program."""
    from eniac.runs.load import load_asked
    from eniac.runs.manifest import read_manifest

    if not (folder / "config.json").exists():
        return False
    stops = ("steps", "out")
    before = {name: value for name, value in load_asked(folder).items() if name not in stops}
    now = {name: value for name, value in asked.items() if name not in stops}
    sessions = read_manifest(folder).get("sessions") or [{}]
    # Commits that leave the source alone, such as those of results, change nothing.
    then = str(sessions[-1].get("commit") or "HEAD").split()[0]
    same = git("rev-parse", f"{then}:src/eniac") == git("rev-parse", "HEAD:src/eniac")
    if json.loads(json.dumps(before)) != json.loads(json.dumps(now)) or not same:
        print("  what was begun had other settings or another program: it begins anew", flush=True)
        return False
    return True


def has_ended(run: Wanted, task: Task) -> bool:
    """Whether the run in the folder has come to its end, and only its file is missing."""
    from eniac.runs.manifest import ended_well, read_manifest

    manifest = read_manifest(run.folder)
    if not ended_well(manifest) or str(manifest.get("ended")).startswith("interrupted"):
        return False
    curve, _ = read_curve(run.folder, task)
    solved = any(task.solves(point[1]) for point in curve)
    return bool(curve) and (curve[-1][0] >= run.limit or (solved and not run.to_the_end))


class Compiling:
    """The seconds that XLA has compiled for a run, in all its sessions: lines of a file."""

    def __init__(self, path: Path):
        import jax

        self.path = path
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, seconds: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            with open(self.path, "a") as file:
                file.write(f"{seconds:.6f}\n")

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)

    @property
    def total(self) -> float:
        return sum(map(float, self.path.read_text().split())) if self.path.exists() else 0.0


def judge_result(run: Any, task: Task, seed: int) -> dict[str, Any]:
    """The incumbent of a run, or its policy if there is none, in fresh episodes."""
    import jax

    from eniac.report.evaluate import judge
    from eniac.runs.program import take_seed
    from eniac.sampling.base import Evaluation

    state = take_seed(run.states, 0)
    incumbent = getattr(state, "incumbent", None)
    policy = run.learner.policy(state) if incumbent is None else incumbent.acting
    evaluation = Evaluation(EPISODES, run.config.evaluation.horizon, task.greedy)
    with contextlib.closing(run.learner), judge(run.env, evaluation) as play:
        found = play(jax.random.fold_in(jax.random.key(FRESH), seed), policy)
    return {"episodes": EPISODES, **{name: round(x, 4) for name, x in found.items()}}


EXPLOITING = ("exploit/return_mean", "exploit/sampled_return", "return_exploit", "sampled_return")
"""Names under which a round may report the return of the policy that learns from rewards."""


def read_curve(folder: Path, task: Task) -> tuple[list[list[Any]], list[float]]:
    """After every round the steps, the incumbent's return and the exploiting policy's (None before
    it learns); and the seconds of training until then."""
    from eniac.runs.log import METRICS, TIMINGS, read_records

    names = [name.replace("sampled", "greedy") if task.greedy else name for name in EXPLOITING]
    so_far = {row["epoch"]: row["seconds_so_far"] for row in read_records(folder / TIMINGS)}
    records = read_records(folder / METRICS)
    ends = {row["epoch"]: row["env_steps"] for row in records}
    curve, seconds = [], []
    for row in records:
        exploiting = next((row[name] for name in names if row.get(name) is not None), None)
        idle = row.get("exploit/entropy") == 0 and exploiting == 0
        curve.append([row["env_steps"], row["return_mean"], None if idle else exploiting])
        # An epoch is timed as a whole: a round in it by its share of the steps.
        before, after = so_far.get(row["epoch"] - 1, 0.0), so_far[row["epoch"]]
        begin, end = ends.get(row["epoch"] - 1, 0), ends[row["epoch"]]
        seconds.append(before + (after - before) * (row["env_steps"] - begin) / (end - begin))
    return [[n, *(x if x is None else round(x, 4) for x in xs)] for n, *xs in curve], seconds


# What has been measured


def read_results(folder: Path = RESULTS) -> list[Result]:
    """All files, by task, algorithm and seed."""
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("*/*.json"))]
    order = {name: place for place, name in enumerate(ALGORITHMS)}
    return sorted(
        results,
        key=lambda r: (order[r["algorithm"]], variant(r["algorithm"], r["flags"]), r["seed"]),
    )


HEAD = """\
| task | algorithm | solved | median steps | median seconds | final return | at the end | limit |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def with_tables(page: str, results: list[Result]) -> str:
    """The page with its tables as `results` have them, between the markers."""
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    return head + BEGIN + "\n" + tables(results) + END + tail


def tables(results: list[Result]) -> str:
    """A table for each family of tasks: first the algorithms as they are, then their variants, and
    what is missing."""
    text = ""
    for family, members in itertools.groupby(TASKS, key=lambda name: TASKS[name].family):
        names = list(members)
        rows, missing = [], []
        for name in names:
            of_task = [result for result in results if result["task"] == name]
            found = {variant(r["algorithm"], r["flags"]) for r in of_task}
            fitting = TASKS[name].algorithms()
            for algorithm in (*fitting, *sorted(found - set(fitting))):
                chosen = [r for r in of_task if variant(r["algorithm"], r["flags"]) == algorithm]
                if chosen:
                    rows.append(row(name, algorithm, chosen))
            absent = [algorithm for algorithm in fitting if algorithm not in found]
            if absent:
                whole = len(absent) == len(fitting)
                missing.append(f"{name} ({'all' if whole else ', '.join(absent)})")
        goals = " or ".join(dict.fromkeys(f"{TASKS[name].goal}" for name in names))
        if len({TASKS[name].goal for name in names}) > 1:
            goals = "; ".join(f"{name} {TASKS[name].goal}" for name in names)
        text += f"\n### {family}\n\nSolved: {goals}.\n"
        text += "\n" + "\n".join([HEAD, *rows]) + "\n" if rows else ""
        text += f"\nNot measured yet: {'; '.join(missing)}.\n" if missing else ""
    picture = f"\n![Curves of all runs](images/{PICTURE.name})\n" if PICTURE.exists() else ""
    return text + picture + "\n"


def row(name: str, algorithm: str, results: list[Result]) -> str:
    """A line of a table. A seed that was solved only beyond the task's limit was not solved; it
    and those that never were count as infinity in both medians."""
    task, never = TASKS[name], float("inf")
    at = [r["solved_at"] or {"steps": never, "seconds": never} for r in results]
    at = [x if x["steps"] <= task.limit else {"steps": never, "seconds": never} for x in at]
    solved = sum(x["steps"] < never for x in at)
    steps, seconds = (statistics.median(x[key] for x in at) for key in ("steps", "seconds"))
    final = [r["final"]["return_mean"] for r in results]
    held = sum(map(task.solves, final))
    cells = [
        name,
        algorithm,
        f"{solved} of {len(results)}",
        "-" if steps == never else short(steps),
        "-" if seconds == never else f"{seconds:,.0f}",
        f"{round(statistics.mean(final), 1 if abs(task.threshold) > 10 else 3) + 0.0:g}",
        f"{held} of {len(results)}",
        short(min(r["limit"] for r in results)),
    ]
    return f"| {' | '.join(cells)} |"


def short(steps: float) -> str:
    return f"{steps / 1e6:.2f} M" if steps >= 1e5 else f"{steps / 1e3:.1f} k"


def draw(results: list[Result], path: Path) -> None:
    """A panel for each task that was tried, a colour for each algorithm, a thin line a seed."""
    from matplotlib import ticker
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from eniac.report.figures import COLOURS
    from eniac.report.plot_style import save

    results = [result for result in results if not result["flags"]]
    names = [name for name in TASKS if any(result["task"] == name for result in results)]
    if not names:
        raise SystemExit("nothing has been measured yet, so there is nothing to draw")
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(2.9 * columns, 2.1 * rows + 0.5), dpi=90, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    # PPO in black: its orange is too near to that of PC-PG in thin lines.
    order = (*COLOURS[:4], COLOURS[6], COLOURS[5], COLOURS[4])
    colours = dict[str, str](zip(ALGORITHMS, order, strict=True))
    for axes, name in itertools.zip_longest(panels, names):
        if name is None:
            axes.axis("off")
            continue
        axes.set_title(name, fontsize=9)
        axes.axhline(TASKS[name].threshold, color="#999999", linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        # Ten to a power is named, and what lies between is a tick: panels are small.
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 3.0)))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x / 1e6:g} M"))
        for result in reversed(results):  # the first algorithm on top
            if result["task"] == name:
                steps = [point[0] for point in result["curve"]]
                returns = [point[1] for point in result["curve"]]
                colour = colours[result["algorithm"]]
                axes.plot(steps, returns, color=colour, linewidth=0.7, alpha=0.8)
                axes.plot(steps[-1], returns[-1], ".", color=colour, markersize=4)
        longest = max(r["curve"][-1][0] for r in results if r["task"] == name and r["curve"])
        axes.set_xlim(1e5, max(1.5e6, 1.2 * longest))
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
    seen = [name for name in ALGORITHMS if any(r["algorithm"] == name for r in results)]
    handles = [Line2D([], [], color=colours[name], label=name) for name in seen]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(seen), frameon=False)
    figure.supxlabel("environment steps", fontsize=9)
    figure.supylabel("return of the incumbent, 100 episodes", fontsize=9)
    save(figure, path)


if __name__ == "__main__":
    sys.exit(main())
