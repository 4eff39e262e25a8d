"""An agent in a few lines: it learns, acts, is saved, loaded, and goes on.

python examples/agent.py [FOLDER]
"""

import sys
from pathlib import Path

import eniac


def main(out: Path, env: str = "DeepSea-10", epochs: int = 5, **settings: object) -> float:
    """Learns, saves the agent in the folder `out`, and returns the mean return after going on."""
    agent = eniac.ENIAC(env, seed=0, **settings)
    agent.learn(
        epochs=epochs, callback=lambda record: print(record["epoch"], record["return_mean"])
    )
    agent.save(out)
    agent = eniac.load(out).learn(epochs=1)
    found = agent.evaluate(episodes=100)
    print(f"return {found['return_mean']:.2f}, 95% interval {found['interval']}")
    return found["return_mean"]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/agent"))
