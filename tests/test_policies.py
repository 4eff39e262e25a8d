from functools import cache

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from eniac.envs import MountainCarContinuous
from eniac.policies import (
    DEPTHS,
    Body,
    Categorical,
    CategoricalActorCritic,
    Encoder,
    Gaussian,
    GaussianActorCritic,
    Linear,
    actor_critic,
)

Box, Discrete = gymnasium.spaces.Box, gymnasium.spaces.Discrete
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
    return eqx.tree_at(lambda p: p.logits_head.weight, policy, replace_fn=lambda w: w * sharpness)


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


@pytest.mark.parametrize(("inputs", "outputs"), [(8, 8), (8, 5), (3, 8), (5, 1)])
@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_a_layer_starts_orthogonal_times_its_scale_with_zero_bias(inputs, outputs, scale):
    layer = Linear(jax.random.key(1), inputs, outputs, scale)
    weight = np.asarray(layer.weight, np.float64)
    gram = weight.T @ weight if inputs >= outputs else weight @ weight.T
    np.testing.assert_allclose(gram / scale**2, np.eye(len(gram)), atol=1e-5)
    assert not np.any(layer.bias)


def test_body_starts_at_scale_one_and_heads_at_a_thousandth():
    policies = [(box_policy(), "mean_head"), (discrete_policy(), "logits_head")]
    for policy, head in policies:
        norms = lambda layer: np.linalg.svd(np.asarray(layer.weight), compute_uv=False)  # noqa: E731
        for layer in policy.body.layers:
            np.testing.assert_allclose(norms(layer), 1.0, rtol=1e-5)
        np.testing.assert_allclose(norms(getattr(policy, head)), 1e-3, rtol=1e-5)
        np.testing.assert_allclose(norms(policy.value_head), 1e-3, rtol=1e-5)


def test_layers_of_one_network_start_different_from_each_other():
    body = Body(jax.random.key(0), 8, (8, 8))
    assert not np.allclose(body.layers[0].weight, body.layers[1].weight)


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
    actions = jax.vmap(policy.sample, (0, None))(jax.random.split(jax.random.key(0), NUM_DRAWS), x)
    probabilities = np.asarray(jax.nn.softmax(policy(x)[0].logits))
    assert probabilities.max() / probabilities.min() > 1.5
    assert is_plausible(np.bincount(actions, minlength=4), probabilities)


def test_sampled_box_actions_are_normal_with_the_stated_mean_and_std():
    policy, x = box_policy(), jnp.array([1.0, -1.0, 0.5])
    actions = jax.vmap(policy.sample, (0, None))(jax.random.split(jax.random.key(1), NUM_DRAWS), x)
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


def test_noise_drawn_ahead_makes_the_actions_that_sampling_makes():
    key, x = jax.random.key(5), jnp.array([0.2, 0.4, -0.6])
    for policy in (box_policy(), discrete_policy(sharpness=1e3)):
        assert policy.noise(key, (7, 2)).shape[:2] == (7, 2)
        np.testing.assert_array_equal(
            policy.act(policy.noise(key, ()), x)[0], policy.sample(key, x)
        )


# Action boxes


def test_mean_is_tanh_and_std_is_softplus_scaled_to_the_box():
    policy = box_policy(low=-2.0, high=6.0)
    policy = eqx.tree_at(
        lambda p: (p.mean_head.bias, p.std_parameter),
        policy,
        (jnp.array([0.7, -30.0]), jnp.array([0.0, 1.5])),
    )
    x = jnp.array([0.1, 0.2, 0.3])
    law = policy(x)[0]
    raw = policy.mean_head(policy.body(x))
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
    policy = eqx.tree_at(lambda p: p.mean_head.bias, policy, jnp.array([30.0, -30.0]))
    x = jnp.array([0.1, 0.2, 0.3])
    law = policy(x)[0]
    np.testing.assert_allclose(law.mean, policy.mean_head(policy.body(x)), rtol=1e-6)
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


# Spaces


def test_a_discrete_observation_is_read_as_one_hot():
    encoder = Encoder(Discrete(4))
    np.testing.assert_array_equal(jax.vmap(encoder)(jnp.arange(4)), np.eye(4))
    policy = actor_critic(jax.random.key(0), Discrete(4), Discrete(2), HIDDEN)
    np.testing.assert_allclose(
        jax.vmap(policy.value)(jnp.arange(4)),
        jax.vmap(lambda x: policy.value_head(policy.body(x))[0])(jnp.eye(4)),
        rtol=1e-6,
    )


def test_a_box_observation_is_read_flat_and_as_floats():
    space = Box(0, 255, (2, 3), np.uint8)
    seen = jnp.arange(6, dtype=jnp.uint8).reshape(2, 3)
    read = Encoder(space)(seen)
    assert read.dtype == jnp.float32
    np.testing.assert_array_equal(read, np.arange(6))


def test_the_kind_of_policy_follows_from_the_action_space():
    assert isinstance(box_policy(), GaussianActorCritic)
    assert isinstance(discrete_policy(), CategoricalActorCritic)


def test_spaces_that_no_policy_can_use_are_refused():
    key, pair = jax.random.key(0), gymnasium.spaces.MultiDiscrete([2, 3])
    with pytest.raises(ValueError, match=r"cannot read the space MultiDiscrete\(\[2 3\]\)"):
        actor_critic(key, pair, Discrete(2), HIDDEN)
    with pytest.raises(ValueError, match=r"the action space is MultiDiscrete\(\[2 3\]\)"):
        actor_critic(key, SEES, pair, HIDDEN)
    with pytest.raises(ValueError, match="starts at 1; start it at 0"):
        actor_critic(key, Discrete(3, start=1), Discrete(2), HIDDEN)
    with pytest.raises(ValueError, match="starts at 1; start it at 0"):
        actor_critic(key, SEES, Discrete(3, start=1), HIDDEN)


@pytest.mark.parametrize("hidden", [(), (0,), (8, -1)])
def test_a_network_without_units_is_refused(hidden):
    with pytest.raises(ValueError, match="give one size of 1 or more for each hidden layer"):
        actor_critic(jax.random.key(0), SEES, Discrete(2), hidden)
