from functools import cache
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from eniac.envs import MountainCarContinuous
from eniac.errors import ConfigError
from eniac.networks import DEPTHS, Linear
from eniac.policies import (
    Bernoulli,
    Categorical,
    Gaussian,
    MultiCategorical,
    actor_critic,
)
from eniac.spaces import emitted, empty, from_json, to_env, to_json

HIDDEN = (8, 5)
SEES = Box(-1.0, 1.0, (3,), np.float32)
NUM_DRAWS = 20_000


@cache
def box_policy(seed=0, low=-2.0, high=6.0, hidden=HIDDEN):
    return actor_critic(jax.random.key(seed), SEES, Box(low, high, (2,), np.float32), hidden)


@cache
def discrete_policy(seed=0, n=4, hidden=HIDDEN, sharpness=1.0):
    """A softmax policy; `sharpness` undoes the small start of its head, under which all actions
    are all but equally likely."""
    policy = actor_critic(jax.random.key(seed), SEES, Discrete(n), hidden)
    return eqx.tree_at(lambda p: p.action_head.weight, policy, replace_fn=lambda w: w * sharpness)


def is_plausible(counts, probabilities):
    expected = np.asarray(probabilities, np.float64)
    expected = expected / expected.sum() * np.sum(counts)
    return scipy.stats.chisquare(counts, expected).pvalue > 1e-3


# Networks


@pytest.mark.parametrize(("depth", "count"), [(2, 4_483), (4, 33_411), (6, 41_731)])
def test_networks_for_mountain_car_have_the_papers_numbers_of_parameters(depth, count):
    env = MountainCarContinuous()
    policy = eqx.filter_eval_shape(
        actor_critic, jax.random.key(0), env.observation_space, env.action_space, DEPTHS[depth]
    )
    assert sum(leaf.size for leaf in jax.tree.leaves(policy)) == count
    assert len(policy.body.layers) == depth


def test_body_starts_at_scale_one_and_heads_at_a_thousandth():
    for policy in (box_policy(), discrete_policy()):
        norms = lambda layer: np.linalg.svd(np.asarray(layer.weight), compute_uv=False)  # noqa: E731
        for layer in policy.body.layers:
            np.testing.assert_allclose(norms(layer), 1.0, rtol=1e-5)
        np.testing.assert_allclose(norms(policy.action_head), 1e-3, rtol=1e-5)
        np.testing.assert_allclose(norms(policy.value_head), 1e-3, rtol=1e-5)


def test_body_is_relu_after_every_affine_layer():
    body = box_policy().body
    x = np.array([0.3, -1.0, 2.0], np.float32)
    expected = x
    for layer in body.layers:
        expected = np.maximum(expected @ np.asarray(layer.weight) + np.asarray(layer.bias), 0)
    np.testing.assert_allclose(body(jnp.asarray(x)), expected, rtol=1e-5)
    assert np.all(np.asarray(body(jnp.asarray(x))) >= 0)


def test_value_is_the_value_that_acting_reports():
    for policy in (box_policy(), discrete_policy()):
        x = jnp.array([0.5, -0.5, 1.0])
        _, _, value = policy.act(policy.noise(jax.random.key(0), ()), x)
        assert value == policy(x)[1] == policy.value(x)


# Distributions


def test_gaussian_log_prob_and_entropy_equal_scipys():
    rng = np.random.default_rng(0)
    mean, std, action = rng.normal(size=3), rng.uniform(0.1, 3, 3), rng.normal(size=3)
    law, exact = Gaussian(jnp.array(mean), jnp.array(std)), scipy.stats.norm(mean, std)
    np.testing.assert_allclose(law.log_prob(jnp.array(action)), exact.logpdf(action).sum(), 1e-5)
    np.testing.assert_allclose(law.entropy(), exact.entropy().sum(), rtol=1e-5)
    np.testing.assert_array_equal(law.mode(), law.mean)


def test_categorical_log_prob_and_entropy_equal_scipys():
    logits = np.random.default_rng(1).normal(size=5) * 3
    probabilities = np.exp(logits) / np.exp(logits).sum()
    law = Categorical(jnp.array(logits))
    exact = scipy.stats.rv_discrete(values=(np.arange(5), probabilities))
    for action in range(5):
        np.testing.assert_allclose(law.log_prob(jnp.array(action)), exact.logpmf(action), 1e-5)
    np.testing.assert_allclose(law.entropy(), scipy.stats.entropy(probabilities), rtol=1e-5)
    assert law.mode() == np.argmax(logits)


