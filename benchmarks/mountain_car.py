"""Who solves continuous mountain car, after how many steps: the five algorithms, three depths, both
kinds of episodes, the paper's settings and ours; and our settings with each change undone, and one
that was tried and not kept.

Every run is one `eniac train ... --return-above 93`: seeds 0 to 9, or for the runs that undo a
change at depth 2, continuing, the seeds 10 to 19, not those that the settings were tuned on. The
runs are made one after another and use all cores they are given; a run that is done is not made
again, one that was interrupted is resumed. What comes out goes to
benchmarks/results/mountain_car/NAME.json as it comes.

    python benchmarks/mountain_car.py --list
    python benchmarks/mountain_car.py ours-eniac-2-continuing paper-eniac-2-continuing
    python benchmarks/mountain_car.py --table    what has been measured
    python benchmarks/mountain_car.py            all of them: many hours on two cores
    taskset -c 0 python benchmarks/mountain_car.py NAME ...     one of two queues, one a core
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

THRESHOLD = 93
RESULTS = Path(__file__).parent / "results" / "mountain_car"
ENIAC = [sys.executable, "-m", "eniac.cli.main"]

UNDONE: dict[str, list[str]] = {
    "nothing": [],
    "width": ["--bonus.training", "lagrangian"],
    "wide": ["--bonus.uniform-share", "0"],
    "normaliser": ["--bonus.normaliser", "max"],
    "reinitialise": ["--bonus.no-reinitialise"],
    "fit-at": ["--fit-after", "33"],
    "updates": ["--num-envs", "500", "--updates-per-round", "10"],
    "value-weight": ["--update.value-weight", "0.5"],
    "interval": ["--rounds", "3", "--exploit-from", "3"],
    "restart": ["--restart", "0"],
}
"""The changes that our settings make, and the options that undo them: tried at depth 2, continuing,
and where that is not where they matter, there too."""

RUNS: dict[str, list[str]] = (
    {
        f"{settings}-{algorithm}-{depth}-{episodes}": [
            algorithm,
            *(
                ["--preset", f"paper-depth{depth}"]
                if settings == "paper"
                else ["--depth", str(depth)]
            ),
            *(["--episodes", "episodic"] if episodes == "episodic" else []),
            *("--seeds", "10"),
        ]
        for settings, algorithm, depth, episodes in itertools.product(
            ("ours", "paper"),
            ("eniac", "pc-pg", "zero", "ppo-rnd", "ppo"),
            (2, 4, 6),
            ("continuing", "episodic"),
        )
    }
    | {
        f"undo-{change}": ["eniac", *options, "--seed", "10", "--seeds", "10"]
        for change, options in UNDONE.items()
    }
    | {
        "undo-value-weight-6": ["eniac", "--depth", "6", *UNDONE["value-weight"], "--seeds", "10"],
        "undo-restart-episodic": [
            *("eniac", "--episodes", "episodic", *UNDONE["restart"]),
            *("--seeds", "10"),
        ],
    }
    | {
        f"try-entropy-{depth}": [
            *("eniac", "--depth", str(depth), "--update.entropy", "0.003", "--seeds", "10")
        ]
        for depth in (2, 6)
    }
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs to make (default: all)")
    parser.add_argument("--list", action="store_true", help="list the names and stop")
    parser.add_argument(
        "--table", action="store_true", help="print what has been measured and stop"
    )
    parser.add_argument("--rounds", type=int, default=20, help="rounds at the most, about")
    parser.add_argument("--runs", type=Path, default=Path("runs/mountain_car"), help="their folder")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(RUNS))
        return
    unknown = [name for name in arguments.names if name not in RUNS]
    if unknown:
        parser.error(f"no run is called {', '.join(unknown)}; --list shows the names")
    if not arguments.table:
        for name in arguments.names or RUNS:
            folder = arguments.runs / f"{name}-{arguments.rounds}"
            options = [*RUNS[name], "--epochs", str(epochs_of(RUNS[name], arguments.rounds))]
            options += ["--return-above", str(THRESHOLD), "--checkpoint-every", "1"]
            make_run(folder, options)
            keep(name, {"command": " ".join(["eniac", "train", *options]), **summary(folder)})
    print_table()


def epochs_of(options: list[str], rounds: int) -> int:
    """The epochs in which a run has `rounds` rounds, or one or two more."""
    from eniac.runs.options import parse_config

    return math.ceil(rounds / getattr(parse_config(options).algorithm, "rounds", 1))


def make_run(folder: Path, options: list[str]) -> None:
    """Trains, or goes on where an interrupted run was left."""
    manifest = folder / "manifest.json"
    if not (folder / "config.json").exists():
        subprocess.run([*ENIAC, "train", *options, "--out", str(folder)], check=True)
    elif not json.loads(manifest.read_text()).get("ended") or not (folder / "policy").exists():
        subprocess.run([*ENIAC, "resume", str(folder)], check=True)


def summary(folder: Path) -> dict[str, Any]:
    """For each seed the steps after which its return was first above the threshold, and its curve;
    the return of the last policies over the first 100 steps of an episode; and of the fits of a
    width, how many there were and how many of them came to nothing."""
    records, fits = defaultdict(list), {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        records[record["seed"]].append((record["env_steps"], record["return_mean"]))
        if "width/collapsed" in record:
            failed = record["width/collapsed"] or record["width/diverged"]
            fits[record["seed"], record["cover/count"]] = bool(failed)
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
    at_100 = {
        row["seed"]: round(row["return_mean"], 2) for row in json.loads(short.stdout)["seeds"]
    }
    failed = {"fits": len(fits), "failed": sum(fits.values())}
    return {"solved_at": solved, "at_100": at_100, "widths": failed, "curves": curves}


def keep(name: str, result: dict[str, Any]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    temporary = RESULTS / f"{name}.tmp"
    temporary.write_text(json.dumps(result) + "\n")
    temporary.replace(RESULTS / f"{name}.json")


HEAD = f"""\
| run | above {THRESHOLD} | median steps | largest | last return | in 100 steps | widths failed |
| --- | --- | --- | --- | --- | --- | --- |"""


def row(name: str) -> str | None:
    """A run's line of the table, if it has been made. "In 100 steps" is the mean return of the last
    policies of all seeds over the first 100 steps of an episode; a width failed if its training
    made it constant or diverged."""
    if not (RESULTS / f"{name}.json").exists():
        return None
    result = json.loads((RESULTS / f"{name}.json").read_text())
    steps = list(result["solved_at"].values())
    done = sorted(s for s in steps if s is not None)
    half = statistics.median(s if s is not None else float("inf") for s in steps)
    last = sorted(curve[-1][1] for curve in result["curves"].values())
    median = "-" if half == float("inf") else f"{half / 1e6:.2f} M"
    largest = f"{done[-1] / 1e6:.2f} M" if done else "-"
    spread = f"{shown(last[0])} to {shown(last[-1])}"
    short = shown(statistics.mean(result["at_100"].values()))
    solved = f"{len(done)} of {len(steps)}"
    widths = result.get("widths", {}).get("fits", 0)
    failed = f"{result['widths']['failed']} of {widths}" if widths else "-"
    return f"| {name} | {solved} | {median} | {largest} | {spread} | {short} | {failed} |"


def shown(value: float) -> str:
    """With one digit, and no minus before a zero."""
    return f"{round(value, 1) + 0.0:.1f}"


def print_table() -> None:
    print(HEAD)
    for line in filter(None, map(row, RUNS)):
        print(line)


if __name__ == "__main__":
    main()
