"""PC-PG's bonus (Agarwal et al. 2020): the ellipsoid norm of a kernel feature.

phi are random Fourier features of (s, a), Sigma = sum_i w_i phi_i phi_i' + ridge I over the visited
pairs, each as often as it stands for visits, and b(s, a) = coefficient sqrt(phi' Sigma^-1 phi).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from eniac.bonuses.base import Bonus, BonusRule, Metrics
from eniac.buffer import Buffer, Pairs
from eniac.errors import require, require_choices
from eniac.features import NUM_MEDIAN, Bandwidth, RandomFeatures
from eniac.spaces import PairEncoder, Spaces


class KernelBonus(Bonus):
    features: RandomFeatures
    precision: Float[Array, "features features"]
    """Sigma^-1; zero before the first fit, and so is the bonus"""
    coefficient: float = eqx.field(static=True)

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        phi = self.features(observation, action)
        return self.coefficient * jnp.sqrt(jnp.maximum(phi @ self.precision @ phi, 0.0))


@dataclass(frozen=True)
class Kernel(BonusRule):
    """The kernel bonus of the whole buffer."""

    features: int = 64
    """number of random Fourier features"""
    ridge: float = 0.01
    """what is added to the diagonal of the covariance"""
    coefficient: float = 1.0
    """factor of the bonus"""
    bandwidth: Bandwidth = "median"
    """median: 1 / (median distance of visited pairs)^2, set at the first fit; paper: 1, which is
    what the paper's program comes to, since it sets the median after its features are drawn"""

    def __post_init__(self):
        require_choices(self, "kernel.")
        require(self.features >= 1, "kernel.features", self.features, "1 or more")
        require(self.ridge > 0, "kernel.ridge", self.ridge, "above 0")
        require(self.coefficient >= 0, "kernel.coefficient", self.coefficient, "0 or more")

    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> KernelBonus:
        del hidden
        encoder = PairEncoder(spaces, with_action=True)
        features = RandomFeatures.draw(key, encoder, self.features)
        return KernelBonus(features, jnp.zeros((self.features, self.features)), self.coefficient)

    def fit(
        self, key: PRNGKeyArray, bonus: KernelBonus, buffer: Buffer, queries: Pairs
    ) -> KernelBonus:
        """Sigma anew from all of Z^n, whose rows may have changed their weights."""
        del queries
        features = bonus.features
        if self.bandwidth == "median":
            rows = buffer.sample_rows(key, (2, NUM_MEDIAN))
            found = features.with_median(buffer.pairs, rows)
            features = jax.tree.map(
                lambda new, old: jnp.where(buffer.count > 0, new, old), found, features
            )
        gram = features.gram(buffer.pairs, buffer.weight, buffer.count)
        precision = jnp.linalg.inv(gram + self.ridge * jnp.eye(self.features))
        return KernelBonus(features, precision, bonus.coefficient)

    def metrics(self, bonus: KernelBonus) -> Metrics:
        return {"kernel/inverse_width": bonus.features.inverse_width}
