"""The algorithms, as rows of a table over one loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from eniac.checks import require
from eniac.envs.base import Environment
from eniac.loop import DeepLearner
from eniac.policies import DEPTHS
from eniac.updates.ppo import PPO


@dataclass(frozen=True)
class Deep:
    """A deep algorithm: networks for policy and critic, PPO as the policy update."""

    name: str = "ppo"
    """the algorithm's row in the table"""
    hidden: tuple[int, ...] = DEPTHS[2]
    """sizes of the hidden layers; the paper's depths 2, 4 and 6 are (64, 64), (64, 128, 128, 64)
    and (64, 64, 128, 128, 64, 64)"""
    num_envs: int = 500
    """environments stepped side by side"""
    trajectory: int = 100
    """steps that each of them takes before an update"""
    loops: int = 10
    """updates in an epoch"""
    ppo: PPO = field(default_factory=PPO)

    def __post_init__(self):
        require(
            len(self.hidden) > 0 and min(self.hidden, default=0) >= 1,
            "hidden",
            self.hidden,
            "one size of 1 or more for each hidden layer, for example (64, 64)",
        )
        require(self.num_envs >= 1, "num_envs", self.num_envs, "1 or more")
        require(self.trajectory >= 1, "trajectory", self.trajectory, "1 or more")
        require(self.loops >= 1, "loops", self.loops, "1 or more")

    def build(self, env: Environment) -> DeepLearner:
        return DeepLearner(env, self.hidden, self.num_envs, self.trajectory, self.loops, self.ppo)


@dataclass(frozen=True)
class Row:
    """An algorithm of the table: what it is made of, and where its settings come from."""

    name: str
    description: str
    cover: str
    bonus: str
    update: str
    source: str
    default: Deep


ALGORITHMS: dict[str, Row] = {
    row.name: row
    for row in (
        Row(
            name="ppo",
            description="proximal policy optimisation: no cover, no bonus",
            cover="none",
            bonus="none",
            update="PPO",
            source="Schulman et al. 2017; the paper's baseline",
            default=Deep(name="ppo"),
        ),
    )
}
