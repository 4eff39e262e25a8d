"""The width in closed form, for functions that are linear in the critic's last layer.

The critic is V(s) = w' phi(s), phi(s) what its last hidden layer makes of s, with a 1 for the bias.
If only w may change, the functions that agree on the data are an ellipsoid, and how far two of them
differ at a pair is sqrt(phi' Sigma^-1 phi), exactly; Sigma = sum_i w_i phi_i phi_i' + ridge I over
the visited pairs. Nothing is trained: it costs a Gram matrix and its inverse. So that the ridge
means the same in every critic, the layer is shifted and scaled to mean 0 and mean square 1 over the
visited pairs, which the bias makes up for: the functions are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.bonuses.base import Bonus, BonusRule, Metrics, scaled
from eniac.buffer import ROUNDING, Buffer, Pairs
from eniac.errors import ConfigError, require, require_choices, shown
from eniac.features import sum_rows
from eniac.networks import Body, Normaliser
from eniac.policies import ActorCritic
from eniac.spaces import Encoder, Spaces


class LastLayerBonus(Bonus):
    """b(s, a) = coefficient sqrt(ridge phi' Sigma^-1 phi), at most the coefficient.

    Before any data Sigma is ridge I, and the root is the length of phi, 1 or more.
    """

    encoder: Encoder
    normaliser: Normaliser
    body: Body
    center: Float[Array, " layer"]
    """what the layer is on average over the visited pairs, and how far from it"""
    scale: Float[Array, ""]
    precision: Float[Array, "blocks features features"]
    """ridge Sigma^-1: one of all pairs, or one of the pairs of each action"""
    coefficient: float = eqx.field(static=True)
    threshold: float | None = eqx.field(static=True)

    def layer(self, observation: Any) -> Float[Array, " layer"]:
        return self.body(self.normaliser(self.encoder(observation)))

    def features(self, observation: Any) -> Float[Array, " features"]:
        """phi(s)."""
        last = (self.layer(observation) - self.center) / self.scale
        return jnp.concatenate([last, jnp.ones(1)])

    def block(self, action: Any) -> Int[Array, ""]:
        return jnp.asarray(action if self.precision.shape[0] > 1 else 0, jnp.int32)

    def width(self, observation: Any, action: Any) -> Float[Array, ""]:
        phi = self.features(observation)
        square = phi @ self.precision[self.block(action)] @ phi
        return jnp.sqrt(jnp.maximum(square, 0.0))

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        return scaled(self.width(observation, action), self.coefficient, self.threshold)


@dataclass(frozen=True)
class LastLayer(BonusRule):
    """The ellipsoid of the whole buffer, in the features of the exploring policy's critic."""

    of: Literal["state", "state-action"] = "state"
    """what the linear functions are of: the state, as the critic is, or the pair, with weights of
    their own for each of a finite number of actions"""
    ridge: float = 0.01
    """what is added to the diagonal of the covariance; an unvisited state shares most of its
    features with visited ones, and a large ridge hides the rest"""
    coefficient: float = 0.5
    """the bonus of a pair whose features, of length 1 or more, the data leave open altogether"""
    threshold: float | None = None
    """if given, the bonus is `coefficient` where sqrt(ridge phi' Sigma^-1 phi) is at least this,
    else 0 (Eq. 12)"""

    def __post_init__(self):
        require_choices(self, "last-layer.")
        require(self.ridge > 0, "last-layer.ridge", self.ridge, "above 0")
        require(self.coefficient >= 0, "last-layer.coefficient", self.coefficient, "0 or more")
        fits = self.threshold is None or self.threshold > 0
        require(fits, "last-layer.threshold", self.threshold, "above 0, or left out")

    def check(self, spaces: Spaces, finite: bool) -> None:
        del finite
        if self.of == "state-action" and not isinstance(spaces.action, gymnasium.spaces.Discrete):
            raise ConfigError(
                f"bonus.of is 'state-action', and the action space is {shown(spaces.action)}; the "
                "last layer has weights for each action of a Discrete space only. Use --bonus.of "
                "state, or --bonus width --bonus.of state-action."
            )

    def working_memory(self, row: int, hidden: tuple[int, ...]) -> dict[str, int]:
        del row
        return {"hidden, squared by the bonus": 4 * (hidden[-1] + 1) ** 2}

    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> LastLayerBonus:
        encoder = Encoder(spaces.observation)
        pairs = self.of == "state-action"
        blocks = int(spaces.action.n) if pairs else 1  # pyright: ignore[reportAttributeAccessIssue]
        size = hidden[-1] + 1
        return LastLayerBonus(
            encoder=encoder,
            normaliser=Normaliser.start(encoder.size, encoder.unscaled),
            body=Body(key, encoder, hidden),
            center=jnp.zeros(hidden[-1]),
            scale=jnp.ones(()),
            precision=jnp.zeros((blocks, size, size)),
            coefficient=self.coefficient,
            threshold=self.threshold,
        )

    def with_critic(self, bonus: LastLayerBonus, critic: ActorCritic) -> LastLayerBonus:
        """With a copy of its body: the critic goes on learning, and Sigma is of these features."""
        normaliser = bonus.normaliser if critic.normaliser is None else critic.normaliser
        return eqx.tree_at(lambda b: (b.body, b.normaliser), bonus, (critic.body, normaliser))

    def fit(
        self, key: PRNGKeyArray, bonus: LastLayerBonus, buffer: Buffer, queries: Pairs
    ) -> LastLayerBonus:
        """Sigma from all of Z^n."""
        del key, queries
        blocks, size, _ = bonus.precision.shape
        numbers = max(bonus.encoder.size, blocks * size)
        total = jnp.maximum(jnp.sum(buffer.weight), 1.0)

        def summed(of_chunk: Any) -> Array:
            return sum_rows(of_chunk, buffer.pairs, buffer.weight, buffer.count, numbers)

        def weighted(f: Any) -> Array:
            return summed(lambda pairs, w: jnp.tensordot(w, jax.vmap(f)(pairs.observation), 1))

        center = weighted(bonus.layer) / total
        square = weighted(lambda x: jnp.sum((bonus.layer(x) - center) ** 2)) / total
        # Of visits that are all the same the length is as good a unit as any.
        length = jnp.sum(center**2)
        square = jnp.where(square > 1e-6 * length, square, jnp.where(length > 0, length, 1.0))
        bonus = eqx.tree_at(lambda b: (b.center, b.scale), bonus, (center, jnp.sqrt(square)))

        def gram_of_chunk(pairs: Pairs, weight: Array) -> Array:
            phi = jax.vmap(bonus.features)(pairs.observation)
            theirs = jax.nn.one_hot(jax.vmap(bonus.block)(pairs.action), blocks)
            return jnp.einsum("rb,ri,rj->bij", weight[:, None] * theirs, phi, phi)

        def inverse(gram: Array) -> Array:
            # A Gram matrix in 32 bits may be off by more than the ridge, and must stay positive.
            ridge = self.ridge + ROUNDING * jnp.trace(gram)
            factor = jax.scipy.linalg.cho_factor(gram + ridge * jnp.eye(size))
            return ridge * jax.scipy.linalg.cho_solve(factor, jnp.eye(size))

        precision = jax.lax.map(inverse, summed(gram_of_chunk))
        return eqx.tree_at(lambda b: b.precision, bonus, precision)

    def metrics(self, bonus: LastLayerBonus) -> Metrics:
        """The directions of the features that the data leave open, of all there are: with none,
        nothing is unknown to it. ReLUs that are off everywhere are directions that stay open."""
        size = bonus.precision.shape[1]
        open_share = jnp.trace(jnp.mean(bonus.precision, axis=0)) / size
        return {"last_layer/open": open_share}
