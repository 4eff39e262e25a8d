"""Do the two paths learn the same? ENIAC, in a small setting, on our mountain car (compiled), on
gymnasium's and on EnvPool's (both on the host), ten seeds each.

The settings are the same, and every rollout starts from a reset, because environments on the host
start afresh where compiled ones go on. After every epoch the return of the exploiting policy and
the reward of the exploring one are compared with those of the compiled path by Mann-Whitney's test;
the p-values of all comparisons are corrected by Holm's method.

    python benchmarks/mountain_car_paths.py [--seeds 10] [--epochs 4]

Writes benchmarks/results/mountain_car_paths.json and docs/images/mountain_car_paths.png.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
from scipy.stats import mannwhitneyu

from eniac.algorithms.deep import DeepConfig
from eniac.bonuses import Width
from eniac.cover import Uniform
from eniac.runs.cache import prepare_jax
from eniac.runs.config import Config
from eniac.runs.program import make_program
from eniac.sampling.base import Evaluation

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "mountain_car_paths.json"
PICTURE = ROOT / "docs" / "images" / "mountain_car_paths.png"
PATHS = {
    "compiled": "MountainCarContinuous-v0",
    "gymnasium": "gymnasium:MountainCarContinuous-v0",
    "EnvPool": "envpool:MountainCarContinuous-v0",
}
MEASURES = {"return_mean": "return", "explore/reward": "reward a step, exploring"}
SMALL = DeepConfig(
    "eniac",
    num_envs=20,
    rollout_length=200,
    updates_per_round=10,
    episodes="episodic",
    cover=Uniform(),
    bonus=Width(outer=200, query_size=2000),
    visit_steps=2000,
    exploit_from=0,
)

Curves = dict[str, np.ndarray]
"""of each measure an array [seeds, epochs]"""


def learn(env: str, seeds: int, epochs: int) -> Curves:
    config = Config(SMALL, env=env, seeds=seeds, evaluation=Evaluation(episodes=20))
    program = make_program(config.build())
    try:
        states = program.init()
        program.compile(states)
        found: dict[str, list[np.ndarray]] = {name: [] for name in MEASURES}
        for _ in range(epochs):
            outcome = program.epoch(states, np.ones(seeds, bool), None)
            states = outcome.states
            for name, values in found.items():
                values.append(outcome.metrics[name][:, -1])
        return {name: np.stack(values, axis=1) for name, values in found.items()}
    finally:
        program.close()


def holm(p: list[float]) -> list[float]:
    """p-values that hold for all of them together (Holm 1979)."""
    corrected, largest = [0.0] * len(p), 0.0
    for rank, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - rank) * p[i]))
        corrected[i] = largest
    return corrected


def compare(curves: dict[str, Curves]) -> list[dict[str, object]]:
    """A test for each path on the host, each measure and each epoch."""
    tests = [
        {
            "path": path,
            "measure": name,
            "epoch": epoch + 1,
            "compiled": round(float(np.median(curves["compiled"][name][:, epoch])), 4),
            "host": round(float(np.median(values[:, epoch])), 4),
            "p": float(mannwhitneyu(curves["compiled"][name][:, epoch], values[:, epoch]).pvalue),
        }
        for path in curves
        if path != "compiled"
        for name, values in curves[path].items()
        for epoch in range(values.shape[1])
    ]
    for test, p in zip(tests, holm([test["p"] for test in tests]), strict=True):
        test["p_holm"] = p
    return tests


def draw(curves: dict[str, Curves]) -> None:
    figure, axes = plt.subplots(1, len(MEASURES), figsize=(8, 3), layout="constrained")
    for axis, (name, label) in zip(axes, MEASURES.items(), strict=True):
        for path, of in curves.items():
            epochs = np.arange(1, of[name].shape[1] + 1)
            (line,) = axis.plot(epochs, np.median(of[name], axis=0), label=path)
            low, high = np.quantile(of[name], [0.25, 0.75], axis=0)
            axis.fill_between(epochs, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
        axis.set(xlabel="epoch", ylabel=label, xticks=epochs)
    axes[0].legend(frameon=False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    prepare_jax()
    curves: dict[str, Curves] = {}
    for path, env in PATHS.items():
        start = time.perf_counter()
        curves[path] = learn(env, args.seeds, args.epochs)
        print(f"{path}: {time.perf_counter() - start:.0f} s", flush=True)
    tests = compare(curves)
    for test in tests:
        print(*(f"{value:.4g}" if isinstance(value, float) else value for value in test.values()))
    least = min(test["p_holm"] for test in tests)
    print(f"smallest corrected p: {least:.3f} of {len(tests)} tests")
    report = {
        "command": " ".join(["python", "benchmarks/mountain_car_paths.py", *sys.argv[1:]]),
        "smallest_p_holm": least,
        "tests": tests,
        "curves": {
            path: {name: np.round(values, 4).tolist() for name, values in of.items()}
            for path, of in curves.items()
        },
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report) + "\n")
    draw(curves)


if __name__ == "__main__":
    main()
