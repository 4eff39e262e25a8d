"""Spaces as arrays: stored, encoded, drawn, sent to an environment, and written to files."""

import json
import math
from collections import OrderedDict

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st

from eniac.draws import integers
from eniac.envs.observations import select_keys
from eniac.errors import ConfigError
from eniac.spaces import (
    Encoder,
    Image,
    PairEncoder,
    Spaces,
    canonical,
    check_spaces,
    emitted,
    empty,
    from_json,
    to_env,
    to_json,
)

VECTOR = Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64)
PICTURE = Box(0, 255, (16, 20, 3), np.uint8)
NESTED = Dict(
    {
        "where": VECTOR,
        "what": Tuple([Discrete(3, start=-1), MultiBinary(2)]),
        "see": PICTURE,
        "held": MultiDiscrete([2, 3], start=[1, 0]),
    }
)
OBSERVATIONS = {
    "vector": VECTOR,
    "matrix": Box(-3.0, 3.0, (2, 3), np.float32),
    "scalar": Box(-3.0, 3.0, (), np.float32),
    "bytes": Box(0, 255, (7, 7, 3), np.uint8),
    "integers": Box(-5, 5, (3,), np.int64),
    "booleans": Box(0, 1, (3,), np.bool_),
    "picture": PICTURE,
    "discrete": Discrete(4),
    "shifted discrete": Discrete(4, start=-2),
    "multi-discrete": MultiDiscrete([2, 3, 3]),
    "multi-discrete matrix": MultiDiscrete([[2, 3], [4, 1]], start=[[0, 5], [-1, 2]]),
    "multi-binary": MultiBinary(3),
    "multi-binary matrix": MultiBinary([2, 2]),
    "nested": NESTED,
}
ACTIONS = {
    "box": Box(np.array([-2.0, 0.0]), np.array([6.0, 0.5]), dtype=np.float64),
    "float32 box": Box(-0.1, 0.7, (3,), np.float32),
    "matrix": Box(-1.0, 1.0, (2, 3), np.float32),
    "scalar": Box(-1.0, 1.0, (), np.float32),
    "unbounded": Box(-np.inf, np.inf, (2,), np.float32),
    "half bounded": Box(np.float32([0, -1]), np.float32([np.inf, 1])),
    "integers": Box(-5, 3, (2,), np.int64),
    "bytes": Box(0, 255, (2,), np.uint8),
    "unbounded integers": Box(-np.inf, np.inf, (2,), np.int64),
    "discrete": Discrete(4),
    "shifted discrete": Discrete(4, start=7),
    "multi-discrete": MultiDiscrete([2, 3, 3]),
    "multi-discrete matrix": MultiDiscrete([[2, 3], [4, 1]], start=[[0, 5], [-1, 2]]),
    "multi-binary": MultiBinary(3),
    "multi-binary matrix": MultiBinary([2, 2]),
}


def of(table):
    return pytest.mark.parametrize("space", table.values(), ids=table.keys())


def samples(space, num=20, seed=0):
    space.seed(seed)
    return [space.sample() for _ in range(num)]


def emissions(space, num=50, seed=0):
    """What policies may emit: any float for a box, any element for the others."""
    flat = emitted(space)
    if isinstance(flat, Box):
        return np.random.default_rng(seed).normal(size=(num, *flat.shape)).astype(np.float32) * 10
    return canonical(flat, np.stack(samples(flat, num, seed)))


# Stored elements


@of(OBSERVATIONS)
def test_room_has_the_structure_shapes_and_types_of_canonical_elements(space):
    room = empty(space, 5)
    stored = canonical(space, batch_space(space, 5).sample())
    assert jax.tree.structure(room) == jax.tree.structure(stored)
    for a, b in zip(jax.tree.leaves(room), jax.tree.leaves(stored), strict=True):
        assert isinstance(b, np.ndarray)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        assert not np.any(a)
        assert jnp.asarray(b).dtype == b.dtype


def test_elements_are_stored_in_32_bits_and_less():
    dtypes = jax.tree.map(lambda x: x.dtype, empty(NESTED, 1))
    assert dtypes == {
        "where": jnp.float32,
        "what": (jnp.int32, jnp.int8),
        "see": jnp.uint8,
        "held": jnp.int32,
    }
    assert empty(Box(-1, 1, (2,), np.int64), 1).dtype == jnp.int32
    assert empty(Box(0, 1, (2,), np.uint64), 1).dtype == jnp.uint32
    assert empty(Box(-1, 1, (2,), np.float16), 1).dtype == jnp.float16


