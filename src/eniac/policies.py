"""Policies: a network body shared by an actor and a critic. A policy is its parameters.

Every policy here is a pytree of arrays, so that policies stack (a cover is a stacked policy),
vmap, and save like any other array. All methods take one observation; `vmap` makes a batch.

There is one policy class. What differs between action spaces is what the last layer's outputs
mean: that is said by an `Actions`, of which there is one for each kind of action space.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.draws import integers
from eniac.networks import Body, Linear, Normaliser
from eniac.spaces import Encoder, check_spaces, emitted

# Distributions


@runtime_checkable
class Distribution(Protocol):
    """A distribution over actions that is a function of its parameters and of standard noise."""

    def transform(self, noise: Array) -> Array:
        """The action that this draw of the noise leads to."""
        ...

    def mode(self) -> Array: ...

    def log_prob(self, action: Array) -> Float[Array, ""]: ...

    def entropy(self) -> Float[Array, ""]: ...


class Gaussian(NamedTuple):
    """Independent normal distributions."""

    mean: Float[Array, " action"]
    std: Float[Array, " action"]

    def transform(self, noise: Float[Array, " action"]) -> Float[Array, " action"]:
        return self.mean + self.std * noise

    def mode(self) -> Float[Array, " action"]:
        return self.mean

    def log_prob(self, action: Float[Array, " action"]) -> Float[Array, ""]:
        z = (action - self.mean) / self.std
        return jnp.sum(-0.5 * z**2 - jnp.log(self.std) - 0.5 * math.log(2 * math.pi))

    def entropy(self) -> Float[Array, ""]:
        return jnp.sum(jnp.log(self.std) + 0.5 * math.log(2 * math.pi * math.e))


class Categorical(NamedTuple):
    """A distribution over {0, ..., n - 1}, by unnormalised log-probabilities."""

    logits: Float[Array, " n"]

    def transform(self, noise: Float[Array, " n"]) -> Array:
        return jnp.argmax(self.logits + noise, axis=-1).astype(jnp.int32)

    def mode(self) -> Array:
        return jnp.argmax(self.logits, axis=-1).astype(jnp.int32)

    def log_prob(self, action: Array) -> Float[Array, ""]:
        # A one-hot product, not an index: gathers are slow to differentiate on CPU.
        chosen = jax.nn.one_hot(action, self.logits.shape[-1])
        return jnp.sum(jax.nn.log_softmax(self.logits) * chosen)

    def entropy(self) -> Float[Array, ""]:
        log_probs = jax.nn.log_softmax(self.logits)
        return -jnp.sum(jnp.exp(log_probs) * log_probs)


class MultiCategorical(eqx.Module):
    """Independent choices, the i-th among {0, ..., nvec[i] - 1}, with their logits side by side."""

    logits: Float[Array, " sum_nvec"]
    nvec: tuple[int, ...] = eqx.field(static=True)

    def _split(self, x: Array) -> list[Array]:
        return jnp.split(x, np.cumsum(self.nvec)[:-1], axis=-1)

    @property
    def parts(self) -> list[Categorical]:
        return [Categorical(logits) for logits in self._split(self.logits)]

    def transform(self, noise: Float[Array, " sum_nvec"]) -> Int[Array, " parts"]:
        drawn = zip(self.parts, self._split(noise), strict=True)
        return jnp.stack([part.transform(z) for part, z in drawn], axis=-1)

    def mode(self) -> Int[Array, " parts"]:
        return jnp.stack([part.mode() for part in self.parts], axis=-1)

    def log_prob(self, action: Int[Array, " parts"]) -> Float[Array, ""]:
        terms = [part.log_prob(action[i]) for i, part in enumerate(self.parts)]
        return jnp.sum(jnp.stack(terms))

    def entropy(self) -> Float[Array, ""]:
        return jnp.sum(jnp.stack([part.entropy() for part in self.parts]))


class Bernoulli(NamedTuple):
    """Independent coins; a logit is log p(1) - log p(0)."""

    logits: Float[Array, " n"]

    def transform(self, noise: Float[Array, " n"]) -> Int[Array, " n"]:
        return (self.logits + noise > 0).astype(jnp.int8)

    def mode(self) -> Int[Array, " n"]:
        return (self.logits > 0).astype(jnp.int8)

    def log_prob(self, action: Int[Array, " n"]) -> Float[Array, ""]:
        return jnp.sum(jax.nn.log_sigmoid(jnp.where(action > 0, self.logits, -self.logits)))

    def entropy(self) -> Float[Array, ""]:
        return jnp.sum(jax.nn.softplus(self.logits) - self.logits * jax.nn.sigmoid(self.logits))


# Kinds of actions


@runtime_checkable
class Actions(Protocol):
    """What the outputs of the last layer mean. A static part of a policy: hashable, no arrays."""

    @property
    def num_outputs(self) -> int:
        """How many numbers the distribution is made of."""
        ...

    @property
    def log_uniform(self) -> float:
        """The log-density of `uniform`."""
        ...

    def distribution(self, outputs: Array, std_parameter: Array | None) -> Distribution: ...

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array: ...

    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array: ...


@dataclass(frozen=True)
class BoxActions:
    """Normal actions: mean = tanh(head), standard deviation = softplus(a free parameter).

    Both are scaled to the action box. An entry that is not bounded on both sides has neither tanh
    nor scale. Actions are not clipped here: their log-probability is that of the unclipped one, and
    `eniac.spaces.to_env` clips.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def num_outputs(self) -> int:
        return len(self.low)

    @cached_property
    def bounded(self) -> tuple[bool, ...]:
        return tuple(map(math.isfinite, np.subtract(self.high, self.low)))

    @cached_property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The box to which actions are scaled, -1 to 1 for an unbounded entry."""
        low = np.where(self.bounded, self.low, -1.0).astype(np.float32)
        return low, np.where(self.bounded, self.high, 1.0).astype(np.float32)

    def distribution(self, outputs: Array, std_parameter: Array | None) -> Gaussian:
        assert std_parameter is not None
        low, high = map(jnp.asarray, self.box)
        std = (high - low) / 2 * jax.nn.softplus(std_parameter)
        mean = (low + high) / 2 + (high - low) / 2 * jnp.tanh(outputs)
        return Gaussian(jnp.where(jnp.asarray(self.bounded), mean, outputs), std)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*shape, self.num_outputs))

    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        low, high = map(jnp.asarray, self.box)
        return jax.random.uniform(key, (*shape, self.num_outputs), minval=low, maxval=high)

    @property
    def log_uniform(self) -> float:
        low, high = self.box
        return -float(np.sum(np.log(high.astype(np.float64) - low)))


@dataclass(frozen=True)
class DiscreteActions:
    """A softmax over a finite number of actions."""

    n: int

    @property
    def num_outputs(self) -> int:
        return self.n

    def distribution(self, outputs: Array, std_parameter: Array | None) -> Categorical:
        return Categorical(outputs)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.gumbel(key, (*shape, self.n))

    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return integers(key, shape, self.n)

    @property
    def log_uniform(self) -> float:
        return -math.log(self.n)


@dataclass(frozen=True)
class MultiDiscreteActions:
    """A softmax for each of several choices."""

    nvec: tuple[int, ...]

    @property
    def num_outputs(self) -> int:
        return sum(self.nvec)

    def distribution(self, outputs: Array, std_parameter: Array | None) -> MultiCategorical:
        return MultiCategorical(outputs, self.nvec)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.gumbel(key, (*shape, self.num_outputs))

    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return integers(key, (*shape, len(self.nvec)), jnp.asarray(self.nvec))

    @property
    def log_uniform(self) -> float:
        return -sum(map(math.log, self.nvec))


@dataclass(frozen=True)
class MultiBinaryActions:
    """A coin for each of n bits."""

    n: int

    @property
    def num_outputs(self) -> int:
        return self.n

    def distribution(self, outputs: Array, std_parameter: Array | None) -> Bernoulli:
        return Bernoulli(outputs)

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.logistic(key, (*shape, self.n))

    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.bernoulli(key, 0.5, (*shape, self.n)).astype(jnp.int8)

    @property
    def log_uniform(self) -> float:
        return -self.n * math.log(2)


def actions_of(space: gymnasium.Space[Any]) -> Actions:
    """The kind of actions for an action space."""
    flat = emitted(space)
    if isinstance(flat, gym.Box):
        return BoxActions(tuple(flat.low.tolist()), tuple(flat.high.tolist()))
    if isinstance(flat, gym.Discrete):
        return DiscreteActions(int(flat.n))
    if isinstance(flat, gym.MultiDiscrete):
        return MultiDiscreteActions(tuple(flat.nvec.tolist()))
    assert isinstance(flat, gym.MultiBinary)
    return MultiBinaryActions(math.prod(flat.shape))


# Policies


class ActorCritic(eqx.Module):
    """A policy pi(.|s) and its value V(s) on a shared body.

    `noise` draws the randomness of many actions at once, and `act` makes one action of one draw:
    drawing ahead is what makes a rollout fast. Actions are elements of
    `eniac.spaces.emitted(action_space)`, and `eniac.spaces.to_env` makes the environment's of them.
    """

    body: Body
    value_head: Linear
    action_head: Linear
    std_parameter: Float[Array, " action"] | None
    encoder: Encoder
    normaliser: Normaliser | None
    actions: Actions = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        hidden: Sequence[int],
        normalise: bool = False,
    ):
        body_key, action_key, value_key = jax.random.split(key, 3)
        self.encoder = Encoder(observation_space)
        self.normaliser = None
        if normalise:
            self.normaliser = Normaliser.start(self.encoder.size, self.encoder.unscaled)
        self.actions = actions_of(action_space)
        num_outputs = self.actions.num_outputs
        self.body = Body(body_key, self.encoder, hidden)
        self.action_head = Linear(action_key, hidden[-1], num_outputs, scale=1e-3)
        self.value_head = Linear(value_key, hidden[-1], 1, scale=1e-3)
        is_box = isinstance(self.actions, BoxActions)
        self.std_parameter = jnp.zeros(num_outputs) if is_box else None

    def encode(self, observation: Any) -> Float[Array, " size"]:
        """The vector that the body reads."""
        x = self.encoder(observation)
        return x if self.normaliser is None else self.normaliser(x)

    def __call__(self, observation: Any) -> tuple[Distribution, Float[Array, ""]]:
        """pi(.|s) and V(s) from one pass through the body."""
        features = self.body(self.encode(observation))
        outputs = self.action_head(features)
        distribution = self.actions.distribution(outputs, self.std_parameter)
        return distribution, self.value_head(features)[0]

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """The randomness of `shape` actions."""
        return self.actions.noise(key, shape)

    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """Actions drawn uniformly from the action space, from -1 to 1 where that is unbounded."""
        return self.actions.uniform(key, shape)

    @property
    def log_uniform(self) -> float:
        """The log-density of `uniform`."""
        return self.actions.log_uniform

    def act(self, noise: Array, observation: Any) -> tuple[Array, Array, Array]:
        """An action, its log-probability and the value of the state."""
        distribution, value = self(observation)
        action = distribution.transform(noise)
        return action, distribution.log_prob(action), value

    def value(self, observation: Any) -> Float[Array, ""]:
        return self.value_head(self.body(self.encode(observation)))[0]

    def action(self, noise: Array, observation: Any) -> Array:
        """The action that this draw of `noise` leads to."""
        return self(observation)[0].transform(noise)

    def mode(self, observation: Any) -> Array:
        return self(observation)[0].mode()


def actor_critic(
    key: PRNGKeyArray,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    hidden: Sequence[int],
    normalise: bool = False,
) -> ActorCritic:
    """A fresh policy for these spaces.

    Normal for a Box of actions, softmax for Discrete and MultiDiscrete, coins for MultiBinary. With
    `normalise` it reads its observations less their running mean and over their running standard
    deviation, which whoever trains it has to update (`policy.normaliser.update`).
    """
    check_spaces(observation_space, action_space)
    return ActorCritic(key, observation_space, action_space, hidden, normalise)