def test_categorical_ignores_a_shift_of_its_logits():
    logits = jnp.array([0.1, 2.0, -1.0])
    a, b = Categorical(logits), Categorical(logits + 50.0)
    np.testing.assert_allclose(a.log_prob(jnp.array(1)), b.log_prob(jnp.array(1)), rtol=1e-5)
    np.testing.assert_allclose(a.entropy(), b.entropy(), rtol=1e-5)


def test_sampled_discrete_actions_have_the_frequencies_of_the_softmax():
    policy, x = discrete_policy(sharpness=1e4), jnp.array([1.0, -1.0, 0.5])
    actions = jax.vmap(policy.action, (0, None))(policy.noise(jax.random.key(0), (NUM_DRAWS,)), x)
    probabilities = np.asarray(jax.nn.softmax(policy(x)[0].logits))
    assert probabilities.max() / probabilities.min() > 1.5
    assert is_plausible(np.bincount(actions, minlength=4), probabilities)


def test_sampled_box_actions_are_normal_with_the_stated_mean_and_std():
    policy, x = box_policy(), jnp.array([1.0, -1.0, 0.5])
    actions = jax.vmap(policy.action, (0, None))(policy.noise(jax.random.key(1), (NUM_DRAWS,)), x)
    law = policy(x)[0]
    for i in range(2):
        quantiles = scipy.stats.norm(law.mean[i], law.std[i]).cdf(np.asarray(actions[:, i]))
        assert is_plausible(np.histogram(quantiles, 20, (0, 1))[0], np.ones(20))
    # Independent: the two quantiles together are uniform on the square.
    assert abs(np.corrcoef(np.asarray(actions).T)[0, 1]) < 4 / np.sqrt(NUM_DRAWS)


def test_acting_reports_the_log_prob_of_its_own_action():
    x = jnp.array([0.2, 0.4, -0.6])
    for policy in (box_policy(), discrete_policy(sharpness=1e3)):
        action, log_prob, _ = policy.act(policy.noise(jax.random.key(3), ()), x)
        np.testing.assert_allclose(log_prob, policy(x)[0].log_prob(action), rtol=1e-6)


def test_evaluation_takes_the_actions_that_a_rollout_would_of_the_same_noise():
    key, x = jax.random.key(5), jnp.array([0.2, 0.4, -0.6])
    for policy in (box_policy(), discrete_policy(sharpness=1e3)):
        assert policy.noise(key, (7, 2)).shape[:2] == (7, 2)
        noise = policy.noise(key, ())
        np.testing.assert_array_equal(policy.act(noise, x)[0], policy.action(noise, x))


# Action boxes


def test_mean_is_tanh_and_std_is_softplus_scaled_to_the_box():
    policy = box_policy(low=-2.0, high=6.0)
    policy = eqx.tree_at(
        lambda p: (p.action_head.bias, p.std_parameter),
        policy,
        (jnp.array([0.7, -30.0]), jnp.array([0.0, 1.5])),
    )
    x = jnp.array([0.1, 0.2, 0.3])
    law = policy(x)[0]
    raw = policy.action_head(policy.body(x))
    np.testing.assert_allclose(law.mean, 2 + 4 * np.tanh(np.asarray(raw)), rtol=1e-5)
    np.testing.assert_allclose(law.std, 4 * np.log1p(np.exp([0.0, 1.5])), rtol=1e-5)
    assert law.mean[1] == -2.0


def test_a_fresh_std_is_the_softplus_of_zero():
    np.testing.assert_allclose(
        box_policy(low=-1.0, high=1.0)(jnp.zeros(3))[0].std, np.log(2), rtol=1e-6
    )


@pytest.mark.parametrize(("low", "high"), [(-np.inf, np.inf), (0.0, np.inf), (-np.inf, 0.0)])
def test_an_unbounded_box_has_neither_tanh_nor_scale(low, high):
    policy = box_policy(low=low, high=high)
    policy = eqx.tree_at(lambda p: p.action_head.bias, policy, jnp.array([30.0, -30.0]))
    x = jnp.array([0.1, 0.2, 0.3])
    law = policy(x)[0]
    np.testing.assert_allclose(law.mean, policy.action_head(policy.body(x)), rtol=1e-6)
    np.testing.assert_allclose(law.mean, [30.0, -30.0], rtol=1e-2)
    np.testing.assert_allclose(law.std, np.log(2), rtol=1e-6)


