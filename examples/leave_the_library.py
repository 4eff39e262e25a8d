"""A policy that leaves the environment it was trained in: learned here, used in another process.

    python examples/leave_the_library.py [FOLDER]

A ball rolls on a line and is to be brought back to the middle. The second process knows neither
the class below nor this file; it has the folder.
"""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np

import eniac


class Ball(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-3, 3, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.ball = self.np_random.uniform(-1, 1, 2)  # place and speed
        return self.ball.astype(np.float32), {}

    def step(self, action):
        place, speed = self.ball
        self.ball = np.clip([place + 0.1 * speed, speed + 0.1 * action[0]], -3, 3)
        return self.ball.astype(np.float32), float(-(place**2)), False, False, {}


ELSEWHERE = """
import sys, eniac
print(eniac.load(sys.argv[1]).predict([0.1, 0.0]))
"""


def main(out: Path, epochs: int = 5, horizon: int = 100, **settings: object) -> str:
    """Trains, saves the agent in the folder `out`; returns what another process does with it."""
    agent = eniac.PPO(Ball, horizon=horizon, num_envs=10, **settings)
    agent.learn(epochs=epochs)
    here = agent.predict(np.array([0.1, 0.0]))
    agent.save(out)
    command = [sys.executable, "-c", ELSEWHERE, str(out)]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    print(f"return {agent.evaluate(20)['return_mean']:.1f}; action here {here}, elsewhere {there}")
    assert there == str(here)
    return there


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/leave_the_library"))
