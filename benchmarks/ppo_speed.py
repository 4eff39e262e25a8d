"""How fast PPO trains on continuous mountain car: eniac, Stable-Baselines3 and rejax side by side.

One core, one seed; 500 environments x 100 steps an update, minibatches of 160, 5 passes, a body of
(64, 64). Each library lives in a process of its own, pinned to the same core, compiles and warms up
there, and then waits. The libraries are timed in turns, round after round, so that whatever else
the machine does falls on all of them alike; ratios are taken within a round.

`make bench` sets up an environment with all three and runs this.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

NUM_ENVS, NUM_STEPS, MINIBATCH, PASSES, HIDDEN = 500, 100, 160, 5, (64, 64)
BATCH = NUM_ENVS * NUM_STEPS
LEARNING_RATE, GAMMA, GAE_LAMBDA, CLIP, ENTROPY, MAX_NORM = 5e-4, 0.99, 0.95, 0.2, 0.01, 5.0
TIME_LIMIT = 999
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("jax", "jaxlib", "gymnasium", "stable-baselines3", "torch", "rejax", "gymnax", "numpy")

# A trial trains for at least so many environment steps and says how many it took.
Trial = Callable[[int], int]


# The three libraries. Each function builds one learner and returns a trial and a line on how it
# differs from the others.


def eniac(setting: dict[str, int]) -> tuple[Trial, str]:
    import jax

    from eniac.algorithm1 import epoch
    from eniac.algorithms.deep import NO_INCUMBENT, DeepConfig
    from eniac.envs import MountainCarContinuous, TimeLimit
    from eniac.sampling.base import Episodes, Evaluation

    config = DeepConfig(
        hidden=HIDDEN,
        num_envs=NUM_ENVS,
        rollout_length=NUM_STEPS,
        updates_per_round=1,
        incumbent=NO_INCUMBENT,
    )
    env = TimeLimit(MountainCarContinuous(), TIME_LIMIT)
    learner = config.build(env, env, Evaluation())
    # The others do not evaluate either.
    nothing = jax.numpy.zeros(1)
    learner.sampler.evaluate = lambda *_: Episodes(nothing, nothing, nothing, nothing.sum())
    one_epoch = jax.jit(lambda state: epoch(learner, state, jax.numpy.inf))
    state = jax.jit(learner.init)(0)

    def trial(at_least: int) -> int:
        nonlocal state
        updates = -(-at_least // BATCH)
        for _ in range(updates):
            state, _ = jax.block_until_ready(one_epoch(state))
        return updates * BATCH

    return trial, "shared body, RMSprop"


def rejax(setting: dict[str, int]) -> tuple[Trial, str]:
    import jax
    from rejax import PPO

    # rejax wants minibatches that divide the batch, which 160 does not do for 500 x 100;
    # 480 x 104 is the nearest shape with minibatches of 160.
    num_envs, num_steps = 480, 104
    batch = num_envs * num_steps
    agent = PPO.create(
        env="MountainCarContinuous-v0",
        env_params={},
        agent_kwargs={"hidden_layer_sizes": HIDDEN, "activation": "relu"},
        num_envs=num_envs,
        num_steps=num_steps,
        num_minibatches=batch // MINIBATCH,
        num_epochs=PASSES,
        learning_rate=LEARNING_RATE,
        gamma=GAMMA,
        gae_lambda=GAE_LAMBDA,
        clip_eps=CLIP,
        ent_coef=ENTROPY,
        max_grad_norm=MAX_NORM,
    )
    # Its `train` evaluates in between; the iteration alone is what the others are timed on.
    iteration = jax.jit(agent.train_iteration)
    state = agent.init_state(jax.random.PRNGKey(0))

    def trial(at_least: int) -> int:
        nonlocal state
        updates = -(-at_least // batch)
        for _ in range(updates):
            state = jax.block_until_ready(iteration(state))
        return updates * batch

    return trial, "480 x 104 steps, separate bodies, Adam"


def sb3_policy(hidden: tuple[int, ...], shared: bool) -> dict[str, Any]:
    """The `policy_kwargs` of Stable-Baselines3 for these layers with ReLU: one body for actor and
    critic, as here, or one for each, as its MLP policy has them."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Body(BaseFeaturesExtractor):
        def __init__(self, space: Any):
            super().__init__(space, hidden[-1])
            sizes = [space.shape[0], *hidden]
            layers = [
                part
                for i, o in itertools.pairwise(sizes)
                for part in (torch.nn.Linear(i, o), torch.nn.ReLU())
            ]
            self.layers = torch.nn.Sequential(*layers)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(x)

    if shared:
        return {"features_extractor_class": Body, "net_arch": []}
    return {"net_arch": list(hidden), "activation_fn": torch.nn.ReLU}


