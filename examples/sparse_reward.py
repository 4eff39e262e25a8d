"""A task with a sparse reward, from PPO to ENIAC: who finds the reward, and is that known?

    python examples/sparse_reward.py [FOLDER]

A combination lock pays for the last right action only, and charges a little for every one before.
Four algorithms that differ in one part each try it, six seeds of a million steps: less
than two minutes on two cores.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import eniac

STEPS = {
    "ppo": "the policy gradient alone",
    "ppo-rnd": "and a bonus",
    "zero": "a cover of policies, no bonus",
    "eniac": "a cover and a bonus",
}


def main(
    out: Path,
    algorithms: Sequence[str] = tuple(STEPS),
    env: str = "CombinationLock-5",
    seeds: int = 6,
    steps: int = 1_000_000,
    **settings: Any,
) -> dict[str, int]:
    """Trains each algorithm in a folder of `out`, and returns how many seeds opened the lock."""
    for name in algorithms:
        algorithm = replace(eniac.ALGORITHMS[name].default, **settings)
        eniac.train(
            eniac.Config(
                algorithm,
                env=env,
                seeds=seeds,
                steps=steps,  # of each seed, or until
                return_above=3.8,  # the best is 4.0, the other lock pays 1.0
                out=out / name,
            )
        )
    found = eniac.compare_runs([out / name for name in algorithms])
    opened = {}
    for row in found["environments"][0]["methods"]:
        name = row["method"]
        opened[name] = row["success"]["count"]
        print(f"{name}, {STEPS[name]}: {opened[name]} of {seeds} seeds")
    for pair in found["pairs"]:
        print(pair["sentence"])
    eniac.learning_curves([out / name for name in algorithms], out / "curves.png")
    return opened


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/sparse_reward"))