def test_canonical_elements_are_plain_containers_with_sorted_keys():
    given = OrderedDict(b=np.ones((2, 1)), a=[np.zeros((2,), np.int64), [1, 0]])
    space = Dict(OrderedDict(b=Box(0, 1, (1,)), a=Tuple([Discrete(2), Discrete(2)])))
    stored = canonical(space, given)
    assert type(stored) is dict
    assert list(stored) == ["a", "b"]
    assert type(stored["a"]) is tuple
    np.testing.assert_array_equal(stored["a"][1], [1, 0])


def test_canonical_does_not_copy_what_is_stored_already():
    given = np.zeros((3, 16, 20, 3), np.uint8)
    assert canonical(PICTURE, given) is given


def test_one_observation_is_canonical_as_a_batch_is():
    for observation in samples(NESTED, 3):
        one = canonical(NESTED, observation)
        batch = canonical(NESTED, jax.tree.map(lambda x: np.asarray(x)[None], one))
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[0]), one, batch)


# Encodings


@of(OBSERVATIONS)
def test_every_element_is_encoded_as_floats_within_the_bounds(space):
    encoder = Encoder(space)
    low, high = encoder.bounds
    assert low.shape == high.shape == (encoder.size,)
    for element in samples(space):
        x = encoder(canonical(space, element))
        assert x.shape == (encoder.size,)
        assert x.dtype == jnp.float32
        assert np.all((low <= x) & (x <= high))


@of(OBSERVATIONS)
def test_different_elements_have_different_encodings(space):
    elements = samples(space, 30)
    codes = [np.asarray(Encoder(space)(canonical(space, x))).tobytes() for x in elements]
    assert len(set(codes)) == len({str(jax.tree.map(np.asarray, x)) for x in elements})


@of(OBSERVATIONS)
def test_encoders_of_equal_spaces_are_equal_and_hash_quickly(space):
    a, b = Encoder(space), Encoder(from_json(to_json(space)))
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert hash(jax.tree.structure(a)) == hash(jax.tree.structure(b))
    assert not jax.tree.leaves(a)


def test_a_nested_observation_is_joined_in_the_order_of_its_sorted_keys():
    see = np.arange(16 * 20 * 3).reshape(16, 20, 3) % 256
    element = {
        "where": np.array([0.5, 2.0]),
        "what": (np.int64(1), np.array([1, 0])),
        "see": see.astype(np.uint8),
        "held": np.array([2, 1]),
    }
    encoder = Encoder(NESTED)
    x = np.asarray(encoder(element))
    held, what, where = [0, 1, 0, 1, 0], [0, 0, 1, 1, 0], [0.5, 2.0]
    np.testing.assert_allclose(x, [*held, *(see.ravel() / 255), *what, *where], rtol=1e-6)
    assert encoder.images == (Image(5, 16, 20, 3),)
    assert encoder.discrete == ((0, 2), (2, 3), (965, 3))
    assert encoder.unscaled == ((0, 5), (5, 960), (965, 3), (968, 2))
    low, high = encoder.bounds
    np.testing.assert_array_equal(low[-2:], [-1, 0])
    np.testing.assert_array_equal(high[-2:], [1, np.inf])
    assert not np.any(low[:-2])
    assert np.all(high[:-2] == 1)


@pytest.mark.parametrize(("n", "start"), [(4, 0), (4, -2), (1, 9)])
def test_a_discrete_element_is_one_hot_from_its_start(n, start):
    encoder = Encoder(Discrete(n, start=start))
    np.testing.assert_array_equal(jax.vmap(encoder)(jnp.arange(start, start + n)), np.eye(n))


@pytest.mark.parametrize("nvec", [[3, 3], [2, 3, 1]])
def test_a_multi_discrete_element_is_the_one_hot_codes_side_by_side(nvec):
    start = np.arange(len(nvec)) - 1
    space = MultiDiscrete(nvec, start=start)
    for element in samples(space):
        codes = [np.eye(n)[x] for n, x in zip(nvec, element - start, strict=True)]
        np.testing.assert_array_equal(Encoder(space)(jnp.asarray(element)), np.concatenate(codes))


