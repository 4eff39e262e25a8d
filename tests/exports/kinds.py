"""A policy for every kind of space, without waiting for the compiler."""

from itertools import cycle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from eniac.exports.comparison import observations_to_try
from eniac.policies import actor_critic
from eniac.provable.policies import TablePolicy
from eniac.spaces import Spaces, canonical, to_env

VECTOR = Box(-1.0, 1.0, (3,), np.float32)

OBSERVATIONS = {
    "vector": VECTOR,
    "unbounded-float64": Box(-np.inf, np.inf, (2, 2), np.float64),
    "float16": Box(-1.0, 1.0, (2,), np.float16),
    "integers": Box(-3, 9, (2,), np.int64),
    "booleans": Box(0, 1, (3,), np.bool_),
    "image": Box(0, 255, (20, 17, 3), np.uint8),
    "large-image-channels-first": Box(0, 255, (2, 36, 40), np.uint8),
    "grid-of-bytes": Box(0, 10, (5, 5, 3), np.uint8),
    "discrete": Discrete(5, start=-2),
    "multi-discrete": MultiDiscrete([[3, 4], [2, 2]]),
    "multi-discrete-of-equals": MultiDiscrete([3, 3], start=[1, 0]),
    "multi-binary": MultiBinary((2, 2)),
    "dict": Dict(
        {
            "place": Box(-1.0, 1.0, (2,), np.float32),
            "door": Discrete(3),
            "inside": Dict({"bits": MultiBinary(2), "picture": Box(0, 255, (16, 16, 1), np.uint8)}),
        }
    ),
    "tuple": Tuple([Box(-1.0, np.inf, (2,), np.float32), MultiBinary(3)]),
}

ACTIONS = {
    "box": Box(-2.0, 3.0, (2,), np.float32),
    "box-float64": Box(np.array([[-0.1, -np.inf]]), np.array([[0.1, 0.3]]), dtype=np.float64),
    "box-unbounded": Box(-np.inf, np.inf, (2,), np.float32),
    "box-of-integers": Box(-5, 5, (2, 2), np.int64),
    "box-without-axes": Box(-1.0, 1.0, (), np.float32),
    "discrete": Discrete(4, start=3),
    "discrete-int32": Discrete(2, dtype=np.int32),
    "multi-discrete": MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [2, 0]]),
    "multi-binary": MultiBinary((2, 3)),
}

SPACES = {
    f"{seen}, {done}": Spaces(OBSERVATIONS[seen], ACTIONS[done])
    for seen, done in zip(OBSERVATIONS, cycle(ACTIONS), strict=False)
}
"""Every kind that is seen, and every kind that is done, in pairs."""


def policy_of(spaces, normalise=True, seed=0):
    """A policy with random weights, whose actions differ from observation to observation."""
    rng = np.random.default_rng(seed)

    def drawn(x):
        scale = 2 / np.sqrt(np.prod(x.shape[:-1])) if len(x.shape) > 1 else 0.1
        return jnp.asarray(scale * rng.normal(size=x.shape), x.dtype)

    shapes = eqx.filter_eval_shape(
        lambda: actor_critic(jax.random.key(0), *spaces, (16, 8), normalise)
    )
    policy = jax.tree.map(drawn, shapes)
    if normalise:
        moments = policy.normaliser.variance**2 + 0.5, jnp.asarray(100.0)
        policy = eqx.tree_at(lambda p: (p.normaliser.variance, p.normaliser.count), policy, moments)
    tried = canonical(spaces.observation, rows(observations_to_try(spaces.observation), slice(16)))
    outputs = jax.vmap(lambda x: policy.action_head(policy.body(policy.encode(x))))(tried)
    return eqx.tree_at(
        lambda p: p.action_head.bias, policy, replace_fn=lambda b: b - outputs.mean(0)
    )


def rows(observations, place):
    return jax.tree.map(lambda x: x[place], observations)


def table(num_states=5, num_actions=3):
    rows = np.random.default_rng(0).dirichlet(np.ones(num_actions), num_states)
    return TablePolicy(jnp.asarray(rows, jnp.float32))


def own_actions(policy, spaces, observations):
    """What the policy does itself."""
    modes = jax.vmap(policy.mode)(canonical(spaces.observation, observations))
    return to_env(spaces.action, np.asarray(modes))
