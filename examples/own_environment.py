"""An environment of your own, trained with ENIAC.

    python examples/own_environment.py [FOLDER]
    eniac train eniac --env own_environment:DarkRoom --horizon 50

A lamp is in the far corner of a dark square room, and only what is close to it pays. An environment
is two spaces and two pure functions, `reset` and `step`, written with jax.numpy; a thousand of them
then run side by side in one compiled program. Under a minute.
"""

import sys
from pathlib import Path

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import eniac


class DarkRoom(eniac.Environment):
    """Walk from the corner (0, 0) to the lamp at (1, 1), at most `stride` a step each way.

    The state is any pytree of arrays; here, the place.
    """

    stride: float = eqx.field(static=True, default=0.1)

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, key):
        xy = jax.random.uniform(key, (2,), maxval=0.1)
        return xy, xy

    def step(self, key, state, action):
        del key  # the room has no randomness
        xy = jnp.clip(state + self.stride * jnp.clip(action, -1, 1), 0.0, 1.0)
        found = jnp.all(xy > 0.9)
        reward = jnp.where(found, 1.0, 0.0)
        return eniac.Step(xy, xy, reward, terminated=found, truncated=jnp.zeros((), bool))


def main(out: Path, epochs: int = 20) -> float:
    """Trains, saves the agent in the folder `out`, and returns its mean return."""
    # A small room asks for little: fewer steps an epoch, and a shorter training of the width.
    agent = eniac.ENIAC(
        DarkRoom(),
        horizon=50,
        hidden=(32,),
        num_envs=20,
        rollout_length=50,
        updates_per_round=10,
        visit_steps=500,
        bonus={"outer": 100, "query_size": 2000},
    )
    agent.learn(epochs=epochs, until=0.99, progress=True, out=out)
    return agent.evaluate()["return_mean"]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own_environment"))
