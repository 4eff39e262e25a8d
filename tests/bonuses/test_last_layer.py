"""The closed form on the critic's last layer, against NumPy in 64 bits."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from eniac.bonuses.last_layer import LastLayer
from eniac.buffer import Buffer, Pairs, take
from eniac.errors import ConfigError
from eniac.policies import actor_critic
from eniac.spaces import Spaces
from pairs import holding, values

SPACES = Spaces(Box(-2.0, 2.0, (3,), np.float32), Discrete(3))
HIDDEN = (12, 7)
NUM = 40
RULE = LastLayer(ridge=0.5, coefficient=2.0)


def some(seed, num=NUM, scale=1.0):
    rng = np.random.default_rng(seed)
    observation = jnp.asarray(scale * rng.normal(size=(num, 3)), jnp.float32)
    return Pairs(observation, jnp.asarray(rng.integers(0, 3, num), jnp.int32))


def fitted(rule, visits, normalise=False, weight=None):
    critic = actor_critic(jax.random.key(4), *SPACES, HIDDEN, normalise)
    if normalise:
        normaliser = critic.normaliser.update(visits.observation * 3 + 1, jnp.ones(NUM, bool))
        critic = eqx.tree_at(lambda c: c.normaliser, critic, normaliser)
    buffer = holding(Buffer.empty(SPACES, 2 * NUM), visits)
    if weight is not None:
        buffer = replace(buffer, weight=buffer.weight.at[:NUM].set(weight))

    @jax.jit
    def go(critic, buffer):
        bonus = rule.init(jax.random.key(1), SPACES, HIDDEN)
        return rule.fit(jax.random.key(2), rule.with_critic(bonus, critic), buffer, visits)

    return go(critic, buffer), critic


def layer(critic, observation):
    """What the critic's last hidden layer makes of observations, by hand."""
    x = np.asarray(jax.vmap(critic.encode)(observation), np.float64)
    for each in critic.body.layers:
        x = np.maximum(x @ np.asarray(each.weight, np.float64) + np.asarray(each.bias), 0)
    return x


def features(critic, visits, weight, *others):
    """phi of the visits and of others: the layer, of mean 0 and mean square 1, and a 1."""
    x = layer(critic, visits.observation)
    center = np.average(x, axis=0, weights=weight)
    scale = np.sqrt(np.average(np.sum((x - center) ** 2, axis=1), weights=weight))
    return [
        np.pad((layer(critic, p.observation) - center) / scale, [(0, 0), (0, 1)], constant_values=1)
        for p in (visits, *others)
    ]


def ellipsoid(phi, data, weight, ridge):
    """sqrt(ridge phi' (sum_i w_i phi_i phi_i' + ridge I)^-1 phi)."""
    sigma = (weight[:, None] * data).T @ data + ridge * np.eye(data.shape[1])
    return np.sqrt(ridge * np.sum(phi * np.linalg.solve(sigma, phi.T).T, axis=1))


@pytest.mark.parametrize("normalise", [False, True])
def test_it_is_the_ellipsoid_norm_of_the_critics_last_layer(normalise):
    visits, queries = some(0), some(1, 30, scale=4.0)
    bonus, critic = fitted(RULE, visits, normalise)
    value = layer(critic, queries.observation) @ np.asarray(critic.value_head.weight[:, 0])
    np.testing.assert_allclose(jax.vmap(critic.value)(queries.observation), value, atol=1e-6)
    data, phi = features(critic, visits, np.ones(NUM), queries)
    exact = ellipsoid(phi, data, np.ones(NUM), RULE.ridge)
    np.testing.assert_allclose(values(bonus.width, queries), exact, rtol=2e-3)
    np.testing.assert_allclose(values(bonus, queries), 2 * np.minimum(exact, 1), rtol=2e-3)
    assert exact.min() < 0.5 < 1 < exact.max()  # both sides of the bound are among them


def test_a_row_counts_as_often_as_it_stands_for_visits():
    weight = np.random.default_rng(3).integers(1, 9, NUM)
    visits, queries = some(0), some(1, 30)
    bonus, critic = fitted(RULE, visits, weight=jnp.asarray(weight, jnp.float32))
    data, phi = features(critic, visits, weight, queries)
    exact = ellipsoid(phi, data, weight, RULE.ridge)
    np.testing.assert_allclose(values(bonus.width, queries), exact, rtol=2e-3)


def test_with_actions_every_action_has_an_ellipsoid_of_its_own():
    rule = replace(RULE, of="state-action")
    visits, queries = some(0), some(1, 30)
    bonus, critic = fitted(rule, visits)
    data, phi = features(critic, visits, np.ones(NUM), queries)
    # The same as one ellipsoid of the products of features and one-hot actions.
    pair = lambda f, a: np.einsum("ri,ra->ria", f, np.eye(3)[a]).reshape(len(f), -1)  # noqa: E731
    exact = ellipsoid(
        pair(phi, queries.action), pair(data, visits.action), np.ones(NUM), RULE.ridge
    )
    np.testing.assert_allclose(values(bonus.width, queries), exact, rtol=2e-3)


def test_with_a_threshold_it_is_all_or_nothing():
    visits, queries = some(0), some(1, 30)
    width = values(fitted(RULE, visits)[0].width, queries)
    middle = float(np.median(width))
    bonus, _ = fitted(replace(RULE, threshold=middle), visits)
    np.testing.assert_array_equal(values(bonus, queries), 2.0 * (np.asarray(width) >= middle))


def test_a_very_large_buffer_leaves_it_finite_and_what_is_unseen_unknown():
    """Weights of millions of visits drown the ridge in the rounding of 32 bits."""
    one = take(some(0), jnp.zeros(NUM, int))
    bonus, _ = fitted(RULE, one, weight=jnp.full(NUM, 1e6))
    there = float(bonus.width(*take(one, 0)))
    far = values(bonus.width, some(5, 30, scale=2.0))
    assert np.all(np.isfinite(far))
    assert 0 <= there < 0.01
    assert np.median(far) > 0.3


def test_weights_for_each_action_need_a_discrete_action():
    box = Spaces(SPACES.observation, Box(-1.0, 1.0, (1,), np.float32))
    LastLayer().check(box, False)
    with pytest.raises(ConfigError, match=r"bonus.of is 'state-action'.* --bonus.of state, or"):
        LastLayer(of="state-action").check(box, False)


@pytest.mark.parametrize(
    ("name", "value"), [("ridge", 0.0), ("coefficient", -1.0), ("threshold", 0.0)]
)
def test_a_bad_setting_is_refused(name, value):
    with pytest.raises(ConfigError, match=rf"last-layer\.{name} is {value}; it must be "):
        replace(RULE, **{name: value})


def test_nothing_but_the_critic_decides_its_features():
    visits = some(0)
    critic = actor_critic(jax.random.key(4), *SPACES, HIDDEN)
    buffer = holding(Buffer.empty(SPACES, NUM), visits)
    fit = jax.jit(RULE.fit)
    first, second = (
        fit(jax.random.key(seed), RULE.with_critic(RULE.init(jax.random.key(seed), SPACES, HIDDEN),
        critic), buffer, visits)
        for seed in (0, 1)
    )  # fmt: skip
    np.testing.assert_array_equal(values(first, visits), values(second, visits))
