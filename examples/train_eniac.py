"""Train ENIAC on continuous mountain car from Python, load its policy and judge it.

    python examples/train_eniac.py [FOLDER]

About a minute, most of it for compilation the first time. The same from the command line:

    eniac train eniac --epochs 3 --out FOLDER
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

import eniac


def main(out: Path, epochs: int = 3, episodes: int = 200, **settings: Any) -> float:
    """Trains in the folder `out` and returns the mean return of the policy found."""
    config = eniac.Config(
        replace(eniac.ALGORITHMS["eniac"].default, **settings),
        env="MountainCarContinuous-v0",
        epochs=epochs,  # or, with return_above=93, when an evaluation is above that
        out=out,
    )
    result = eniac.train(config)
    print(f"{result.steps:,} steps in {result.seconds:.0f} s, ended by: {result.ended}")

    # A policy is a function of one observation. The folder can be copied anywhere.
    best = eniac.load_policy(out / "policy" / "seed-0")
    distribution, value = best.policy(jax.numpy.array([-0.5, 0.0]))
    print(f"at rest in the valley: action {distribution.mean[0]:+.2f}, value {value:.1f}")

    judged = eniac.evaluate_run(eniac.load_run(out), episodes=episodes, seed=1)["seeds"][0]
    mean, length = judged["return_mean"], judged["length_mean"]
    print(f"{episodes} fresh episodes: mean return {mean:.1f}, mean length {length:.0f}")
    print(f"pictures: {out / 'figures'}")
    return mean


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/train_eniac"))
