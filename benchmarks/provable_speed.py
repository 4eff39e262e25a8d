"""Speed of the provable algorithms' two inner loops, on one core.

    python benchmarks/provable_speed.py

1. Sampling on tabular MDPs with 10,000 samples side by side: the d^pi sampler over a cover of 200
   policies, and the estimators of Q and A under one policy. Environment steps a second;
   the policy's draw, the cover and the geometric stopping are all inside.
2. Exact widths (ellipsoid and norm ball) of a linear class with d = 50 at 100,000 queries.

Each number is the best of several rounds, with the median beside it. Time is the processor time of
this process, so that what else the machine does counts for little. The table is printed, and
written to benchmarks/results/provable_speed.json.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402, after the number of threads is set

from eniac.envs import make  # noqa: E402
from eniac.sampling.tables import TableSampler, policy_tables  # noqa: E402
from eniac.widths.exact import linear_widths  # noqa: E402

OUT = Path(__file__).resolve().parent / "results" / "provable_speed.json"
SAMPLES = 10_000
POLICIES = 200
ROUNDS = 30
ENVIRONMENTS = {
    "DeepSea-10": 0.9,
    "DeepSea-20": 0.95,
    "RiverSwim-v0": 0.95,
    "CombinationLock-10": 0.9,
    "LinearMDP-20": 0.9,
}


def sampling(env: str, gamma: float) -> dict[str, Any]:
    """Steps a second of the three samplers on one environment."""
    mdp = make(env).tabular()
    sampler = TableSampler(mdp.transition, mdp.start, gamma)
    rng = np.random.Generator(np.random.SFC64(0))
    shape = (POLICIES, mdp.num_states)
    policies = np.random.default_rng(0).dirichlet(np.ones(mdp.num_actions), shape)
    cover, one = policy_tables(policies), policy_tables(policies[0])
    speeds: dict[str, list[float]] = {"visit the cover": [], "returns": [], "advantages": []}
    for _ in range(ROUNDS):
        pairs = np.zeros(0, np.int32)
        for name, speed in speeds.items():
            clock = time.process_time()
            if name == "visit the cover":
                found = sampler.visit(rng, cover, SAMPLES)
                pairs = found.pairs
            elif name == "returns":
                found = sampler.action_returns(rng, one, pairs, mdp.reward)
            else:
                found = sampler.advantages(rng, one, pairs, mdp.reward)
            speed.append(found.steps / (time.process_time() - clock))
    return {
        name: {"best": round(max(values)), "median": round(statistics.median(values))}
        for name, values in speeds.items()
    }


def widths(queries: int = 100_000, dim: int = 50) -> dict[str, Any]:
    """Seconds for exact widths at many queries."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(queries, dim)) / np.sqrt(dim)
    data = rng.normal(size=(2000, dim)) * np.geomspace(1, 1e-3, dim) / np.sqrt(dim)
    seconds = []
    for _ in range(5):
        clock = time.process_time()
        linear_widths(features, data.T @ data, 1.0, 10.0)
        seconds.append(time.process_time() - clock)
    return {
        "queries": queries,
        "dim": dim,
        "best": round(min(seconds), 3),
        "median": round(statistics.median(seconds), 3),
    }


def main() -> None:
    load = os.getloadavg()[0]
    found = {env: sampling(env, gamma) for env, gamma in ENVIRONMENTS.items()}
    width = widths()
    print(f"million steps/s, best (median) of {ROUNDS}; {SAMPLES:,} samples side by side, one core")
    print("| environment | gamma | visit the cover | returns (Q) | advantages (A) |")
    print("| --- | --- | --- | --- | --- |")
    for env, row in found.items():
        cells = (f"{x['best'] / 1e6:.1f} ({x['median'] / 1e6:.1f})" for x in row.values())
        print(f"| {env} | {ENVIRONMENTS[env]} | {' | '.join(cells)} |")
    print(
        f"\n{width['queries']:,} exact linear widths, d = {width['dim']}: "
        f"{width['best']} s (median {width['median']} s)"
    )
    result = {
        "samples": SAMPLES,
        "policies_in_the_cover": POLICIES,
        "steps_per_second": found,
        "widths": width,
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "load_before": round(load, 2),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nWritten to benchmarks/results/{OUT.name}")


if __name__ == "__main__":
    main()
