"""Environments of gymnasium's and EnvPool's: what is learned from them, and that a run can stop."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from eniac.algorithm1 import epoch
from eniac.algorithms import ALGORITHMS
from eniac.bonuses.kernel import Kernel
from eniac.envs.names import env_from, find_env
from eniac.incumbent import IncumbentRule
from eniac.policies import actor_critic
from eniac.runs.tensors import flatten, unflatten
from eniac.sampling.base import Evaluation
from eniac.sampling.host import HostSampler
from envs.counting import Counting, NativeCounting

NUM_ENVS, TIME = 3, 20


def sampler_of(given):
    env = env_from(given)
    return HostSampler(env, env.num_envs or NUM_ENVS)


def policy_for(sampler):
    policy = actor_critic(jax.random.key(0), *sampler.spaces, (8,))
    return eqx.tree_at(lambda p: p.value_head.weight, policy, replace_fn=lambda w: 1e3 * w)


MODES = {
    "single environments": lambda: Counting,
    "single environments that copy": lambda: lambda: Counting(reuse=False),
    **{mode.name: lambda mode=mode: NativeCounting(NUM_ENVS, mode) for mode in AutoresetMode},
}


@pytest.fixture(scope="module", params=MODES)
def counted(request):
    """A rollout in environments whose observation and reward tell which step they belong to."""
    sampler = sampler_of(MODES[request.param]())
    policy = policy_for(sampler)
    envs = sampler.begin(jax.random.key(0), NUM_ENVS)
    _, seen = sampler.rollout(jax.random.key(1), policy, envs, TIME)
    return request.param, policy, seen


def test_every_row_that_is_learned_from_has_its_own_observation_action_and_reward(counted):
    _, _, seen = counted
    _, episode, time, _ = np.moveaxis(np.asarray(seen.observation), -1, 0)
    reward = 100 * episode + time + 1 + 0.1 * seen.action
    used = seen.on_policy
    np.testing.assert_allclose(seen.reward[used], reward[used], rtol=1e-5)
    assert (seen.terminated | seen.truncated).sum() > 2 * NUM_ENVS


def test_steps_that_only_reset_are_not_learned_from_and_not_counted(counted):
    mode, _, seen = counted
    ended = seen.terminated | seen.truncated
    after = np.concatenate([np.zeros((1, NUM_ENVS), bool), ended[:-1]])
    only_reset = after if mode == "NEXT_STEP" else np.zeros_like(after)
    np.testing.assert_array_equal(seen.on_policy, ~only_reset)
    assert int(seen.num_steps) == (~only_reset).sum()
    np.testing.assert_array_equal(seen.reward[only_reset], np.zeros(only_reset.sum()))
    assert not ended[only_reset].any()


def test_a_truncated_episode_is_bootstrapped_from_its_own_last_observation(counted):
    _, policy, seen = counted
    observation = np.asarray(seen.observation)
    number, episode, time, _ = np.moveaxis(observation, -1, 0)
    final = np.stack([number, episode, time + 1, seen.action], axis=-1).astype(observation.dtype)
    exact = np.asarray(jax.vmap(jax.vmap(policy.value))(jnp.asarray(final)))
    cut = seen.truncated
    assert cut.any()
    np.testing.assert_allclose(seen.next_value[cut], exact[cut], rtol=1e-4, atol=1e-4)


def test_episodes_are_counted_up_without_a_gap(counted):
    _, _, seen = counted
    _, episode, time, _ = np.moveaxis(np.asarray(seen.observation), -1, 0)
    first = seen.on_policy & (time == 0)
    for i in range(NUM_ENVS):
        np.testing.assert_array_equal(episode[first[:, i], i], np.arange(first[:, i].sum()))


def test_envpools_resets_are_no_steps_of_an_evaluation_either():
    sampler = HostSampler(find_env("envpool:CartPole-v1", {}, 4), 2)
    policy = actor_critic(jax.random.key(0), *sampler.spaces, (4,))
    found = sampler.evaluate(jax.random.key(0), policy, Evaluation(episodes=7, horizon=4))
    assert found.lengths.tolist() == found.returns.tolist() == [4] * 7


def test_beginning_again_is_beginning_anew():
    sampler = sampler_of(Counting)
    policy = policy_for(sampler)
    runs = []
    for _ in range(2):
        envs = sampler.begin(jax.random.key(3), NUM_ENVS)
        runs.append(sampler.rollout(jax.random.key(1), policy, envs, 6)[1])
    for a, b in zip(jax.tree.leaves(runs[0]), jax.tree.leaves(runs[1]), strict=True):
        np.testing.assert_array_equal(a, b)


# A learner with two policies

UPDATES, ROUNDS, LENGTH, VISITS = 2, 2, 5, 6


def learner():
    """Made from nothing, with environments of its own."""
    default = ALGORITHMS["eniac"].default
    env = find_env("gymnasium:CartPole-v1", {}, 6)
    config = replace(
        default,
        hidden=(4,),
        num_envs=2,
        rollout_length=LENGTH,
        updates_per_round=UPDATES,
        rounds=ROUNDS,
        bonus=Kernel(features=4),
        fit_after=1,
        visit_steps=VISITS,
        capacity=2,
        exploit_from=1,
        restart=2,
        update=replace(default.update, minibatch=8, passes=1),
        incumbent=IncumbentRule(episodes=2),
    ).resolve(env, "CartPole", {})
    return config.build(env, env, Evaluation(episodes=2, horizon=6))


@pytest.fixture(scope="module")
def two_epochs():
    one = learner()
    states, metrics = [one.init(0)], []
    for _ in range(2):
        state, reported = epoch(one, states[-1], np.inf)
        states.append(state)
        metrics.append(reported)
    return one, states, metrics


def test_a_learner_on_the_host_counts_its_steps_and_reports_every_round(two_epochs):
    _, states, metrics = two_epochs
    one = 2 * LENGTH * UPDATES
    # Two policies or two ways to act, two episodes of each, six steps an episode: no pole falls as
    # early as that. So none looks better than the first, and only the first round has a duel.
    look = duel = 2 * 2 * 6
    assert metrics[0]["steps"].tolist() == [VISITS + one + look + duel, 2 * (one + look)]
    assert metrics[1]["steps"].tolist() == [VISITS + 2 * (one + look), 2 * (one + look)]
    early = {name for name in metrics[0] if np.isnan(metrics[0][name][0])}
    assert early == {"exploit/sampled_return", "exploit/greedy_return"}  # it does not learn yet
    assert [int(state.cover.count) for state in states] == [0, 1, 2]
    for reported in metrics:
        assert set(reported) == set(metrics[0])
        for name, values in reported.items():
            assert values.shape == (ROUNDS,), name
            first = reported is metrics[0] and name in early
            assert np.isfinite(values[1:] if first else values).all(), name


def test_a_run_on_the_host_that_was_stopped_goes_on_to_the_same_bytes(two_epochs):
    """From arrays alone: a new learner with new environments, after one epoch of two."""
    _, states, metrics = two_epochs
    other = learner()
    state = unflatten(other.shapes(), flatten(states[1]), None)
    state, reported = epoch(other, state, np.inf)
    expected, found = flatten(states[2]), flatten(state)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        assert array.dtype == found[name].dtype, name
        assert array.tobytes() == found[name].tobytes(), name
    for name, values in metrics[1].items():
        np.testing.assert_array_equal(reported[name], values, err_msg=name)


def test_an_epoch_on_the_host_is_a_function_of_its_state(two_epochs):
    one, states, _ = two_epochs
    again, _ = epoch(one, states[0], np.inf)
    for name, array in flatten(states[1]).items():
        assert array.tobytes() == flatten(again)[name].tobytes(), name
