"""Layers, convolutions and the running moments of inputs."""

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from eniac.errors import ConfigError
from eniac.networks import Body, Convolutions, Linear, Normaliser, orthogonal
from eniac.spaces import Encoder, Image, PairEncoder, Spaces

SIGHT = Dict({"a": Box(-1, 1, (2,)), "see": Box(0, 255, (20, 18, 3), np.uint8), "z": Discrete(3)})


@pytest.mark.parametrize(("inputs", "outputs"), [(8, 8), (8, 5), (3, 8), (5, 1)])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_a_layer_starts_orthogonal_times_its_scale_with_zero_bias(inputs, outputs, scale):
    layer = Linear(jax.random.key(1), inputs, outputs, scale)
    weight = np.asarray(layer.weight, np.float64)
    gram = weight.T @ weight if inputs >= outputs else weight @ weight.T
    np.testing.assert_allclose(gram / scale**2, np.eye(len(gram)), atol=1e-5)
    assert not np.any(layer.bias)


def test_layers_of_one_network_start_different_from_each_other():
    body = Body(jax.random.key(0), 8, (8, 8))
    assert not np.allclose(body.layers[0].weight, body.layers[1].weight)


def test_a_body_without_pictures_is_relu_layers_drawn_from_the_splits_of_its_key():
    key, hidden = jax.random.key(4), (7, 5)
    encoder = Encoder(Box(-1, 1, (3,)))
    keys = jax.random.split(key, 2)
    layers = [Linear(keys[0], 3, 7, 0.5), Linear(keys[1], 7, 5, 0.5)]
    x = jnp.array([0.3, -1.0, 2.0])
    y = x
    for layer in layers:
        y = jax.nn.relu(layer(y))
    for inputs in (3, encoder):
        body = Body(key, inputs, hidden, 0.5)
        assert len(jax.tree.leaves(body)) == 4
        for a, b in zip(jax.tree.leaves(body), jax.tree.leaves(layers), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(body(x), y)


@pytest.mark.parametrize("hidden", [(), (0,), (8, -1)])
def test_a_network_without_units_is_refused(hidden):
    with pytest.raises(ConfigError, match="give one size of 1 or more for each hidden layer"):
        Body(jax.random.key(0), 3, hidden)


# Pictures


@pytest.mark.parametrize(
    ("sides", "filters", "size"),
    [
        ((84, 84, 4), [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64)], 7 * 7 * 64),
        ((36, 36, 1), [(8, 8, 1, 32), (4, 4, 32, 64), (3, 3, 64, 64)], 64),
        ((210, 160, 3), [(8, 8, 3, 32), (4, 4, 32, 64), (3, 3, 64, 64)], 22 * 16 * 64),
        ((35, 84, 3), [(3, 3, 3, 16), (3, 3, 16, 32), (3, 3, 32, 32)], 5 * 11 * 32),
        ((16, 17, 12), [(3, 3, 12, 16), (3, 3, 16, 32), (3, 3, 32, 32)], 2 * 3 * 32),
    ],
)
def test_convolutions_have_the_filters_for_their_picture_and_the_size_they_state(
    sides, filters, size
):
    torso = eqx.filter_eval_shape(Convolutions, jax.random.key(0), Image(0, *sides))
    assert [layer.weight.shape for layer in torso.layers] == filters
    assert torso.size == size
    out = eqx.filter_eval_shape(lambda t, x: t(x), torso, jax.ShapeDtypeStruct(sides, jnp.float32))
    assert out.shape == (size,)


def test_a_convolution_is_the_products_with_all_patches():
    layer = Convolutions(jax.random.key(0), Image(0, 36, 40, 2)).layers[0]
    layer = eqx.tree_at(lambda c: c.bias, layer, jnp.linspace(-1, 1, 32))
    x = np.random.default_rng(0).random((36, 40, 2), np.float32)
    weight = np.asarray(layer.weight).reshape(-1, 32)
    patches = [[x[i : i + 8, j : j + 8].ravel() for j in range(0, 33, 4)] for i in range(0, 29, 4)]
    expected = np.maximum(np.asarray(patches) @ weight + np.linspace(-1, 1, 32), 0)
    np.testing.assert_allclose(layer(jnp.asarray(x)), expected, atol=1e-5)
    np.testing.assert_allclose(weight.T @ weight, 2 * np.eye(32), atol=1e-5)


def test_a_body_puts_what_it_makes_of_a_picture_in_its_place():
    encoder = Encoder(SIGHT)
    body = Body(jax.random.key(0), encoder, (6,))
    x = encoder(SIGHT.sample())
    picture = x[2 : 2 + 1080].reshape(20, 18, 3)
    seen = jnp.concatenate([x[:2], body.torsos[0](picture), x[-3:]])
    np.testing.assert_allclose(body(x), jax.nn.relu(body.layers[0](seen)), rtol=1e-6)


def test_every_parameter_of_a_network_that_sees_can_learn():
    spaces = Spaces(Dict({"one": SIGHT, "two": SIGHT}), Box(-1, 1, (2,)))
    encoder = PairEncoder(spaces, with_action=True)
    body = Body(jax.random.key(0), encoder, (16, 8))
    assert len(body.torsos) == 2
    x = jax.random.uniform(jax.random.key(1), (4, encoder.size))
    gradient = jax.jit(jax.grad(lambda body: jnp.sum(jax.vmap(body)(x))))(body)
    for leaf in jax.tree.leaves(gradient):
        assert np.all(np.isfinite(leaf))
        assert np.any(leaf != 0)
    a, b = body.torsos
    assert not np.allclose(a.layers[0].weight, b.layers[0].weight)


