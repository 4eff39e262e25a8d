"""A bonus of your own: one over the square root of how often a pair was visited.

    python examples/own_bonus.py [FOLDER]
    eniac train eniac --env RiverSwim-v0 --bonus own_bonus:Counts --bonus.coefficient 2

The second works in the folder of this file. A bonus is two classes: what is saved and evaluated (a
pytree of arrays), and a frozen dataclass of settings that makes it and fits it to the buffer Z^n.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from gymnasium.spaces import Discrete
from jaxtyping import Array, Float

import eniac


class CountBonus(eniac.Bonus):
    visits: Float[Array, "states actions"]
    coefficient: float = eqx.field(static=True)

    def __call__(self, observation, action):
        return self.coefficient / jnp.sqrt(1 + self.visits[observation, action])


@dataclass(frozen=True)
class Counts(eniac.BonusRule):
    """For environments with a Discrete observation and a Discrete action."""

    coefficient: float = 1.0
    """the bonus of a pair that was never visited"""

    def init(self, key, spaces, hidden):
        assert isinstance(spaces.observation, Discrete)
        assert isinstance(spaces.action, Discrete)
        visits = jnp.zeros((int(spaces.observation.n), int(spaces.action.n)))
        return CountBonus(visits, self.coefficient)

    def fit(self, key, bonus, buffer, queries):
        visits = jnp.zeros_like(bonus.visits).at[*buffer.pairs].add(buffer.weight)
        return CountBonus(visits, self.coefficient)


def main(out: Path, epochs: int = 3, **settings: Any) -> float:
    """Trains, saves in the folder `out`, and returns how well the bonus ranks pairs by visits."""
    agent = eniac.ENIAC("RiverSwim-v0", bonus="own_bonus:Counts", seed=0, **settings)
    agent.learn(epochs=epochs)
    agent.save(out)

    for place in (0, 5):
        print(f"bonus of going right at place {place}: {agent.bonus(place, 1):.4f}")
    found = eniac.audit_bonus(eniac.load_run(out))
    print(f"rank correlation with the exact width: {found['correlation']:.3f}")
    return found["correlation"]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own_bonus"))
