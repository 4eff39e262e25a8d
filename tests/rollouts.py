"""Rollouts of given pairs, for what looks at a rollout as a whole."""

import jax.numpy as jnp
import numpy as np

from eniac.sampling.base import Trajectory


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
