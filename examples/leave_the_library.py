"""A policy that leaves the environment it was trained in: learned here, used in other processes.

    python examples/leave_the_library.py [FOLDER]

A ball rolls on a line and is to be brought back to the middle. The other processes know neither
the class below nor this file; they have the folder. The first has eniac, the second onnxruntime
(`pip install 'eniac[onnx]'`), and needs neither eniac nor JAX.
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


WITH_ENIAC = """
import sys, eniac
print(eniac.load(sys.argv[1] + "/agent").predict([0.1, 0.0]))
"""

WITH_ONNX = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1] + "/onnx/policy.onnx")
print(session.run(["action"], {"observation": numpy.float32([[0.1, 0.0]])})[0][0])
"""


def main(out: Path, epochs: int = 5, horizon: int = 100, **settings: object) -> list[float]:
    """Trains, writes the agent and its graph to the folder `out`, and returns the action for one
    observation: here, and as the other processes have it."""
    agent = eniac.PPO(Ball, horizon=horizon, num_envs=10, **settings)
    agent.learn(epochs=epochs)
    agent.save(out / "agent")
    agent.export(out / "onnx", format="onnx")
    actions = [float(agent.predict([0.1, 0.0])[0])]
    for program in (WITH_ENIAC, WITH_ONNX):
        command = [sys.executable, "-c", program, str(out)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        actions.append(float(said.strip("[]\n")))
    print(f"return {agent.evaluate(20)['return_mean']:.1f}; action here, with eniac, with ONNX:")
    print(*actions)
    return actions


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/leave_the_library"))
