"""PC-PG's bonus (Agarwal et al. 2020): the ellipsoid norm of a kernel feature, and its covariances.

phi are random Fourier features of (s, a), Sigma = sum phi phi' + ridge I over the visited pairs,
and b(s, a) = coefficient sqrt(phi' Sigma^-1 phi).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.bonuses.base import Bonus, Buffer, Metrics, PairEncoder, Pairs, Spaces
from eniac.cover import log_det
from eniac.errors import require, require_choices

NUM_MEDIAN = 1000
"""Visited pairs between which the median distance is taken."""


class KernelBonus(Bonus):
    encoder: PairEncoder
    frequency: Float[Array, "size features"]
    phase: Float[Array, " features"]
    inverse_width: Float[Array, ""]
    covariances: Float[Array, "capacity features features"]
    precision: Float[Array, "features features"]
    coefficient: float = eqx.field(static=True)

    def features(self, observation: Array, action: Array) -> Float[Array, " features"]:
        """phi(s, a): E phi(x)' phi(y) = exp(-inverse_width |x - y|^2)."""
        x = self.encoder(observation, action)
        angle = jnp.sqrt(2 * self.inverse_width) * (x @ self.frequency) + self.phase
        return math.sqrt(2 / self.phase.shape[0]) * jnp.cos(angle)

    def __call__(self, observation: Array, action: Array) -> Float[Array, ""]:
        if self.coefficient == 0:
            return jnp.zeros(())
        phi = self.features(observation, action)
        return self.coefficient * jnp.sqrt(jnp.maximum(phi @ self.precision @ phi, 0.0))


@dataclass(frozen=True)
class Kernel:
    """The kernel bonus and, with its covariances, the log-det weights of the cover."""

    query_size: ClassVar[int] = 1

    features: int = 64
    """number of random Fourier features"""
    ridge: float = 0.01
    """what is added to the diagonal of the covariance"""
    coefficient: float = 1.0
    """factor of the bonus; 0 is the baseline ZERO"""
    bandwidth: Literal["median", "paper"] = "median"
    """median: 1 / (median distance of visited pairs)^2, set at the first fit; paper: 1, which is
    what the paper's program comes to, since it sets the median after its features are drawn"""

    def __post_init__(self):
        require_choices(self, "kernel.")
        require(self.features >= 1, "kernel.features", self.features, "1 or more")
        require(self.ridge > 0, "kernel.ridge", self.ridge, "above 0")
        require(self.coefficient >= 0, "kernel.coefficient", self.coefficient, "0 or more")

    def init(
        self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...], capacity: int
    ) -> KernelBonus:
        frequency_key, phase_key = jax.random.split(key)
        encoder = PairEncoder(spaces, with_action=True)
        dim = self.features
        return KernelBonus(
            encoder=encoder,
            frequency=jax.random.normal(frequency_key, (encoder.size, dim)),
            phase=jax.random.uniform(phase_key, (dim,), maxval=2 * math.pi),
            inverse_width=jnp.ones(()),
            covariances=jnp.zeros((capacity, dim, dim)),
            precision=jnp.zeros((dim, dim)),
            coefficient=self.coefficient,
        )

    def fit(
        self, key: PRNGKeyArray, bonus: KernelBonus, buffer: Buffer, newest: Pairs, query: Pairs
    ) -> KernelBonus:
        num_newest = newest.action.shape[0]
        place = jnp.maximum(buffer.count // num_newest, 1) - 1
        if self.bandwidth == "median":
            # Once: covariances of features that changed meanwhile could not be added up.
            found = 1 / median_distance(key, bonus.encoder, newest) ** 2
            inverse_width = jnp.where(place == 0, found, bonus.inverse_width)
            bonus = eqx.tree_at(lambda b: b.inverse_width, bonus, inverse_width)
        phi = jax.vmap(bonus.features)(*newest)
        covariances = bonus.covariances.at[place].set(phi.T @ phi)
        total = jnp.sum(covariances, axis=0) + self.ridge * jnp.eye(self.features)
        precision = jnp.linalg.inv(total)
        return eqx.tree_at(lambda b: (b.covariances, b.precision), bonus, (covariances, precision))

    def watch(
        self, key: PRNGKeyArray, bonus: KernelBonus, pairs: Pairs, num: Int[Array, ""]
    ) -> KernelBonus:
        return bonus

    def weights(self, bonus: KernelBonus, count: Int[Array, ""], capacity: int) -> Array:
        ridge = self.ridge * jnp.eye(self.features)
        return log_det(bonus.covariances + ridge[None], count)

    def metrics(self, bonus: KernelBonus) -> Metrics:
        return {"kernel/inverse_width": bonus.inverse_width}


def median_distance(key: PRNGKeyArray, encoder: PairEncoder, pairs: Pairs) -> Float[Array, ""]:
    """The median Euclidean distance between pairs of (s, a) that differ; 1 if none do.

    Where most pairs are equal, as in a small discrete world, the median of all is zero, and a
    kernel of width zero is rounding errors.
    """
    rows = jax.random.randint(key, (2, NUM_MEDIAN), 0, pairs.action.shape[0])
    x, y = (jax.vmap(encoder)(pairs.observation[r], pairs.action[r]) for r in rows)
    distance = jnp.linalg.norm(x - y, axis=-1)
    median = jnp.nanmedian(jnp.where(distance > 0, distance, jnp.nan))
    return jnp.where(jnp.isnan(median), 1.0, median)
