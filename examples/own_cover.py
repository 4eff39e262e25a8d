"""A cover rule of your own: the newest policies weigh most.

    python examples/own_cover.py [FOLDER]
    eniac train eniac --cover own_cover:Newest --cover.decay 0.9

The second works in the folder of this file. A cover rule is a frozen dataclass that says how the
policies of the cover are weighed when one more has joined it: `memory` is whatever it has to know,
as arrays; here, the number of places.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import jax.numpy as jnp

import eniac


@dataclass(frozen=True)
class Newest(eniac.CoverRule):
    decay: float = 0.5
    """the weight of a policy over that of the next newer one"""

    def init(self, key, spaces, capacity):
        return jnp.arange(capacity)

    def weigh(self, key, memory, newest, num, count):
        age = count - 1 - memory
        weights = jnp.where(age >= 0, self.decay**age, 0.0)
        return memory, weights / weights.sum()


def main(out: Path, **settings: object) -> float:
    """Trains in the folder `out` and returns the mean return of the last evaluation."""
    algorithm = replace(eniac.ALGORITHMS["zero"].default, cover=Newest(), **settings)
    result = eniac.train(eniac.Config(algorithm, env="RiverSwim-v0", epochs=2, out=out))
    return float(result.progress.returns[0])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own_cover"))
