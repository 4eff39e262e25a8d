"""The buffer Z^n, and how pairs become vectors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from eniac.bonuses.base import Buffer, PairEncoder, Pairs, Spaces, bounds_of

BOX = Spaces(
    Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64),
    Box(-2.0, 2.0, (1,), np.float32),
)
DISCRETE = Spaces(Discrete(3), Discrete(2))


def pairs(start, num):
    rows = jnp.arange(start, start + num, dtype=jnp.float32)
    return Pairs(jnp.stack([rows, -rows], 1), rows[:, None] / 10)


def test_an_empty_buffer_has_room_of_the_spaces_shapes_and_the_types_of_jax():
    buffer = Buffer.empty(BOX, 5)
    assert buffer.pairs.observation.shape == (5, 2)
    assert buffer.pairs.action.shape == (5, 1)
    assert buffer.pairs.observation.dtype == jnp.float32
    discrete = Buffer.empty(DISCRETE, 5).pairs
    assert discrete.observation.shape == discrete.action.shape == (5,)
    assert discrete.observation.dtype == discrete.action.dtype == jnp.int32


def test_a_buffer_holds_what_was_added_in_its_order():
    buffer = Buffer.empty(BOX, 6).add(pairs(1, 2)).add(pairs(10, 3))
    assert int(buffer.count) == 5
    np.testing.assert_array_equal(buffer.pairs.observation[:, 0], [1, 2, 10, 11, 12, 0])
    np.testing.assert_allclose(buffer.pairs.action[:, 0], [0.1, 0.2, 1.0, 1.1, 1.2, 0], rtol=1e-6)


def test_a_full_buffer_stays_as_it_is():
    buffer = Buffer.empty(BOX, 5).add(pairs(1, 3))
    for more in (pairs(10, 3), pairs(20, 5)):
        after = buffer.add(more)
        assert all(map(np.array_equal, jax.tree.leaves(after), jax.tree.leaves(buffer)))
    assert int(buffer.add(pairs(10, 2)).count) == 5


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


@pytest.mark.parametrize(("spaces", "with_action"), [(BOX, True), (BOX, False), (DISCRETE, True)])
def test_every_pair_of_the_spaces_is_encoded_within_the_bounds(spaces, with_action):
    encode = PairEncoder(spaces, with_action)
    low, high = encode.bounds
    assert low.shape == high.shape == (encode.size,)
    for seed, space in enumerate(spaces):
        space.seed(seed)
    for _ in range(20):
        x = encode(*(jnp.asarray(np.asarray(space.sample(), np.float32 if
            isinstance(space, Box) else np.int32)) for space in spaces))  # fmt: skip
        assert np.all((low <= x) & (x <= high))


def test_bounds_are_those_of_the_box_and_zero_to_one_for_one_hot():
    assert bounds_of(BOX.observation) == ([-1.0, 0.0], [1.0, np.inf])
    assert bounds_of(DISCRETE.observation) == ([0.0] * 3, [1.0] * 3)
