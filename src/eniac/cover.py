"""The policy cover rho_cov: the policies found so far, stacked, each with a weight."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.errors import require
from eniac.policies import ActorCritic


class Cover(eqx.Module):
    """Up to `capacity` policies in one pytree with a leading axis, so that no epoch has a shape of
    its own and all share one compilation. Places from `count` on are empty and have weight 0."""

    policies: Any
    weights: Float[Array, " capacity"]
    count: Int[Array, ""]

    @classmethod
    def empty(cls, policy: ActorCritic, capacity: int) -> Cover:
        """Room for `capacity` policies like `policy`, and none in it."""
        require(capacity >= 1, "the capacity of the cover", capacity, "1 or more")
        room = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), policy)
        return cls(room, jnp.zeros(capacity), jnp.zeros((), jnp.int32))

    @property
    def capacity(self) -> int:
        return self.weights.shape[0]

    def add(self, policy: ActorCritic) -> Cover:
        """Algorithm 1, line 8. All weights become equal; a rule that wants others sets them after.

        A cover that is full stays as it is. Whoever builds one gives it room for all that will
        come, or asks `count < capacity` first.
        """
        full = self.count >= self.capacity
        place = jnp.minimum(self.count, self.capacity - 1)

        def put(room: Array, one: Array) -> Array:
            return room.at[place].set(jnp.where(full, room[place], one))

        count = jnp.minimum(self.count + 1, self.capacity)
        weights = jnp.where(full, self.weights, uniform(self.capacity, count))
        return Cover(jax.tree.map(put, self.policies, policy), weights, count)

    def reweighted(self, weights: Float[Array, " capacity"]) -> Cover:
        return Cover(self.policies, weights, self.count)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Int[Array, "..."]:
        """Places of policies drawn by their weights."""
        return jax.random.categorical(key, jnp.log(self.weights), shape=shape)

    def take(self, place: Int[Array, "..."]) -> Any:
        """The policies at `place`, stacked as `place` is."""
        return jax.tree.map(lambda x: x[place], self.policies)


def uniform(capacity: int, count: Int[Array, ""]) -> Float[Array, " capacity"]:
    """The paper's weights, rho_cov = Unif(d^1, ..., d^n)."""
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
