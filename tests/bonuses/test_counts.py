"""Counts by hash, against Python's dictionaries."""

from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

import eniac
from eniac.bonuses.counts import Counts, hashed
from eniac.buffer import Buffer, Pairs
from eniac.errors import ConfigError
from eniac.spaces import Spaces, canonical, emitted
from pairs import values

GRID = Box(0, 10, (7, 7, 3), np.uint8)
SPACES = {
    "discrete": Spaces(Discrete(40, start=3), Discrete(4)),
    "codes": Spaces(MultiDiscrete([5, 3]), MultiBinary(3)),
    "grid": Spaces(Dict(image=GRID, direction=Discrete(4)), Discrete(7)),
    "one-hot": Spaces(Box(0.0, 1.0, (30,), np.float32), Discrete(2)),
}


def visits_of(spaces, seed, num, distinct):
    """`num` pairs, of `distinct` observations at most."""
    observation = spaces.observation
    observation.seed(seed)
    some = [observation.sample() for _ in range(distinct)]
    if isinstance(observation, Box) and observation.dtype == np.float32:
        some = list(np.eye(30, dtype=np.float32)[:distinct])
    rng = np.random.default_rng(seed)
    chosen = [some[i] for i in rng.integers(0, len(some), num)]
    action = emitted(spaces.action)
    action.seed(seed)
    actions = [canonical(action, action.sample()) for _ in range(num)]
    stack = lambda *x: jnp.asarray(np.stack(x))  # noqa: E731
    stored = jax.tree.map(stack, *(canonical(observation, x) for x in chosen))
    return Pairs(stored, stack(*actions))


def names(pairs):
    """A pair as something that Python can count."""
    rows = zip(*(np.asarray(x) for x in jax.tree.leaves(pairs)), strict=True)
    return [b"|".join(np.asarray(x).tobytes() for x in row) for row in rows]


def fitted(rule, spaces, pairs, weight=None):
    num = len(jax.tree.leaves(pairs)[0])

    @jax.jit
    def fit():
        buffer = Buffer.empty(spaces, 2 * num).add(jax.random.key(0), pairs, num, 0)
        if weight is not None:
            buffer = replace(buffer, weight=buffer.weight.at[:num].set(weight))
        bonus = rule.init(jax.random.key(1), spaces, (8,))
        return rule.fit(jax.random.key(2), bonus, buffer, pairs)

    return fit()


@pytest.mark.parametrize("kind", SPACES)
def test_counts_are_those_of_a_dictionary(kind):
    spaces = SPACES[kind]
    seen, other = visits_of(spaces, 0, 300, 12), visits_of(spaces, 1, 100, 30)
    bonus = fitted(Counts(coefficient=3.0, ridge=2.0), spaces, seen)
    exact = Counter(names(seen))
    for pairs in (seen, other):
        wanted = np.array([exact[name] for name in names(pairs)])
        np.testing.assert_array_equal(values(bonus.count, pairs), wanted)
        np.testing.assert_allclose(values(bonus, pairs), 3 * np.sqrt(2 / (wanted + 2)), rtol=1e-6)
    assert max(exact.values()) > 2
    assert 0 in [exact[name] for name in names(other)]


def test_a_row_counts_as_often_as_it_stands_for_visits():
    spaces = SPACES["discrete"]
    seen = visits_of(spaces, 0, 50, 5)
    weight = np.random.default_rng(0).uniform(0.5, 20, 50).astype(np.float32)
    bonus = fitted(Counts(), spaces, seen, jnp.asarray(weight))
    exact = Counter()
    for name, stands_for in zip(names(seen), weight, strict=True):
        exact[name] += float(stands_for)
    wanted = [exact[name] for name in names(seen)]
    np.testing.assert_allclose(values(bonus.count, seen), wanted, rtol=1e-5)


def test_ten_thousand_distinct_pairs_are_counted_exactly_with_few_exceptions():
    spaces = Spaces(Discrete(5000), Discrete(2))
    state, action = np.divmod(np.arange(10_000), 2)
    seen = Pairs(jnp.asarray(state, jnp.int32), jnp.asarray(action, jnp.int32))
    bonus = fitted(Counts(), spaces, seen)
    counts = values(bonus.count, seen)
    assert np.all(counts >= 1)  # never too small
    # All four places shared: (1 - exp(-10,000 / 65,536))^4 = 0.0004 of the pairs.
    assert np.sum(counts != 1) <= 15
    filled = float(Counts().metrics(bonus)["counts/filled"])
    np.testing.assert_allclose(filled, 1 - np.exp(-10_000 / 65_536), atol=0.003)