def test_small_boxes_of_bytes_are_numbers_and_large_ones_pictures():
    codes = np.arange(147, dtype=np.uint8).reshape(7, 7, 3)
    grid = Encoder(Box(0, 255, (7, 7, 3), np.uint8))
    np.testing.assert_array_equal(grid(codes), np.arange(147))
    assert grid.images == ()
    assert float(grid.bounds[1].max()) == 255
    for shape in ((16, 16), (15, 16, 3), (16, 15, 3), (3, 15, 16)):
        assert Encoder(Box(0, 255, shape, np.uint8)).images == ()
    assert Encoder(Box(0, 255, (16, 16, 3), np.float32)).images == ()
    assert Encoder(Box(0, 255, (84, 84, 4), np.uint8)).images == (Image(0, 84, 84, 4),)


@pytest.mark.parametrize("channels", [1, 3, 4, 12])
def test_a_picture_with_its_channels_first_is_encoded_as_one_with_them_last(channels):
    first, last = (Box(0, 255, s, np.uint8) for s in ((channels, 20, 18), (20, 18, channels)))
    assert Encoder(first).images == Encoder(last).images == (Image(0, 20, 18, channels),)
    picture = samples(last, 1)[0]
    np.testing.assert_array_equal(
        Encoder(first)(picture.transpose(2, 0, 1)), Encoder(last)(picture)
    )
    np.testing.assert_allclose(
        Encoder(last)(picture).reshape(20, 18, channels), picture / 255, rtol=1e-6
    )


def test_bytes_that_stop_short_of_255_are_divided_by_what_they_reach():
    encoder = Encoder(Box(0, 1, (16, 16, 2), np.uint8))
    np.testing.assert_array_equal(encoder(jnp.ones((16, 16, 2), jnp.uint8)), 1)


def test_the_bounds_of_a_large_picture_are_kept_in_one_run():
    parts = Encoder(Box(0, 255, (210, 160, 3), np.uint8)).parts
    assert parts[0].bounds == ((0.0, 1.0, 210 * 160 * 3),)
    assert Encoder(Box(-1, 1, (50, 50), np.float32)).parts[0].bounds == ((-1.0, 1.0, 2500),)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["C++ limits", "infinite", "huge"])
def test_bounds_that_say_nothing_count_as_unbounded(dtype, kind):
    limits = np.finfo(dtype)
    low, high = {
        "C++ limits": (limits.tiny, limits.max),
        "infinite": (-np.inf, np.inf),
        "huge": (-1e31, 1e31),
    }[kind]
    space = Box(np.array([low, -1, 0, 1e-6], dtype), np.array([high, 1, 2, 1], dtype), dtype=dtype)
    got_low, got_high = Encoder(space).bounds
    np.testing.assert_allclose(got_low, np.array([-np.inf, -1, 0, 1e-6]), rtol=1e-6)
    np.testing.assert_allclose(got_high, [np.inf, 1, 2, 1], rtol=1e-6)


# Pairs

DISCRETE = Spaces(Discrete(3), Discrete(2))
BOX = Spaces(VECTOR, Box(-2.0, 2.0, (1,), np.float32))


def test_a_pair_is_the_state_and_the_action_clipped_into_its_box():
    encode = PairEncoder(BOX, with_action=True)
    assert encode.size == 3
    for action, clipped in ((0.5, 0.5), (7.0, 2.0), (-7.0, -2.0)):
        got = encode(jnp.asarray([0.25, 9.0]), jnp.asarray([action]))
        np.testing.assert_array_equal(got, [0.25, 9.0, clipped])


def test_a_state_alone_does_not_depend_on_the_action():
    encode = PairEncoder(BOX, with_action=False)
    assert encode.size == 2
    got = encode(jnp.asarray([0.25, 9.0]), jnp.asarray([0.5]))
    np.testing.assert_array_equal(got, [0.25, 9.0])


def test_discrete_states_and_actions_are_one_hot_side_by_side():
    encode = PairEncoder(DISCRETE, with_action=True)
    np.testing.assert_array_equal(encode(jnp.asarray(2), jnp.asarray(0)), [0, 0, 1, 1, 0])
    np.testing.assert_array_equal(encode(jnp.asarray(0), jnp.asarray(1)), [1, 0, 0, 0, 1])
    assert encode.discrete == ((0, 3), (3, 2))


