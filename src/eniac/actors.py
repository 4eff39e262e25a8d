"""The policies that are improved, each with what belongs to it, stacked: one loop does all."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from eniac.policies import ActorCritic
from eniac.rewards import RewardScale


class Actor(NamedTuple):
    """A policy that is being improved, what its update remembers, and the scale of its rewards."""

    policy: ActorCritic
    memory: Any
    scale: RewardScale


def take(stacked: Any, index: Any) -> Any:
    """One of the things that are stacked in the leading axis of all leaves."""
    return jax.tree.map(lambda x: x[index], stacked)


def put(stacked: Any, index: int, one: Any) -> Any:
    """`stacked` with `one` in the place `index`."""
    return jax.tree.map(lambda x, y: jnp.asarray(x).at[index].set(y), stacked, one)
