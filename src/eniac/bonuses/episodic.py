"""New in this episode: an elliptical bonus within the episode (E3B, Henaff et al. 2022).

Where every episode is another level, what was visited before says little, and what is new *now*
says much. With C_t = ridge I + sum of phi(s_i) phi(s_i)' over the states s_i of the episode before
time t, the bonus of s_t is coefficient ridge phi(s_t)' C_t^-1 phi(s_t): the coefficient at the
first state, about ridge / (n + ridge) of it at one that was met n times. phi are random Fourier
features, of length 1. Times the width, it is paid only where the whole run has left something to
learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.bonuses.base import Bonus, BonusRule, Metrics
from eniac.bonuses.width import Width, WidthBonus
from eniac.buffer import Buffer, Pairs
from eniac.draws import integers
from eniac.errors import require
from eniac.features import NUM_MEDIAN, RandomFeatures, map_rows
from eniac.sampling.base import Trajectory, flat
from eniac.spaces import PairEncoder, Spaces


class EpisodicBonus(Bonus):
    """`along` a rollout it looks at the episode so far; of a pair alone it is what an episode
    gives that begins there.

    It remembers no more than a rollout: an episode that goes on in the next one is new to it.
    The steps of a roll-in are part of their episode.
    """

    features: RandomFeatures
    ridge: float = eqx.field(static=True)
    coefficient: float = eqx.field(static=True)

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        del observation, action
        return jnp.asarray(self.coefficient, jnp.float32)

    def phi(self, observation: Any, action: Any) -> Float[Array, " features"]:
        wave = self.features(observation, action)
        return wave / jnp.maximum(jnp.linalg.norm(wave), 1e-6)

    def along(self, seen: Trajectory) -> Float[Array, "time envs"]:
        pairs = (flat(seen.observation), flat(seen.action))
        phi = map_rows(self.phi, pairs, max(self.features.encoder.size, self.features.num))
        phi = phi.reshape((*seen.reward.shape, self.features.num))
        ended = jnp.asarray(seen.terminated | seen.truncated)
        after_end = jnp.concatenate([jnp.zeros_like(ended[:1]), ended[:-1]])
        # Some gymnasium environments reset themselves in a step of its own, which sees the end of
        # the episode before, and is not on-policy: it does not count for the next.
        counts = jnp.asarray(seen.on_policy) | ~after_end
        earned = jax.vmap(elliptical, in_axes=(1, 1, 1, None), out_axes=1)(
            phi, after_end, counts, self.ridge
        )
        return self.coefficient * jnp.minimum(earned, 1.0)


def elliptical(
    phi: Float[Array, "time features"],
    begins: Bool[Array, " time"],
    counts: Bool[Array, " time"],
    ridge: float,
) -> Float[Array, " time"]:
    """ridge phi_t' C_t^-1 phi_t along one trajectory, with C = ridge I where an episode `begins`.

    C^-1 is carried along by the formula of Sherman and Morrison; steps that do not count leave it.
    """
    start = jnp.eye(phi.shape[1]) / ridge

    def step(inverse: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        phi, begins, counts = now
        inverse = jnp.where(begins, start, inverse)
        leaning = inverse @ phi
        norm = jnp.maximum(phi @ leaning, 0.0)
        change = jnp.outer(leaning, leaning) / (1 + norm)
        return jnp.where(counts, inverse - change, inverse), ridge * norm

    return jax.lax.scan(step, start, (phi, begins, counts))[1]


@dataclass(frozen=True)
class Episodic(BonusRule):
    """The bonus within the episode, alone."""

    features: int = 64
    """number of random Fourier features of a state"""
    ridge: float = 0.1
    """what the diagonal of the covariance starts with: the less, the sooner a state is old"""
    coefficient: float = 0.5
    """the bonus of the first state of an episode"""

    def __post_init__(self):
        check_episodic("episodic", self.features, self.ridge)
        require(self.coefficient >= 0, "episodic.coefficient", self.coefficient, "0 or more")

    def init(self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]) -> EpisodicBonus:
        del hidden
        return start_episodic(key, spaces, self.features, self.ridge, self.coefficient)

    def update_online(
        self, key: PRNGKeyArray, bonus: EpisodicBonus, pairs: Pairs, num: Int[Array, ""]
    ) -> EpisodicBonus:
        """The kernel's width is the median distance of the states of the first rollout."""
        return with_median(key, bonus, pairs, num)

    def metrics(self, bonus: EpisodicBonus) -> Metrics:
        return {"episodic/inverse_width": bonus.features.inverse_width}


class EpisodicWidthBonus(Bonus):
    """The product of the two bonuses."""

    width: WidthBonus
    episodic: EpisodicBonus

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        return self.width(observation, action) * self.episodic(observation, action)

    def along(self, seen: Trajectory) -> Float[Array, "time envs"]:
        return self.width.along(seen) * self.episodic.along(seen)


@dataclass(frozen=True)
class EpisodicWidth(Width):
    """The width bonus times the bonus within the episode.

    A subclass, and no part made of parts, so that the settings of both stand side by side on the
    command line and in the files.
    """

    episodic_features: int = 64
    """number of random Fourier features of a state, within the episode"""
    episodic_ridge: float = 0.1
    """what the diagonal of their covariance starts with: the less, the sooner a state is old"""

    def __post_init__(self):
        super().__post_init__()
        check_episodic("episodic-width.episodic", self.episodic_features, self.episodic_ridge, "_")

    def init(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...]
    ) -> EpisodicWidthBonus:
        width_key, episodic_key = jax.random.split(key)
        return EpisodicWidthBonus(
            super().init(width_key, spaces, hidden),
            start_episodic(
                episodic_key, spaces, self.episodic_features, self.episodic_ridge, coefficient=1.0
            ),
        )

    def fit(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, key: PRNGKeyArray, bonus: EpisodicWidthBonus, buffer: Buffer, queries: Pairs
    ) -> EpisodicWidthBonus:
        return EpisodicWidthBonus(super().fit(key, bonus.width, buffer, queries), bonus.episodic)

    def update_online(
        self, key: PRNGKeyArray, bonus: EpisodicWidthBonus, pairs: Pairs, num: Int[Array, ""]
    ) -> EpisodicWidthBonus:
        return EpisodicWidthBonus(bonus.width, with_median(key, bonus.episodic, pairs, num))

    def metrics(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, bonus: EpisodicWidthBonus
    ) -> Metrics:
        inverse_width = bonus.episodic.features.inverse_width
        return super().metrics(bonus.width) | {"episodic/inverse_width": inverse_width}


def check_episodic(part: str, features: int, ridge: float, dot: str = ".") -> None:
    require(features >= 1, f"{part}{dot}features", features, "1 or more")
    require(ridge > 0, f"{part}{dot}ridge", ridge, "above 0")


def start_episodic(
    key: PRNGKeyArray, spaces: Spaces, features: int, ridge: float, coefficient: float
) -> EpisodicBonus:
    encoder = PairEncoder(spaces, with_action=False)
    return EpisodicBonus(RandomFeatures.draw(key, encoder, features), ridge, coefficient)


def with_median(
    key: PRNGKeyArray, bonus: EpisodicBonus, pairs: Pairs, num: Int[Array, ""]
) -> EpisodicBonus:
    rows = integers(key, (2, NUM_MEDIAN), jnp.maximum(num, 1))
    found = bonus.features.with_median(pairs, rows)
    features = jax.tree.map(lambda new, old: jnp.where(num > 0, new, old), found, bonus.features)
    return EpisodicBonus(features, bonus.ridge, bonus.coefficient)