def test_a_pair_has_the_action_that_the_policy_emitted_and_not_the_environments():
    encode = PairEncoder(Spaces(Discrete(2), Discrete(3, start=5)), with_action=True)
    np.testing.assert_array_equal(encode(jnp.asarray(0), jnp.asarray(2)), [1, 0, 0, 0, 1])


@of(ACTIONS)
def test_emitted_actions_of_every_space_are_encoded_within_the_bounds(space):
    encode = PairEncoder(Spaces(NESTED, space), with_action=True)
    low, high = encode.bounds
    observation = canonical(NESTED, samples(NESTED, 1)[0])
    x = jax.vmap(lambda action: encode(observation, action))(jnp.asarray(emissions(space)))
    assert x.shape == (50, encode.size)
    assert np.all((low[None] <= x) & (x <= high[None]))
    assert encode.images == Encoder(NESTED).images
    for start, size in encode.discrete:
        np.testing.assert_array_equal(x[:, start : start + size].sum(1), 1)


def test_uniform_pairs_are_uniform_in_boxes_and_over_all_elements():
    action = MultiDiscrete([2, 3])
    encode = PairEncoder(Spaces(Tuple([VECTOR, Discrete(4), MultiBinary(2)]), action), True)
    low, high = jnp.zeros(encode.size), jnp.full(encode.size, 2.0)
    num = 4000
    x = np.asarray(encode.uniform(jax.random.key(0), num, low, high))
    assert x.shape == (num, 2 + 4 + 2 + 5)
    counts = np.histogram(x[:, 0], 10, (0, 2))[0]
    assert counts.sum() == num
    assert scipy.stats.chisquare(counts).pvalue > 1e-3
    assert encode.discrete == ((2, 4), (8, 2), (10, 3))
    chosen = []
    for start, size in encode.discrete:
        codes = x[:, start : start + size]
        assert np.all(codes.sum(1) == 1)
        assert np.all((codes == 0) | (codes == 1))
        assert scipy.stats.chisquare(codes.sum(0)).pvalue > 1e-3
        chosen.append(codes.argmax(1))
    bits = x[:, 6:8].astype(int)
    joint = np.bincount(bits[:, 0] + 2 * bits[:, 1] + 4 * chosen[1] + 8 * chosen[2], minlength=24)
    assert scipy.stats.chisquare(joint).pvalue > 1e-3


def test_uniform_pairs_are_one_draw_for_all_boxes_and_one_for_each_discrete_part():
    key, num = jax.random.key(3), 50
    encode = PairEncoder(BOX, True)
    low, high = jnp.array([-1.0, 0.0, -2.0]), jnp.array([1.0, 5.0, 2.0])
    expected = jax.random.uniform(key, (num, 3), minval=low, maxval=high)
    np.testing.assert_array_equal(encode.uniform(key, num, low, high), expected)
    encode = PairEncoder(DISCRETE, True)
    parts = [
        jax.nn.one_hot(integers(jax.random.fold_in(key, start), (num,), n), n)
        for start, n in ((0, 3), (3, 2))
    ]
    np.testing.assert_array_equal(
        encode.uniform(key, num, jnp.zeros(5), jnp.ones(5)), jnp.concatenate(parts, axis=1)
    )


# Actions for environments


@of(ACTIONS)
def test_what_a_policy_emits_becomes_an_element_of_the_action_space(space):
    batch = emissions(space)
    actions = to_env(space, batch)
    assert isinstance(actions, np.ndarray)
    assert actions.shape == (50, *space.shape)
    assert actions.dtype == space.dtype
    for one, action in zip(batch, actions, strict=True):
        assert space.contains(to_env(space, one))
        np.testing.assert_array_equal(to_env(space, one), action)