def stable_baselines3(setting: dict[str, int]) -> tuple[Trial, str]:
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    num_envs = setting["envs"]
    if setting["threads"]:
        torch.set_num_threads(setting["threads"])
    # It says that 160 does not divide 50,000. The last minibatch is then of 80 rows, as is ours.
    warnings.filterwarnings("ignore", message="You have specified a mini-batch size")

    def make():
        # The checker and the statistics wrapper would only slow it down.
        return gymnasium.make("MountainCarContinuous-v0", disable_env_checker=True)

    agent = PPO(
        "MlpPolicy",
        DummyVecEnv([make] * num_envs),
        n_steps=BATCH // num_envs,
        batch_size=MINIBATCH,
        n_epochs=PASSES,
        learning_rate=LEARNING_RATE,
        gamma=GAMMA,
        gae_lambda=GAE_LAMBDA,
        clip_range=CLIP,
        ent_coef=ENTROPY,
        max_grad_norm=MAX_NORM,
        seed=0,
        device="cpu",
        policy_kwargs=sb3_policy(HIDDEN, bool(setting["shared"])),
    )

    def trial(at_least: int) -> int:
        steps = -(-at_least // BATCH) * BATCH
        before = agent.num_timesteps
        agent.learn(steps, reset_num_timesteps=before == 0)
        return agent.num_timesteps - before

    body = "shared body" if setting["shared"] else "separate bodies"
    threads = torch.get_num_threads()
    return trial, f"{num_envs} environments, {body}, {threads} torch thread(s), Adam"


LIBRARIES = {"eniac": eniac, "stable-baselines3": stable_baselines3, "rejax": rejax}
COMPILES = {"eniac": True, "stable-baselines3": False, "rejax": True}


def serve(library: str, setting: dict[str, int], core: int) -> None:
    """The process of one library: compile, then a trial for each number of steps on stdin."""
    if core >= 0:
        os.sched_setaffinity(0, {core})  # before the import, so that no pool is sized for more
    trial, note = LIBRARIES[library](setting)

    def timed(at_least: int) -> tuple[int, float]:
        start = time.perf_counter()
        steps = trial(at_least)
        return steps, time.perf_counter() - start

    # The second update may compile again (rejax's does: its first state is weakly typed); the
    # third is the first that only runs. What the first two took beyond it is compilation.
    first, second, third = (timed(1)[1] for _ in range(3)) if COMPILES[library] else (0, 0, 0)
    compiled = max(0.0, first + second - 2 * third)
    print(json.dumps({"compile_seconds": compiled, "note": note}), flush=True)
    for line in sys.stdin:
        steps, seconds = timed(int(line))
        print(json.dumps({"steps": steps, "seconds": seconds}), flush=True)


# The parent.


class Contender:
    """One library at one setting, in a process that waits for its turn."""

    def __init__(self, library: str, setting: dict[str, int], core: int):
        self.library, self.setting, self.rates = library, setting, []
        arguments = ["--serve", library, "--setting", json.dumps(setting), "--core", str(core)]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (threads if setting.get("threads") else {}),
        )
        ready = self.read()
        self.compile_seconds, self.note = ready["compile_seconds"], ready["note"]

    def read(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise SystemExit(
                f"{self.library} stopped with code {self.process.returncode} (its own message is "
                "above). `make bench` sets up an environment with all three libraries."
            )
        return json.loads(line)

    def rate(self, at_least: int) -> float:
        """Environment steps a second over one trial."""
        self.process.stdin.write(f"{at_least}\n")
        self.process.stdin.flush()
        answer = self.read()
        return answer["steps"] / answer["seconds"]

    def time_for(self, seconds: float, quick: bool) -> None:
        """One more trial, as long as `seconds` at the pace of the last (at least one update)."""
        pace = self.rates[-1] if self.rates else self.rate(1)
        self.rates.append(self.rate(1 if quick else int(pace * seconds)))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def sb3_settings(quick: bool) -> Iterator[dict[str, int]]:
    if quick:
        yield {"envs": 500, "threads": 1, "shared": 1}
        return
    for envs in (10, 100, 500):
        for threads in (1, 0):  # 0: what torch chooses
            yield {"envs": envs, "threads": threads, "shared": 1}
    yield {"envs": 500, "threads": 1, "shared": 0}


def best_sb3(
    core: int, quick: bool, say: Callable[[str], None]
) -> tuple[list[Contender], dict[str, float]]:
    """Its two fastest settings over one update each, and what every setting gave.

    Two, because one update on a busy machine may pick the wrong one; the rounds decide.
    """
    tried: dict[str, float] = {}
    best: list[tuple[float, Contender]] = []
    for setting in sb3_settings(quick):
        contender = Contender("stable-baselines3", setting, core)
        rate = contender.rate(1)
        threads = "default" if setting["threads"] == 0 else "1"
        bodies = "shared" if setting["shared"] else "separate"
        name = f"{setting['envs']} envs, torch threads {threads}, {bodies} body"
        tried[name] = rate
        say(f"  stable-baselines3, {name}: {rate:,.0f} steps/s")
        best = sorted([*best, (rate, contender)], key=lambda pair: pair[0], reverse=True)
        for _, slow in best[2:]:
            slow.close()
        best = best[:2]
    return [contender for _, contender in best], tried


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run: one short round")
    parser.add_argument("--rounds", type=int, default=7, help="turns that each library gets")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a turn, about")
    parser.add_argument("--core", type=int, default=None, help="which core (-1: do not pin)")
    parser.add_argument("--out", type=Path, default=None, help="JSON file to write")
    parser.add_argument("--serve", choices=LIBRARIES, help=argparse.SUPPRESS)
    parser.add_argument("--setting", type=json.loads, default={}, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.core is None:
        pinnable = hasattr(os, "sched_getaffinity")
        args.core = max(os.sched_getaffinity(0)) if pinnable else -1
    if args.serve:
        serve(args.serve, args.setting, args.core)
        return
    compare(args)


def compare(args: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()

    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    rounds = 1 if args.quick else args.rounds
    say("compiling and warming up ...")
    with ExitStack() as stack:
        ours = Contender("eniac", {}, args.core)
        stack.callback(ours.close)
        other = Contender("rejax", {}, args.core)
        stack.callback(other.close)
        finalists, tried = best_sb3(args.core, args.quick, say)
        for contender in finalists:
            stack.callback(contender.close)
        for i in range(rounds):
            for contender in (ours, *finalists, other):
                contender.time_for(args.seconds, args.quick)
            latest = (f"{c.library} {c.rates[-1]:,.0f}" for c in (ours, *finalists, other))
            say(f"  round {i + 1}/{rounds}: {', '.join(latest)}")

    sb3 = max(finalists, key=lambda c: statistics.median(c.rates))
    contenders = (ours, sb3, other)
    ratios = {
        c.library: [a / b for a, b in zip(ours.rates, c.rates, strict=True)] for c in contenders
    }
    table = Table(title="PPO on continuous mountain car, environment steps/s on one core")
    table.add_column("library")
    for column in ("median", "best", "compile s", "eniac / it"):
        table.add_column(column, justify="right")
    for c in contenders:
        table.add_row(
            f"{c.library} {metadata.version(c.library)}",
            f"{statistics.median(c.rates):,.0f}",
            f"{max(c.rates):,.0f}",
            f"{c.compile_seconds:.1f}",
            "" if c is ours else f"{statistics.median(ratios[c.library]):.1f} x",
        )
    console.print(table)
    for c in contenders:
        say(f"{c.library}: {c.note}")

    # A smoke run must not overwrite the numbers that the documentation quotes.
    out = args.out or RESULTS / ("ppo_speed.quick.json" if args.quick else "ppo_speed.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "command": " ".join(["python", "benchmarks/ppo_speed.py", *sys.argv[1:]]),
        "setting": {
            "environments": NUM_ENVS,
            "steps": NUM_STEPS,
            "minibatch": MINIBATCH,
            "passes": PASSES,
            "hidden": HIDDEN,
        },
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in ("eniac", *PACKAGES)},
        "libraries": {
            c.library: {
                "as_run": c.note,
                "steps_per_second": {
                    "median": round(statistics.median(c.rates)),
                    "best": round(max(c.rates)),
                    "rounds": [round(rate) for rate in c.rates],
                },
                "compile_seconds": round(c.compile_seconds, 2),
                "eniac_over_this": {
                    "median": round(statistics.median(ratios[c.library]), 2),
                    "rounds": [round(ratio, 2) for ratio in ratios[c.library]],
                },
            }
            for c in contenders
        },
        "stable_baselines3_settings": {name: round(rate) for name, rate in tried.items()},
    }
    out.write_text(json.dumps(report, indent=2) + "\n")
    where = out.relative_to(Path.cwd()) if out.is_relative_to(Path.cwd()) else out
    say(f"written: {where}")


if __name__ == "__main__":
    main()
