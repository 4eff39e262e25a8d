"""The policy cover rho_cov: the policies found so far, stacked, each with a weight."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.buffer import Pairs, num_rows
from eniac.draws import integers
from eniac.errors import require, require_choices
from eniac.features import NUM_MEDIAN, Bandwidth, RandomFeatures
from eniac.spaces import PairEncoder, Spaces


class Cover(eqx.Module):
    """Up to `capacity` policies in one pytree with a leading axis, so that no epoch has a shape of
    its own and all share one compilation. Places from `count` on are empty and have weight 0."""

    policies: Any
    weights: Float[Array, " capacity"]
    count: Int[Array, ""]
    memory: Any
    """what the rule of the weights knows about the policies"""

    @classmethod
    def empty(cls, policy: Any, capacity: int, memory: Any = ()) -> Cover:
        """Room for `capacity` policies like `policy`, and none in it."""
        require(capacity >= 1, "the capacity of the cover", capacity, "1 or more")
        room = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), policy)
        return cls(room, jnp.zeros(capacity), jnp.zeros((), jnp.int32), memory)

    @property
    def capacity(self) -> int:
        return self.weights.shape[0]

    def add(self, policy: Any) -> Cover:
        """Algorithm 1, line 8. All weights become equal; `reweighted` sets others after.

        A cover that is full stays as it is. Whoever builds one gives it room for all that will
        come, or asks `count < capacity` first.
        """
        full = self.count >= self.capacity
        place = jnp.minimum(self.count, self.capacity - 1)

        def put(room: Array, one: Array) -> Array:
            return room.at[place].set(jnp.where(full, room[place], one))

        count = jnp.minimum(self.count + 1, self.capacity)
        weights = jnp.where(full, self.weights, uniform(self.capacity, count))
        policies = jax.tree.map(put, self.policies, policy)
        return Cover(policies, weights, count, self.memory)

    def reweighted(self, weights: Float[Array, " capacity"]) -> Cover:
        return Cover(self.policies, weights, self.count, self.memory)

    def weighed_by(
        self, rule: CoverRule, key: PRNGKeyArray, newest: Pairs, num: Int[Array, ""] | int
    ) -> Cover:
        """The cover weighed by `rule`, after a policy was added whose visits are the first `num`
        of `newest`."""
        num = jnp.asarray(num, jnp.int32)
        memory, weights = rule.weigh(key, self.memory, newest, num, self.count)
        return Cover(self.policies, weights, self.count, memory)

    def places(self, draws: Float[Array, "..."]) -> Int[Array, "..."]:
        """Places of policies, by their weights: one for each of `draws`, uniform in [0, 1)."""
        ends = jnp.cumsum(self.weights)
        # Of the sum, which rounding may have made a little less than 1: no place has weight 0.
        places = jnp.searchsorted(ends, draws * ends[-1], side="right")
        return jnp.minimum(places, jnp.maximum(self.count - 1, 0)).astype(jnp.int32)

    def take(self, place: Int[Array, "..."]) -> Any:
        """The policies at `place`, stacked as `place` is."""
        return jax.tree.map(lambda x: x[place], self.policies)


class CoverRule(ABC):
    """How the policies of a cover are weighed. A subclass is a frozen dataclass."""

    @abstractmethod
    def init(self, key: PRNGKeyArray, spaces: Spaces, capacity: int) -> Any:
        """What the rule knows of an empty cover of `capacity` policies: a pytree of arrays."""

    @abstractmethod
    def weigh(
        self,
        key: PRNGKeyArray,
        memory: Any,
        newest: Pairs,
        num: Int[Array, ""],
        count: Int[Array, ""],
    ) -> tuple[Any, Float[Array, " capacity"]]:
        """What it knows, and the weights, when the policy at place `count` - 1 was just added.

        The first `num` of `newest` are the pairs which that policy visited. The weights are a
        distribution over the first `count` places.
        """


class Places(eqx.Module):
    """How many policies a cover has room for. Nothing to save, nothing to carry."""

    capacity: int = eqx.field(static=True)


@dataclass(frozen=True)
class Uniform(CoverRule):
    """The paper's weights, rho_cov = Unif(d^1, ..., d^n) (Algorithm 1, line 8)."""

    def init(self, key: PRNGKeyArray, spaces: Spaces, capacity: int) -> Places:
        del key, spaces
        return Places(capacity)

    def weigh(
        self,
        key: PRNGKeyArray,
        memory: Places,
        newest: Pairs,
        num: Int[Array, ""],
        count: Int[Array, ""],
    ) -> tuple[Places, Float[Array, " capacity"]]:
        del key, newest, num
        return memory, uniform(memory.capacity, count)


