"""A bonus of somebody's own, as small as it can be."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp

from eniac.bonuses.base import Bonus, BonusRule


class ConstantBonus(Bonus):
    size: float = eqx.field(static=True)

    def __call__(self, observation, action):
        return jnp.asarray(self.size)


@dataclass(frozen=True)
class Constant(BonusRule):
    size: float = 1.0

    @property
    def coefficient(self):
        return self.size

    def init(self, key, spaces, hidden):
        return ConstantBonus(self.size)
