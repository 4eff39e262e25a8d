"""Policies: a network body shared by an actor and a critic. A policy is its parameters.

Every policy here is a pytree of arrays, so that policies stack (a cover is a stacked policy),
vmap, and save like any other array. All methods take one observation; `vmap` makes a batch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

DEPTHS: dict[int, tuple[int, ...]] = {
    2: (64, 64),
    4: (64, 128, 128, 64),
    6: (64, 64, 128, 128, 64, 64),
}
"""The paper's three networks (Section 5.3), by the number of hidden layers."""


class Linear(eqx.Module):
    """x W + b, with an orthogonal W times `scale` and b = 0, as the paper's program starts them."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int, scale: float = 1.0):
        self.weight = jax.nn.initializers.orthogonal(scale)(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight + self.bias


class Body(eqx.Module):
    """Fully connected layers with ReLU after each."""

    layers: tuple[Linear, ...]

    def __init__(self, key: PRNGKeyArray, inputs: int, hidden: Sequence[int], scale: float = 1.0):
        if not hidden or min(hidden) < 1:
            raise ValueError(
                f"hidden is {tuple(hidden)}; give one size of 1 or more for each hidden layer, "
                "for example (64, 64)."
            )
        sizes = (inputs, *hidden)
        keys = jax.random.split(key, len(hidden))
        self.layers = tuple(
            Linear(k, m, n, scale) for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
        )

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x


class Encoder(eqx.Module):
    """Turns one observation, or one action, into the vector that a network reads.

    A Box is flattened, a Discrete becomes one-hot.
    """

    size: int = eqx.field(static=True)
    discrete: bool = eqx.field(static=True)

    def __init__(self, space: gymnasium.Space[Any]):
        if isinstance(space, gymnasium.spaces.Discrete):
            if space.start != 0:
                raise ValueError(f"{space} starts at {space.start}; start it at 0.")
            self.size, self.discrete = int(space.n), True
        elif isinstance(space, gymnasium.spaces.Box):
            self.size, self.discrete = math.prod(space.shape), False
        else:
            raise ValueError(
                f"a network cannot read the space {space}; use a Box or Discrete space, for "
                "example through gymnasium.wrappers.FlattenObservation."
            )

    def __call__(self, x: Array) -> Float[Array, " size"]:
        if self.discrete:
            return jax.nn.one_hot(x, self.size)
        return x.astype(jnp.float32).reshape(self.size)


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


class ActorCritic(eqx.Module):
    """A policy pi(.|s) and its value V(s) on a shared body.

    `noise` draws the randomness of many actions at once, and `act` makes one action of one draw:
    drawing ahead is what makes a rollout fast.
    """

    body: eqx.AbstractVar[Body]
    value_head: eqx.AbstractVar[Linear]
    encoder: eqx.AbstractVar[Encoder]

    @abstractmethod
    def __call__(self, observation: Array) -> tuple[Gaussian | Categorical, Float[Array, ""]]:
        """pi(.|s) and V(s) from one pass through the body."""

    @abstractmethod
    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array: ...

    @abstractmethod
    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        """Actions drawn uniformly from the action space."""

    @property
    @abstractmethod
    def log_uniform(self) -> float:
        """The log-density of `uniform`."""

    def act(self, noise: Array, observation: Array) -> tuple[Array, Array, Array]:
        """An action, its log-probability and the value of the state."""
        distribution, value = self(observation)
        action = distribution.transform(noise)
        return action, distribution.log_prob(action), value

    def value(self, observation: Array) -> Float[Array, ""]:
        return self.value_head(self.body(self.encoder(observation)))[0]

    def sample(self, key: PRNGKeyArray, observation: Array) -> Array:
        return self(observation)[0].transform(self.noise(key, ()))

    def mode(self, observation: Array) -> Array:
        return self(observation)[0].mode()


class GaussianActorCritic(ActorCritic):
    """Normal actions: mean = tanh(head), standard deviation = softplus(a free parameter).

    Both are scaled to the action box. An unbounded box has neither tanh nor scale. Actions are
    not clipped here: their log-probability is that of the unclipped one, and the environment clips.
    """

    body: Body
    value_head: Linear
    mean_head: Linear
    std_parameter: Float[Array, " action"]
    encoder: Encoder
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.spaces.Box,
        hidden: Sequence[int],
    ):
        body_key, mean_key, value_key = jax.random.split(key, 3)
        self.encoder = Encoder(observation_space)
        self.low = tuple(float(x) for x in action_space.low.ravel())
        self.high = tuple(float(x) for x in action_space.high.ravel())
        self.body = Body(body_key, self.encoder.size, hidden)
        self.mean_head = Linear(mean_key, hidden[-1], len(self.low), scale=1e-3)
        self.value_head = Linear(value_key, hidden[-1], 1, scale=1e-3)
        self.std_parameter = jnp.zeros(len(self.low))

    @property
    def bounded(self) -> bool:
        return bool(np.all(np.isfinite((*self.low, *self.high))))

    def __call__(self, observation: Array) -> tuple[Gaussian, Float[Array, ""]]:
        features = self.body(self.encoder(observation))
        mean = self.mean_head(features)
        std = jax.nn.softplus(self.std_parameter)
        if self.bounded:
            low, high = jnp.asarray(self.low), jnp.asarray(self.high)
            mean = (low + high) / 2 + (high - low) / 2 * jnp.tanh(mean)
            std = (high - low) / 2 * std
        return Gaussian(mean, std), self.value_head(features)[0]

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(key, (*shape, len(self.low)))

    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        return jax.random.uniform(key, (*shape, len(self.low)), minval=low, maxval=high)

    @property
    def log_uniform(self) -> float:
        return -sum(math.log(high - low) for low, high in zip(self.low, self.high, strict=True))


class CategoricalActorCritic(ActorCritic):
    """A softmax over a finite number of actions."""

    body: Body
    value_head: Linear
    logits_head: Linear
    encoder: Encoder
    num_actions: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.spaces.Discrete,
        hidden: Sequence[int],
    ):
        body_key, logits_key, value_key = jax.random.split(key, 3)
        self.encoder = Encoder(observation_space)
        self.num_actions = Encoder(action_space).size
        self.body = Body(body_key, self.encoder.size, hidden)
        self.logits_head = Linear(logits_key, hidden[-1], self.num_actions, scale=1e-3)
        self.value_head = Linear(value_key, hidden[-1], 1, scale=1e-3)

    def __call__(self, observation: Array) -> tuple[Categorical, Float[Array, ""]]:
        features = self.body(self.encoder(observation))
        return Categorical(self.logits_head(features)), self.value_head(features)[0]

    def noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.gumbel(key, (*shape, self.num_actions))

    def uniform(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.randint(key, shape, 0, self.num_actions, jnp.int32)

    @property
    def log_uniform(self) -> float:
        return -math.log(self.num_actions)


def actor_critic(
    key: PRNGKeyArray,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    hidden: Sequence[int],
) -> GaussianActorCritic | CategoricalActorCritic:
    """A fresh policy for these spaces: normal for a Box of actions, softmax for a Discrete."""
    check_spaces(observation_space, action_space)
    if isinstance(action_space, gymnasium.spaces.Box):
        return GaussianActorCritic(key, observation_space, action_space, hidden)
    assert isinstance(action_space, gymnasium.spaces.Discrete)
    return CategoricalActorCritic(key, observation_space, action_space, hidden)


def check_spaces(
    observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> None:
    """Raises ValueError if no policy here can see the one or act in the other."""
    Encoder(observation_space)
    if isinstance(action_space, gymnasium.spaces.Box):
        if len(action_space.shape) != 1 or np.any(action_space.low >= action_space.high):
            raise ValueError(
                f"the action space is {action_space}; a Box of actions must have one axis, and low "
                "below high everywhere. gymnasium.wrappers.TransformAction can reshape actions."
            )
    elif isinstance(action_space, gymnasium.spaces.Discrete):
        Encoder(action_space)
    else:
        raise ValueError(
            f"the action space is {action_space}; policies act in a Box or Discrete space."
        )
