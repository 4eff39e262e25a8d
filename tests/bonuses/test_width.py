"""The trained width: its loss, its optimum where that is known, and what makes a bonus of it.

The small problem of most tests: states in a square, data in its left third only.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium.spaces import Box, Discrete

from eniac.bonuses.width import NUM_JUDGED, Width, WidthQuality, judge, moments
from eniac.buffer import Buffer, Pairs
from eniac.spaces import PairEncoder, Spaces
from pairs import fresh, holding, values

SPACES = Spaces(Box(-1.0, 1.0, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32))
HIDDEN = (16, 16)
CAPACITY = 800
EPSILON = 0.02
CONSTRAINED = Width(
    outer=1000,
    inner=5,
    query_size=400,
    query_batch=20,
    buffer_batch=64,
    uniform_share=0.0,
    epsilon=EPSILON,
)
LAGRANGIAN = replace(CONSTRAINED, training="lagrangian", normaliser="max", reinitialise=False)
BRIEF = replace(LAGRANGIAN, outer=2)
fit, train = (jax.jit(method, static_argnums=0) for method in (Width.fit, Width.train))


def points(seed, num, low, high):
    rng = np.random.default_rng(seed)
    return Pairs(
        jnp.asarray(rng.uniform(low, high, (num, 2)), jnp.float32),
        jnp.asarray(rng.uniform(-1, 1, (num, 1)), jnp.float32),
    )


LEFT = points(0, 400, [-1, -1], [-1 / 3, 1])
RIGHT = points(1, 400, [1 / 3, -1], [1, 1])
QUERY = points(2, 400, [-1, -1], [1, 1])
NOTHING = Buffer.empty(SPACES, CAPACITY)
STATE = PairEncoder(SPACES, with_action=False)


def first(rule, spaces=SPACES):
    return fresh(rule, spaces, HIDDEN)


def fitted(rule, buffer, query=QUERY, bonus=None):
    bonus = first(rule) if bonus is None else bonus
    return fit(rule, jax.random.key(2), bonus, buffer, query)


def same(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


@pytest.fixture(scope="module")
def width():
    """The width of the data on the left."""
    return fitted(CONSTRAINED, holding(NOTHING, LEFT))


# The loss


def reference(difference_data, difference_query, weight, push):
    """Equation (width-loss-train), which is maximised."""
    return (
        sum(weight * d**2 for d in difference_query) / len(difference_query)
        - sum(d**2 for d in difference_data) / len(difference_data)
        - sum(push * d for d in difference_query) / len(difference_query)
    )


def network(f, x):
    """A width network without a bound, in NumPy."""
    for layer in f.body.layers:
        x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0)
    return (x @ np.asarray(f.head.weight) + np.asarray(f.head.bias))[:, 0]


def test_the_lagrangian_loss_is_the_negative_of_the_papers_equation():
    f, twin = (LAGRANGIAN.network(jax.random.key(i), STATE, (3,)) for i in range(2))
    difference = lambda x: network(f, np.asarray(x)) - network(twin, np.asarray(x))  # noqa: E731
    on_data, on_query = difference(LEFT.observation[:5]), difference(QUERY.observation[:3])
    loss, agreement = LAGRANGIAN.loss(jnp.asarray(on_data), jnp.asarray(on_query), jnp.ones(()))
    np.testing.assert_allclose(loss, -reference(on_data, on_query, 0.1, 0.01), rtol=1e-5)
    np.testing.assert_allclose(agreement, np.mean(on_data**2), rtol=1e-5)
    # By hand: data (1, 3), query (2): 0.4 - 5 - 0.02.
    loss, _ = LAGRANGIAN.loss(jnp.asarray([1.0, 3.0]), jnp.asarray([2.0]), jnp.ones(()))
    np.testing.assert_allclose(loss, -(0.4 - 5 - 0.02), rtol=1e-6)


def test_the_constrained_loss_weighs_agreement_against_difference():
    # (3 x 5 - 4) / (1 + 3)
    loss, _ = CONSTRAINED.loss(jnp.asarray([1.0, 3.0]), jnp.asarray([2.0]), jnp.asarray(3.0))
    np.testing.assert_allclose(loss, 11 / 4, rtol=1e-6)


def test_training_is_rmsprop_on_the_papers_loss():
    # One pair of data and one query, so that every minibatch is the same and three steps can be
    # followed by hand: gradients by finite differences, in float64.
    rule = replace(LAGRANGIAN, outer=1, inner=3, query_batch=1, buffer_batch=1, push=0.3)
    f, twin = (rule.network(jax.random.key(i), STATE, (3,)) for i in (5, 6))
    f = jax.tree.map(lambda x: x + 0.5, f)
    data, query = np.array([[0.4, -0.2]]), np.array([[0.9, 0.7]])
    got, _ = train(
        rule,
        jax.random.key(0),
        f,
        twin,
        jnp.asarray(data),
        jnp.zeros((1, 3, 1), int),
        jnp.asarray(query),
    )

    leaves, structure = jax.tree.flatten(f)
    leaves = [np.asarray(x, np.float64) for x in leaves]
    sizes = [x.size for x in leaves]

    def loss(theta):
        parts = np.split(theta, np.cumsum(sizes)[:-1])
        parts = [p.reshape(x.shape) for p, x in zip(parts, leaves, strict=True)]
        now = jax.tree.unflatten(structure, parts)
        on = [network(now, x) - network(twin, x) for x in (data, query)]
        return -reference(*on, rule.weight, rule.push)

    theta = np.concatenate([x.ravel() for x in leaves])
    square = np.zeros_like(theta)
    for _ in range(3):
        basis = 1e-6 * np.eye(len(theta))
        gradient = np.array([(loss(theta + e) - loss(theta - e)) / 2e-6 for e in basis])
        assert np.linalg.norm(gradient) < 5  # nothing to clip
        square = 0.99 * square + 0.01 * gradient**2
        theta = theta - rule.learning_rate * gradient / (np.sqrt(square) + 1e-8)
    moved = np.concatenate([np.asarray(x).ravel() for x in jax.tree.leaves(got)])
    np.testing.assert_allclose(moved, theta, rtol=1e-4, atol=1e-5)


# Where the answer is known


def test_queries_among_the_data_make_the_papers_width_a_constant_which_is_noticed():
    rule = replace(LAGRANGIAN, outer=500, inner=10, learning_rate=3e-5)
    bonus = fitted(rule, holding(NOTHING, LEFT), query=LEFT)
    x = np.asarray(LEFT.observation)
    difference = network(bonus.f, x) - network(bonus.twin, x)
    optimum = -rule.push / (2 * (1 - rule.weight))
    np.testing.assert_allclose(
        difference, np.full(400, optimum), rtol=0.15
    )  # the last steps' noise
    np.testing.assert_allclose(difference.mean(), -0.0056, rtol=0.02)
    assert bool(bonus.quality.collapsed)
    assert not bool(bonus.quality.diverged)


def test_training_moves_f_only():
    before = first(BRIEF)
    after = fitted(BRIEF, holding(NOTHING, LEFT), LEFT, before)
    assert same(after.twin, before.f)  # kept from the last fit, and copied
    assert not same(after.f, before.f)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(
            replace(LAGRANGIAN, learning_rate=100.0, outer=5), id="huge", marks=pytest.mark.slow
        ),
        pytest.param(replace(CONSTRAINED, learning_rate=1e30, outer=5), id="not a number"),
    ],
)
def test_a_width_that_diverged_is_said_and_the_bonus_before_is_kept(rule):
    # Something to lose: a bonus that is not zero.
    before = eqx.tree_at(
        lambda b: (b.f, b.normaliser, b.center),
        first(rule),
        (rule.network(jax.random.key(7), STATE, HIDDEN), jnp.asarray(0.3), jnp.asarray([0.1, 0.2])),
    )
    after = fitted(rule, holding(NOTHING, LEFT), bonus=before)
    assert bool(after.quality.diverged)
    np.testing.assert_array_equal(values(after, QUERY), values(before, QUERY))
    assert np.all(values(after, QUERY) > 0)
    # What is saved and logged of it is finite, or the run would stop.
    for leaf in jax.tree.leaves(after):
        assert np.all(np.isfinite(leaf))


def test_the_constraint_holds_on_the_data_but_for_a_swing(width):
    # The multiplier follows the bound from both sides and keeps swinging about it, so that the
    # network that training ends with may be off by a factor: 10 at most, 2 in the median.
    # How many times wider it is far away swings with it: of 60 seeds 3 to 170 times, and half of
    # them above 55.
    buffer, roots, ratios = holding(NOTHING, LEFT), [], []
    for seed in range(7):
        bonus = fit(CONSTRAINED, jax.random.key(seed), width, buffer, QUERY)
        squares = values(bonus.width, LEFT) ** 2
        roots.append(np.sqrt(np.mean(squares)))
        # Of visited pairs drawn with replacement: within four standard errors of the mean square.
        error = np.std(squares) / np.sqrt(NUM_JUDGED)
        assert abs(bonus.quality.constraint**2 - np.mean(squares)) < 4 * error
        ratios.append(values(bonus.width, RIGHT).mean() / values(bonus.width, LEFT).mean())
    assert np.median(ratios) > 20
    assert min(ratios) > 3
    assert max(roots) < 10 * EPSILON
    assert np.median(roots) < 2 * EPSILON
    assert min(roots) > 0.2 * EPSILON


def test_the_class_is_bounded(width):
    everywhere = points(3, 500, [-9, -9], [9, 9])
    x = jax.vmap(lambda s: (s - width.center) / width.spread)(everywhere.observation)
    for f in (width.f, width.twin):
        assert np.max(np.abs(jax.vmap(f)(x))) <= CONSTRAINED.bound
    assert values(width.width, everywhere).max() <= 2 * CONSTRAINED.bound


def test_the_width_is_large_where_there_are_no_data(width):
    visited, unvisited = values(width.width, LEFT), values(width.width, RIGHT)
    assert unvisited.mean() > 20 * visited.mean()
    assert unvisited.mean() > 0.3 * CONSTRAINED.bound
    assert not bool(width.quality.collapsed)
    assert not bool(width.quality.diverged)


def test_the_width_shrinks_as_data_grow(width):
    more = fitted(CONSTRAINED, holding(NOTHING, LEFT, RIGHT))
    assert values(more.width, RIGHT).mean() < 0.1 * values(width.width, RIGHT).mean()
    assert values(more.width, QUERY).mean() < 0.75 * values(width.width, QUERY).mean()


def test_the_quality_is_that_of_the_width(width):
    asked, quality = values(width.width, QUERY), width.quality
    np.testing.assert_allclose(quality.query_max, asked.max(), rtol=1e-4)
    np.testing.assert_allclose(quality.query_median, np.median(asked), rtol=1e-3)
    np.testing.assert_allclose(quality.visited_max, values(width.width, LEFT).max(), rtol=1e-3)
    metrics = CONSTRAINED.metrics(width)
    assert set(metrics) == {f"width/{name}" for name in (*WidthQuality._fields, "normaliser")}


def test_a_fit_without_any_data_is_finite(width):
    bonus = fitted(CONSTRAINED, NOTHING)
    assert np.all(np.isfinite(values(bonus, QUERY)))
    assert not bool(bonus.quality.diverged)


def test_rows_of_the_buffer_beyond_its_count_do_not_matter(width):
    buffer = holding(NOTHING, LEFT)
    garbage = jax.tree.map(lambda x: x.at[400:].set(7.0), buffer.pairs)
    assert same(fitted(CONSTRAINED, eqx.tree_at(lambda b: b.pairs, buffer, garbage)), width)


def test_a_width_of_the_state_ignores_the_action_and_one_of_the_pair_does_not(width):
    moved = QUERY._replace(action=-QUERY.action)
    np.testing.assert_array_equal(values(width, moved), values(width, QUERY))
    pair = first(replace(CONSTRAINED, of="state-action"))
    pair = eqx.tree_at(
        lambda b: b.f, pair, CONSTRAINED.network(jax.random.key(7), pair.encoder, HIDDEN)
    )
    assert np.mean(values(pair, moved) != values(pair, QUERY)) > 0.9


def test_a_width_of_discrete_pairs_tells_visited_from_unvisited():
    spaces = Spaces(Discrete(4), Discrete(2))
    rule = replace(CONSTRAINED, of="state-action", query_size=80, floor=3.0)
    state, action = (jnp.asarray(x.ravel(), jnp.int32) for x in np.mgrid[:4, :2])
    seen = np.isin(np.arange(8), [0, 3, 4])
    data = Pairs(*(jnp.tile(x[seen], 10) for x in (state, action)))
    query = Pairs(jnp.tile(state, 10), jnp.tile(action, 10))
    buffer = holding(Buffer.empty(spaces, 30), data)
    bonus = fit(rule, jax.random.key(1), first(rule, spaces), buffer, query)
    widths = values(bonus.width, Pairs(state, action))
    assert widths[~seen].min() > widths[seen].max()
    assert widths[~seen].mean() > 4 * widths[seen].mean()
    assert float(bonus.normaliser) == 3  # the floor, since no width of this class is above 2


# Before the training: networks, standardisation, queries


@pytest.mark.parametrize("rule", [CONSTRAINED, LAGRANGIAN, replace(CONSTRAINED, threshold=0.1)])
def test_the_bonus_is_zero_before_the_first_fit(rule):
    np.testing.assert_array_equal(values(first(rule), QUERY), np.zeros(400))


def test_f_is_new_or_the_last_one_and_its_twin_a_copy_or_fresh(width):
    start = lambda **changes: replace(LAGRANGIAN, **changes).start(jax.random.key(3), width)  # noqa: E731
    f, twin = start()
    assert same(f, twin)
    assert same(f, width.f)
    f, twin = start(reinitialise=True)
    assert same(f, twin)
    assert not same(f, width.f)
    f, twin = start(twin="fresh")
    assert same(f, width.f)
    assert not same(f, twin)
    f, twin = replace(CONSTRAINED, reinitialise=False).start(jax.random.key(3), width)
    assert same(twin, width.f)
    # A nudge, because f = f' is a stationary point of the square.
    for a, b in zip(jax.tree.leaves(f), jax.tree.leaves(twin), strict=True):
        assert 0 < np.abs(a - b).max() < 0.06


def test_inputs_are_standardised_over_data_by_weight_and_queries_in_equal_parts():
    rng = np.random.default_rng(0)
    visited, asked = rng.normal(3, 2, (50, 2)), rng.normal(-1, 5, (20, 2))
    visited[30:] = 99  # empty places
    weight = np.where(np.arange(50) < 30, rng.integers(1, 9, 50), 0)
    center, spread = moments(*map(jnp.asarray, (visited, weight.astype(np.float32), asked)))
    both = np.concatenate([visited, asked])
    weight = np.concatenate([0.5 * weight / weight.sum(), np.full(20, 0.5 / 20)])
    mean = weight @ both
    np.testing.assert_allclose(center, mean, rtol=1e-5)
    np.testing.assert_allclose(spread, np.sqrt(weight @ (both - mean) ** 2), rtol=1e-5)


def test_an_input_that_never_changes_is_not_divided_by_zero():
    _, spread = moments(jnp.ones((4, 2)), jnp.ones(4), jnp.ones((3, 2)))
    np.testing.assert_array_equal(spread, [1, 1])


@pytest.mark.parametrize("bounded", [True, False])
def test_wide_queries_are_uniform_in_the_box_around_what_was_seen_where_they_change(bounded):
    limit = 1.0 if bounded else np.inf
    spaces = SPACES._replace(observation=Box(-limit, limit, (2,), np.float32))
    rule = replace(CONSTRAINED, uniform_share=0.75, box_scale=2.0)
    visited = jnp.asarray([[-0.9, 0.0], [0.3, 0.1], [50.0, 50.0]])  # the last place is empty
    asked = jnp.tile(jnp.asarray([[0.1, -0.1]]), (1000, 1))
    encoder = PairEncoder(spaces, with_action=False)
    got = np.asarray(rule.widened(jax.random.key(0), encoder, visited, jnp.arange(3) < 2, asked))
    np.testing.assert_array_equal(got[750:], asked[750:])
    changed = got[:750] != np.asarray(asked[:750])
    # A coordinate of two changes with probability 2^-u, u uniform: on average 1 / (2 log 2).
    share = scipy.stats.binomtest(int(changed.sum()), changed.size, 1 / (2 * np.log(2)))
    assert share.pvalue > 1e-3
    # Seen: [-0.9, 0.3] and [-0.1, 0.1]. Twice as wide: [-1.5, 0.9] and [-0.2, 0.2].
    low, high = np.array([-1.0 if bounded else -1.5, -0.2]), np.array([0.9, 0.2])
    for i in range(2):
        law = scipy.stats.uniform(low[i], high[i] - low[i])
        moved = got[:750, i][changed[:, i]]
        assert scipy.stats.kstest(moved, law.cdf).pvalue > 1e-3
        assert moved.min() >= low[i] - 1e-6
        assert moved.max() <= high[i] + 1e-6


def test_wide_queries_change_one_coordinate_or_all_and_those_that_never_changed_within_bounds():
    spaces = SPACES._replace(observation=Box(0.0, 1.0, (64,), np.float32))
    rule = replace(CONSTRAINED, uniform_share=1.0)
    rows = jnp.zeros((2000, 64)).at[:, 0].set(jnp.arange(2000) % 2)  # one coordinate changes
    encoder = PairEncoder(spaces, with_action=False)
    got = np.asarray(rule.widened(jax.random.key(0), encoder, rows, jnp.ones(2000, bool), rows))
    changed = (got != np.asarray(rows)).sum(axis=1)
    assert (changed == 1).mean() > 0.05
    assert (changed > 32).mean() > 0.05
    assert got[:, 1:].min() >= 0
    assert got[:, 1:].max() > 0.9  # nothing was seen there but zero


def test_a_one_hot_code_that_was_never_seen_has_a_larger_width_than_all_that_were():
    spaces = SPACES._replace(observation=Box(0.0, 1.0, (40,), np.float32))
    seen, unseen = jnp.eye(40)[:30], jnp.eye(40)[30:]
    rows = jnp.tile(seen, (20, 1))
    pairs = Pairs(rows, jnp.zeros((600, *spaces.action.shape)))
    buffer = holding(Buffer.empty(spaces, 600), pairs)
    bonus = fresh(Width(), spaces, (64, 64))
    bonus = jax.jit(Width().fit)(jax.random.key(2), bonus, buffer, pairs)
    width = jax.vmap(lambda s: bonus.width(s, jnp.zeros(spaces.action.shape)))
    assert np.median(width(unseen)) > 5 * np.max(width(seen))


def test_wide_queries_of_a_discrete_space_are_all_its_elements_alike():
    encoder = PairEncoder(Spaces(Discrete(3), Discrete(2)), with_action=True)
    rule = replace(CONSTRAINED, uniform_share=1.0)
    one_pair = jnp.tile(encoder(jnp.asarray(0), jnp.asarray(0)), (600, 1))
    got = np.asarray(
        rule.widened(jax.random.key(0), encoder, one_pair, jnp.ones(600, bool), one_pair)
    )
    np.testing.assert_array_equal(
        [got[:, :3].sum(axis=1), got[:, 3:].sum(axis=1)], np.ones((2, 600))
    )
    counts = got[:, :3].T @ got[:, 3:]  # of each pair
    assert scipy.stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_no_wide_queries_are_the_queries_as_they_are():
    encoder = PairEncoder(SPACES, with_action=False)
    used = jnp.ones(400, bool)
    got = CONSTRAINED.widened(jax.random.key(0), encoder, LEFT.observation, used, QUERY.observation)
    np.testing.assert_array_equal(got, QUERY.observation)


# After it: the normaliser, the bonus, the verdict


def test_the_normaliser_is_a_high_quantile_and_the_ratio_is_clipped(width):
    asked = values(width.width, QUERY)
    normaliser = max(np.quantile(asked, 0.99), CONSTRAINED.floor)
    np.testing.assert_allclose(width.normaliser, normaliser, rtol=1e-3)
    exact = 0.5 * np.minimum(asked / normaliser, 1)
    np.testing.assert_allclose(values(width, QUERY), exact, rtol=2e-3, atol=1e-6)
    assert values(width, QUERY).max() == 0.5


def test_the_papers_normaliser_is_the_maximum_over_the_queries_and_nothing_is_clipped():
    bonus = fitted(BRIEF, holding(NOTHING, LEFT), query=LEFT)
    largest = values(bonus.width, LEFT).max()
    np.testing.assert_allclose(bonus.normaliser, largest, rtol=1e-4)
    np.testing.assert_allclose(values(bonus, LEFT).max(), 0.5, rtol=1e-4)
    halved = eqx.tree_at(lambda b: b.normaliser, bonus, bonus.normaliser / 2)
    np.testing.assert_allclose(values(halved, LEFT).max(), 1.0, rtol=1e-4)


def test_with_a_threshold_the_bonus_is_the_indicator_of_equation_12(width):
    rule = replace(CONSTRAINED, threshold=0.1, coefficient=2.0)
    bonus = eqx.tree_at(
        lambda b: (b.f, b.twin, b.center, b.spread),
        first(rule),
        (width.f, width.twin, width.center, width.spread),
    )
    widths = values(width.width, QUERY)
    assert 0 < np.mean(widths >= 0.1) < 1
    np.testing.assert_array_equal(values(bonus, QUERY), 2.0 * (widths >= 0.1))


@pytest.mark.parametrize(
    ("asked", "visited", "collapsed", "diverged"),
    [
        (np.linspace(0.01, 1, 100), np.zeros(10), False, False),
        (np.linspace(1, 1.9, 100), np.zeros(10), True, False),
        (np.zeros(100), np.zeros(10), True, False),
        (np.linspace(0, 1.1e6, 100), np.zeros(10), False, True),
        (np.append(np.ones(99), np.nan), np.zeros(10), False, True),
        (np.linspace(0.01, 1, 100), np.array([np.inf]), False, True),
    ],
)
def test_a_width_that_is_constant_or_not_finite_is_told(asked, visited, collapsed, diverged):
    quality = judge(
        jnp.asarray(asked, jnp.float32), jnp.asarray(visited, jnp.float32), jnp.ones(())
    )
    assert bool(quality.collapsed) == collapsed
    assert bool(quality.diverged) == diverged
    assert all(np.all(np.isfinite(x)) for x in quality)


def test_a_width_that_is_as_large_on_the_data_is_told(width):
    assert not width.quality.collapsed
    # f' has weights of its own, and a step of 1e-30 brings f no nearer.
    rule = replace(CONSTRAINED, twin="fresh", outer=1, learning_rate=1e-30, epsilon=0.01)
    apart = fitted(rule, holding(NOTHING, LEFT))
    assert apart.quality.constraint > 10 * rule.epsilon
    assert apart.quality.collapsed


def test_the_multiplier_starts_near_where_it_settles_and_follows_the_violation():
    rule = replace(CONSTRAINED, outer=1, inner=1, learning_rate=1e-30)
    f, twin = (rule.network(jax.random.key(i), STATE, HIDDEN) for i in range(2))
    x, rows = LEFT.observation, jnp.zeros((1, 1, 64), jnp.int32)
    for other, follows in ((twin, 1), (f, -1)):  # far outside the bound, and well within it
        _, multiplier = train(rule, jax.random.key(0), f, other, x, rows, x)
        expected = np.exp(follows * rule.dual_step) / rule.epsilon
        np.testing.assert_allclose(multiplier, expected, rtol=1e-4)


def test_a_bound_that_cannot_be_kept_leaves_the_multiplier_finite():
    # f' has weights of its own, and a step of 1e-30 brings f no nearer.
    rule = replace(CONSTRAINED, outer=20, learning_rate=1e-30, dual_step=1.0)
    f, twin = (rule.network(jax.random.key(i), STATE, HIDDEN) for i in range(2))
    x = LEFT.observation
    rows = jax.random.randint(jax.random.key(1), (rule.outer, rule.inner, 64), 0, 400)
    f, multiplier = train(rule, jax.random.key(0), f, twin, x, rows, x)
    assert 1e10 < multiplier < np.inf
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(f))


@pytest.mark.slow
def test_a_fresh_twin_is_pulled_towards_f_on_the_data():
    rule = replace(CONSTRAINED, twin="fresh")
    bonus = fitted(rule, holding(NOTHING, LEFT))
    visited, unvisited = values(bonus.width, LEFT), values(bonus.width, RIGHT)
    assert unvisited.mean() > 5 * visited.mean()


def test_encodings_that_are_too_many_are_a_random_part_of_them(width, monkeypatch):
    # 200 rows of two numbers each, of the 800 in the buffer and the 400 queries.
    monkeypatch.setattr("eniac.bonuses.width.MAX_FLOATS", 400)
    bonus = jax.jit(
        lambda *args: CONSTRAINED.fit(*args)
    )(jax.random.key(2), first(CONSTRAINED), holding(NOTHING, LEFT), QUERY)  # fmt: skip
    visited, unvisited = values(bonus.width, LEFT), values(bonus.width, RIGHT)
    assert unvisited.mean() > 10 * visited.mean()
    assert jax.tree.structure(bonus) == jax.tree.structure(width)


def test_rows_of_a_bounded_buffer_count_by_their_weights(width):
    # All on the right has next to no weight: it is as if it had not been seen.
    buffer = holding(Buffer.empty(SPACES, CAPACITY, bounded=True), LEFT, RIGHT)
    light = eqx.tree_at(lambda b: b.weight, buffer, buffer.weight.at[400:].set(1e-6))
    bonus = fitted(CONSTRAINED, light)
    assert values(bonus.width, RIGHT).mean() > 10 * values(bonus.width, LEFT).mean()
    both = fitted(CONSTRAINED, buffer)
    assert values(both.width, RIGHT).mean() < 0.1 * values(bonus.width, RIGHT).mean()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("outer", 0),
        ("query_batch", 0),
        ("learning_rate", 0.0),
        ("epsilon", -1.0),
        ("push", -0.1),
        ("uniform_share", 1.5),
        ("box_scale", 0.0),
        ("threshold", 0.0),
        ("quantile", 0.0),
        ("training", "lagrange"),
        ("of", "action"),
        ("twin", "new"),
        ("normaliser", "mean"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_bad_setting_is_refused_with_its_name_and_value(name, value):
    with pytest.raises(ValueError) as error:
        replace(CONSTRAINED, **{name: value})
    assert str(error.value).startswith(f"width.{name} is {value!r}; it must be ")
