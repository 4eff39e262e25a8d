"""The ensemble's spread: by hand, and where it is large."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from eniac.bonuses.ensemble import Ensemble, units
from eniac.buffer import Buffer, Pairs, take
from eniac.errors import ConfigError
from eniac.spaces import PairEncoder, Spaces
from pairs import fresh, holding, values

SPACES = Spaces(Box(-1.0, 1.0, (2,), np.float32), Discrete(2))
HIDDEN = (16, 16)
NUM = 64
RULE = Ensemble(members=3, outputs=4, steps=1500, minibatch=32, coefficient=2.0)


def some(seed, low, high, num=NUM):
    rng = np.random.default_rng(seed)
    place = jnp.asarray(rng.uniform(low, high, (num, 2)), jnp.float32)
    return Pairs(place, jnp.asarray(rng.integers(0, 2, num), jnp.int32))


SEEN = some(0, -1, 0)


@pytest.fixture(scope="module")
def bonus():
    buffer = holding(Buffer.empty(SPACES, NUM), SEEN)
    start = fresh(RULE, SPACES, HIDDEN, seed=1)
    return jax.jit(RULE.fit)(jax.random.key(2), start, buffer, SEEN)


def test_the_bonus_is_the_standard_deviation_of_what_members_leave_of_their_priors(bonus):
    x = np.asarray([0.3, -0.7, 0, 1], np.float64)  # the encoding of a pair
    x = (x - np.asarray(bonus.center)) / np.asarray(bonus.unit)

    def value(network, m):
        y = x
        for layer in network.body.layers:
            y = np.maximum(y @ np.asarray(layer.weight[m]) + np.asarray(layer.bias[m]), 0)
        return y @ np.asarray(network.head.weight[m]) + np.asarray(network.head.bias[m])

    errors = [value(bonus.members, m) - value(bonus.priors, m) for m in range(3)]
    spread = np.sqrt(np.mean(np.std(errors, axis=0) ** 2))
    got = bonus(jnp.asarray([0.3, -0.7]), jnp.asarray(1))
    np.testing.assert_allclose(got, 2 * min(spread / float(bonus.normaliser), 1), rtol=1e-4)


def test_members_agree_where_the_data_are_and_the_scale_is_that_of_before_training(bonus):
    near = values(bonus, some(1, -1, 0))
    far = values(bonus, some(2, 0.5, 1))
    assert near.mean() < 0.1 * 2
    assert far.mean() > 3 * near.mean()
    left = float(RULE.metrics(bonus)["ensemble/visited"])
    np.testing.assert_allclose(left, np.sqrt(np.mean((values(bonus, SEEN) / 2) ** 2)), rtol=0.2)


def test_priors_stay_and_members_are_new_in_every_fit(bonus):
    start = fresh(RULE, SPACES, HIDDEN, seed=1)
    same = jax.tree.map(np.array_equal, bonus.priors, start.priors)
    assert all(jax.tree.leaves(same))
    assert not np.array_equal(bonus.members.head.weight, start.members.head.weight)


def test_with_a_threshold_it_is_all_or_nothing(bonus):
    shares = values(bonus, some(2, -1, 1)) / 2
    hard = replace(bonus, threshold=0.2)
    np.testing.assert_array_equal(
        values(hard, some(2, -1, 1)), 2.0 * (shares >= 0.2).astype(np.float32)
    )


def test_a_code_that_was_met_once_is_not_blown_up():
    spaces = Spaces(Box(0.0, 1.0, (3,), np.float32), Discrete(2))
    codes = jnp.eye(3)[jnp.asarray([0] * 62 + [1, 0])]
    seen = Pairs(codes, jnp.zeros(NUM, jnp.int32))
    buffer = holding(Buffer.empty(spaces, NUM), seen)
    center, unit = units(PairEncoder(spaces, with_action=True), buffer)
    np.testing.assert_allclose(center, [63 / 64, 1 / 64, 0, 1, 0], rtol=1e-5)
    # 0.124 is their standard deviation; the third code and the action never varied.
    np.testing.assert_allclose(unit, [0.25, 0.25, 0.25, 0.25, 0.25], rtol=1e-5)


def test_without_bounds_the_unit_is_the_standard_deviation():
    spaces = Spaces(Box(-np.inf, np.inf, (2,), np.float32), Discrete(2))
    seen = Pairs(jnp.stack([jnp.arange(64.0), jnp.zeros(64)], axis=1), jnp.zeros(64, jnp.int32))
    buffer = holding(Buffer.empty(spaces, NUM), seen)
    _, unit = units(PairEncoder(spaces, with_action=True), buffer)
    np.testing.assert_allclose(unit[:2], [np.std(np.arange(64)), 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "value"), [("members", 1), ("steps", 0), ("learning_rate", 0.0), ("threshold", 0.0)]
)
def test_a_bad_setting_is_refused(name, value):
    with pytest.raises(ConfigError, match=rf"ensemble\.{name} is {value}; it must be "):
        replace(RULE, **{name: value})


def test_one_pair_alone_is_learned():
    one = take(SEEN, jnp.zeros(NUM, int))
    buffer = holding(Buffer.empty(SPACES, NUM), one)
    start = fresh(RULE, SPACES, HIDDEN, seed=1)
    bonus = jax.jit(RULE.fit)(jax.random.key(2), start, buffer, one)
    assert float(bonus(*take(one, 0))) < 0.01
    assert np.mean(values(bonus, some(3, 0.5, 1))) > 0.2
