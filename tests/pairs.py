"""Pairs of observation and action: buffers and rollouts of them, and what a bonus gives for them.

All in one program each, because otherwise each operation would be compiled on its own.
"""

import jax
import jax.numpy as jnp
import numpy as np

from eniac.buffer import Buffer, num_rows
from eniac.sampling.base import Trajectory

add = jax.jit(Buffer.add)


def holding(buffer, *visits):
    """The buffer with the visits of one policy after another in it."""
    for place, pairs in enumerate(visits):
        buffer = add(buffer, jax.random.key(0), pairs, num_rows(pairs), place)
    return buffer


def fresh(rule, spaces, hidden, seed=0):
    """The bonus of `rule` before its first fit."""
    return jax.jit(lambda key: rule.init(key, spaces, hidden))(jax.random.key(seed))


@jax.jit
def _each(function, pairs):
    return jax.vmap(function)(*pairs)


def values(function, pairs):
    """What a bonus, or a method of one, gives for each of the pairs."""
    return np.asarray(_each(function, pairs))


def rollout(observation, action, ends=None, on_policy=None):
    """The pairs as what a rollout saw. `ends` says after which steps episodes ended, and after
    which they were cut: by default none."""
    shape = action.shape[:2]
    number = jnp.zeros(shape)
    terminated, truncated = np.zeros((2, *shape), bool) if ends is None else ends
    return Trajectory(
        observation=observation,
        action=action,
        log_prob=number,
        value=number,
        next_value=number,
        reward=number,
        terminated=jnp.asarray(terminated),
        truncated=jnp.asarray(truncated),
        on_policy=jnp.ones(shape, bool) if on_policy is None else jnp.asarray(on_policy),
        num_steps=jnp.asarray(shape[0] * shape[1]),
    )
