"""The bonuses b^n (Algorithm 1, line 9), by name. `base.BonusRule` says how to write another."""

from eniac.bonuses.base import Bonus, BonusRule
from eniac.bonuses.counts import Counts
from eniac.bonuses.ensemble import Ensemble
from eniac.bonuses.episodic import Episodic, EpisodicWidth
from eniac.bonuses.kernel import Kernel
from eniac.bonuses.last_layer import LastLayer
from eniac.bonuses.rnd import RND
from eniac.bonuses.width import Width
from eniac.bonuses.zero import Zero

BONUSES: dict[str, type[BonusRule]] = {
    "width": Width,
    "last-layer": LastLayer,
    "ensemble": Ensemble,
    "kernel": Kernel,
    "counts": Counts,
    "rnd": RND,
    "episodic": Episodic,
    "episodic-width": EpisodicWidth,
    "zero": Zero,
}

__all__ = [
    "BONUSES",
    "RND",
    "Bonus",
    "BonusRule",
    "Counts",
    "Ensemble",
    "Episodic",
    "EpisodicWidth",
    "Kernel",
    "LastLayer",
    "Width",
    "Zero",
]
