"""A gymnasium environment of your own, trained with ENIAC.

    python examples/own_gymnasium_environment.py [FOLDER]
    eniac train eniac --env own_gymnasium_environment:make_env --env-options size 12

The second works in the folder of this file. A corridor pays at its far end, and a little for giving
up at once.
"""

import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import eniac


class Corridor(gymnasium.Env):
    def __init__(self, size: int = 8):
        self.size = size
        self.observation_space = gymnasium.spaces.Dict(
            {
                "place": gymnasium.spaces.Discrete(size),
                "lamp": gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32),
            }
        )
        self.action_space = gymnasium.spaces.Discrete(2)

    def _see(self):
        return {"place": self.place, "lamp": np.array([self.place / self.size], np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(1, 3))
        return self._see(), {}

    def step(self, action):
        self.place += 1 if action else -1
        found, gave_up = self.place == self.size - 1, self.place == 0
        reward = 1.0 if found else 0.01 * gave_up
        return self._see(), reward, found or gave_up, False, {}


def make_env(size: int = 8) -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Corridor(size), 4 * size)


def main(out: Path, epochs: int = 5, **settings: Any) -> float:
    """Trains, saves in the folder `out`, plays an episode, and returns the mean return."""
    agent = eniac.ENIAC(make_env, seed=0, num_envs=20, **settings)
    agent.learn(epochs=epochs, until=0.99, callback=lambda record: print(record["return_mean"]))
    agent.save(out)

    env = make_env()
    observation, _ = env.reset(seed=1)
    reward, done = 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(agent.predict(observation))
        done = terminated or truncated
    print(f"the episode ended at place {observation['place']} with reward {reward}")
    return agent.evaluate(100)["return_mean"]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own_gymnasium_environment"))
