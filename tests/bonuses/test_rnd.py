"""Random network distillation: what moves, what stays, and what is large where."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from eniac.bonuses.rnd import RND
from eniac.buffer import Buffer, Pairs
from eniac.spaces import Spaces
from pairs import fresh, values

SPACES = Spaces(Box(-3.0, 3.0, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32))
HIDDEN = (8, 8)
NUM = 64
RULE = RND(coefficient=10.0, learning_rate=1e-2, minibatch=16, passes=20)
update = jax.jit(RND.update_online, static_argnums=0)


def around(center, seed=0, num=NUM):
    rng = np.random.default_rng(seed)
    observation = np.asarray(center) + 0.1 * rng.normal(size=(num, 2))
    return Pairs(jnp.asarray(observation, jnp.float32), jnp.zeros((num, 1)))


SEEN, UNSEEN = around([1.0, 1.0]), around([-2.0, -2.0])


def start(rule=RULE):
    return fresh(rule, SPACES, HIDDEN)


@pytest.fixture(scope="module")
def updated():
    bonus = start()
    return bonus, update(RULE, jax.random.key(1), bonus, SEEN, jnp.asarray(NUM))


def same(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


def network(body, x):
    for layer in body.layers:
        x = np.maximum(x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias), 0)
    return x


def test_the_bonus_is_the_coefficient_times_the_mean_squared_error(updated):
    for bonus in updated:
        x = np.asarray(UNSEEN.observation, np.float64)
        error = np.mean((network(bonus.predictor, x) - network(bonus.target, x)) ** 2, axis=1)
        np.testing.assert_allclose(values(bonus, UNSEEN), 10 * error, rtol=1e-4, atol=1e-6)


def test_the_networks_have_the_policys_body_and_no_head(updated):
    for body in (updated[0].target, updated[0].predictor):
        assert [layer.weight.shape for layer in body.layers] == [(2, 8), (8, 8)]


def test_the_target_never_moves_and_the_predictor_does(updated):
    before, after = updated
    assert same(after.target, before.target)
    assert not same(after.predictor, before.predictor)
    assert not same(before.predictor, before.target)


def test_the_bonus_falls_where_the_policy_was_and_stays_high_elsewhere(updated):
    before, after = updated
    assert values(after, SEEN).mean() < 0.3 * values(before, SEEN).mean()
    assert values(after, UNSEEN).mean() > 0.8 * values(before, UNSEEN).mean()


def test_what_error_is_left_where_the_policy_was_is_of_units_that_are_off_there(updated):
    # The bodies end in ReLU, as the paper's do: a unit of the predictor that is off at all the
    # states has no gradient, before or after it was switched off.
    before, after = updated
    x = np.asarray(SEEN.observation, np.float64)
    on = np.any(network(after.predictor, x) > 0, axis=0)
    assert 0 < on.sum() < 8
    error = lambda b: (network(b.predictor, x) - network(b.target, x)) ** 2  # noqa: E731
    assert error(after)[:, on].mean() < 0.01 * error(before)[:, on].mean()


def test_rows_beyond_the_count_teach_nothing():
    both = Pairs(*map(lambda *x: jnp.concatenate(x), SEEN, UNSEEN))
    garbage = both._replace(observation=both.observation.at[NUM:].add(1.0))
    a, b = (
        update(RULE, jax.random.key(1), start(), pairs, jnp.asarray(NUM))
        for pairs in (both, garbage)
    )
    assert same(a, b)


def test_a_fit_changes_nothing(updated):
    assert RULE.fit(jax.random.key(0), updated[1], Buffer.empty(SPACES, 4), SEEN) is updated[1]


def test_encodings_that_are_too_many_are_computed_minibatch_by_minibatch(monkeypatch):
    args = RULE, jax.random.key(1), start(), SEEN, jnp.asarray(NUM)
    stored = jax.jit(lambda: RND.update_online(*args))()
    monkeypatch.setattr("eniac.bonuses.rnd.MAX_FLOATS", 1)
    again = jax.jit(lambda: RND.update_online(*args))()
    np.testing.assert_allclose(values(again, UNSEEN), values(stored, UNSEEN), rtol=1e-3)


def test_without_normalisation_the_scale_is_one(updated):
    assert float(updated[1].scale) == 1


def test_the_scale_is_the_running_standard_deviation_of_the_error():
    rule = replace(RULE, normalise=True, decay=0.75, passes=1)
    bonus, variance = start(rule), None
    for seed in range(3):
        pairs, num = around([1.0, seed], seed), NUM // 2
        new = np.var(values(replace_scale(bonus), pairs)[:num] / rule.coefficient)
        variance = new if variance is None else 0.75 * variance + 0.25 * new
        bonus = update(rule, jax.random.key(seed), bonus, pairs, jnp.asarray(num))
        np.testing.assert_allclose(bonus.variance, variance, rtol=1e-4)
        np.testing.assert_allclose(bonus.scale, np.sqrt(variance), rtol=1e-4)


def replace_scale(bonus):
    return type(bonus)(**(vars(bonus) | {"scale": jnp.ones(())}))


def test_discrete_states_can_be_told_apart():
    spaces = Spaces(Discrete(3), Discrete(2))
    bonus = RULE.init(jax.random.key(0), spaces, HIDDEN)
    pairs = Pairs(jnp.zeros(NUM, jnp.int32), jnp.zeros(NUM, jnp.int32))
    after = update(RULE, jax.random.key(1), bonus, pairs, jnp.asarray(NUM))
    value = lambda b, s: float(b(jnp.asarray(s), jnp.asarray(0)))  # noqa: E731
    assert value(after, 0) < 0.02 * value(bonus, 0)
    assert min(value(after, 1), value(after, 2)) > 10 * value(after, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("coefficient", -1.0), ("learning_rate", 0.0), ("minibatch", 0), ("passes", 0), ("decay", 1)],
)
def test_a_bad_setting_is_refused(name, value):
    with pytest.raises(ValueError, match=rf"rnd\.{name} is {value}; it must be "):
        replace(RULE, **{name: value})
