"""No bonus: PPO, and the baseline ZERO, which has a cover and nothing else to explore by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from eniac.bonuses.base import Bonus, BonusRule
from eniac.spaces import Spaces


class ZeroBonus(Bonus):
    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        del observation, action
        return jnp.zeros(())


@dataclass(frozen=True)
class Zero(BonusRule):
    """b = 0 (the paper's Section 5.2)."""

    coefficient = 0.0  # not a setting: there is no annotation

    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> ZeroBonus:
        del key, spaces, hidden
        return ZeroBonus()