@of(ACTIONS)
def test_compiled_actions_equal_those_of_numpy(space):
    batch = emissions(space)
    expected = to_env(space, batch)
    one_by_one = jax.jit(jax.vmap(lambda action: to_env(space, action)))(jnp.asarray(batch))
    together = to_env(space, jnp.asarray(batch))
    for got in (one_by_one, together):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_actions_are_clipped_rounded_and_shifted():
    box = Box(-1.0, 1.0, (2, 1), np.float64)
    np.testing.assert_array_equal(to_env(box, np.float32([0.5, 9.0])), [[0.5], [1.0]])
    whole = Box(0, 5, (3,), np.int32)
    np.testing.assert_array_equal(to_env(whole, np.float32([-3, 2.6, 99])), [0, 3, 5])
    assert to_env(Discrete(3, start=5), np.int32(2)) == 7
    multi = MultiDiscrete([[2], [3]], start=[[4], [-1]])
    np.testing.assert_array_equal(to_env(multi, np.array([1, 2])), [[5], [1]])
    np.testing.assert_array_equal(to_env(MultiBinary([2, 1]), np.array([1, 0])), [[1], [0]])


def test_emitted_actions_are_flat_and_count_from_zero():
    assert emitted(Box(-1.0, 1.0, (2, 3), np.float64)) == Box(-1.0, 1.0, (6,), np.float32)
    assert emitted(Discrete(3, start=5)) == Discrete(3)
    assert emitted(ACTIONS["multi-discrete matrix"]) == MultiDiscrete([2, 3, 4, 1])
    assert emitted(MultiBinary([2, 3])) == MultiBinary(6)
    limits = np.finfo(np.float32)
    assert emitted(Box(limits.min, limits.max, (2,))) == Box(-np.inf, np.inf, (2,))


# Refusals


@of(OBSERVATIONS)
def test_supported_spaces_pass_the_check(space):
    for action in ACTIONS.values():
        check_spaces(space, action)


REFUSED = {
    "text": Text(5),
    "sequence": gymnasium.spaces.Sequence(Discrete(2)),
    "graph": gymnasium.spaces.Graph(Box(-1, 1, (2,)), None),
    "one of": gymnasium.spaces.OneOf([Discrete(2), Discrete(3)]),
}


@of(REFUSED)
def test_other_spaces_are_refused_by_name_with_advice(space):
    name = type(space).__name__
    with pytest.raises(ConfigError, match=rf"cannot read the space {name}.*TransformObservation"):
        check_spaces(space, Discrete(2))
    with pytest.raises(ConfigError, match=rf"cannot read the space {name}.* at '1/a'"):
        check_spaces(Tuple([Discrete(2), Dict({"a": space})]), Discrete(2))
    with pytest.raises(ConfigError, match=rf"the action space is {name}.*TransformAction"):
        check_spaces(Discrete(2), space)
    with pytest.raises(ConfigError, match="cannot be written to a file"):
        to_json(Tuple([space]))


def test_dict_and_tuple_actions_are_refused():
    for space in (Dict({"a": Discrete(2)}), Tuple([Discrete(2)])):
        with pytest.raises(ConfigError, match="policies act in a Box, Discrete, MultiDiscrete or"):
            check_spaces(Discrete(2), space)


def test_a_dict_with_some_unreadable_keys_is_refused_with_the_keys_to_choose():
    space = Dict({"mission": Text(9), "image": PICTURE, "direction": Discrete(4)})
    with pytest.raises(ConfigError, match=r"'mission' is Text.*observation_keys.*'image'\)"):
        check_spaces(space, Discrete(2))
    check_spaces(select_keys("it", space, ("image", "direction")), Discrete(2))


