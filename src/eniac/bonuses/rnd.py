"""Random network distillation (Burda et al. 2019): the error of predicting a random network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.bonuses.base import Bonus, BonusRule, Metrics
from eniac.buffer import Pairs, num_rows
from eniac.errors import require
from eniac.features import map_rows
from eniac.minibatches import rmsprop, shuffled_passes
from eniac.networks import Body
from eniac.spaces import Encoder, Spaces

MAX_FLOATS = 2**26
"""Encodings of a rollout are computed once if they are at most this many numbers (256 MiB), and
minibatch by minibatch otherwise."""


class RNDBonus(Bonus):
    """b(s) = coefficient (mean squared error of the predictor) / scale."""

    encoder: Encoder
    target: Body
    predictor: Body
    optimiser: Any
    scale: Float[Array, ""]
    variance: Float[Array, ""]
    coefficient: float = eqx.field(static=True)

    def error(self, observation: Any) -> Float[Array, ""]:
        x = self.encoder(observation)
        return jnp.mean((self.predictor(x) - self.target(x)) ** 2)

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        del action
        return self.coefficient * self.error(observation) / self.scale


@dataclass(frozen=True)
class RND(BonusRule):
    """Predictor and target have the policy's body, as in the paper; the head is left out."""

    coefficient: float = 5e3
    """factor of the bonus; the paper's values are 5e3 at depth 2 and 1e3 at depths 4 and 6"""
    learning_rate: float = 1e-4
    """step size of the predictor's RMSprop"""
    minibatch: int = 160
    """rows in a step of the predictor"""
    passes: int = 5
    """passes over the rows of each rollout"""
    normalise: bool = False
    """whether the error is divided by its running standard deviation"""
    decay: float = 0.99
    """how much of the running variance is kept at each rollout"""

    def __post_init__(self):
        require(self.coefficient >= 0, "rnd.coefficient", self.coefficient, "0 or more")
        require(self.learning_rate > 0, "rnd.learning_rate", self.learning_rate, "above 0")
        require(self.minibatch >= 1, "rnd.minibatch", self.minibatch, "1 or more")
        require(self.passes >= 1, "rnd.passes", self.passes, "1 or more")
        require(0 <= self.decay < 1, "rnd.decay", self.decay, "in [0, 1)")

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return rmsprop(self.learning_rate)

    def working_memory(self, row: int, hidden: tuple[int, ...]) -> dict[str, int]:
        each = row + 8 * sum(hidden)
        return {"bonus.minibatch": self.minibatch * each, "bonus.passes": 8 * self.passes}

    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> RNDBonus:
        target_key, predictor_key = jax.random.split(key)
        encoder = Encoder(spaces.observation)
        predictor = Body(predictor_key, encoder, hidden)
        return RNDBonus(
            encoder=encoder,
            target=Body(target_key, encoder, hidden),
            predictor=predictor,
            optimiser=self.optimiser.init(eqx.filter(predictor, eqx.is_inexact_array)),
            scale=jnp.ones(()),
            variance=jnp.zeros(()),
            coefficient=self.coefficient,
        )

    def update_online(
        self, key: PRNGKeyArray, bonus: RNDBonus, pairs: Pairs, num: Int[Array, ""]
    ) -> RNDBonus:
        """`passes` passes of the predictor over the states just seen."""
        capacity, seen = num_rows(pairs), pairs.observation

        def lesson(observation: Any) -> tuple[Array, Array]:
            x = jax.vmap(bonus.encoder)(observation)
            return x, jax.vmap(bonus.target)(x)

        if capacity * bonus.encoder.size <= MAX_FLOATS:
            lessons = lesson(seen)
            lesson_of = lambda rows: jax.tree.map(lambda x: x[rows], lessons)  # noqa: E731
        else:
            lesson_of = lambda rows: lesson(jax.tree.map(lambda x: x[rows], seen))  # noqa: E731

        def step(carry: tuple[Body, Any], rows: Array, weight: Array) -> tuple[Body, Any]:
            predictor, state = carry
            x, target = lesson_of(rows)

            def loss(predictor: Body) -> Array:
                error = jnp.mean((jax.vmap(predictor)(x) - target) ** 2, axis=-1)
                return jnp.sum(weight * error) / jnp.sum(weight)

            change, state = self.optimiser.update(eqx.filter_grad(loss)(predictor), state)
            return eqx.apply_updates(predictor, change), state

        if self.normalise:
            error = map_rows(bonus.error, (seen,), bonus.encoder.size)
            used = (jnp.arange(capacity) < num) / jnp.maximum(num, 1)
            variance = jnp.sum(used * (error - jnp.sum(used * error)) ** 2)
            first = bonus.variance == 0
            variance = jnp.where(
                first, variance, self.decay * bonus.variance + (1 - self.decay) * variance
            )
            scale = jnp.sqrt(variance) + 1e-8
            bonus = eqx.tree_at(lambda b: (b.variance, b.scale), bonus, (variance, scale))
        predictor, state = shuffled_passes(
            key,
            step,
            (bonus.predictor, bonus.optimiser),
            capacity,
            num,
            self.minibatch,
            self.passes,
        )
        return eqx.tree_at(lambda b: (b.predictor, b.optimiser), bonus, (predictor, state))

    def metrics(self, bonus: RNDBonus) -> Metrics:
        return {"rnd/scale": bonus.scale}
