"""The settings of a run with nothing left open; `ProvableConfig` says what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rewards = Literal["refuse", "scale", "shift"]


@dataclass(frozen=True)
class ResolvedProvable:
    """What `ProvableConfig.resolve` makes of the settings on one MDP."""

    update: Literal["spi", "npg"]
    cover: Literal["uniform", "log-det"]
    bonus: Literal["width", "ellipsoid", "none"]
    gamma: float
    N: int
    K: int
    T: int
    M: int
    eta: float
    beta: float
    epsilon: float
    alpha: float | None
    """None in the sample versions"""
    bound: float
    norm_bound: float | None
    """None: sqrt(d) W, once the class is known"""
    ridge: float
    tangent: Literal["class", "gradient", "centred"]
    ellipsoid_ridge: float
    rewards: Rewards
    subsample: bool
