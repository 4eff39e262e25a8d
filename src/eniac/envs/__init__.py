"""What an agent acts in."""

from typing import TYPE_CHECKING

from eniac.lazy import lazy_names

if TYPE_CHECKING:
    from eniac.envs.base import Environment, Step, TimeLimit
    from eniac.envs.deep_sea import DeepSea
    from eniac.envs.lock import CombinationLock
    from eniac.envs.logistic import LogisticMDP
    from eniac.envs.mdp import (
        LinearMDP,
        TabularMDP,
        chain,
        random_linear_mdp,
        random_mdp,
        river_swim,
    )
    from eniac.envs.mountain_car import MountainCarContinuous
    from eniac.envs.registry import ENVS, Entry, make, tabular, unwrap

__all__ = [
    "ENVS",
    "CombinationLock",
    "DeepSea",
    "Entry",
    "Environment",
    "LinearMDP",
    "LogisticMDP",
    "MountainCarContinuous",
    "Step",
    "TabularMDP",
    "TimeLimit",
    "chain",
    "make",
    "random_linear_mdp",
    "random_mdp",
    "river_swim",
    "tabular",
    "unwrap",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "base": ("Environment", "Step", "TimeLimit"),
        "deep_sea": ("DeepSea",),
        "lock": ("CombinationLock",),
        "logistic": ("LogisticMDP",),
        "mdp": (
            "LinearMDP",
            "TabularMDP",
            "chain",
            "random_linear_mdp",
            "random_mdp",
            "river_swim",
        ),
        "mountain_car": ("MountainCarContinuous",),
        "registry": ("ENVS", "Entry", "make", "tabular", "unwrap"),
    },
)
