"""The buffer Z^n: exact while all fits, an unbiased subsample that forgets nothing rare after."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from eniac.buffer import (
    SMALLEST,
    TARGET,
    Buffer,
    Pairs,
    buffer_capacity,
    keep_probabilities,
    num_rows,
    row_bytes,
    sensitivities,
    take,
)
from eniac.errors import ConfigError
from eniac.spaces import PairEncoder, Spaces

BOX = Spaces(
    Box(np.array([-1.0, 0.0]), np.array([1.0, np.inf]), dtype=np.float64),
    Box(-2.0, 2.0, (1,), np.float32),
)
DISCRETE = Spaces(Discrete(3), Discrete(2))
MIXED = Spaces(Dict(near=Box(-1.0, 1.0, (2,), np.float32), room=Discrete(3)), Discrete(2))
PICTURES = Spaces(Box(0, 255, (16, 16, 3), np.uint8), Discrete(2))
KEY = jax.random.key(0)
ROWS = 10  # of every array of pairs that hypothesis adds, so that all examples share a program
add = jax.jit(Buffer.add)
keep = jax.jit(keep_probabilities)


def pairs(start, num):
    rows = jnp.arange(start, start + num, dtype=jnp.float32)
    return Pairs(jnp.stack([rows, -rows], 1), rows[:, None] / 10)


def same(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


def first(buffer):
    """The first numbers of the observations in use."""
    return np.asarray(buffer.pairs.observation)[: int(buffer.count), 0]


# While all fits


def test_an_empty_buffer_has_room_of_the_spaces_shapes_and_the_types_of_jax():
    buffer = Buffer.empty(BOX, 5)
    assert buffer.capacity == 5
    assert buffer.pairs.observation.shape == (5, 2)
    assert buffer.pairs.action.shape == (5, 1)
    assert buffer.pairs.observation.dtype == jnp.float32
    discrete = Buffer.empty(DISCRETE, 5).pairs
    assert discrete.observation.shape == discrete.action.shape == (5,)
    assert discrete.observation.dtype == discrete.action.dtype == jnp.int32
    assert Buffer.empty(PICTURES, 5).pairs.observation.dtype == jnp.uint8
    np.testing.assert_array_equal(buffer.weight, np.zeros(5))


def test_a_buffer_holds_what_was_added_in_its_order_with_its_source():
    buffer = Buffer.empty(BOX, 6).add(KEY, pairs(1, 2), 2, 0).add(KEY, pairs(10, 3), 3, 1)
    assert int(buffer.count) == 5
    np.testing.assert_array_equal(buffer.pairs.observation[:, 0], [1, 2, 10, 11, 12, 0])
    np.testing.assert_allclose(buffer.pairs.action[:, 0], [0.1, 0.2, 1.0, 1.1, 1.2, 0], rtol=1e-6)
    np.testing.assert_array_equal(buffer.weight, [1, 1, 1, 1, 1, 0])
    np.testing.assert_array_equal(buffer.source[:5], [0, 0, 1, 1, 1])


@settings(max_examples=40, deadline=None)
@given(
    nums=st.lists(st.integers(0, ROWS), max_size=8),
    capacity=st.sampled_from([7, 20]),
    bounded=st.booleans(),
)
def test_the_first_num_rows_are_appended_exactly_whatever_stands_behind_them(
    nums, capacity, bounded
):
    if bounded:
        capacity += SMALLEST
    buffer, expected, sources = Buffer.empty(BOX, capacity, bounded), [], []
    for place, num in enumerate(nums):
        if len(expected) + num > capacity:
            if bounded:
                break
            num_fitting = 0  # the others stay out, all of them
        else:
            num_fitting = num
        buffer = add(buffer, KEY, pairs(100 * place, ROWS), num, place)
        expected += [100 * place + i for i in range(num_fitting)]
        sources += [place] * num_fitting
    used = len(expected)
    assert int(buffer.count) == used
    np.testing.assert_array_equal(first(buffer), expected)
    np.testing.assert_array_equal(buffer.source[:used], sources)
    np.testing.assert_array_equal(buffer.weight, np.arange(capacity) < used)


def test_a_full_buffer_that_is_not_bounded_stays_as_it_is():
    buffer = Buffer.empty(BOX, 5).add(KEY, pairs(1, 3), 3, 0)
    for more, num in ((pairs(10, 3), 3), (pairs(20, 5), 5), (pairs(30, 9), 9)):
        assert same(buffer.add(KEY, more, num, 1), buffer)
    assert int(buffer.add(KEY, pairs(10, 2), 2, 1).count) == 5
    # Nine rows of which two are meant do fit.
    np.testing.assert_array_equal(first(buffer.add(KEY, pairs(30, 9), 2, 1)), [1, 2, 3, 30, 31])


def test_no_subsampling_is_compiled_where_nothing_overflows():
    program = {
        bounded: jax.jit(Buffer.add)
        .lower(Buffer.empty(BOX, 50, bounded), KEY, pairs(0, 10), 10, 0)
        .as_text()
        for bounded in (False, True)
    }
    assert "cholesky" not in program[False]
    assert "cholesky" in program[True]
    assert len(program[False]) < len(program[True]) / 4


@pytest.mark.parametrize("spaces", [BOX, DISCRETE, MIXED, PICTURES])
@pytest.mark.parametrize("bounded", [False, True])
def test_an_addition_keeps_structure_shapes_and_types(spaces, bounded):
    buffer = Buffer.empty(spaces, 20, bounded)
    new = take(buffer.pairs, jnp.arange(12))
    once = add(buffer, KEY, new, 12, 0)
    twice = add(once, KEY, new, 12, 1)  # the second does not fit
    shapes = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)  # noqa: E731
    assert shapes(buffer) == shapes(once) == shapes(twice)
    assert jax.tree.structure(buffer) == jax.tree.structure(twice)
    again = jax.tree.unflatten(jax.tree.structure(twice), jax.tree.leaves(twice))
    assert same(add(again, KEY, new, 12, 2), add(twice, KEY, new, 12, 2))


# When it overflows


@settings(max_examples=40, deadline=None)
@given(
    nums=st.lists(st.integers(0, ROWS), min_size=1, max_size=12),
    capacity=st.sampled_from([SMALLEST, 25]),
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.0, 1e-3, 1.0, 1e4]),
)
def test_it_never_has_more_rows_than_its_capacity_and_each_is_one_that_was_added(
    nums, capacity, seed, spread
):
    rng = np.random.default_rng(seed)
    buffer, added, total = Buffer.empty(BOX, capacity, bounded=True), set(), 0
    for place, num in enumerate(nums):
        new = Pairs(
            jnp.asarray(3 + spread * rng.normal(size=(ROWS, 2)), jnp.float32),
            jnp.asarray(rng.uniform(-2, 2, (ROWS, 1)), jnp.float32),
        )
        added |= {(*o, *a, place) for o, a in zip(*map(np.asarray, new), strict=True)}
        buffer = add(buffer, jax.random.key(seed + place), new, num, place)
        total += num
        count = int(buffer.count)
        assert count <= capacity
        assert count == total or count >= int(TARGET * capacity) - 1
        weight = np.asarray(buffer.weight)
        assert np.all(weight[:count] >= 1 - 1e-6)
        np.testing.assert_array_equal(weight[count:], 0)
        assert np.all(np.isfinite(weight))
        used = (np.asarray(x)[:count] for x in (*buffer.pairs, buffer.source))
        assert {(*o, *a, s) for o, a, s in zip(*used, strict=True)} <= added
        total = total if count == total else np.inf  # subsampled: rows no longer count visits


def clusters(rng, num):
    """States of two clouds, one of which has a hundredth of them."""
    away = rng.random(num) < 0.01
    observation = rng.normal(size=(num, 2)) * [0.1, 0.3] + 2.0 * away[:, None]
    return Pairs(
        jnp.asarray(observation, jnp.float32),
        jnp.asarray(rng.uniform(-1, 1, (num, 1)), jnp.float32),
    )


@functools.cache
def overflowing(seeds=40, num=500, times=6, capacity=800):
    """Many buffers to which the same pairs were added with other keys, and these pairs."""
    everything = clusters(np.random.default_rng(0), times * num)
    visits = jax.tree.map(lambda x: x.reshape(times, num, -1), everything)

    def one(buffer, new):
        place, key, pairs = new
        return buffer.add(key, pairs, num, place), None

    def fill(key):
        keys = jax.random.split(key, times)
        start = Buffer.empty(BOX, capacity, bounded=True)
        return jax.lax.scan(one, start, (jnp.arange(times), keys, visits))[0]

    # A loop and not a vmap, under which nothing would be skipped.
    fill_all = jax.jit(lambda keys: jax.lax.map(fill, keys))
    keys = jax.random.split(jax.random.key(1), seeds)
    return fill_all(keys), jax.tree.map(np.asarray, everything)


def test_the_total_weight_is_that_of_all_visits_on_average():
    buffers, everything = overflowing()
    totals = np.asarray(jnp.sum(buffers.weight, axis=1), np.float64)
    error = totals.std() / np.sqrt(len(totals))
    assert abs(totals.mean() - num_rows(everything)) < 4 * error
    assert totals.std() < 0.03 * num_rows(everything)


@pytest.mark.parametrize("of", ["rare cloud", "policy", "square"])
def test_weighted_sums_are_those_of_all_visits_on_average(of):
    buffers, everything = overflowing()
    x, state = np.asarray(buffers.pairs.observation), np.asarray(everything.observation)
    values, exact = {
        "rare cloud": (x[..., 0] > 1, np.sum(state[:, 0] > 1)),
        "policy": (np.asarray(buffers.source) == 2, 500),
        "square": (x[..., 1] ** 2, np.sum(state[:, 1] ** 2)),
    }[of]
    sums = np.sum(np.asarray(buffers.weight, np.float64) * values, axis=1)
    assert abs(sums.mean() - exact) < 4 * sums.std() / np.sqrt(len(sums)) + 1e-3


def test_the_weighted_gram_matrix_is_near_that_of_all_visits():
    buffers, everything = overflowing()
    phi = lambda p: np.concatenate([p.observation, p.action, np.ones_like(p.action)], -1)  # noqa: E731
    full = phi(everything).T @ phi(everything)
    root = np.linalg.inv(np.linalg.cholesky(full))
    for i in range(40):
        x = phi(jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), buffers.pairs))
        kept = (np.asarray(buffers.weight[i])[:, None] * x).T @ x
        ratios = np.linalg.eigvalsh(root @ kept @ root.T)
        # All norms of linear functions at once: accuracy in the sense of eniac.widths.sensitivity.
        assert 0.7 < ratios.min() <= ratios.max() < 1.35


@pytest.mark.parametrize("spaces", [BOX, Spaces(Discrete(5), Discrete(2)), MIXED, PICTURES])
def test_a_pair_seen_once_among_ten_thousand_copies_of_another_is_kept(spaces):
    num, capacity = 1000, 600

    def copies(odd):
        room = Buffer.empty(spaces, num).pairs
        return jax.tree.map(lambda x: x.at[7].add(jnp.ones((), x.dtype)) if odd else x, room)

    def fill(key):
        def one(buffer, new):
            place, odd = new
            chosen = jax.tree.map(lambda a, b: jnp.where(odd, a, b), copies(True), copies(False))
            return buffer.add(jax.random.fold_in(key, place), chosen, num, place), None

        start = Buffer.empty(spaces, capacity, bounded=True)
        return jax.lax.scan(one, start, (jnp.arange(10), jnp.arange(10) == 3))[0]

    keys = jax.random.split(jax.random.key(2), 5)
    buffers = jax.jit(lambda keys: jax.lax.map(fill, keys))(keys)
    leaf = jax.tree.leaves(buffers.pairs.observation)[0]
    odd = np.asarray(leaf).reshape(5, capacity, -1).max(axis=-1) > 0
    weight = np.where(odd, buffers.weight, 0)
    assert np.all(odd.sum(axis=1, where=np.asarray(buffers.weight) > 0) == 1)
    # It stands for itself, and the copies for all the others.
    np.testing.assert_allclose(weight.sum(axis=1), np.ones(5), rtol=0.15)
    np.testing.assert_allclose(np.sum(buffers.weight, axis=1), np.full(5, 10 * num), rtol=0.05)


def test_sensitivities_are_the_ridge_leverage_scores_of_rows_counted_by_weight():
    # Three states, in one-hot numbers: whatever the features, a tabular class is linear in them,
    # and its sensitivities are 1/n for a state seen n times, up to the ridge.
    encoder = PairEncoder(DISCRETE, with_action=True)
    rows = Pairs(jnp.asarray([0, 0, 1, 2, 2]), jnp.asarray([0, 0, 1, 0, 0]))
    weight = jnp.asarray([30.0, 10.0, 7.0, 5.0, 0.0])
    got = jax.jit(lambda r, w: sensitivities(KEY, encoder, r, w))(rows, weight)
    np.testing.assert_allclose(got, [30 / 40, 10 / 40, 1, 1, 0], atol=0.02)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), target=st.integers(1, 60), skew=st.floats(0, 6))
def test_probabilities_are_proportional_to_scores_below_one_and_sum_to_the_target(
    seed, target, skew
):
    score = np.exp(skew * np.random.default_rng(seed).normal(size=64)).astype(np.float32)
    score[:4] = 0
    p = np.asarray(keep(jnp.asarray(score), target), np.float64)
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_allclose(p.sum(), target, rtol=1e-3)
    partial = (p > 0) & (p < 1 - 1e-6)
    if partial.any():
        factor = p[partial] / score[partial]
        np.testing.assert_allclose(factor, np.full_like(factor, factor[0]), rtol=1e-4)


def test_pictures_of_more_numbers_than_a_chunk_has_are_subsampled_as_well(monkeypatch):
    rng = np.random.default_rng(4)
    rows = Pairs(
        jnp.asarray(rng.integers(0, 255, (30, 16, 16, 3)), jnp.uint8),
        jnp.asarray(rng.integers(0, 2, 30), jnp.int32),
    )
    encoder, weight = PairEncoder(PICTURES, with_action=True), jnp.arange(30.0)
    # A function of its own each time, since a program is compiled once for each.
    score = lambda: jax.jit(lambda r, w: sensitivities(KEY, encoder, r, w))(rows, weight)  # noqa: E731
    plain = score()
    monkeypatch.setattr("eniac.features.CHUNK_FLOATS", 4096)
    np.testing.assert_allclose(score(), plain, rtol=1e-3)


# Drawing from it


def test_rows_are_drawn_alike_below_the_count_where_all_weights_are_one():
    buffer = Buffer.empty(BOX, 20).add(KEY, pairs(0, 10), 10, 0)
    drawn = np.asarray(buffer.sample_rows(KEY, (50, 100)))
    assert drawn.shape == (50, 100)
    counts = np.bincount(drawn.ravel(), minlength=20)
    assert counts[10:].sum() == 0
    assert scipy.stats.chisquare(counts[:10]).pvalue > 1e-3


def test_rows_are_drawn_in_proportion_to_their_weights():
    buffer = Buffer.empty(BOX, 20, bounded=True).add(KEY, pairs(0, 4), 4, 0)
    weight = jnp.zeros(20).at[:4].set(jnp.asarray([1.0, 5.0, 0.5, 3.5]))
    buffer = Buffer(buffer.pairs, weight, buffer.source, buffer.count, buffer.encoder, bounded=True)
    drawn = np.asarray(jax.jit(lambda b: b.sample_rows(KEY, (50, 100)))(buffer))
    assert drawn.dtype == np.int32
    counts = np.bincount(drawn.ravel(), minlength=20)
    assert counts[4:].sum() == 0
    assert scipy.stats.chisquare(counts[:4], np.array([0.1, 0.5, 0.05, 0.35]) * 5000).pvalue > 1e-3


@pytest.mark.parametrize("bounded", [False, True])
def test_row_zero_is_drawn_from_an_empty_buffer(bounded):
    drawn = Buffer.empty(BOX, 20, bounded).sample_rows(KEY, (3,))
    np.testing.assert_array_equal(drawn, [0, 0, 0])


def test_a_resampled_buffer_has_rows_drawn_by_weight_that_weigh_the_same():
    buffer = jax.tree.map(lambda x: x[0], overflowing()[0])
    small = buffer.resampled(KEY, 2000)
    assert small.capacity == int(small.count) == 2000
    np.testing.assert_allclose(jnp.sum(small.weight), jnp.sum(buffer.weight), rtol=1e-4)
    share = lambda b: float(jnp.sum(b.weight * (b.source < 3)) / jnp.sum(b.weight))  # noqa: E731
    assert abs(share(small) - share(buffer)) < 4 * 0.5 / np.sqrt(2000)
    assert int(Buffer.empty(BOX, 20).resampled(KEY, 5).count) == 0


# Its memory


def test_the_bytes_of_a_row_are_those_of_its_arrays():
    assert row_bytes(BOX) == 8 + 2 * 4 + 4
    assert row_bytes(PICTURES) == 8 + 16 * 16 * 3 + 4
    for spaces in (BOX, DISCRETE, MIXED, PICTURES):
        assert Buffer.empty(spaces, 7).nbytes == 7 * row_bytes(spaces)


def test_a_buffer_has_all_the_rows_wanted_or_those_that_its_memory_holds():
    assert buffer_capacity(BOX, 100_000) == 100_000
    frames = Spaces(Box(0, 255, (84, 84, 4), np.uint8), Discrete(6))
    assert buffer_capacity(frames, 100_000) == 256 * 2**20 // (84 * 84 * 4 + 4 + 8)
    assert buffer_capacity(BOX, 500, max_bytes=2000) == 100
    assert Buffer.empty(BOX, 100, bounded=True).nbytes <= 2000


def test_too_little_memory_is_refused():
    with pytest.raises(
        ConfigError, match="the memory of the buffer is '100 bytes'; it must be 160"
    ):
        buffer_capacity(BOX, 1000, max_bytes=100)
    with pytest.raises(ConfigError, match="the capacity of the buffer is 7; it must be 8 or more"):
        Buffer.empty(BOX, 7, bounded=True)
    with pytest.raises(ConfigError, match="the capacity of the buffer is 0; it must be 1 or more"):
        Buffer.empty(BOX, 0)
