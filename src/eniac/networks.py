"""Networks: fully connected and convolutional layers, and the running moments of their inputs.

All take one vector; `vmap` makes a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from eniac.errors import ConfigError
from eniac.spaces import Image

DEPTHS: dict[int, tuple[int, ...]] = {
    2: (64, 64),
    4: (64, 128, 128, 64),
    6: (64, 64, 128, 128, 64, 64),
}
"""The paper's three networks (Section 5.3), by the number of hidden layers."""

MOST_LAYERS = 100
"""Hidden layers of the deepest network: compiling takes longer for each."""


@runtime_checkable
class Inputs(Protocol):
    """What a network must know of the vectors it reads: `Encoder` and `PairEncoder` have it."""

    @property
    def size(self) -> int: ...

    @property
    def images(self) -> tuple[Image, ...]: ...


@jax.custom_batching.sequential_vmap
def _orthonormal(x: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """Orthonormal columns that span those of `x`, uniform among all such if `x` is normal.

    Many of them are made one after another: jaxlib (0.10.2) computes a batch of decompositions in
    the threads that wait for it, and several batches at once wait for ever.
    """
    q, r = jnp.linalg.qr(x)
    return q * jnp.sign(jnp.diagonal(r))[None]


def orthogonal(key: PRNGKeyArray, shape: tuple[int, ...], scale: float) -> Float[Array, "..."]:
    """`scale` times a random array whose columns, or rows if these are fewer, are orthonormal.

    As `jax.nn.initializers.orthogonal`, which must not be mapped over (see `_orthonormal`).
    """
    rows, columns = math.prod(shape[:-1]), shape[-1]
    x = jax.random.normal(key, (max(rows, columns), min(rows, columns)))
    q = _orthonormal(x)
    return scale * (q if rows >= columns else q.T).reshape(shape)


class Linear(eqx.Module):
    """x W + b, with an orthogonal W times `scale` and b = 0, as the paper's program starts them."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int, scale: float = 1.0):
        self.weight = orthogonal(key, (inputs, outputs), scale)
        self.bias = jnp.zeros(outputs)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        return x @ self.weight + self.bias


class Convolution(eqx.Module):
    """One convolution with ReLU, with orthogonal filters times sqrt(2) at the start."""

    weight: Float[Array, "side side inputs outputs"]
    bias: Float[Array, " outputs"]
    stride: int = eqx.field(static=True)
    padding: str = eqx.field(static=True)

    def __init__(
        self, key: PRNGKeyArray, inputs: int, outputs: int, side: int, stride: int, padding: str
    ):
        shape = (side, side, inputs, outputs)
        self.weight = orthogonal(key, shape, math.sqrt(2))
        self.bias = jnp.zeros(outputs)
        self.stride, self.padding = stride, padding

    def __call__(
        self, x: Float[Array, "height width inputs"]
    ) -> Float[Array, "lower narrower outputs"]:
        y = jax.lax.conv_general_dilated(
            x[None],
            self.weight,
            window_strides=(self.stride, self.stride),
            padding=self.padding,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )[0]
        return jax.nn.relu(y + self.bias[None, None])


class Convolutions(eqx.Module):
    """What a network makes of a picture: three convolutions, flattened.

    Pictures of 36 pixels a side or more go through the convolutions of Mnih et al. (2015); smaller
    ones, of which those would leave nothing, through 3x3 filters.
    """

    layers: tuple[Convolution, ...]
    size: int = eqx.field(static=True)

    def __init__(self, key: PRNGKeyArray, image: Image):
        sides = image.height, image.width
        if min(sides) >= 36:
            shapes, padding = ((32, 8, 4), (64, 4, 2), (64, 3, 1)), "VALID"
        else:
            shapes, padding = ((16, 3, 2), (32, 3, 2), (32, 3, 2)), "SAME"
        channels, layers = image.channels, []
        for k, (filters, side, stride) in zip(jax.random.split(key, 3), shapes, strict=True):
            layers.append(Convolution(k, channels, filters, side, stride, padding))
            lost = side - 1 if padding == "VALID" else 0
            sides = tuple(math.ceil((n - lost) / stride) for n in sides)
            channels = filters
        self.layers, self.size = tuple(layers), math.prod(sides) * channels

    def __call__(self, x: Float[Array, "height width channels"]) -> Float[Array, " size"]:
        for layer in self.layers:
            x = layer(x)
        return x.reshape(self.size)


class Body(eqx.Module):
    """Fully connected layers with ReLU after each.

    Pictures in the input go through `Convolutions` first, one set of them for each, and join the
    rest of the input. `inputs` is an encoder, or the size of a plain vector.
    """

    layers: tuple[Linear, ...]
    torsos: tuple[Convolutions, ...]
    images: tuple[Image, ...] = eqx.field(static=True)

    def __init__(
        self, key: PRNGKeyArray, inputs: Inputs | int, hidden: Sequence[int], scale: float = 1.0
    ):
        if not hidden or min(hidden) < 1:
            raise ConfigError(
                f"hidden is {tuple(hidden)}; give one size of 1 or more for each hidden layer, "
                "for example (64, 64)."
            )
        size = inputs if isinstance(inputs, int) else inputs.size
        self.images = () if isinstance(inputs, int) else inputs.images
        # Folded in and not split off: a network without pictures draws what it always drew.
        self.torsos = tuple(
            Convolutions(jax.random.fold_in(key, i), image) for i, image in enumerate(self.images)
        )
        for torso, image in zip(self.torsos, self.images, strict=True):
            size += torso.size - image.size
        sizes = (size, *hidden)
        keys = jax.random.split(key, len(hidden))
        self.layers = tuple(
            Linear(k, m, n, scale) for k, m, n in zip(keys, sizes[:-1], sizes[1:], strict=True)
        )

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        if self.images:
            x = self.look(x)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x

    def look(self, x: Float[Array, " inputs"]) -> Float[Array, " features"]:
        """The input with what the convolutions make of it in place of each picture."""
        parts, end = [], 0
        for torso, image in zip(self.torsos, self.images, strict=True):
            parts.append(x[end : image.start])
            end = image.start + image.size
            parts.append(torso(x[image.start : end].reshape(image[1:])))
        return jnp.concatenate([*parts, x[end:]])


class Normaliser(eqx.Module):
    """Subtracts the mean of all vectors seen, and divides by their standard deviation.

    clip((x - mean) / sqrt(variance + 1e-8), -10, 10); before any vector was seen, x itself. The
    segments in `skip`, (start, size) each, are left alone: one-hot codes and pictures have their
    scale. No gradient flows into the moments, so an optimiser leaves them as they are.
    """

    mean: Float[Array, " size"]
    variance: Float[Array, " size"]
    count: Float[Array, ""]
    skip: tuple[tuple[int, int], ...] = eqx.field(static=True)

    @classmethod
    def start(cls, size: int, skip: Sequence[tuple[int, int]] = ()) -> Normaliser:
        """The normaliser before any data. `skip` is `Encoder.unscaled`."""
        return cls(jnp.zeros(size), jnp.ones(size), jnp.zeros(()), tuple(skip))

    def _kept(self) -> np.ndarray:
        kept = np.ones(self.mean.shape[-1], bool)
        for start, size in self.skip:
            kept[start : start + size] = False
        return kept

    def update(self, x: Float[Array, "rows size"], used: Bool[Array, " rows"]) -> Normaliser:
        """The moments with the rows of `x` that are `used`, merged as of Chan et al. (1983)."""
        kept = self._kept()
        if not kept.any():
            return self
        x = jnp.where(used[:, None], x, 0.0)
        new = jnp.sum(used, dtype=jnp.float32)
        mean = jnp.sum(x, axis=0) / jnp.maximum(new, 1.0)
        squares = jnp.sum(jnp.where(used[:, None], x - mean[None], 0.0) ** 2, axis=0)
        count = self.count + new
        share = new / jnp.maximum(count, 1.0)
        apart = mean - self.mean
        # Not through sums of squares: a sum over a whole run would not fit a 32-bit float.
        variance = (
            (1 - share) * self.variance
            + share * squares / jnp.maximum(new, 1.0)
            + share * (1 - share) * apart**2
        )
        changes = jnp.asarray(kept) & (new > 0)
        return Normaliser(
            jnp.where(changes, self.mean + share * apart, self.mean),
            jnp.where(changes, variance, self.variance),
            count,
            self.skip,
        )

    def __call__(self, x: Float[Array, " size"]) -> Float[Array, " size"]:
        kept = self._kept()
        if not kept.any():
            return x
        mean, variance, count = map(jax.lax.stop_gradient, (self.mean, self.variance, self.count))
        scaled = jnp.clip((x - mean) / jnp.sqrt(variance + 1e-8), -10.0, 10.0)
        return jnp.where(jnp.asarray(kept) & (count > 0), scaled, x)
