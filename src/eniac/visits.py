"""Which steps of a rollout see something for the first time in their episode.

Where every episode is another level, that is what tells progress from walking in circles (NovelD,
Zhang et al. 2021: a bonus is paid at the first visit only). It needs observations of which two can
be the same: codes, bytes, truths. Of floats every one is new.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, UInt32

from eniac.bonuses.counts import hashed
from eniac.sampling.base import Trajectory


def first_visits(seen: Trajectory) -> Bool[Array, "time envs"]:
    """Whether no earlier step of the same episode saw the same observation.

    Observations are compared by hashes of 32 bits: two different ones in an episode of a thousand
    steps are taken for the same in one of ten thousand such episodes. Nothing is remembered from
    one rollout to the next, in which an episode that goes on begins anew. The steps of a roll-in
    are part of their episode.
    """
    code = hashes(seen.observation, seen.reward.shape)
    ended = jnp.asarray(seen.terminated | seen.truncated)
    after_end = jnp.concatenate([jnp.zeros_like(ended[:1]), ended[:-1]])
    episode = jnp.cumsum(after_end, axis=0)
    # Some environments reset themselves in a step of its own, which still sees the episode before
    # and is not on-policy.
    counts = jnp.asarray(seen.on_policy) | ~after_end

    def of_one(code: Array, episode: Array, counts: Array) -> Array:
        same = (code[:, None] == code[None]) & (episode[:, None] == episode[None])
        return ~jnp.any(jnp.tril(same & counts[None], k=-1), axis=1)

    return jax.vmap(of_one, in_axes=1, out_axes=1)(code, episode, counts)


def hashes(observation: Any, shape: tuple[int, ...]) -> UInt32[Array, "time envs"]:
    """A hash of each of the observations, which are of whole numbers."""
    leaves = [jnp.asarray(leaf).reshape((*shape, -1)) for leaf in jax.tree.leaves(observation)]
    words = jnp.concatenate([leaf.astype(jnp.uint32) for leaf in leaves], axis=-1)
    return jax.vmap(jax.vmap(lambda row: hashed(row, 3)))(words)
