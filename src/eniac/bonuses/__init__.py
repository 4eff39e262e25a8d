"""The bonuses b^n (Algorithm 1, line 9), by name. `base.BonusRule` says how to write another."""

from eniac.bonuses.base import Bonus, BonusRule
from eniac.bonuses.kernel import Kernel
from eniac.bonuses.rnd import RND
from eniac.bonuses.width import Width
from eniac.bonuses.zero import Zero

BONUSES: dict[str, type[BonusRule]] = {
    "width": Width,
    "kernel": Kernel,
    "rnd": RND,
    "zero": Zero,
}

__all__ = ["BONUSES", "RND", "Bonus", "BonusRule", "Kernel", "Width", "Zero"]
