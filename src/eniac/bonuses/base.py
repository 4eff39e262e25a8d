"""What a bonus b^n is, and how the loop asks for one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from eniac.policies import Encoder

Metrics = dict[str, Array]


class Spaces(NamedTuple):
    observation: gymnasium.Space[Any]
    action: gymnasium.Space[Any]


class Pairs(NamedTuple):
    """State-action pairs, a row each."""

    observation: Array
    action: Array


class Buffer(eqx.Module):
    """Z^n: the pairs that the policies of the cover visited, as many for each, in their order."""

    pairs: Pairs
    count: Int[Array, ""]

    @classmethod
    def empty(cls, spaces: Spaces, capacity: int) -> Buffer:
        def room(space: gymnasium.Space[Any]) -> Array:
            # Spaces speak of 64 bits where JAX has 32.
            dtype = jax.dtypes.canonicalize_dtype(space.dtype or "float32")
            return jnp.zeros((capacity, *(space.shape or ())), dtype)

        return cls(Pairs(*map(room, spaces)), jnp.zeros((), jnp.int32))

    def add(self, pairs: Pairs) -> Buffer:
        """Z^n = Z^{n-1} and `pairs` (Algorithm 1, line 7). A full buffer stays as it is."""
        rows = pairs.action.shape[0]
        fits = self.count + rows <= self.pairs.action.shape[0]

        def put(room: Array, new: Array) -> Array:
            start = (self.count, *(0 for _ in room.shape[1:]))
            changed = jax.lax.dynamic_update_slice(room, new.astype(room.dtype), start)
            return jnp.where(fits, changed, room)

        merged = jax.tree.map(put, self.pairs, pairs)
        return Buffer(merged, self.count + jnp.where(fits, rows, 0))


class Bonus(eqx.Module):
    """A fitted bonus: b(s, a) of one pair."""

    @abstractmethod
    def __call__(self, observation: Array, action: Array) -> Float[Array, ""]: ...


class BonusRule(Protocol):
    """How a bonus comes about. Its fields are its hyper-parameters."""

    @property
    def query_size(self) -> int:
        """How many query pairs a fit asks for."""
        ...

    def init(
        self, key: PRNGKeyArray, spaces: Spaces, hidden: tuple[int, ...], capacity: int
    ) -> Any:
        """The bonus before anything was seen, for a cover of `capacity` policies."""
        ...

    def fit(
        self, key: PRNGKeyArray, bonus: Any, buffer: Buffer, newest: Pairs, query: Pairs
    ) -> Any:
        """b^n (Algorithm 1, line 9) from Z^n, its newest part, and the query pairs Z_Q^n."""
        ...

    def watch(self, key: PRNGKeyArray, bonus: Any, pairs: Pairs, num: Int[Array, ""]) -> Any:
        """The bonus after the exploring policy walked through the first `num` of `pairs`."""
        ...

    def weights(
        self, bonus: Any, count: Int[Array, ""], capacity: int
    ) -> Float[Array, " capacity"]:
        """The weights of the policies in the cover."""
        ...

    def metrics(self, bonus: Any) -> Metrics:
        """What the last fit was like. The names are the same in every epoch."""
        ...


class PairEncoder(eqx.Module):
    """The vector that a network or a kernel reads of a pair, or of its state alone.

    Actions outside a box count as the nearest inside, which is what the environment makes of them.
    """

    observation: Encoder
    action: Encoder | None
    low: tuple[float, ...] = eqx.field(static=True)
    high: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, spaces: Spaces, with_action: bool):
        self.observation = Encoder(spaces.observation)
        self.action = Encoder(spaces.action) if with_action else None
        bounds = [bounds_of(space) for space in (spaces if with_action else spaces[:1])]
        self.low = tuple(x for low, _ in bounds for x in low)
        self.high = tuple(x for _, high in bounds for x in high)

    @property
    def size(self) -> int:
        return len(self.low)

    @property
    def bounds(self) -> tuple[Float[Array, " size"], Float[Array, " size"]]:
        return jnp.asarray(self.low), jnp.asarray(self.high)

    def __call__(self, observation: Array, action: Array) -> Float[Array, " size"]:
        state = self.observation(observation)
        if self.action is None:
            return state
        low, high = (bound[self.observation.size :] for bound in self.bounds)
        return jnp.concatenate([state, jnp.clip(self.action(action), low, high)])

    def uniform(
        self, key: PRNGKeyArray, num: int, low: Float[Array, " size"], high: Float[Array, " size"]
    ) -> Float[Array, "num size"]:
        """Encodings of random pairs: uniform between `low` and `high` where the space is a box,
        all elements alike where it is discrete."""
        drawn = jax.random.uniform(key, (num, self.size), minval=low, maxval=high)
        start = 0
        for part in (self.observation, self.action):
            if part is not None and part.discrete:
                element_key = jax.random.fold_in(key, start)
                element = jax.random.randint(element_key, (num,), 0, part.size)
                drawn = drawn.at[:, start : start + part.size].set(jax.vmap(part)(element))
            start += part.size if part is not None else 0
        return drawn


def bounds_of(space: gymnasium.Space[Any]) -> tuple[list[float], list[float]]:
    """The least and the largest encoding of an element of `space`."""
    if isinstance(space, gymnasium.spaces.Box):
        return list(map(float, space.low.ravel())), list(map(float, space.high.ravel()))
    size = Encoder(space).size
    return [0.0] * size, [1.0] * size