def test_uniform_actions_are_uniform_and_log_uniform_is_their_density():
    space = Box(np.array([-2.0, 0.0]), np.array([6.0, 0.5]), dtype=np.float64)
    policy = actor_critic(jax.random.key(0), SEES, space, HIDDEN)
    actions = np.asarray(policy.uniform(jax.random.key(1), (NUM_DRAWS,)))
    exact = scipy.stats.uniform(space.low, space.high - space.low)
    for i in range(2):
        counts = np.histogram(actions[:, i], 20, (space.low[i], space.high[i]))[0]
        assert counts.sum() == NUM_DRAWS
        assert is_plausible(counts, np.ones(20))
    np.testing.assert_allclose(policy.log_uniform, exact.logpdf([0.0, 0.25]).sum(), rtol=1e-6)

    policy = discrete_policy(n=5)
    actions = np.asarray(policy.uniform(jax.random.key(1), (NUM_DRAWS,)))
    assert is_plausible(np.bincount(actions, minlength=5), np.ones(5))
    assert policy.log_uniform == pytest.approx(np.log(1 / 5))


# Stacks


@pytest.mark.parametrize("make", [box_policy, discrete_policy])
def test_a_stack_of_policies_acts_as_each_of_them_alone(make):
    policies = [make(seed) for seed in range(3)]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *policies)
    x = jnp.array([0.3, -0.4, 0.9])
    noise = policies[0].noise(jax.random.key(9), (3,))
    together = jax.vmap(lambda policy, z: policy.act(z, x))(stack, noise)
    for i, policy in enumerate(policies):
        for a, b in zip(together, policy.act(noise[i], x), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-5, atol=1e-8)
    assert len(np.unique(np.asarray(together[2]))) == 3


# Every kind of space

SEEN = Dict(
    {
        "where": Box(-1.0, 1.0, (2,), np.float32),
        "what": Tuple([Discrete(3, start=1), MultiBinary(2)]),
        "see": Box(0, 255, (16, 16, 1), np.uint8),
    }
)
ACTIONS = {
    "box": Box(-2.0, 6.0, (2,), np.float32),
    "matrix": Box(-1.0, 1.0, (2, 2), np.float64),
    "unbounded": Box(-np.inf, np.inf, (2,), np.float32),
    "discrete": Discrete(4, start=3),
    "multi-discrete": MultiDiscrete([2, 3, 2]),
    "multi-discrete matrix": MultiDiscrete([[3, 1], [2, 2]], start=[[1, 0], [0, -1]]),
    "multi-binary": MultiBinary(3),
    "multi-binary matrix": MultiBinary([2, 2]),
}
FINITE = [name for name in ACTIONS if "discrete" in name or "binary" in name]
of_every_kind = pytest.mark.parametrize("name", ACTIONS)
of_finite_kinds = pytest.mark.parametrize("name", FINITE)


@cache
def policy_of(name, seed=0, sees="vector"):
    """A policy whose head is sharp enough to prefer some actions."""
    seen = SEEN if sees == "all" else SEES
    policy = actor_critic(jax.random.key(seed), seen, ACTIONS[name], HIDDEN)
    return eqx.tree_at(lambda p: p.action_head.weight, policy, replace_fn=lambda w: w * 1e4)


def all_actions(name):
    """All that a policy can emit in a finite space."""
    flat = emitted(ACTIONS[name])
    if isinstance(flat, Discrete):
        return jnp.arange(flat.n)
    sizes = flat.nvec if isinstance(flat, MultiDiscrete) else [2] * flat.n
    return jnp.asarray(list(product(*map(range, sizes))))


@of_every_kind
def test_actions_of_every_kind_are_elements_of_their_spaces(name):
    policy, space = policy_of(name, sees="all"), ACTIONS[name]
    observation = jax.tree.map(lambda x: x[0], empty(SEEN, 1))
    observation["where"], observation["see"] = jnp.array([0.5, -1.0]), observation["see"] + 9
    room = empty(emitted(space), 30)

    @jax.jit
    def draw(key):
        drawn = jax.vmap(lambda z: policy.act(z, observation)[0])(policy.noise(key, (30,)))
        return drawn, policy.uniform(key, (30,)), policy.mode(observation)[None]

    for actions in draw(jax.random.key(1)):
        assert actions.dtype == room.dtype
        assert actions.shape[1:] == room.shape[1:]
        for action in np.asarray(actions):
            assert space.contains(to_env(space, action))


