"""Proximal policy optimisation (Schulman et al. 2017): the policy update of the deep algorithms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.errors import require, require_choices
from eniac.minibatches import clipped, rmsprop, shuffled_passes
from eniac.policies import ActorCritic
from eniac.sampling.base import Metrics, Trajectory, flat, on_policy_first, rollout_advantages
from eniac.updates.base import UpdateRule


class Rows(NamedTuple):
    """What PPO learns from, a row for each step taken."""

    observation: Any
    action: Array
    log_prob: Float[Array, " rows"]
    advantage: Float[Array, " rows"]
    target: Float[Array, " rows"]
    imitated: Bool[Array, " rows"] | None = None
    """steps of a roll-in that did better than the critic thought, to be imitated"""


METRICS = ("policy_loss", "value_loss", "entropy", "kl", "clipped")


@dataclass(frozen=True)
class PPO(UpdateRule):
    """How PPO updates a policy. The defaults are the paper's (its table of ENIAC/PC-PG
    optimisation hyper-parameters; what the table leaves out is from the paper's program)."""

    learning_rate: float = 5e-4
    """step size of the optimiser"""
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """rmsprop is the paper's"""
    clip: float = 0.2
    """how far the probability ratio may leave 1 before its gradient is cut"""
    entropy: float = 0.01
    """weight of the entropy bonus"""
    explore_entropy: float | None = None
    """the same for an exploring policy; None: the same"""
    value_weight: float = 0.5
    """weight of the squared error of the critic"""
    scale_targets: bool = False
    """measure that error in units of the variance of what the critic is fitted to in the update,
    where that is above 1: a few large returns do not fill the gradient"""
    minibatch: int = 160
    """rows in a minibatch; the last one of a pass has what is left"""
    passes: int = 5
    """passes over the rows in one update ("PPO optimization epochs")"""
    imitate: bool = False
    """learn also from the steps of a roll-in, which are thrown away else: where the return turned
    out better than the critic thought, the policy moves towards what the cover did, as far as
    `clip` allows"""
    max_clipped: float = 1.0
    """an update ends, whatever its passes, when the probability ratio of more than this share of a
    minibatch has left the range that `clip` allows: how far one update may move the policy. 1:
    never"""
    max_gradient_norm: float = 5.0
    """gradients longer than this are shortened to it"""
    gamma: float | None = 0.99
    """discount factor; None: 1 - 5 / (the longest episode), at least 0.99 and at most 0.995"""
    gae_lambda: float = 0.95
    """lambda of generalised advantage estimation ("tau_GAE")"""
    value_target: Literal["return", "gae"] = "return"
    """what the critic is fitted to: the bootstrapped return (the paper's program) or advantage
    plus value"""

    def __post_init__(self):
        require_choices(self, "update.")
        for name in ("learning_rate", "clip", "max_gradient_norm"):
            require(getattr(self, name) > 0, f"update.{name}", getattr(self, name), "above 0")
        require(0 < self.max_clipped <= 1, "update.max_clipped", self.max_clipped, "in (0, 1]")
        fits = self.explore_entropy is None or self.explore_entropy >= 0
        require(fits, "update.explore_entropy", self.explore_entropy, "0 or more, or left out")
        for name in ("entropy", "value_weight"):
            require(getattr(self, name) >= 0, f"update.{name}", getattr(self, name), "0 or more")
        for name in ("minibatch", "passes"):
            require(getattr(self, name) >= 1, f"update.{name}", getattr(self, name), "1 or more")
        fits = self.gamma is None or 0 <= self.gamma < 1
        require(fits, "update.gamma", self.gamma, "in [0, 1), or left out")
        require(0 <= self.gae_lambda <= 1, "update.gae_lambda", self.gae_lambda, "in [0, 1]")

    @property
    def optimiser(self) -> optax.GradientTransformation:
        step = (
            rmsprop(self.learning_rate)
            if self.optimizer == "rmsprop"
            else optax.adam(self.learning_rate, eps=1e-5)
        )
        return clipped(step, self.max_gradient_norm)

    def resolve(self, longest: int | None) -> PPO:
        if self.gamma is not None:
            return self
        return replace(self, gamma=min(max(1 - 5 / (longest or 1), 0.99), 0.995))

    def working_memory(self, row: int, hidden: tuple[int, ...]) -> dict[str, int]:
        # The layers forwards and backwards; a key a pass.
        each = row + 8 * sum(hidden)
        return {"update.minibatch": self.minibatch * each, "update.passes": 8 * self.passes}

    def init(self, policy: ActorCritic) -> Any:
        """A fresh state of the optimiser for `policy`."""
        return self.optimiser.init(eqx.filter(policy, eqx.is_inexact_array))

    def learn(
        self,
        key: PRNGKeyArray,
        policy: ActorCritic,
        memory: Any,
        seen: Trajectory,
        explores: Any = False,
    ) -> tuple[ActorCritic, Any, Metrics]:
        """`update` on the on-policy steps of a rollout, and on those of its roll-ins that are to be
        imitated."""
        rows = self.rows(seen)
        used = jnp.asarray(flat(seen.on_policy))
        if self.imitate and seen.rolled_in is not None:
            better = flat(seen.rolled_in) & (rows.advantage > 0)
            rows = rows._replace(imitated=better)
            used = used | better
        order, num = on_policy_first(used)
        rows = jax.tree.map(lambda x: x[order], rows)
        entropy = self.entropy
        if self.explore_entropy is not None:
            entropy = jnp.where(explores, self.explore_entropy, entropy)
        return self.update(key, policy, memory, rows, num, entropy)

    def rows(self, seen: Trajectory) -> Rows:
        """What PPO learns from in a rollout, times and environments in one axis."""
        gamma, gae_lambda = self.gamma, self.gae_lambda
        assert gamma is not None, "settings are resolved before they are used"
        advantage, returns = rollout_advantages(seen, gamma, gae_lambda)
        if self.imitate and seen.rolled_in is not None:
            # What came of it, not what a critic makes of each step: the cover chose many of them.
            advantage = jnp.where(seen.rolled_in, returns - seen.value, advantage)
        target = returns if self.value_target == "return" else advantage + seen.value
        return Rows(*map(flat, (seen.observation, seen.action, seen.log_prob, advantage, target)))

    def loss(
        self,
        policy: ActorCritic,
        rows: Rows,
        weight: Float[Array, " rows"],
        entropy: Any = None,
        unit: Any = 1.0,
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """The clipped surrogate, the squared error of the critic over `unit` and the entropy, added
        up."""

        def row_loss(row: Rows):
            distribution, value = policy(row.observation)
            log_ratio = distribution.log_prob(row.action) - row.log_prob
            ratio = jnp.exp(log_ratio)
            clipped = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
            return {
                "policy_loss": -jnp.minimum(ratio * row.advantage, clipped * row.advantage),
                "value_loss": (value - row.target) ** 2,
                "entropy": distribution.entropy(),
                "kl": ratio - 1 - log_ratio,
                "clipped": (jnp.abs(ratio - 1) > self.clip).astype(jnp.float32),
            }

        parts = jax.vmap(row_loss)(rows)
        # What is imitated says how to act, but not what the policy's own states are worth.
        own = weight if rows.imitated is None else weight * ~rows.imitated
        parts = {
            name: jnp.sum(x * (weight if name == "policy_loss" else own)) / jnp.sum(weight)
            for name, x in parts.items()
        }
        total = (
            parts["policy_loss"]
            + self.value_weight * parts["value_loss"] / unit
            - (self.entropy if entropy is None else entropy) * parts["entropy"]
        )
        return total, parts

    def update(
        self,
        key: PRNGKeyArray,
        policy: ActorCritic,
        optimiser_state: Any,
        rows: Rows,
        count: Int[Array, ""] | int | None = None,
        entropy: Any = None,
    ) -> tuple[ActorCritic, Any, dict[str, Float[Array, ""]]]:
        """`passes` passes of minibatch steps over the first `count` rows (default: all), in an
        order drawn anew each pass.

        Advantages are normalised over the rows used. No row is dropped: when `minibatch` does not
        divide `count`, the last minibatch of a pass is the mean over the rows that are left.
        Metrics are those of the last minibatch.
        """
        capacity = rows.log_prob.shape[0]
        count = jnp.asarray(capacity if count is None else count, jnp.int32)
        used = jnp.arange(capacity) < count
        if rows.imitated is None:
            own = used
            advantage = standardise(rows.advantage, used)
        else:
            own = used & ~rows.imitated
            advantage = standardise(rows.advantage, own, shift=~rows.imitated)
        rows = rows._replace(advantage=advantage)
        unit = 1.0
        if self.scale_targets:
            unit = jnp.maximum(moments(rows.target, own)[1], 1.0)

        def step(carry: tuple[Any, ...], index: Array, weight: Array) -> tuple[Any, ...]:
            policy, optimiser_state, _ = carry
            chosen = jax.tree.map(lambda x: x[index], rows)
            gradient, parts = eqx.filter_grad(self.loss, has_aux=True)(
                policy, chosen, weight, entropy, unit
            )
            change, optimiser_state = self.optimiser.update(gradient, optimiser_state)
            return eqx.apply_updates(policy, change), optimiser_state, parts

        return shuffled_passes(
            key,
            step,
            (policy, optimiser_state, dict.fromkeys(METRICS, jnp.zeros(()))),
            capacity,
            count,
            self.minibatch,
            self.passes,
            None if self.max_clipped >= 1 else lambda carry: carry[2]["clipped"] > self.max_clipped,
        )


def moments(x: Float[Array, " rows"], used: Bool[Array, " rows"]) -> tuple[Array, Array]:
    """The mean and the variance of `x` over the rows that are used."""
    count = jnp.maximum(jnp.sum(used), 1)
    # Chosen, not weighted by zero: zero times infinity is not zero.
    mean = jnp.sum(jnp.where(used, x, 0.0)) / count
    return mean, jnp.sum(jnp.where(used, x - mean, 0.0) ** 2) / count


def standardise(
    x: Float[Array, " rows"],
    used: Bool[Array, " rows"],
    shift: Bool[Array, " rows"] | None = None,
) -> Float[Array, " rows"]:
    """`x` shifted and scaled to mean 0 and variance 1 over the rows that are used; those that are
    not to `shift` are scaled only."""
    mean, variance = moments(x, used)
    if shift is not None:
        mean = jnp.where(shift, mean, 0.0)
    return (x - mean) / (jnp.sqrt(variance) + 1e-8)
