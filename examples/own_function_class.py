"""A function class of your own for the provable algorithms: critics that only see the state.

    python examples/own_function_class.py [FOLDER]
    eniac train eniac-spi-sample --env RiverSwim-v0 --function-class own_function_class:StateOnly

The second works in the folder of this file. The constructor names what it needs of num_states,
num_actions, bound and inputs; the class says how to fit, evaluate and sample, and how wide it is.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import eniac


class StateOnly(eniac.FunctionClass):
    """f(s, a) = v(s), |v| <= bound."""

    name = "state-only"
    convex = True

    def __init__(self, num_states: int, num_actions: int, bound: float):
        self.num_states, self.num_actions, self.bound = num_states, num_actions, bound
        self.dim = num_states

    def _fit(self, target, weight, start):
        total = weight.sum(axis=1)
        mean = (weight * target).sum(axis=1) / np.maximum(total, 1e-300)
        return np.where(total > 0, np.clip(mean, -self.bound, self.bound), 0.0)

    def __call__(self, params):
        return np.tile(params[:, None], (1, self.num_actions))

    def widths(self, counts, epsilon, threshold=None):
        visits = np.asarray(counts, np.float64).sum(axis=1)
        widths = np.minimum(2 * self.bound, epsilon / np.sqrt(np.maximum(visits, 1e-300)))
        return self(widths)

    def sample(self, rng):
        return rng.uniform(-self.bound, self.bound, self.dim)


def main(out: Path, **settings: object) -> float:
    """Trains in the folder `out` and returns the mean return of the last evaluation."""
    provable = eniac.ALGORITHMS["eniac-spi-sample"].default
    algorithm = replace(provable, function_class="own_function_class:StateOnly", **settings)
    result = eniac.train(eniac.Config(algorithm, env="RiverSwim-v0", epochs=2, out=out))
    return float(result.progress.returns[0])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own_function_class"))