@of_finite_kinds
def test_probabilities_of_all_actions_sum_to_one_and_give_the_entropy(name):
    law = policy_of(name)(jnp.array([1.0, -1.0, 0.5]))[0]
    log_probs = np.asarray(jax.vmap(law.log_prob)(all_actions(name)), np.float64)
    assert np.exp(log_probs).sum() == pytest.approx(1, rel=1e-5)
    assert float(law.entropy()) == pytest.approx(-np.sum(np.exp(log_probs) * log_probs), rel=1e-5)
    assert np.ptp(log_probs) > 0.1
    best = all_actions(name)[int(np.argmax(log_probs))]
    np.testing.assert_array_equal(law.mode(), best)


@of_finite_kinds
def test_sampled_actions_have_the_frequencies_of_their_probabilities(name):
    policy, x = policy_of(name), jnp.array([1.0, -1.0, 0.5])
    elements = np.asarray(all_actions(name))
    index = {tuple(np.atleast_1d(row)): i for i, row in enumerate(elements)}
    draws = jax.vmap(policy(x)[0].transform)(policy.noise(jax.random.key(2), (NUM_DRAWS,)))
    uniform = policy.uniform(jax.random.key(3), (NUM_DRAWS,))
    probabilities = np.exp(jax.vmap(policy(x)[0].log_prob)(jnp.asarray(elements)))
    even = np.full(len(elements), np.exp(policy.log_uniform))
    assert even.sum() == pytest.approx(1)
    for actions, expected in ((draws, probabilities), (uniform, even)):
        found = [index[tuple(np.atleast_1d(row))] for row in np.asarray(actions)]
        assert is_plausible(np.bincount(found, minlength=len(elements)), expected)


def test_choices_and_coins_have_the_log_probabilities_computed_by_hand():
    law = MultiCategorical(jnp.log(jnp.array([0.25, 0.75, 0.1, 0.2, 0.7])), (2, 3))
    assert float(law.log_prob(jnp.array([1, 0]))) == pytest.approx(np.log(0.75 * 0.1), rel=1e-5)
    np.testing.assert_array_equal(law.mode(), [1, 2])
    coins = np.array([0.9, 0.2])
    law = Bernoulli(jnp.log(jnp.array(coins / (1 - coins))))
    assert float(law.log_prob(jnp.array([1, 1]))) == pytest.approx(np.log(0.9 * 0.2), rel=1e-5)
    assert float(law.log_prob(jnp.array([0, 0]))) == pytest.approx(np.log(0.1 * 0.8), rel=1e-5)
    expected = scipy.stats.bernoulli(coins).entropy().sum()
    assert float(law.entropy()) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_array_equal(law.mode(), [1, 0])


def test_certain_coins_have_finite_log_probabilities_entropies_and_gradients():
    def total(logits):
        law = Bernoulli(logits)
        return law.entropy() + law.log_prob(jnp.array([1, 0]))

    value, gradient = jax.value_and_grad(total)(jnp.array([200.0, -200.0]))
    assert float(value) == pytest.approx(0, abs=1e-6)
    assert np.all(np.isfinite(gradient))


def test_only_the_bounded_entries_of_a_box_are_scaled():
    space = Box(np.float32([-2, -np.inf]), np.float32([6, np.inf]))
    policy = actor_critic(jax.random.key(0), SEES, space, HIDDEN)
    policy = eqx.tree_at(lambda p: p.action_head.bias, policy, jnp.array([30.0, 30.0]))
    law = policy(jnp.zeros(3))[0]
    np.testing.assert_allclose(law.mean, [6.0, 30.0], rtol=1e-3)
    np.testing.assert_allclose(law.std, [4 * np.log(2), np.log(2)], rtol=1e-5)
    actions = np.asarray(policy.uniform(jax.random.key(1), (1000,)))
    assert np.all((actions >= [-2, -1]) & (actions <= [6, 1]))
    assert policy.log_uniform == pytest.approx(-np.log(8 * 2))


