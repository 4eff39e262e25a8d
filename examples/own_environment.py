"""An environment of your own, trained with ENIAC.

    python examples/own_environment.py [FOLDER]

A lamp is in the far corner of a dark square room, and only what is close to it pays. An environment
is two spaces and two pure functions, `reset` and `step`, written with jax.numpy; a thousand of them
then run side by side in one compiled program. Under a minute.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from eniac import Config, Evaluation, train
from eniac.algorithms import ALGORITHMS
from eniac.envs import ENVS, Entry, Environment, Step


class Place(NamedTuple):
    """The state: any pytree of arrays."""

    xy: jax.Array


class DarkRoom(Environment):
    """Walk from the corner (0, 0) to the lamp at (1, 1), at most `stride` a step each way."""

    stride: float = eqx.field(static=True, default=0.1)

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, key):
        xy = jax.random.uniform(key, (2,), maxval=0.1)
        return Place(xy), xy

    def step(self, key, state, action):
        del key  # the room has no randomness
        xy = jnp.clip(state.xy + self.stride * jnp.clip(action, -1, 1), 0.0, 1.0)
        found = jnp.all(xy > 0.9)
        reward = jnp.where(found, 1.0, 0.0)
        return Step(Place(xy), xy, reward, terminated=found, truncated=jnp.zeros((), bool))


# The table of environments: name, class, a line about it, its size parameter if it has one, and
# the number of steps after which an episode is cut.
ENVS["DarkRoom-v0"] = Entry("DarkRoom-v0", DarkRoom, "A room with a lamp in a corner.", None, 50)


def main(out: Path) -> float:
    """Trains in the folder `out` and returns the mean return of the last evaluation."""
    eniac = ALGORITHMS["eniac"].default
    # A small room asks for little: fewer steps an epoch, and a shorter training of the width.
    small = replace(
        eniac,
        hidden=(32,),
        num_envs=20,
        trajectory=50,
        loops=10,
        visits=500,
        bonus=replace(eniac.bonus, outer=100, query_size=2000),
    )
    config = Config(
        small,
        env="DarkRoom-v0",
        return_above=0.99,
        epochs=20,
        evaluation=Evaluation(episodes=50),
        out=out,
    )
    result = train(config)
    print(f"mean return {result.progress.returns[0]:.2f} after {result.steps:,} steps")
    print(f"pictures: {out / 'figures'}")
    return float(result.progress.returns[0])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own_environment"))
