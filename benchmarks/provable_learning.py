"""The provable algorithms on all their environments, ten seeds each, and the figure of it.

    python benchmarks/provable_learning.py                    # what is missing
    python benchmarks/provable_learning.py --only lock --jobs 2
    python benchmarks/provable_learning.py --figure           # draw what there is

One small JSON for each combination of algorithm, environment and function class, written after
every seed, so that a run that was cut short goes on where it was. Values are exact (linear solves),
as a share of the optimum.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# One thread a process: the processes are what is spread over the cores.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "provable"
FIGURE = ROOT / "results" / "figures" / "theory.png"
SHARES = ("last", "executed", "inner_mixture", "outer_mixture")
COLUMNS = ("env_steps", *(f"share/{name}" for name in SHARES), "known/pairs")


@dataclass(frozen=True)
class Combination:
    """One algorithm on one environment with one class."""

    algorithm: str
    env: str
    function_class: str = "tabular"
    settings: dict[str, Any] = field(default_factory=dict)
    env_options: dict[str, Any] = field(default_factory=dict)
    results: Path = RESULTS

    @property
    def name(self) -> str:
        return f"{self.env}_{self.function_class}_{self.algorithm}"

    @property
    def path(self) -> Path:
        return self.results / f"{self.name}.json"


LINEAR = {"num_states": 20, "num_actions": 4, "dim": 8}
GLM = {"class_options": {"norm_bound": 25.0}}


def combinations() -> list[Combination]:
    """What the documentation reports, the quick ones first."""
    both = ("eniac-spi-sample", "eniac-npg-sample")
    compute = ("eniac-spi-compute", "eniac-npg-compute")
    without = ("spi", "npg")
    found = [Combination(a, "DeepSea-10") for a in (*both, *compute, *without, "pc-pg-linear")]
    found += [Combination("eniac-spi-sample", "DeepSea-10", c) for c in ("trees", "network")]
    found += [Combination(a, "CombinationLock-5") for a in (*both, *compute)]
    found += [Combination("eniac-npg-sample", "DeepSea-10", "network")]
    found += [Combination(a, "RiverSwim-v0") for a in (*both, *compute, *without)]
    found += [Combination(a, "DeepSea-20") for a in both]
    found += [
        Combination(a, "LinearMDP-v0", "linear", env_options=LINEAR)
        for a in (*both, *without, "pc-pg-linear")
    ]
    found += [Combination(a, "LogisticMDP-v0", "glm", GLM) for a in both]
    found += [Combination(a, "CombinationLock-10") for a in both]
    found += [Combination(a, "CombinationLock-5") for a in without]
    found += [Combination(a, "DeepSea-20") for a in without]
    found += [Combination(a, "CombinationLock-10") for a in without]
    return found


def config(combination: Combination):
    """The run's configuration, as `eniac train` would make it."""
    from eniac import Config
    from eniac.algorithms import ALGORITHMS

    algorithm = replace(
        ALGORITHMS[combination.algorithm].default,
        function_class=combination.function_class,
        **combination.settings,
    )
    return Config(algorithm, env=combination.env, env_options=combination.env_options)


def one_seed(combination: Combination, seed: int) -> dict[str, Any]:
    """A whole run of one seed: its curve, and how long it took."""
    from eniac.algorithm1 import epoch

    built = config(combination).build()
    learner = built.learner
    state, steps = learner.init(seed), 0
    curve: dict[str, list[float]] = {name: [] for name in COLUMNS}
    clock, cpu = time.perf_counter(), time.process_time()
    for _ in range(built.config.epochs or 0):
        state, metrics = epoch(learner, state, float("inf"))
        metrics = {name: number[0] for name, number in metrics.items()}
        steps += metrics["steps"]
        for name in COLUMNS:
            number = steps if name == "env_steps" else metrics[name]
            curve[name].append(round(float(number), 4) if name != "env_steps" else int(number))
    return {
        "seed": seed,
        "seconds": round(time.perf_counter() - clock, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "ceiling": round(float(metrics.get("share/mixed_optimum", 1.0)), 4),
        "curve": curve,
    }


def run(combination: Combination, seeds: range) -> str:
    """All seeds that are not there yet. Returns a line about the result."""
    about = {
        "algorithm": combination.algorithm,
        "env": combination.env,
        "env_options": combination.env_options,
        "settings": config(combination).build().config.to_dict()["algorithm"],
    }
    found: dict[str, Any] = {**about, "seeds": []}
    if combination.path.exists():
        old = json.loads(combination.path.read_text())
        # Results of other settings are not to be mixed with these. What came later is off in them.
        old["settings"] = about["settings"] | old["settings"]
        if all(old[name] == about[name] for name in about):
            found = old
    done = {row["seed"] for row in found["seeds"]}
    for seed in seeds:
        if seed in done:
            continue
        found["seeds"].append(one_seed(combination, seed))
        combination.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = combination.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(found) + "\n")
        scratch.replace(combination.path)
    return summary(found)


