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
        extra_rounds=0,
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


# As many environments as there is something to do for


class Tallied(Counting):
    """Counts its copies, and all that they step."""

    made = taken = 0

    def __init__(self):
        Tallied.made += 1
        super().__init__()

    def step(self, action):
        Tallied.taken += 1
        return super().step(action)


class TalliedVector(NativeCounting):
    def __init__(self):
        super().__init__(NUM_ENVS, AutoresetMode.SAME_STEP)
        self.envs = [Tallied() for _ in range(NUM_ENVS)]


@pytest.fixture
def tally():
    Tallied.made = Tallied.taken = 0
    return Tallied


# No episode is shorter than two steps.
SHORT = Evaluation(episodes=3, horizon=2)
MANY = 8


def test_few_episodes_and_visits_open_few_environments_and_step_no_other(tally):
    sampler = HostSampler(env_from(Tallied), MANY)
    policy = policy_for(sampler)
    found = sampler.evaluate(jax.random.key(0), policy, SHORT)
    assert tally.made == 3
    assert int(found.num_steps) == tally.taken == found.lengths.sum() == 3 * 2
    both = jax.tree.map(lambda x: jnp.stack([x, x]), policy)
    found = sampler.evaluate_each(jax.random.key(0), both, replace(SHORT, episodes=2))
    assert tally.made == 3 + 4
    assert int(found.num_steps) == tally.taken - 6 == 2 * 2 * 2
    envs = sampler.begin(jax.random.key(1), 2)
    assert envs.size == 2
    _, seen = sampler.rollout(jax.random.key(2), policy, envs, 5)
    assert int(seen.num_steps) == tally.taken - 6 - 8 == 2 * 5
    # Never more than were asked for, and none is made twice.
    assert sampler.begin(jax.random.key(1), 10 * MANY).size == MANY
    sampler.evaluate(jax.random.key(0), policy, replace(SHORT, episodes=2))
    sampler.evaluate(jax.random.key(0), policy, replace(SHORT, episodes=100))
    assert tally.made == 3 + 4 + 2 + MANY
    sampler.close()


def test_a_vector_environment_of_the_users_is_the_only_one_and_does_everything(tally):
    vector = TalliedVector()
    sampler = HostSampler(env_from(vector), NUM_ENVS)
    policy = policy_for(sampler)
    envs = sampler.begin(jax.random.key(0), NUM_ENVS)
    visiting = sampler.begin(jax.random.key(1), 1)
    assert visiting.state is envs.state
    assert visiting.size == NUM_ENVS
    found = sampler.evaluate(jax.random.key(0), policy, replace(SHORT, episodes=1))
    assert int(found.num_steps) == tally.taken == NUM_ENVS * 2
    assert tally.made == NUM_ENVS
    sampler.close()
    assert not any(env.closed for env in vector.envs)


@pytest.mark.parametrize("fixed", [False, True])
def test_the_steps_that_environments_took_are_those_that_are_reported(tally, fixed):
    """All but those of the evaluation, which is not counted."""
    default = ALGORITHMS["pc-pg"].default
    env = env_from(TalliedVector() if fixed else Tallied)
    config = replace(
        default,
        hidden=(4,),
        num_envs=MANY,
        rollout_length=LENGTH,
        updates_per_round=UPDATES,
        bonus=Kernel(features=4),
        visit_steps=VISITS,
        visit_envs=2,
        capacity=2,
        exploit_from=0,
        update=replace(default.update, minibatch=8, passes=1),
        extra_rounds=0,
        incumbent=IncumbentRule(episodes=2, always=True),
    ).resolve(env, "tallied", {})
    num = NUM_ENVS if fixed else MANY
    assert (config.num_envs, config.visit_envs) == ((num, num) if fixed else (num, 2))
    one = config.build(env, env, SHORT)
    _, metrics = epoch(one, one.init(0), np.inf)
    one.close()
    # Training of two policies; a look at each and a duel, four episodes of two steps.
    playing = 3 * 4 * 2
    if fixed:
        # Three environments play two episodes, begin anew after each, and all step.
        playing = 3 * NUM_ENVS * 2 * 2
    steps = 2 * num * LENGTH * UPDATES + config.visit_rows + playing
    assert metrics["steps"].tolist() == [steps]
    assert tally.taken == steps + 3 * 2
    # To train, to visit, to decide and to judge.
    assert tally.made == (NUM_ENVS if fixed else MANY + 2 + 4 + 3)
    if not fixed:
        assert config.host_pools(SHORT) == {MANY, 2, 4, 3}


def test_no_process_of_any_pool_is_left_behind():
    env = env_from(Counting)
    env.configure("async")
    sampler = HostSampler(env, 2)
    policy = policy_for(sampler)
    sampler.begin(jax.random.key(0), 2)
    sampler.evaluate(jax.random.key(0), policy, replace(SHORT, episodes=1))
    children = [child for envs in sampler._opened.values() for child in envs._children]
    assert len(children) == 2 + 1
    sampler.close()
    assert [child._process.poll() is None for child in children] == [False] * 3