@of_every_kind
def test_a_stack_of_policies_of_every_kind_acts_as_each_alone(name):
    policies = [policy_of(name, seed, "all") for seed in range(2)]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *policies)
    observation = jax.tree.map(lambda x: x[0] + 1, empty(SEEN, 1))
    noise = policies[0].noise(jax.random.key(9), (2,))
    together = jax.jit(jax.vmap(lambda policy, z: policy.act(z, observation)))(stack, noise)
    for i, policy in enumerate(policies):
        for a, b in zip(together, policy.act(noise[i], observation), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-4, atol=1e-6)


@of_every_kind
def test_a_policy_for_spaces_from_a_file_is_the_same_policy(name):
    seen, space = (from_json(to_json(x)) for x in (SEEN, ACTIONS[name]))
    again = actor_critic(jax.random.key(0), seen, space, HIDDEN)
    policy = actor_critic(jax.random.key(0), SEEN, ACTIONS[name], HIDDEN)
    assert jax.tree.structure(policy) == jax.tree.structure(again)
    assert all(map(np.array_equal, jax.tree.leaves(policy), jax.tree.leaves(again)))


@pytest.mark.parametrize("space", [Box(-1.0, 1.0, (2,), np.float32), Discrete(4)])
def test_plain_policies_draw_the_parameters_they_always_drew(space):
    key = jax.random.key(7)
    policy = actor_critic(key, SEES, space, HIDDEN)
    body_key, action_key, value_key = jax.random.split(key, 3)
    keys = jax.random.split(body_key, 2)
    num = 2 if isinstance(space, Box) else 4
    expected = [
        Linear(keys[0], 3, 8),
        Linear(keys[1], 8, 5),
        Linear(value_key, 5, 1, 1e-3),
        Linear(action_key, 5, num, 1e-3),
    ]
    expected = jax.tree.leaves(expected) + ([np.zeros(2)] if num == 2 else [])
    assert len(jax.tree.leaves(policy)) == len(expected)
    for a, b in zip(jax.tree.leaves(policy), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert type(policy).__module__ == "eniac.policies"


# Normalised observations


def test_a_policy_that_normalises_reads_scaled_observations():
    policy = actor_critic(jax.random.key(0), SEEN, Discrete(2), HIDDEN, normalise=True)
    plain = actor_critic(jax.random.key(0), SEEN, Discrete(2), HIDDEN)
    assert plain.normaliser is None
    SEEN.seed(0)
    observation = SEEN.sample()
    np.testing.assert_array_equal(policy.encode(observation), plain.encoder(observation))
    np.testing.assert_array_equal(policy.value(observation), plain.value(observation))
    x = jax.random.normal(jax.random.key(1), (50, plain.encoder.size)) * 5 + 3
    policy = eqx.tree_at(
        lambda p: p.normaliser, policy, policy.normaliser.update(x, jnp.ones(50, bool))
    )
    expected = np.array(plain.encoder(observation))
    moments = np.asarray(x)[:, -2:].mean(0), np.asarray(x)[:, -2:].std(0)
    expected[-2:] = (expected[-2:] - moments[0]) / moments[1]
    np.testing.assert_allclose(policy.encode(observation), expected, rtol=1e-4, atol=1e-6)
    assert policy(observation)[1] == policy.value(observation) != plain.value(observation)


# Spaces


def test_a_discrete_observation_is_read_as_one_hot():
    policy = actor_critic(jax.random.key(0), Discrete(4), Discrete(2), HIDDEN)
    np.testing.assert_allclose(
        jax.vmap(policy.value)(jnp.arange(4)),
        jax.vmap(lambda x: policy.value_head(policy.body(x))[0])(jnp.eye(4)),
        rtol=1e-6,
    )


def test_spaces_that_no_policy_can_use_are_refused():
    key = jax.random.key(0)
    with pytest.raises(ConfigError, match=r"cannot read the space Text"):
        actor_critic(key, Text(3), Discrete(2), HIDDEN)
    with pytest.raises(ConfigError, match=r"the action space is Text"):
        actor_critic(key, SEES, Text(3), HIDDEN)


@pytest.mark.parametrize("hidden", [(), (0,), (8, -1)])
def test_a_network_without_units_is_refused(hidden):
    with pytest.raises(ConfigError, match="give one size of 1 or more for each hidden layer"):
        actor_critic(jax.random.key(0), SEES, Discrete(2), hidden)