def test_a_stack_of_networks_sees_as_each_of_them_alone():
    encoder = Encoder(SIGHT)
    bodies = [Body(jax.random.key(seed), encoder, (4,)) for seed in range(3)]
    stack = jax.tree.map(lambda *x: jnp.stack(x), *bodies)
    x = jax.random.uniform(jax.random.key(1), (2, encoder.size))
    together = jax.jit(jax.vmap(lambda body: jax.vmap(body)(x)))(stack)
    for body, got in zip(bodies, together, strict=True):
        np.testing.assert_allclose(got, jax.vmap(body)(x), rtol=1e-4, atol=1e-6)


# Running moments


def rows(num, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(num, 3)) * [0.1, 1.0, 30.0] + [100.0, 0.0, -5.0]).astype(np.float32)


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_moments_merged_in_pieces_are_those_of_all_rows(pieces):
    x = rows(500)
    normaliser = Normaliser.start(3)
    for piece in np.array_split(x, pieces):
        normaliser = normaliser.update(jnp.asarray(piece), jnp.ones(len(piece), bool))
    exact = x.astype(np.float64)
    np.testing.assert_allclose(normaliser.mean, exact.mean(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(normaliser.variance, exact.var(0), rtol=1e-3)
    assert normaliser.count == 500
    scaled = np.asarray(jax.vmap(normaliser)(x))
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(scaled.std(0), 1, rtol=1e-3)


def test_rows_that_are_not_used_do_not_count_whatever_is_in_them():
    x, used = rows(60), np.random.default_rng(1).random(60) < 0.5
    expected = Normaliser.start(3).update(jnp.asarray(x[used]), jnp.ones(used.sum(), bool))
    x[~used] = np.nan
    got = jax.jit(Normaliser.update)(Normaliser.start(3), jnp.asarray(x), jnp.asarray(used))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    none = got.update(jnp.asarray(x), jnp.zeros(60, bool))
    for a, b in zip(jax.tree.leaves(none), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(a, b)


def test_before_any_data_a_vector_stays_as_it_is():
    x = jnp.array([0.1, -300.0, 1e-20])
    normaliser = Normaliser.start(3)
    np.testing.assert_array_equal(normaliser(x), x)
    normaliser = normaliser.update(x[None], jnp.zeros(1, bool))
    np.testing.assert_array_equal(normaliser(x), x)


def test_normalised_vectors_are_clipped_at_ten():
    normaliser = Normaliser.start(3).update(jnp.asarray(rows(100)), jnp.ones(100, bool))
    np.testing.assert_array_equal(normaliser(jnp.array([1e6, -1e6, 1e6])), [10, -10, 10])


def test_one_hot_codes_and_pictures_are_not_normalised():
    encoder = Encoder(Dict({**SIGHT.spaces, "bits": MultiBinary(2)}))
    normaliser = Normaliser.start(encoder.size, encoder.unscaled)
    x = jax.random.uniform(jax.random.key(0), (40, encoder.size))
    normaliser = normaliser.update(x, jnp.ones(40, bool))
    got = jax.vmap(normaliser)(x)
    np.testing.assert_array_equal(got[:, 2:], x[:, 2:])
    np.testing.assert_allclose(got[:, :2].std(0), 1, rtol=1e-4)
    codes = Encoder(Discrete(3))
    normaliser = Normaliser.start(3, codes.unscaled).update(jnp.eye(3), jnp.ones(3, bool))
    np.testing.assert_array_equal(normaliser(codes(jnp.asarray(2))), [0, 0, 1])


def test_an_optimiser_leaves_the_moments_alone():
    normaliser = Normaliser.start(3).update(jnp.asarray(rows(50)), jnp.ones(50, bool))
    parameters = (normaliser, Linear(jax.random.key(0), 3, 1))

    def loss(parameters):
        normaliser, layer = parameters
        return jnp.sum(layer(normaliser(jnp.array([1.0, 2.0, 3.0]))) ** 2)

    gradient = jax.grad(loss)(parameters)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(gradient[0]))
    assert np.any(gradient[1].weight)
    optimiser = optax.adam(0.1)
    change, _ = optimiser.update(gradient, optimiser.init(parameters))
    after = optax.apply_updates(parameters, change)
    for a, b in zip(jax.tree.leaves(after[0]), jax.tree.leaves(normaliser), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (3, 3, 2, 8)])
def test_orthogonal_weights_are_those_of_jax(shape):
    key = jax.random.key(4)
    expected = jax.nn.initializers.orthogonal(1.5)(key, shape)
    np.testing.assert_allclose(orthogonal(key, shape, 1.5), expected, atol=1e-6)


TWO_SEEDS = """
import jax
jax.config.update("jax_num_cpu_devices", 2)
from eniac import ALGORITHMS, Config
from eniac.runs.program import make_program
make_program(Config(ALGORITHMS["zero"].default, seeds=2).build()).init()
"""


def test_networks_of_two_seeds_and_two_policies_are_made_without_waiting_for_ever():
    # In a process of its own: batches of decompositions have been seen to wait for each other.
    subprocess.run([sys.executable, "-c", TWO_SEEDS], check=True, timeout=120)