class Covariances(eqx.Module):
    """Sigma_n of every policy in the cover, and the features that they are covariances of."""

    features: RandomFeatures
    sigma: Float[Array, "capacity features features"]


@dataclass(frozen=True)
class LogDet(CoverRule):
    """PC-PG's weights (Agarwal et al. 2020): those of largest log det(sum_n w_n Sigma_n).

    Sigma_n = (sum phi phi' + ridge I) / num is the mean over the num visits of policy n itself,
    with random Fourier features phi and a ridge that counts as what a visit adds: more visits of
    one policy than of another do not make it weigh more.
    """

    features: int = 64
    """number of random Fourier features"""
    ridge: float = 0.01
    """what is added to the diagonal of the sum over the visits of a policy"""
    bandwidth: Bandwidth = "median"
    """median: 1 / (median distance of visited pairs)^2, set at the first policy; paper: 1, which is
    what the paper's program comes to, since it sets the median after its features are drawn"""

    def __post_init__(self):
        require_choices(self, "log-det.")
        require(self.features >= 1, "log-det.features", self.features, "1 or more")
        require(self.ridge > 0, "log-det.ridge", self.ridge, "above 0")

    def init(self, key: PRNGKeyArray, spaces: Spaces, capacity: int) -> Covariances:
        encoder = PairEncoder(spaces, with_action=True)
        features = RandomFeatures.draw(key, encoder, self.features)
        return Covariances(features, jnp.zeros((capacity, self.features, self.features)))

    def weigh(
        self,
        key: PRNGKeyArray,
        memory: Covariances,
        newest: Pairs,
        num: Int[Array, ""],
        count: Int[Array, ""],
    ) -> tuple[Covariances, Float[Array, " capacity"]]:
        features = memory.features
        num = jnp.maximum(num, 1)
        if self.bandwidth == "median":
            rows = integers(key, (2, NUM_MEDIAN), num)
            features = features.with_median(newest, rows)
        gram = features.gram(newest, jnp.ones(num_rows(newest)), num)
        mean = (gram + self.ridge * jnp.eye(self.features)) / num
        sigma = memory.sigma.at[jnp.maximum(count, 1) - 1].set(mean)
        return Covariances(features, sigma), log_det(sigma, count)


COVERS: dict[str, type[CoverRule]] = {"uniform": Uniform, "log-det": LogDet}


def uniform(capacity: int, count: Int[Array, ""]) -> Float[Array, " capacity"]:
    """1 / count in the first `count` places."""
    return (jnp.arange(capacity) < count) / jnp.maximum(count, 1).astype(jnp.float32)


def log_det(
    covariances: Float[Array, "capacity d d"], count: Int[Array, ""], num_steps: int = 500
) -> Float[Array, " capacity"]:
    """PC-PG's weights: those of largest log det(sum_n w_n Sigma_n) over the first `count`.

    The problem is concave with the simplex as its domain, and w_n <- w_n tr(S^-1 Sigma_n) / d, with
    S the weighted sum, climbs it without a step size (the multiplicative algorithm of optimal
    design; Silvey, Titterington and Torsney 1978).
    """
    dim = covariances.shape[-1]
    # One common factor changes no weight, and keeps the sum well inside float32.
    covariances = covariances / jnp.maximum(jnp.max(jnp.abs(covariances)), 1e-30)

    def climb(_: Any, weights: Array) -> Array:
        mixed = jnp.tensordot(weights, covariances, axes=1)
        factor = jax.scipy.linalg.cho_factor(mixed + 1e-7 * jnp.eye(dim))
        precision = jax.scipy.linalg.cho_solve(factor, jnp.eye(dim))
        weights = weights * jnp.einsum("ij,nji->n", precision, covariances) / dim
        return weights / jnp.sum(weights)

    return jax.lax.fori_loop(0, num_steps, climb, uniform(covariances.shape[0], count))
