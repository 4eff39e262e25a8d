import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as some

from eniac.draws import integers, permutation

NUM_DRAWS = 20_000


@pytest.fixture(scope="module")
def traced():
    """The permutation with a count that the compiler does not know."""
    return jax.jit(permutation, static_argnums=1)


@pytest.fixture(scope="module")
def draws():
    """Many permutations of `count` things: [draw, place]."""
    many = jax.jit(jax.vmap(lambda key, count: permutation(key, 16, count), (0, None)))
    keys = jax.random.split(jax.random.key(1), NUM_DRAWS)
    return lambda count: np.asarray(many(keys, jnp.asarray(count)))[:, :count]


def p_value(codes, num_codes):
    return scipy.stats.chisquare(np.bincount(codes, minlength=num_codes)).pvalue


@pytest.mark.parametrize("capacity", [1, 17])
def test_it_is_a_permutation_of_all_places(traced, capacity):
    order = np.asarray(traced(jax.random.key(capacity), capacity))
    assert order.dtype == np.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(capacity))


def test_it_is_a_permutation_of_the_first_places_for_every_traced_count(traced):
    capacity = 130
    for count in range(1, capacity + 1):
        order = np.asarray(traced(jax.random.key(count), capacity, jnp.asarray(count)))
        assert order.shape == (capacity,)
        np.testing.assert_array_equal(np.sort(order[:count]), np.arange(count))
        assert np.all((order >= 0) & (order < count))


@settings(max_examples=60, deadline=None)
@given(some.data(), some.sampled_from([1, 7, 64, 129]), some.integers(0, 2**32 - 1))
def test_it_is_a_permutation_whatever_the_key_the_capacity_and_the_count(
    traced, data, capacity, seed
):
    count = data.draw(some.integers(0, capacity))
    order = np.asarray(traced(jax.random.key(seed), capacity, jnp.asarray(count)))
    np.testing.assert_array_equal(np.sort(order[:count]), np.arange(count))


def test_a_large_prime_count_inside_a_larger_capacity_is_permuted(traced):
    order = np.asarray(traced(jax.random.key(0), 50_000, jnp.asarray(49_999)))[:49_999]
    np.testing.assert_array_equal(np.sort(order), np.arange(49_999))


def test_a_count_of_zero_and_an_empty_capacity_end(traced):
    order = np.asarray(traced(jax.random.key(0), 130, jnp.asarray(0)))
    assert order.shape == (130,)
    assert np.all(order == 0)
    assert traced(jax.random.key(0), 0).shape == (0,)


def test_a_traced_count_gives_what_a_known_one_gives(traced):
    key = jax.random.key(4)
    np.testing.assert_array_equal(traced(key, 17, jnp.asarray(11)), permutation(key, 17, 11))


def test_the_same_key_gives_the_same_order_and_another_key_another(traced):
    a, b, c = (
        np.asarray(traced(jax.random.key(seed), 130, jnp.asarray(100))) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


@pytest.mark.parametrize("count", [2, 3, 5, 9, 10, 16])
def test_every_number_is_equally_often_first_and_every_ordered_pair_adjacent(draws, count):
    orders = draws(count)
    assert p_value(orders[:, 0], count) > 1e-3
    assert p_value(orders[:, -1], count) > 1e-3
    for place in {0, count // 2 - 1, count - 2}:
        a, b = orders[:, place], orders[:, place + 1]
        # The pairs (a, b) with a != b, numbered without gaps.
        code = a * (count - 1) + b - (b > a)
        assert p_value(code, count * (count - 1)) > 1e-3


# Not of five: a network on pairs of numbers below 3 makes even permutations of the pairs only.
@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_order_of_a_few_things_is_equally_likely(draws, count):
    numbers = {order: i for i, order in enumerate(itertools.permutations(range(count)))}
    codes = np.array([numbers[tuple(order)] for order in draws(count).tolist()])
    assert p_value(codes, len(numbers)) > 1e-3


def test_neighbours_are_scattered_in_a_large_permutation(traced):
    count = 50_000
    order = np.asarray(traced(jax.random.key(3), count), np.int64)
    np.testing.assert_array_equal(np.sort(order), np.arange(count))
    # Where a tenth of the numbers goes, and the step from each to the next, are uniform.
    places = np.argsort(order)[: count // 10]
    assert p_value(places * 50 // count, 50) > 1e-3
    assert p_value((np.diff(order) % count) * 50 // count, 50) > 1e-3


@pytest.mark.parametrize("below", [1, 2, 10, 65_536, 65_537, 170_000, 2**31 - 1])
def test_integers_are_the_upper_half_of_the_bits_times_their_bound(below):
    key = jax.random.key(7)
    bits = np.asarray(jax.random.bits(key, (2000,), jnp.uint32)).astype(np.uint64)
    expected = (bits * np.uint64(below)) >> np.uint64(32)
    np.testing.assert_array_equal(np.asarray(integers(key, (2000,), below)), expected)


def test_integers_take_a_bound_for_each_column_and_one_that_is_traced():
    drawn = np.asarray(integers(jax.random.key(1), (30_000, 3), jnp.array([2, 5, 7])))
    for column, below in enumerate((2, 5, 7)):
        assert p_value(drawn[:, column], below) > 1e-3
    traced = jax.jit(lambda n: integers(jax.random.key(1), (100,), n))(jnp.asarray(9))
    np.testing.assert_array_equal(traced, integers(jax.random.key(1), (100,), 9))
