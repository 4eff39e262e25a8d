"""Stochastic gradient steps: the optimiser of the paper, and shuffled passes over rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

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
    stop: Callable[[Carry], Bool[Array, ""]] | None = None,
) -> Carry:
    """`passes` passes of `step` over the first `count` of `capacity` rows, in minibatches, in an
    order drawn anew each pass.

    `step` gets the indices of its rows and a weight for each. No row is dropped: when `minibatch`
    does not divide `count`, the last minibatch of a pass is filled up with rows of weight 0.
    Once `stop` says so of the carry, no more steps are taken.
    """
    places = jnp.arange(minibatch)

    def one_pass(carry: Carry, key: PRNGKeyArray) -> tuple[Carry, None]:
        order = jnp.pad(permutation(key, capacity, count), (0, -capacity % minibatch))

        def goes_on(now: tuple[Array, Carry]) -> Bool[Array, ""]:
            i, carry = now
            more = i * minibatch < count
            return more if stop is None else more & ~stop(carry)

        def one_step(now: tuple[Array, Carry]) -> tuple[Array, Carry]:
            i, carry = now
            rows = jax.lax.dynamic_slice(order, (i * minibatch,), (minibatch,))
            weight = (i * minibatch + places < count).astype(jnp.float32)
            return i + 1, step(carry, rows, weight)

        return jax.lax.while_loop(goes_on, one_step, (jnp.zeros((), jnp.int32), carry))[1], None

    return jax.lax.scan(one_pass, carry, jax.random.split(key, passes))[0]
