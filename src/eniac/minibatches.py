"""Stochastic gradient steps: the optimiser of the paper, and shuffled passes over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.draws import permutation

Carry = TypeVar("Carry")


def rmsprop(learning_rate: float) -> optax.GradientTransformation:
    """RMSprop as in the paper's program: decay 0.99, epsilon 1e-8 outside the root."""
    return optax.rmsprop(learning_rate, decay=0.99, eps=1e-8, eps_in_sqrt=False)


def clipped(step: optax.GradientTransformation, max_norm: float) -> optax.GradientTransformation:
    """`step`, with gradients longer than `max_norm` shortened to it.

    All parameters are one vector to it: a few operations to compile, not a few for every layer.
    """
    return optax.flatten(optax.chain(optax.clip_by_global_norm(max_norm), step))


def shuffled_passes(
    key: PRNGKeyArray,
    step: Callable[[Carry, Int[Array, " minibatch"], Float[Array, " minibatch"]], Carry],
    carry: Carry,
    capacity: int,
    count: Int[Array, ""],
    minibatch: int,
    passes: int,
) -> Carry:
    """`passes` passes of `step` over the first `count` of `capacity` rows, in minibatches, in an
    order drawn anew each pass.

    `step` gets the indices of its rows and a weight for each. No row is dropped: when `minibatch`
    does not divide `count`, the last minibatch of a pass is filled up with rows of weight 0.
    """
    places = jnp.arange(minibatch)

    def one_pass(carry: Carry, key: PRNGKeyArray) -> tuple[Carry, None]:
        order = jnp.pad(permutation(key, capacity, count), (0, -capacity % minibatch))

        def one_step(i: Array, carry: Carry) -> Carry:
            rows = jax.lax.dynamic_slice(order, (i * minibatch,), (minibatch,))
            return step(carry, rows, (i * minibatch + places < count).astype(jnp.float32))

        return jax.lax.fori_loop(0, -(-count // minibatch), one_step, carry), None

    return jax.lax.scan(one_pass, carry, jax.random.split(key, passes))[0]