@pytest.mark.parametrize(
    "space",
    [Box(0.0, 0.0, (2,)), Box(np.float32([0, 1]), np.float32([1, 1])), Box(0, 1, (0,)),
     Box(1e9, 1e9 + 1, (1,), np.float64)],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_a_box_of_actions_without_room_is_refused(space):
    with pytest.raises(ConfigError, match="low below high in each"):
        check_spaces(Discrete(2), space)


def test_observations_without_entries_or_with_too_many_are_refused():
    for space in (Box(0, 1, (0,)), Tuple([]), Dict({})):
        with pytest.raises(ConfigError, match="nothing to see"):
            Encoder(space)
    with pytest.raises(ConfigError, match="100,000,000 are the most"):
        Encoder(Discrete(2**30))
    for space in (Discrete(3, start=2**40), MultiDiscrete([2, 2], start=[0, -(2**40)])):
        with pytest.raises(ConfigError, match="do not fit in 32 bits"):
            Encoder(space)


# Files


def same_space(a, b):
    """Equality to the last bit; gymnasium's own is approximate."""
    if isinstance(a, Dict):
        return a.spaces.keys() == b.spaces.keys() and all(
            same_space(a.spaces[key], b.spaces[key]) for key in a.spaces
        )
    if isinstance(a, Tuple):
        return len(a) == len(b) and all(map(same_space, a.spaces, b.spaces))
    if isinstance(a, Box):
        names = ("low", "high", "bounded_below", "bounded_above")
        return a == b and all(np.array_equal(getattr(a, x), getattr(b, x)) for x in names)
    return a == b


def leaf_spaces():
    shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
    seeds = st.integers(0, 10**6)

    def box(shape, dtype, seed, kind):
        rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
        if dtype.kind == "f":
            low = rng.normal(size=shape).astype(dtype)
            high = low + rng.uniform(0, 3, shape).astype(dtype)
            low = np.where(rng.random(shape) < 0.3, dtype.type(-np.inf), low)
            high = np.where(rng.random(shape) < 0.3, dtype.type(np.inf), high)
        else:
            limits = np.iinfo(dtype)
            # gymnasium cannot sample from wider boxes.
            most, least = min(limits.max, 2**61), max(limits.min, -(2**61))
            low = rng.integers(least, 10, shape, endpoint=True, dtype=dtype)
            high = rng.integers(10, most, shape, endpoint=True, dtype=dtype)
        if kind == "constant":
            return Box(low.min(), high.max(), shape, dtype.type)
        if kind == "infinite" and dtype.kind in "fi":
            return Box(-np.inf, np.inf, shape, dtype.type)
        return Box(np.asarray(low), np.asarray(high), shape, dtype.type)

    dtypes = st.sampled_from(
        ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint64"]
    )
    kinds = st.sampled_from(["varied", "constant", "infinite"])
    multi = st.builds(
        lambda shape, seed, low: MultiDiscrete(
            np.random.default_rng(seed).integers(1, 9, shape), start=np.full(shape, low)
        ),
        shapes.filter(len),
        seeds,
        st.integers(-3, 3),
    )
    return st.one_of(
        st.builds(box, shapes, dtypes, seeds, kinds),
        st.builds(
            lambda n, start: Discrete(n, start=start), st.integers(1, 99), st.integers(-9, 9)
        ),
        multi,
        st.builds(MultiBinary, st.one_of(st.integers(1, 5), shapes.filter(len).map(list))),
    )


def nested_spaces():
    keys = st.text(max_size=4).filter(str.isprintable)
    return st.recursive(
        leaf_spaces(),
        lambda parts: st.one_of(
            st.lists(parts, min_size=1, max_size=3).map(Tuple),
            st.dictionaries(keys, parts, min_size=1, max_size=3).map(Dict),
        ),
        max_leaves=6,
    )


@given(nested_spaces())
@settings(max_examples=150, deadline=None)
def test_spaces_come_back_from_json_as_they_were(space):
    text = json.dumps(to_json(space), allow_nan=False)
    assert same_space(space, from_json(json.loads(text)))


@given(nested_spaces(), st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_every_nested_space_is_encoded_within_its_size(space, seed):
    encoder, element = Encoder(space), samples(space, 1, seed)[0]
    with jax.numpy_rank_promotion("raise"):
        x = encoder(canonical(space, element))
    assert x.shape == (encoder.size,)
    assert sum(part.size for part in encoder.parts) == encoder.size
    for start, size in encoder.discrete:
        code = np.sort(x[start : start + size])
        np.testing.assert_array_equal(code, [0.0] * (size - 1) + [1.0])


def test_equal_bounds_are_written_once():
    about = to_json(Box(0, 255, (84, 84, 4), np.uint8))
    assert about == {"type": "Box", "shape": [84, 84, 4], "dtype": "uint8", "low": 0, "high": 255}
    about = to_json(Box(-np.inf, np.inf, (2,), np.float32))
    assert (about["low"], about["high"]) == ("-inf", "inf")
    assert to_json(VECTOR)["high"] == [1.0, "inf"]


GOOD_BOX = {"type": "Box", "shape": [2], "dtype": "float32", "low": 0.0, "high": 1.0}
GOOD_DISCRETE = {"type": "Discrete", "n": 3, "start": 0, "dtype": "int64"}
GOOD_MULTI = {"type": "MultiDiscrete", "shape": [2], "dtype": "int64", "nvec": 3, "start": 0}
MALFORMED = [
    None,
    [],
    "Box(-1, 1)",
    {},
    {"type": "Text"},
    {"type": ["Box"]},
    {"type": "Box"},
    GOOD_BOX | {"more": 1},
    GOOD_BOX | {"shape": 2},
    GOOD_BOX | {"shape": [2.0]},
    GOOD_BOX | {"shape": [True]},
    GOOD_BOX | {"shape": [-1]},
    GOOD_BOX | {"shape": [1] * 100},
    GOOD_BOX | {"dtype": "object"},
    GOOD_BOX | {"dtype": "float128"},
    GOOD_BOX | {"dtype": 3},
    GOOD_BOX | {"low": "0"},
    GOOD_BOX | {"low": "nan"},
    GOOD_BOX | {"low": math.nan},
    GOOD_BOX | {"low": math.inf},
    GOOD_BOX | {"low": True},
    GOOD_BOX | {"low": None},
    GOOD_BOX | {"low": 1e39},
    GOOD_BOX | {"low": 10**400},
    GOOD_BOX | {"low": 2.0},
    GOOD_BOX | {"low": [0.0]},
    GOOD_BOX | {"low": [[0.0], [0.0]]},
    GOOD_BOX | {"dtype": "uint8", "low": 0, "high": 256},
    GOOD_BOX | {"dtype": "uint8", "low": 0, "high": "inf"},
    GOOD_BOX | {"dtype": "int32", "low": 0.5, "high": 3},
    GOOD_BOX | {"dtype": "bool", "low": 0, "high": 1},
    GOOD_DISCRETE | {"n": 0},
    GOOD_DISCRETE | {"n": 3.0},
    GOOD_DISCRETE | {"n": 2**63},
    GOOD_DISCRETE | {"start": "0"},
    GOOD_DISCRETE | {"start": 2**63 - 1},
    GOOD_DISCRETE | {"dtype": "float32"},
    GOOD_MULTI | {"nvec": [2]},
    GOOD_MULTI | {"nvec": 0},
    GOOD_MULTI | {"nvec": [2, "3"]},
    GOOD_MULTI | {"dtype": "int8", "nvec": 100, "start": 100},
    {"type": "MultiBinary", "n": 0},
    {"type": "MultiBinary", "n": "3"},
    {"type": "MultiBinary", "n": [2, 0]},
    {"type": "Dict", "spaces": []},
    {"type": "Dict", "spaces": {1: GOOD_BOX}},
    {"type": "Dict", "spaces": {"a": None}},
    {"type": "Tuple", "spaces": {"a": GOOD_BOX}},
    {"type": "Tuple", "spaces": [GOOD_BOX, 3]},
]


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_descriptions_are_refused(data):
    with pytest.raises(ConfigError, match="cannot be read"):
        from_json(data)


def test_the_description_that_is_malformed_is_named_by_its_place():
    with pytest.raises(ConfigError, match="a space at 'a/1' cannot be read: dtype is 'object'"):
        from_json({"type": "Dict", "spaces": {"a": {"type": "Tuple", "spaces": [
            GOOD_BOX, GOOD_BOX | {"dtype": "object"}]}}})  # fmt: skip


def test_descriptions_of_enormous_spaces_are_refused_before_memory_is_taken():
    enormous = [
        GOOD_BOX | {"shape": [10**9]},
        GOOD_BOX | {"shape": [10**5, 10**5]},
        GOOD_BOX | {"shape": [0, 10**12]},
        GOOD_MULTI | {"shape": [10**12]},
        {"type": "MultiBinary", "n": 10**12},
    ]
    for data in enormous:
        with pytest.raises(ConfigError, match="more than 100,000,000 entries"):
            from_json(data)
    half = GOOD_BOX | {"shape": [0, 6 * 10**7]}
    with pytest.raises(ConfigError, match="more than 100,000,000 entries"):
        from_json({"type": "Tuple", "spaces": [half, half]})


def test_descriptions_without_end_are_refused():
    data = GOOD_BOX
    for _ in range(100):
        data = {"type": "Tuple", "spaces": [data]}
    with pytest.raises(ConfigError, match="the depth of a space"):
        from_json(data)
