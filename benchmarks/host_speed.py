"""How fast PPO trains in environments that run on the host: eniac and Stable-Baselines3.

One core; 8,192 steps an update, minibatches of 256, 4 passes, a shared body of (64, 64). eniac
steps gymnasium's environments, and EnvPool's; Stable-Baselines3, which has no EnvPool, gymnasium's
in its DummyVecEnv. Each has its pick of 8, 64 and 512 environments; the fastest of each goes into
the comparison. Everyone lives in a process of its own, pinned to the same core, warms up there and
then waits; they are timed in turns, and ratios are taken within a turn. Wall-clock and processor
time are both told: on a machine that does other things the second is the steadier.

    tools/venv.sh .venv-bench requirements.lock benchmarks/requirements.lock
    .venv-bench/bin/python benchmarks/host_speed.py [--rounds 5] [--quick]

Prints a table and writes benchmarks/results/host_speed.json. The shares say where the time of
eniac goes: stepping environments, choosing actions, copying what was seen, and learning from it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

from ppo_speed import cpu_model, sb3_policy

RESULTS = Path(__file__).parent / "results" / "host_speed.json"
BATCH, MINIBATCH, PASSES, HIDDEN = 8192, 256, 4, (64, 64)
ENVS = (8, 64, 512)
TASKS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "MountainCarContinuous-v0": {},
    "MiniGrid-Empty-8x8-v0": {"keys": ("image", "direction"), "from": ("envpool",)},
}
"""The environments; MiniGrid is EnvPool's only, and there is nothing beside it."""

Report = dict[str, float]
Trial = Callable[[], Report]


def eniac(source: str, task: str, num_envs: int) -> Trial:
    """Epochs without their evaluation, which Stable-Baselines3 has not either."""
    import numpy as np

    from eniac.algorithm1 import epoch
    from eniac.algorithms.deep import NO_INCUMBENT, DeepConfig
    from eniac.runs.cache import prepare_jax
    from eniac.runs.config import Config
    from eniac.sampling.base import Episodes
    from eniac.updates.ppo import PPO

    prepare_jax()
    settings = DeepConfig(
        "ppo",
        HIDDEN,
        num_envs=num_envs,
        rollout_length=BATCH // num_envs,
        updates_per_round=4,
        update=PPO(optimizer="adam", minibatch=MINIBATCH, passes=PASSES),
        incumbent=NO_INCUMBENT,
    )
    keys = TASKS[task].get("keys", ())
    built = Config(settings, env=f"{source}:{task}", observation_keys=keys).build()
    learner: Any = built.learner
    sampler = learner.sampler
    nothing = np.zeros(1, np.float32)
    sampler.evaluate = lambda *_: Episodes(**dict.fromkeys(Episodes._fields, nothing))
    state = learner.init(0)

    def trial() -> Report:
        nonlocal state
        for part in sampler.seconds:
            sampler.seconds[part] = 0.0
        state, metrics = epoch(learner, state, np.inf)
        return {"steps": float(np.sum(metrics["steps"])), **sampler.seconds}

    return trial


def stable_baselines3(source: str, task: str, num_envs: int) -> Trial:
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    assert source == "gymnasium"
    torch.set_num_threads(1)
    agent = PPO(
        "MlpPolicy",
        # The checker would only slow it down.
        DummyVecEnv([lambda: gymnasium.make(task, disable_env_checker=True)] * num_envs),
        n_steps=BATCH // num_envs,
        batch_size=MINIBATCH,
        n_epochs=PASSES,
        seed=0,
        device="cpu",
        policy_kwargs=sb3_policy(HIDDEN, shared=True),
    )

    def trial() -> Report:
        before = agent.num_timesteps
        agent.learn(2 * BATCH, reset_num_timesteps=before == 0)
        return {"steps": float(agent.num_timesteps - before)}

    return trial


LIBRARIES = {"eniac": eniac, "stable-baselines3": stable_baselines3}


