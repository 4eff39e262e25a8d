"""Rollouts, advantages and evaluation against exact answers."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as some

from eniac.envs import Environment, Step, TabularMDP, TimeLimit, chain, random_mdp
from eniac.policies import actor_critic
from eniac.sampling.base import Evaluation, Trajectory, advantages
from eniac.sampling.compiled import CompiledSampler

HIDDEN = (8,)
NUM_ENVS = 4


def sharpen(policy, by=1e3):
    """Undoes the small start of the heads, under which all actions are all but equally likely."""
    return eqx.tree_at(
        lambda p: (p.action_head.weight, p.value_head.weight), policy, replace_fn=lambda w: w * by
    )


def policy_for(env, seed=0):
    key = jax.random.key(seed)
    return sharpen(actor_critic(key, env.observation_space, env.action_space, HIDDEN))


def always(env, action):
    """A policy that takes `action` with near certainty."""
    bias = jnp.zeros(env.action_space.n).at[action].set(50.0)
    return eqx.tree_at(lambda p: p.action_head.bias, sharpen(policy_for(env), 1e-3), bias)


def probabilities(policy, num_states):
    return np.asarray(
        jax.vmap(lambda s: jax.nn.softmax(policy(s)[0].logits))(jnp.arange(num_states)), np.float64
    )


# Advantages


def trajectory(reward, value, next_value, terminated, truncated):
    time = len(reward)
    return Trajectory(
        observation=jnp.zeros((time, 1)),
        action=jnp.zeros(time),
        log_prob=jnp.zeros(time),
        value=jnp.asarray(value, jnp.float32),
        next_value=jnp.asarray(next_value, jnp.float32),
        reward=jnp.asarray(reward, jnp.float32),
        terminated=jnp.asarray(terminated, bool),
        truncated=jnp.asarray(truncated, bool),
        on_policy=jnp.ones(time, bool),
        num_steps=jnp.asarray(time),
    )


def reference(seen, gamma, gae_lambda):
    """Advantages and returns by their definitions: sums over the rest of each episode."""
    reward, value, next_value = (
        np.asarray(x, np.float64) for x in (seen.reward, seen.value, seen.next_value)
    )
    terminated, truncated = np.asarray(seen.terminated), np.asarray(seen.truncated)
    time = len(reward)
    advantage, returns = np.zeros(time), np.zeros(time)
    for t in range(time):
        for k in range(t, time):
            future = 0.0 if terminated[k] else gamma * next_value[k]
            advantage[t] += (gamma * gae_lambda) ** (k - t) * (reward[k] + future - value[k])
            returns[t] += gamma ** (k - t) * reward[k]
            if terminated[k] or truncated[k] or k == time - 1:
                returns[t] += gamma ** (k - t) * future
                break
    return advantage, returns


def random_trajectory(seed, time=25):
    rng = np.random.default_rng(seed)
    end = rng.integers(0, 6, time)
    value = rng.normal(size=time)
    truncated = end == 1
    next_value = np.append(value[1:], rng.normal())
    next_value[truncated] = rng.normal(size=truncated.sum())
    return trajectory(rng.normal(size=time), value, next_value, end == 0, truncated)


@pytest.fixture(scope="module")
def estimate():
    return jax.jit(advantages)


@pytest.mark.parametrize(
    ("gamma", "gae_lambda"), [(0.99, 0.95), (0.9, 0.0), (0.8, 1.0), (0.0, 0.5)]
)
def test_advantages_and_returns_equal_their_definitions_on_random_data(estimate, gamma, gae_lambda):
    for seed in range(10):
        seen = random_trajectory(seed)
        for fast, slow in zip(
            estimate(seen, gamma, gae_lambda), reference(seen, gamma, gae_lambda), strict=True
        ):
            np.testing.assert_allclose(fast, slow, rtol=1e-4, atol=1e-5)


NUMBERS = some.lists(some.floats(-10, 10, width=32), min_size=9, max_size=9)
ENDS = some.lists(some.sampled_from([0, 0, 0, 1, 2]), min_size=9, max_size=9)


@settings(max_examples=60, deadline=None)
@given(NUMBERS, NUMBERS, NUMBERS, ENDS, some.floats(0, 0.99), some.floats(0, 1))
def test_advantages_and_returns_equal_their_definitions_whatever_ends(
    estimate, reward, value, next_value, ends, gamma, gae_lambda
):
    """Steps that terminate (1) and that are truncated (2), anywhere and one after another."""
    ends = np.array(ends)
    seen = trajectory(reward, value, next_value, ends == 1, ends == 2)
    # Inside an episode the next value is the value of the next step, as it is in a rollout.
    inside = np.append(ends[:-1] == 0, False)
    following = np.where(inside, np.roll(np.asarray(value, np.float32), -1), seen.next_value)
    seen = seen._replace(next_value=jnp.asarray(following))
    fast = estimate(seen, gamma, gae_lambda)
    for found, exact in zip(fast, reference(seen, gamma, gae_lambda), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-3)


def test_advantages_of_a_small_example_by_hand(estimate):
    # Steps 0-1 terminate, 2-3 are truncated (leading to a state worth 10), 4 is unfinished
    # (leading to one worth 4). gamma = lambda = 1/2.
    seen = trajectory(
        reward=[1, 2, 3, 4, 5],
        value=[2, 4, 6, 8, 2],
        next_value=[4, 1000, 8, 10, 4],
        terminated=[0, 1, 0, 0, 0],
        truncated=[0, 0, 0, 1, 0],
    )
    # deltas: 1+2-2 = 1, 2-4 = -2, 3+4-6 = 1, 4+5-8 = 1, 5+2-2 = 5
    advantage, returns = estimate(seen, 0.5, 0.5)
    np.testing.assert_array_equal(advantage, [1 - 2 / 4, -2, 1 + 1 / 4, 1, 5])
    np.testing.assert_array_equal(returns, [1 + 2 / 2, 2, 3 + 9 / 2, 4 + 5, 5 + 2])


def test_at_lambda_one_advantage_is_the_monte_carlo_return_minus_the_value(estimate):
    seen = random_trajectory(3)
    advantage, returns = estimate(seen, 0.9, 1.0)
    np.testing.assert_allclose(advantage, returns - seen.value, rtol=1e-4, atol=1e-5)

    finished = trajectory([1, 2, 3], [5, 6, 7], [6, 7, 99], [0, 0, 1], [0, 0, 0])
    advantage, returns = estimate(finished, 0.5, 1.0)
    np.testing.assert_array_equal(returns, [1 + 1 + 0.75, 2 + 1.5, 3])
    np.testing.assert_array_equal(advantage, np.array([2.75, 3.5, 3]) - [5, 6, 7])


def test_at_lambda_zero_advantage_is_the_temporal_difference_error(estimate):
    seen = random_trajectory(4)
    future = np.where(seen.terminated, 0, 0.9 * seen.next_value)
    np.testing.assert_allclose(
        estimate(seen, 0.9, 0.0)[0], seen.reward + future - seen.value, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 1.0])
def test_the_true_value_of_a_truncated_endless_reward_has_no_advantage(estimate, gae_lambda):
    # gamma = 1/2 makes 1 / (1 - gamma) = 2 and every product exact.
    truncated = np.arange(12) % 5 == 4
    seen = trajectory(np.ones(12), np.full(12, 2.0), np.full(12, 2.0), np.zeros(12), truncated)
    advantage, returns = estimate(seen, 0.5, gae_lambda)
    np.testing.assert_array_equal(advantage, np.zeros(12))
    np.testing.assert_array_equal(returns, np.full(12, 2.0))


def test_what_follows_an_end_does_not_change_what_was_before(estimate):
    seen = random_trajectory(5)
    end = int(np.flatnonzero(seen.terminated | seen.truncated)[0])
    changed = seen._replace(reward=seen.reward.at[end + 1 :].add(100.0))
    for a, b in zip(estimate(seen, 0.99, 0.95), estimate(changed, 0.99, 0.95), strict=True):
        np.testing.assert_array_equal(a[: end + 1], b[: end + 1])
        assert not np.allclose(a[end + 1 :], b[end + 1 :])


# Rollouts


class Counter(Environment):
    """Counts its own steps from a start in {0, 10, 20, ...}; ends in both ways, on schedule.

    An action of 1 pays 1. Terminates on reaching a multiple of 10 plus 4 if the tens are even,
    and truncates there if they are odd.
    """

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0.0, 100.0, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        state = 10.0 * jax.random.randint(key, (), 0, 6)
        return state, state[None]

    def step(self, key, state, action):
        del key
        state = state + 1.0
        over, odd = state % 10 == 4, (state // 10) % 2 == 1
        return Step(state, state[None], action.astype(jnp.float32), over & ~odd, over & odd)


NUM_STEPS = 30


@pytest.fixture(scope="module")
def counted():
    env = Counter()
    policy = policy_for(env, 1)
    sampler = CompiledSampler(env)
    run = jax.jit(lambda envs, key: sampler.rollout(key, policy, envs, NUM_STEPS))
    envs = sampler.begin(jax.random.key(0), NUM_ENVS)
    after, seen = run(envs, jax.random.key(1))
    return policy, run, envs, after, seen


def test_a_rollout_starts_where_its_environments_are_and_leaves_them_where_it_ends(counted):
    _, run, envs, after, seen = counted
    np.testing.assert_array_equal(seen.observation[0], envs.observation)
    _, later = run(after, jax.random.key(2))
    np.testing.assert_array_equal(later.observation[0], after.observation)
    ended = (seen.terminated | seen.truncated)[-1]
    went_on = np.asarray(after.observation - seen.observation[-1])[:, 0] == 1
    np.testing.assert_array_equal(went_on, ~ended)
    np.testing.assert_array_equal(after.state, after.observation[:, 0])


def test_episodes_end_where_the_environment_says_and_are_reset_at_once(counted):
    seen = counted[-1]
    at = np.asarray(seen.observation[..., 0])
    odd = (at // 10) % 2 == 1
    np.testing.assert_array_equal(seen.terminated, (at % 10 == 3) & ~odd)
    np.testing.assert_array_equal(seen.truncated, (at % 10 == 3) & odd)
    ended = (at % 10 == 3)[:-1]
    assert np.all(at[1:][ended] % 10 == 0)
    np.testing.assert_array_equal(at[1:][~ended], at[:-1][~ended] + 1)
    assert seen.terminated.any()
    assert seen.truncated.any()
    assert len(np.unique(at[1:][ended])) > 1  # resets are drawn anew


def test_rewards_are_those_of_the_actions_taken(counted):
    seen = counted[-1]
    np.testing.assert_array_equal(seen.reward, seen.action)
    assert 0 < seen.reward.mean() < 1


def test_log_probs_and_values_are_the_policys(counted):
    policy, *_, seen = counted
    law, value = jax.vmap(jax.vmap(policy))(seen.observation)
    log_prob = jax.vmap(jax.vmap(lambda d, a: d.log_prob(a)))(law, seen.action)
    np.testing.assert_allclose(seen.log_prob, log_prob, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(seen.value, value, rtol=1e-5, atol=1e-6)


def test_next_value_is_that_of_the_state_reached_before_any_reset(counted):
    policy, *_, seen = counted
    # The state before a reset is one more than the one that was left, at ends and elsewhere.
    exact = jax.vmap(jax.vmap(policy.value))(seen.observation + 1)
    used = ~np.asarray(seen.terminated)
    np.testing.assert_allclose(
        np.asarray(seen.next_value)[used], np.asarray(exact)[used], rtol=1e-5, atol=1e-6
    )
    # The fact is not empty: after a reset the value would have been another one.
    truncated = np.asarray(seen.truncated)[:-1]
    assert np.all(np.abs(exact[:-1] - seen.value[1:])[truncated] > 1e-2)


def test_the_last_next_value_is_that_of_the_last_observation(counted):
    policy, _, _, after, seen = counted
    unfinished = ~np.asarray(seen.terminated | seen.truncated)[-1]
    assert unfinished.any()
    np.testing.assert_allclose(
        np.asarray(seen.next_value)[-1][unfinished],
        np.asarray(jax.vmap(policy.value)(after.observation))[unfinished],
        rtol=1e-5,
    )


def test_a_rollout_is_a_function_of_its_key(counted):
    _, run, envs, _, seen = counted
    again = run(envs, jax.random.key(1))[1]
    other = run(envs, jax.random.key(2))[1]
    for a, b in zip(seen, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(seen.action, other.action)


def is_plausible(counts, expected):
    expected = np.asarray(expected, np.float64).ravel()
    counts = np.asarray(counts).ravel()
    assert not np.any(counts[expected == 0])
    counts, expected = counts[expected > 0], expected[expected > 0]
    return scipy.stats.chisquare(counts, expected / expected.sum() * counts.sum()).pvalue > 1e-3


@pytest.fixture(scope="module")
def many():
    """A random MDP with one terminal state, its policy, and 20,000 rollouts of 6 steps."""
    plain = random_mdp(seed=1, num_states=5, num_actions=3)
    transition, reward = plain.transition.copy(), plain.reward.copy()
    transition[4], reward[4] = np.eye(5)[4], 0
    start = np.array([0.1, 0.2, 0.3, 0.4, 0])
    mdp = TabularMDP(transition, reward, start, terminal=[0, 0, 0, 0, 1])
    policy = policy_for(mdp, 2)
    sampler = CompiledSampler(mdp)
    envs = sampler.begin(jax.random.key(0), 20_000)
    rollout = jax.jit(lambda envs, key: sampler.rollout(key, policy, envs, 6))
    _, seen = rollout(envs, jax.random.key(1))
    pi = probabilities(policy, 5)
    flow = np.einsum("sa,sat->st", pi, transition)
    flow = flow[:, :4] + flow[:, 4:] * start[:4]  # what terminates begins again
    return mdp, pi, flow[:4], seen


def test_states_and_actions_are_distributed_as_the_exact_occupancy_says(many):
    mdp, pi, flow, seen = many
    occupancy = mdp.start[:4]
    for k in range(6):
        counts = np.zeros((4, 3))
        np.add.at(counts, (np.asarray(seen.observation[k]), np.asarray(seen.action[k])), 1)
        assert is_plausible(counts, occupancy[:, None] * pi[:4])
        occupancy = occupancy @ flow


def test_transitions_are_distributed_as_the_exact_table_says(many):
    _, _, flow, seen = many
    for k in (0, 4):
        pairs = np.zeros((4, 4))
        np.add.at(pairs, (np.asarray(seen.observation[k]), np.asarray(seen.observation[k + 1])), 1)
        for s in range(4):
            assert is_plausible(pairs[s], flow[s])


def test_discounted_and_undiscounted_returns_are_the_exact_ones_on_average(many):
    mdp, pi, flow, seen = many
    for gamma in (1.0, 0.7):
        reward_of = np.sum(pi * mdp.reward, 1)[:4]
        exact = sum(
            gamma**k * mdp.start[:4] @ np.linalg.matrix_power(flow, k) @ reward_of for k in range(6)
        )
        sums = np.asarray(seen.reward, np.float64).T @ gamma ** np.arange(6)
        assert abs(sums.mean() - exact) < 3.5 * sums.std() / np.sqrt(len(sums))


# Evaluation

NUM_EPISODES = 1000

judge = jax.jit(
    lambda env, policy, key, asked: CompiledSampler(env).evaluate(key, policy, asked),
    static_argnums=3,
)


def score(env, policy, key, episodes, deterministic=False, first=None):
    return judge(env, policy, key, Evaluation(episodes, deterministic=deterministic, first=first))


@pytest.fixture(scope="module")
def short_chain():
    """Left in state 0 pays 1/4, right in state 2 pays 1; ten steps are watched."""
    return TimeLimit(chain(3, lure=0.25), 10)


@pytest.mark.parametrize("deterministic", [True, False])
def test_evaluation_is_exact_on_a_deterministic_chain(short_chain, deterministic):
    # Two steps to the right end, then 1 a step up to the limit; or a quarter a step at the left.
    for action, best in ((1, 8.0), (0, 2.5)):
        policy = always(short_chain, action)
        got = score(short_chain, policy, jax.random.key(0), NUM_EPISODES, deterministic)
        np.testing.assert_array_equal(got.returns, np.full(NUM_EPISODES, best))
        np.testing.assert_array_equal(got.lengths, np.full(NUM_EPISODES, 10))


def test_the_return_of_the_first_steps_is_told(short_chain):
    # Two steps to the right end, then 1 a step: 3 after five steps.
    policy, key = always(short_chain, 1), jax.random.key(0)
    for first, brought in ((2, 0.0), (5, 3.0), (99, 8.0), (None, 8.0)):
        got = score(short_chain, policy, key, NUM_EPISODES, True, first)
        np.testing.assert_array_equal(got.first_returns, np.full(NUM_EPISODES, brought))
        np.testing.assert_array_equal(got.returns, np.full(NUM_EPISODES, 8.0))


def test_deterministic_evaluation_takes_the_likeliest_action_and_sampling_does_not(short_chain):
    policy = eqx.tree_at(
        lambda p: p.action_head.bias, always(short_chain, 1), jnp.array([0.0, float(np.log(3))])
    )
    modes = score(short_chain, policy, jax.random.key(0), NUM_EPISODES, True)
    np.testing.assert_array_equal(modes.returns, np.full(NUM_EPISODES, 8.0))
    pi, mdp = probabilities(policy, 3), short_chain.env
    flow, reward = np.einsum("sa,sat->st", pi, mdp.transition), np.sum(pi * mdp.reward, 1)
    exact = sum((np.linalg.matrix_power(flow, k) @ reward)[0] for k in range(10))
    samples = score(short_chain, policy, jax.random.key(0), NUM_EPISODES, False).returns
    samples = np.asarray(samples, np.float64)
    assert samples.std() > 0.5
    assert abs(samples.mean() - exact) < 3.5 * samples.std() / np.sqrt(NUM_EPISODES)


def test_evaluation_is_a_function_of_its_key(short_chain):
    a, b, c = (
        score(short_chain, policy_for(short_chain), jax.random.key(s), NUM_EPISODES, False).returns
        for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_evaluation_counts_each_episode_up_to_its_own_end():
    env = TimeLimit(Counter(), 9)
    got = score(env, always(env, 1), jax.random.key(0), 5)
    np.testing.assert_array_equal(got.lengths, np.full(5, 4))
    np.testing.assert_array_equal(got.returns, np.full(5, 4.0))


def test_a_finished_episode_earns_nothing_while_others_go_on():
    # Two states, drawn at the start; acting in state 0 ends the episode, in state 1 never.
    transition = np.zeros((3, 2, 3))
    transition[[0, 1, 2], :, [2, 1, 2]] = 1
    coin = TabularMDP(transition, [[1, 1], [1, 1], [0, 0]], [0.5, 0.5, 0], terminal=[0, 0, 1])
    env = TimeLimit(coin, 6)
    got = score(env, policy_for(env), jax.random.key(0), 400)
    assert set(np.unique(got.lengths)) == {1, 6}
    np.testing.assert_array_equal(got.returns, got.lengths)
    assert scipy.stats.binomtest(int(np.sum(np.asarray(got.lengths) == 1)), 400).pvalue > 1e-3
