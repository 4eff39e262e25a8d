"""Who solves continuous mountain car, after how many steps: the five algorithms, three depths, both
kinds of episodes, the paper's settings and ours.

Every run is one `eniac train ... --seeds 10 --return-above 93`. The runs are made one after another
and use all cores; a run that is done is not made again, one that was interrupted is resumed. What
comes out is written to docs/results/mountain_car.json as it comes, and printed as a table.

    python benchmarks/mountain_car.py --list
    python benchmarks/mountain_car.py ours-eniac-2-continuing paper-eniac-2-continuing
    python benchmarks/mountain_car.py            all of them: many hours on two cores
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

THRESHOLD = 93
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "mountain_car.json"
ENIAC = [sys.executable, "-m", "eniac.cli"]

RUNS: dict[str, list[str]] = {
    f"{settings}-{algorithm}-{depth}-{episodes}": [
        algorithm,
        *(["--preset", f"paper-depth{depth}"] if settings == "paper" else ["--depth", str(depth)]),
        *(["--episodes", "episodic"] if episodes == "episodic" else []),
    ]
    for settings, algorithm, depth, episodes in itertools.product(
        ("ours", "paper"),
        ("eniac", "pc-pg", "zero", "ppo-rnd", "ppo"),
        (2, 4, 6),
        ("continuing", "episodic"),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to make (default: all)")
    parser.add_argument("--list", action="store_true", help="list the names and stop")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0, 1, ... of each run")
    parser.add_argument("--epochs", type=int, default=20, help="epochs at the most")
    parser.add_argument("--runs", type=Path, default=Path("runs/mountain_car"), help="their folder")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(RUNS))
        return
    for name in arguments.names or RUNS:
        if name not in RUNS:
            parser.error(f"no run is called {name!r}; --list shows the names")
        folder = arguments.runs / f"{name}-{arguments.seeds}"
        options = ["--seeds", str(arguments.seeds), "--epochs", str(arguments.epochs)]
        options += ["--return-above", str(THRESHOLD), "--checkpoint-every", "1"]
        make_run(folder, [*RUNS[name], *options])
        keep(name, ["eniac", "train", *RUNS[name], *options], summary(folder))
    print_table(json.loads(RESULTS.read_text()))


def make_run(folder: Path, options: list[str]) -> None:
    """Trains, or goes on where an interrupted run was left."""
    manifest = folder / "manifest.json"
    if not (folder / "config.json").exists():
        subprocess.run([*ENIAC, "train", *options, "--out", str(folder)], check=True)
    elif not json.loads(manifest.read_text()).get("ended") or not (folder / "policy").exists():
        subprocess.run([*ENIAC, "resume", str(folder)], check=True)


def summary(folder: Path) -> dict[str, Any]:
    """For each seed the steps after which its return was first above the threshold, and its curve;
    and the return of the last policies over the first 100 steps of an episode."""
    records = defaultdict(list)
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        records[record["seed"]].append((record["env_steps"], record["return_mean"]))
    solved = {
        seed: next((steps for steps, value in curve if value > THRESHOLD), None)
        for seed, curve in records.items()
    }
    short = subprocess.run(
        [*ENIAC, "evaluate", str(folder), "--horizon", "100", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    curves = {
        seed: [(steps, round(value, 2)) for steps, value in curve]
        for seed, curve in records.items()
    }
    return {"solved_at": solved, "curves": curves, "at_100": json.loads(short.stdout)}


def keep(name: str, command: list[str], result: dict[str, Any]) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[name] = {"command": " ".join(command), **result}
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(kept, indent=1) + "\n")
    temporary.replace(RESULTS)


def print_table(results: dict[str, Any]) -> None:
    print(f"| run | above {THRESHOLD} | median steps | largest | last return, worst to best |")
    print("| --- | --- | --- | --- | --- |")
    for name, result in results.items():
        steps = list(result["solved_at"].values())
        done = sorted(s for s in steps if s is not None)
        half = statistics.median(s if s is not None else float("inf") for s in steps)
        last = sorted(curve[-1][1] for curve in result["curves"].values())
        median = "-" if half == float("inf") else f"{half / 1e6:.2f} M"
        largest = f"{done[-1] / 1e6:.2f} M" if done else "-"
        spread = f"{last[0]:.1f} to {last[-1]:.1f}"
        print(f"| {name} | {len(done)} of {len(steps)} | {median} | {largest} | {spread} |")


if __name__ == "__main__":
    main()