def serve(library: str, source: str, task: str, num_envs: int, core: int) -> None:
    """The process of one contender: warm up, then a trial for every line of stdin."""
    if core >= 0:
        os.sched_setaffinity(0, {core})  # before the import, so that no pool is sized for more
    trial = LIBRARIES[library](source, task, num_envs)

    def timed() -> Report:
        wall, cpu = time.perf_counter(), time.process_time()
        report = trial()
        spent = {"s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
        return report | spent

    # Everything is compiled after the first; how many episodes end at once decides on some shapes,
    # which is why there is a second.
    warm = [timed() for _ in range(2)]
    print(json.dumps(warm[-1]), flush=True)
    for _ in sys.stdin:
        print(json.dumps(timed()), flush=True)


class Contender:
    """One library with one number of environments, in a process that waits for its turn."""

    def __init__(self, library: str, source: str, task: str, num_envs: int, core: int):
        self.library, self.source, self.num_envs = library, source, num_envs
        self.reports: list[Report] = []
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", library, source, task, str(num_envs), str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        )
        self.first = self.read()

    @property
    def name(self) -> str:
        return f"{self.library}, {self.source}"

    def read(self) -> Report:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with code {self.process.wait()}; see above")
        return json.loads(line)

    def ask(self) -> None:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.reports.append(self.read())

    def rates(self, clock: str) -> list[float]:
        """Environment steps a second in each turn."""
        return [report["steps"] / report[clock] for report in self.reports]

    def shares(self) -> Report:
        """Where eniac's wall-clock time goes."""
        total = sum(report["s"] for report in self.reports)
        parts = {
            part: sum(report[part] for report in self.reports) / total
            for part in ("step", "act", "copy")
            if part in self.reports[0]
        }
        return parts | ({"learn": 1 - sum(parts.values())} if parts else {})

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def fastest(library: str, source: str, task: str, args: argparse.Namespace) -> Contender:
    """The contender with the best number of environments, by processor time."""
    best: Contender | None = None
    for num_envs in args.envs:
        one = Contender(library, source, task, num_envs, args.core)
        rate = one.first["steps"] / one.first["cpu_s"]
        print(f"  {task}, {one.name}, {num_envs} environments: {rate:,.0f} steps/s", flush=True)
        if best is None or rate > best.first["steps"] / best.first["cpu_s"]:
            best, one = one, best
        if one is not None:
            one.close()
    assert best is not None
    return best


def compare(task: str, args: argparse.Namespace) -> dict[str, Any]:
    sources = TASKS[task].get("from", ("gymnasium", "envpool"))
    with ExitStack() as stack:
        contenders = [fastest("eniac", source, task, args) for source in sources]
        if "gymnasium" in sources:
            contenders.append(fastest("stable-baselines3", "gymnasium", task, args))
        for contender in contenders:
            stack.callback(contender.close)
        for _ in range(args.rounds):
            for contender in contenders:
                contender.ask()
    result: dict[str, Any] = {}
    for contender in contenders:
        result[contender.name] = {"environments": contender.num_envs} | {
            f"steps_per_{clock}": round(statistics.median(contender.rates(clock)))
            for clock in ("s", "cpu_s")
        }
        if contender.library == "eniac":
            shares = {part: round(share, 3) for part, share in contender.shares().items()}
            result[contender.name]["shares"] = shares
        if "gymnasium" in sources and contender.library == "eniac":
            result[contender.name]["over_stable_baselines3"] = {
                clock: round(
                    statistics.median(
                        ours / theirs
                        for ours, theirs in zip(
                            contender.rates(clock), contenders[-1].rates(clock), strict=True
                        )
                    ),
                    2,
                )
                for clock in ("s", "cpu_s")
            }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--envs", type=int, nargs="*", default=list(ENVS), help="numbers to try")
    parser.add_argument("--rounds", type=int, default=5, help="turns that each one gets")
    parser.add_argument("--quick", action="store_true", help="one turn, 64 environments")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--serve", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        library, source, task, num_envs, core = args.serve
        serve(library, source, task, int(num_envs), int(core))
        return
    if args.quick:
        args.rounds, args.envs = 1, [64]
    results = {task: compare(task, args) for task in args.tasks}
    show(results)
    if args.quick:
        return  # a smoke run must not overwrite what the documentation quotes
    report = {
        "command": " ".join(["python", "benchmarks/host_speed.py", *sys.argv[1:]]),
        "setting": {"batch": BATCH, "minibatch": MINIBATCH, "passes": PASSES, "hidden": HIDDEN},
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "versions": {
            name: metadata.version(name)
            for name in ("eniac", "jax", "gymnasium", "envpool", "stable-baselines3", "torch")
        },
        "tasks": results,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


def show(results: dict[str, dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="PPO in environments on the host, end to end, one core")
    for name in ("environment", "who", "envs", "steps/s", "steps/CPU s", "over SB3", "of CPU time"):
        table.add_column(name, justify="right")
    table.add_column("shares")
    for task, rows in results.items():
        for name, row in rows.items():
            ratio = row.get("over_stable_baselines3", {})
            table.add_row(
                task,
                name,
                str(row["environments"]),
                f"{row['steps_per_s']:,}",
                f"{row['steps_per_cpu_s']:,}",
                *(f"{ratio[clock]:.1f}" if ratio else "" for clock in ("s", "cpu_s")),
                ", ".join(f"{part} {share:.0%}" for part, share in row.get("shares", {}).items()),
            )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