def summary(found: dict[str, Any]) -> str:
    """A row of a table: the last iterate's share of V*, worst and mean over the seeds."""
    rows = found["seeds"]
    final = {name: [row["curve"][f"share/{name}"][-1] for row in rows] for name in SHARES}
    last = final["last"]
    mean = {name: sum(values) / len(values) for name, values in final.items()}
    steps = sum(row["curve"]["env_steps"][-1] for row in rows) / len(rows)
    seconds = max(row["cpu_seconds"] for row in rows)
    reached = sum(share >= 0.95 for share in last)
    return (
        f"| {found['env']} | {found['settings']['function_class']} | {found['algorithm']} | "
        f"{reached}/{len(rows)} | {min(last):.3f} | {mean['last']:.3f} | {mean['executed']:.3f} | "
        f"{rows[0]['ceiling']:.3f} | {mean['inner_mixture']:.3f} | {mean['outer_mixture']:.3f} | "
        f"{steps / 1e6:.1f} M | {seconds:.0f} s |"
    )


HEAD = (
    "| environment | class | algorithm | seeds at 95 % | last, worst | last | executed | "
    "optimum, mixed | inner mixture | outer mixture | steps | CPU time, longest |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def draw(out: Path) -> Path:
    """Share of the optimum against environment steps: a panel for each environment and class."""
    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    from eniac.report.figures import COLOURS, on_a_common_grid, short_number

    found = [json.loads(c.path.read_text()) for c in combinations() if c.path.exists()]
    panels: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in found:
        env = one["env"].replace("-v0", "")
        panels.setdefault((env, one["settings"]["function_class"]), []).append(one)
    names = [*dict.fromkeys(one["algorithm"] for one in found)]
    colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}
    columns = 3
    figure = Figure(figsize=(13, 3.3 * -(-len(panels) // columns)), dpi=100, layout="constrained")
    grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    handles = {}
    for axes, ((env, kind), rows) in zip(grid, panels.items(), strict=False):
        for one in rows:
            name, curves = one["algorithm"], [row["curve"] for row in one["seeds"]]
            steps, values = on_a_common_grid(
                [(np.array(c["env_steps"], float), np.array(c["share/last"])) for c in curves]
            )
            axes.fill_between(
                steps, values.min(0), values.max(0), color=colours[name], alpha=0.12, linewidth=0
            )
            style = "--" if one["settings"]["bonus"] == "none" else "-"
            (handles[name],) = axes.plot(
                steps, np.median(values, 0), style, color=colours[name], linewidth=1.8
            )
        axes.axhline(0.95, color="#999999", linewidth=0.7, linestyle=":")
        axes.set_title(f"{env}, {kind} class", fontsize=10)
        axes.set_ylim(-0.55, 1.06)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
        axes.grid(color="#e5e5e5", linewidth=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.supxlabel("environment steps of a seed", fontsize=10)
    figure.supylabel("value of the last iterate, share of the optimum", fontsize=10)
    figure.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=4, frameon=False
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="run combinations whose name has this in it")
    parser.add_argument("--seeds", type=int, default=10, help="how many seeds of each")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--figure", action="store_true", help="only draw and list what there is")
    arguments = parser.parse_args()
    every = [replace(c, results=arguments.results) for c in combinations()]
    if not arguments.figure:
        chosen = [c for c in every if arguments.only.lower() in c.name.lower()]
        with ProcessPoolExecutor(arguments.jobs) as pool:
            seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
            for line in pool.map(run, chosen, [seeds] * len(chosen)):
                print(line, flush=True)
    print(HEAD)
    for combination in every:
        if combination.path.exists():
            print(summary(json.loads(combination.path.read_text())))
    if arguments.results == RESULTS:
        print(f"\nThe figure is in {draw(FIGURE).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