def test_a_table_that_is_too_small_counts_too_much_and_never_too_little():
    spaces = SPACES["discrete"]
    seen = visits_of(spaces, 0, 500, 40)
    exact = Counter(names(seen))
    counts = values(fitted(Counts(slots=8), spaces, seen).count, seen)
    wanted = np.array([exact[name] for name in names(seen)])
    assert np.all(counts >= wanted)
    assert np.any(counts > wanted)


def test_codes_that_differ_in_one_bit_or_in_their_order_have_other_hashes():
    words = np.zeros((200, 64), np.uint32)
    words[np.arange(64), np.arange(64)] = np.float32(1.0).view(np.uint32)  # one-hot codes
    words[64 + np.arange(32), 0] = 1 << np.arange(32)  # one bit
    words[100:, :2] = np.random.default_rng(0).integers(1, 50, (100, 2))  # small numbers
    words = np.unique(words, axis=0)
    words = np.concatenate([words, words[-50:, [1, 0, *range(2, 64)]]])
    words = np.unique(words, axis=0)
    for salt in (1, 2):
        found = np.asarray(jax.vmap(lambda w, salt=salt: hashed(w, salt))(jnp.asarray(words)))
        assert len(np.unique(found)) == len(words)


def test_minus_zero_is_zero():
    spaces = SPACES["one-hot"]
    zero = Pairs(jnp.zeros((1, 30)), jnp.zeros(1, jnp.int32))
    bonus = fitted(Counts(), spaces, zero)
    assert values(bonus.count, Pairs(-zero.observation, zero.action)).tolist() == [1]


def test_with_a_cell_visits_of_cells_are_counted():
    spaces = Spaces(Box(-1.0, 1.0, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32))
    seen = Pairs(jnp.asarray([[0.11, 0.9], [0.19, 0.85], [0.21, 0.9]]), jnp.zeros((3, 1)))
    bonus = fitted(Counts(cell=0.1), spaces, seen)
    assert values(bonus.count, seen).tolist() == [1, 1, 1]
    bonus = fitted(Counts(cell=0.2), spaces, seen)
    assert values(bonus.count, seen).tolist() == [2, 2, 1]


def test_with_a_threshold_it_is_all_or_nothing():
    spaces = SPACES["discrete"]
    seen = Pairs(jnp.asarray([3, 3, 3, 4], jnp.int32), jnp.zeros(4, jnp.int32))
    bonus = fitted(Counts(threshold=0.6), spaces, seen)
    some = Pairs(jnp.asarray([3, 4, 5]), jnp.zeros(3, jnp.int32))
    assert values(bonus, some).tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize("env", ["DeepSea-5", "CombinationLock-3", "RiverSwim-v0", "FrozenLake-v1"])
def test_finite_environments_are_counted_whatever_their_observations(env):
    config = replace(eniac.ALGORITHMS["eniac"].default, bonus=Counts())
    built = eniac.Config(config, env=env).build()
    built.learner.close()


@pytest.mark.parametrize(
    ("env", "what"), [("MountainCarContinuous-v0", "observation"), ("CartPole-v1", "observation")]
)
def test_floats_are_refused_in_one_line_that_says_what_to_use(env, what):
    config = replace(eniac.ALGORITHMS["eniac"].default, bonus=Counts())
    with pytest.raises(ConfigError, match=rf"counts, and the {what} space is .*--bonus width") as e:
        eniac.Config(config, env=env).build()
    assert "\n" not in str(e.value)
    assert "--bonus.cell" in str(e.value)
    cells = replace(config, bonus=Counts(cell=0.1))
    eniac.Config(cells, env=env).build().learner.close()


def test_an_action_box_is_refused_too():
    with pytest.raises(ConfigError, match="the action space is Box"):
        Counts().check(Spaces(Discrete(3), Box(-1.0, 1.0, (1,), np.float32)), False)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ridge", 0.0), ("coefficient", -1.0), ("cell", 0.0), ("slots", 0), ("threshold", -1.0)],
)
def test_a_bad_setting_is_refused(name, value):
    with pytest.raises(ConfigError, match=rf"counts\.{name} is {value}; it must be "):
        Counts(**{name: value})
