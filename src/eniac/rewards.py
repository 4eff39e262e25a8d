"""Rewards over the spread of the returns that they add up to: normalisation over time."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from eniac.networks import Normaliser
from eniac.sampling.base import AnyArray, Trajectory, flat


class RewardScale(eqx.Module):
    """The spread of discounted returns so far, which rewards are divided by."""

    moments: Normaliser

    @classmethod
    def start(cls) -> RewardScale:
        return cls(Normaliser.start(1))

    def update(self, seen: Trajectory, gamma: float) -> RewardScale:
        """With the rewards of a rollout added up along its trajectories, each from zero."""

        def add(total: Array, now: tuple[Any, ...]):
            reward, ended = now
            total = gamma * total + reward
            return jnp.where(ended, 0.0, total), total

        start = jnp.zeros(seen.reward.shape[1])
        ended = seen.terminated | seen.truncated
        totals = jax.lax.scan(add, start, (seen.reward, ended))[1]
        used = jnp.asarray(flat(seen.on_policy))
        return RewardScale(self.moments.update(flat(totals)[:, None], used))

    def __call__(self, reward: Float[AnyArray, "time envs"]) -> Float[Array, "time envs"]:
        return jnp.asarray(reward) / jnp.sqrt(self.moments.variance[0] + 1e-8)
