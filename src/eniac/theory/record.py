"""What a certificate reads of a run: its numbers and its arrays, whoever made them."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from eniac.functions.base import FunctionClass
from eniac.theory.planning import Model

Table = Float[np.ndarray, "states actions"]

_SETTINGS = ("update", "bonus", "gamma", "K", "T", "M", "eta", "beta", "epsilon", "alpha")


@dataclasses.dataclass(frozen=True, eq=False)
class RunRecord:
    """The settings of a run in the paper's names, and its first n epochs."""

    update: Literal["spi", "npg"]
    bonus: Literal["width", "ellipsoid", "none"]
    gamma: float
    K: int
    T: int
    M: int
    eta: float
    beta: float
    epsilon: float
    alpha: float | None
    """None in the SAMPLE versions"""
    model: Model
    """the MDP with the environment's rewards"""
    reward: Table
    """the rewards that were learned from"""
    functions: FunctionClass
    features: Float[np.ndarray, "states actions dim"]
    """those of the class whose widths were measured; of no dimension for F itself"""
    norm_bound: float
    """B"""
    visits: Int[np.ndarray, "n states actions"]
    """the K samples of each epoch, counted pair by pair"""
    weights: list[Float[np.ndarray, " _"]]
    """of the cover, epoch by epoch: one, two, ... up to n of them"""
    unknown: Bool[np.ndarray, "n states actions"]
    """the complement of K^n"""
    policies: Float[np.ndarray, "n T states actions"]
    """pi_0 .. pi_{T-1} of each epoch, as executed"""
    critics: Float[np.ndarray, "n T states actions"]
    """f_0 .. f_{T-1} of each epoch (NPG: u_t . g_t), bonus taken off"""
    last_values: Float[np.ndarray, " n"]
    """V of pi_T, without the mixing of COMPUTE, in the environment's units"""

    @property
    def num_epochs(self) -> int:
        return len(self.visits)

    @property
    def learned_model(self) -> Model:
        """The MDP with the reward that is learned from: what the theorems speak of."""
        return dataclasses.replace(self.model, reward=self.reward)

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers, by name."""
        return {name: getattr(self, name) for name in _SETTINGS}
