"""What every sampler keeps to, compiled or on the host: a learner cannot tell them apart."""

import itertools
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from eniac.envs.names import find_env
from eniac.incumbent import Acting
from eniac.policies import actor_critic
from eniac.sampling import make_sampler
from eniac.sampling.base import Evaluation, RollIn, Trajectory, advantages
from eniac.spaces import emitted

NUM_ENVS, TIME, HORIZON = 4, 13, 5
LENGTH = np.array([3, 0])
"""Steps of the roll-in of the two groups of environments."""


@dataclass(frozen=True)
class Case:
    env: str
    resets_in_steps: bool = False

    def sampler(self, horizon=HORIZON):
        env = find_env(self.env, {}, horizon)
        return make_sampler(env, env, NUM_ENVS)


CASES = {
    "compiled": Case("MountainCarContinuous-v0"),
    "compiled, discrete": Case("Chain-4"),
    "gymnasium": Case("gymnasium:MountainCarContinuous-v0"),
    "gymnasium, discrete": Case("gymnasium:CartPole-v1"),
    "envpool": Case("envpool:CartPole-v1", resets_in_steps=True),
}


def policy_for(sampler, seed=0):
    """A policy whose heads do not start near zero: values and actions tell observations apart."""
    policy = actor_critic(jax.random.key(seed), *sampler.spaces, (8,))
    heads = lambda p: (p.action_head.weight, p.value_head.weight)  # noqa: E731
    return eqx.tree_at(heads, policy, replace_fn=lambda w: 1e3 * w)


class Setup:
    """A sampler, a policy, and rollouts with and without a roll-in."""

    def __init__(self, case):
        self.case, self.sampler = case, case.sampler()
        self.policy = policy_for(self.sampler)
        cover = jax.tree.map(
            lambda *x: jnp.stack(x), *(policy_for(self.sampler, seed) for seed in (1, 2))
        )
        yes = jnp.ones(2, bool)
        self.roll_in = RollIn(cover, jnp.asarray(LENGTH), yes, ~yes, jnp.asarray(0.05))
        rollout = lambda key, policy, envs, roll_in: self.sampler.rollout(  # noqa: E731
            key, policy, envs, TIME, roll_in
        )
        self.rollout = jax.jit(rollout) if self.sampler.compiled else rollout
        self.plain, self.rolled = self.seen(None), self.seen(self.roll_in)

    def seen(self, roll_in, seed=0):
        """A rollout from a fresh begin: where it began, where it ended, and what it saw."""
        begin_key, key = jax.random.split(jax.random.key(seed))
        envs = self.sampler.begin(begin_key, NUM_ENVS)
        first = np.array(envs.observation)
        after, seen = self.rollout(key, self.policy, envs, roll_in)
        return first, np.array(after.observation), jax.tree.map(np.array, seen)

    def values(self, observation):
        return np.asarray(jax.jit(jax.vmap(jax.vmap(self.policy.value)))(observation))


@pytest.fixture(scope="module", params=CASES)
def setup(request):
    return Setup(CASES[request.param])


@pytest.fixture(params=["plain", "rolled"])
def seen(setup, request):
    return getattr(setup, request.param)[-1]


def resets(seen):
    """Which steps are only resets, in environments that take steps for them: those after an end."""
    ended = seen.terminated | seen.truncated
    return np.concatenate([np.zeros_like(ended[:1]), ended[:-1]])


def test_a_trajectory_has_the_shapes_and_types_of_what_is_stored(setup, seen):
    observation, action = setup.sampler.spaces
    assert isinstance(seen, Trajectory)
    assert seen.observation.shape == (TIME, NUM_ENVS, *observation.shape)
    assert seen.action.shape == (TIME, NUM_ENVS, *(emitted(action).shape or ()))
    assert seen.action.dtype in (np.float32, np.int32)
    for numbers in (seen.log_prob, seen.value, seen.next_value, seen.reward):
        assert (numbers.shape, numbers.dtype) == ((TIME, NUM_ENVS), np.float32)
        assert np.isfinite(numbers).all()
    for flags in (seen.terminated, seen.truncated, seen.on_policy):
        assert (flags.shape, flags.dtype) == ((TIME, NUM_ENVS), bool)
    assert seen.num_steps.dtype == np.int32
    assert not np.any(seen.terminated & seen.truncated)


def test_a_rollout_begins_where_its_environments_are(setup):
    first, _, seen = setup.plain
    np.testing.assert_array_equal(seen.observation[0], first)


def test_all_steps_are_counted_but_those_that_only_reset(setup, seen):
    only = resets(seen).sum() if setup.case.resets_in_steps else 0
    assert int(seen.num_steps) == TIME * NUM_ENVS - only


def test_on_policy_is_all_but_roll_ins_and_resets(setup):
    for _, _, seen in (setup.plain, setup.rolled):
        expected = np.ones((TIME, NUM_ENVS), bool)
        if seen is setup.rolled[-1]:
            expected = np.arange(TIME)[:, None] >= np.repeat(LENGTH, NUM_ENVS // 2)
        if setup.case.resets_in_steps:
            expected &= ~resets(seen)
        np.testing.assert_array_equal(seen.on_policy, expected)


def test_values_and_log_probs_are_those_of_the_observations_and_actions(setup, seen):
    np.testing.assert_allclose(seen.value, setup.values(seen.observation), rtol=1e-4, atol=1e-4)
    law, _ = jax.vmap(jax.vmap(setup.policy))(jnp.asarray(seen.observation))
    exact = jax.vmap(jax.vmap(lambda law, action: law.log_prob(action)))(law, seen.action)
    # The first action after a roll-in has the probability of a mixture.
    times = np.arange(TIME)[:, None]
    first = times == np.repeat(LENGTH, NUM_ENVS // 2)
    used = seen.on_policy & ~(first & (seen is setup.rolled[-1]))
    np.testing.assert_allclose(seen.log_prob[used], exact[used], rtol=1e-3, atol=1e-4)


def test_the_next_value_is_that_of_the_next_observation_inside_an_episode(setup, seen):
    goes_on = ~(seen.terminated | seen.truncated)[:-1]
    assert goes_on.any()
    following = setup.values(seen.observation[1:])
    np.testing.assert_allclose(
        seen.next_value[:-1][goes_on], following[goes_on], rtol=1e-4, atol=1e-4
    )


def test_the_last_next_value_is_that_of_where_the_environments_are_left(setup):
    _, after, seen = setup.plain
    goes_on = ~(seen.terminated | seen.truncated)[-1]
    assert goes_on.any()
    last = setup.values(after[None])[0]
    np.testing.assert_allclose(seen.next_value[-1][goes_on], last[goes_on], rtol=1e-4, atol=1e-4)


def test_at_a_time_limit_the_next_value_is_that_of_the_last_observation(setup):
    """The same rollout with a limit that comes later sees what the one that was cut did not."""
    _, _, cut = setup.plain
    assert cut.truncated[HORIZON - 1].any()
    longer = setup.case.sampler(HORIZON + 1)
    begin_key, key = jax.random.split(jax.random.key(0))
    envs = longer.begin(begin_key, NUM_ENVS)
    _, whole = longer.rollout(key, setup.policy, envs, TIME)
    np.testing.assert_array_equal(whole.observation[:HORIZON], cut.observation[:HORIZON])
    late = cut.truncated[HORIZON - 1]
    final = setup.values(np.asarray(whole.observation)[HORIZON][None])[0]
    np.testing.assert_allclose(cut.next_value[HORIZON - 1][late], final[late], atol=1e-5)
    if not setup.case.resets_in_steps:
        again = setup.values(cut.observation[HORIZON][None])[0]
        assert not np.allclose(again[late], final[late], atol=1e-4)


def test_an_episode_lasts_as_long_as_the_limit_says_and_the_next_one_starts_anew(setup):
    _, _, seen = setup.plain
    between = HORIZON + setup.case.resets_in_steps
    times = np.flatnonzero(seen.truncated[:, 0])
    assert not seen.terminated.any()
    np.testing.assert_array_equal(times, np.arange(HORIZON - 1, TIME, between))


def test_nothing_crosses_the_end_of_an_episode(setup, seen):
    """Advantages of a trajectory are those of its episodes, each computed on its own."""
    estimate = lambda part: np.asarray(advantages(part, 0.9, 0.8))  # noqa: E731
    for i in range(2):
        one = Trajectory(*(x[:, i] for x in seen[:9]), num_steps=seen.num_steps)
        ends = np.flatnonzero(one.terminated | one.truncated) + 1
        edges = [0, *ends, *([TIME] if TIME not in ends else [])]
        apart = [
            estimate(Trajectory(*(x[a:b] for x in one[:9]), num_steps=one.num_steps))
            for a, b in itertools.pairwise(edges)
        ]
        np.testing.assert_allclose(
            estimate(one), np.concatenate(apart, axis=1), rtol=1e-4, atol=1e-4
        )


def test_the_same_key_gives_the_same_trajectory_and_another_key_another(setup):
    for roll_in, expected in ((None, setup.plain), (setup.roll_in, setup.rolled)):
        again, other = setup.seen(roll_in), setup.seen(roll_in, 1)
        for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(other[-1].log_prob, expected[-1].log_prob)


def test_environments_that_were_parked_go_on_or_begin_afresh(setup):
    sampler = setup.sampler
    envs = sampler.begin(jax.random.key(0), NUM_ENVS)
    again = sampler.begin(jax.random.key(0), NUM_ENVS, sampler.park(envs))
    np.testing.assert_array_equal(again.observation, envs.observation)
    assert again.size == NUM_ENVS
    assert jax.tree.leaves(sampler.park(envs)) == [] or sampler.compiled
    fresh = sampler.reset(jax.random.key(1), envs)
    assert fresh.observation.shape == envs.observation.shape


# Control


def test_when_runs_its_step_or_leaves_the_carry_and_reports_nothing(setup):
    def step(carry):
        return carry + 1, {"seen": carry * 2.0}

    carry, metrics = setup.sampler.when(jnp.asarray(True), step, jnp.asarray(3.0))
    assert (float(carry), float(metrics["seen"])) == (4, 6)
    carry, metrics = setup.sampler.when(jnp.asarray(False), step, jnp.asarray(3.0))
    assert float(carry) == 3
    assert float(metrics.get("seen", 0.0)) == 0


def test_repeat_goes_through_the_rows_in_turn_and_stacks_the_reports(setup):
    def step(carry, row):
        number, weight = row
        carry, report = setup.sampler.when(
            number != 1, lambda c: (c * 2 + weight, {"carry": c}), carry
        )
        return carry, (report, number)

    inputs = (jnp.arange(4), jnp.asarray([1.0, 10.0, 100.0, 1000.0]))
    carry, (report, numbers) = setup.sampler.repeat(step, jnp.asarray(0.0), inputs)
    assert float(carry) == ((0 * 2 + 1) * 2 + 100) * 2 + 1000
    # What was left out is zero in the report.
    np.testing.assert_array_equal(report["carry"], [0, 0, 1, 102])
    np.testing.assert_array_equal(numbers, np.arange(4))


def test_a_pure_function_is_the_function(setup):
    doubled = setup.sampler.pure(_double)
    assert float(doubled(jnp.asarray(2.0))) == 4
    assert setup.sampler.pure(_double) is doubled


def _double(x):
    return 2 * x


# Evaluation


def evaluate(setup, **asked):
    evaluation = Evaluation(horizon=HORIZON, **asked)
    run = lambda key: setup.sampler.evaluate(key, setup.policy, evaluation)  # noqa: E731
    run = jax.jit(run) if setup.sampler.compiled else run
    return lambda seed=0: jax.tree.map(np.asarray, run(jax.random.key(seed)))


@pytest.mark.parametrize("episodes", [1, 11])
def test_as_many_episodes_are_judged_as_were_asked_for(setup, episodes):
    """Also where each has the full length, and resets take steps of their own."""
    found = evaluate(setup, episodes=episodes)()
    assert found.returns.shape == found.lengths.shape == found.first_returns.shape == (episodes,)
    np.testing.assert_array_equal(found.lengths, np.full(episodes, HORIZON))
    np.testing.assert_array_equal(found.first_returns, found.returns)


def test_the_return_of_the_first_steps_is_a_part_of_the_whole(setup):
    found = evaluate(setup, episodes=5, first=2, deterministic=True)()
    whole = evaluate(setup, episodes=5, first=99, deterministic=True)()
    np.testing.assert_array_equal(found.returns, whole.returns)
    np.testing.assert_array_equal(whole.first_returns, whole.returns)
    if "CartPole" in setup.case.env:  # pays 1 a step
        np.testing.assert_array_equal(found.first_returns, np.full(5, 2.0))
        np.testing.assert_array_equal(found.returns, np.full(5, HORIZON))


def test_an_evaluation_is_a_function_of_its_key(setup):
    run = evaluate(setup, episodes=6)
    a, b = run(), run()
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


# Several policies


def stack_of(sampler, seeds):
    """Policies that choose other actions, and how they act."""
    policies = jax.tree.map(lambda *x: jnp.stack(x), *(policy_for(sampler, s) for s in seeds))
    return Acting(policies, jnp.arange(len(seeds)) % 2 == 1)


def evaluate_each(sampler, policies, evaluation, seed=0):
    run = lambda key: sampler.evaluate_each(key, policies, evaluation)  # noqa: E731
    run = jax.jit(run) if sampler.compiled else run
    return jax.tree.map(np.asarray, run(jax.random.key(seed)))


# On the host there are four environments: fewer than policies, as many as episodes, and between.
@pytest.mark.parametrize(("policies", "episodes"), [(7, 1), (6, 3), (2, 2), (1, 5), (2, 9)])
def test_each_policy_plays_exactly_as_many_episodes_as_were_asked_for(setup, policies, episodes):
    asked = Evaluation(episodes=episodes, horizon=HORIZON)
    found = evaluate_each(setup.sampler, stack_of(setup.sampler, range(policies)), asked)
    shape = (policies, episodes)
    assert found.returns.shape == found.lengths.shape == found.first_returns.shape == shape
    np.testing.assert_array_equal(found.lengths, np.full(shape, HORIZON))
    np.testing.assert_array_equal(found.first_returns, found.returns)
    assert found.num_steps.shape == ()
    # On the host environments go on until the last of them is through.
    rounds = -(-policies * episodes // NUM_ENVS)
    most = policies * episodes if setup.sampler.compiled else rounds * NUM_ENVS
    assert policies * episodes * HORIZON <= int(found.num_steps) <= most * HORIZON


def test_together_policies_earn_what_each_earns_alone(setup):
    """In distribution; and each of them what is its own: their order is kept."""
    stack, asked = stack_of(setup.sampler, range(3)), Evaluation(episodes=60, horizon=HORIZON)
    together = evaluate_each(setup.sampler, stack, asked).returns
    for i, returns in enumerate(together):
        alone = jax.tree.map(lambda x, i=i: x[i : i + 1], stack)
        expected = evaluate_each(setup.sampler, alone, asked, seed=1).returns[0]
        assert scipy.stats.ks_2samp(returns, expected).pvalue > 1e-4
    if "MountainCar" in setup.case.env:  # where effort costs, and random actions cost more
        for other in (0, 2):
            assert scipy.stats.ks_2samp(together[1], together[other]).pvalue < 1e-6


def test_one_policy_among_several_is_the_evaluation_of_one(setup):
    """The most likely actions leave no chance but the start's: the returns of one policy, stacked
    twice, are those of it alone."""
    asked = Evaluation(episodes=40, horizon=HORIZON, deterministic=True)
    run = lambda key: setup.sampler.evaluate(key, setup.policy, asked)  # noqa: E731
    run = jax.jit(run) if setup.sampler.compiled else run
    alone = np.asarray(run(jax.random.key(2)).returns)
    twice = Acting(jax.tree.map(lambda x: jnp.stack([x, x]), setup.policy), jnp.zeros(2, bool))
    for returns in evaluate_each(setup.sampler, twice, asked).returns:
        assert scipy.stats.ks_2samp(returns, alone).pvalue > 1e-4


@pytest.mark.parametrize("name", ["compiled", "gymnasium"])
def test_policies_in_an_environment_that_never_ends_are_cut_alike(name, monkeypatch):
    for module in ("eniac.sampling.host", "eniac.sampling.compiled"):
        monkeypatch.setattr(f"{module}.LONGEST_EPISODE", 7)
    sampler = CASES[name].sampler()
    limited = sampler.env
    if sampler.compiled:
        sampler = make_sampler(limited.env, limited.env, NUM_ENVS)  # without its time limit
    else:
        endless = find_env("gymnasium:MountainCarContinuous-v0", {}, 10_000)
        sampler = make_sampler(endless, endless, NUM_ENVS)
    found = evaluate_each(sampler, stack_of(sampler, range(3)), Evaluation(episodes=3))
    np.testing.assert_array_equal(found.lengths, np.full((3, 3), 7))
    assert found.cut.all()
    assert int(found.num_steps) >= 9 * 7
    means = found.returns.mean(axis=1)
    assert len({round(float(x), 4) for x in means}) == 3


# One environment, compiled and on the host


@pytest.fixture(scope="module")
def cars():
    """Our mountain car and gymnasium's, with 40 steps an episode."""
    return [CASES[name].sampler(40) for name in ("compiled", "gymnasium")]


def test_the_same_policy_earns_the_same_in_distribution_compiled_and_on_the_host(cars):
    policy, asked = policy_for(cars[0]), Evaluation(episodes=120, horizon=40)
    ours, theirs = (
        np.asarray(car.evaluate(jax.random.key(0), policy, asked).returns) for car in cars
    )
    assert scipy.stats.ks_2samp(ours, theirs).pvalue > 1e-3
    assert ours.std() > 0


def test_from_the_same_state_the_same_actions_lead_through_the_same_trajectory(cars):
    ours, theirs = cars
    # So little noise that the actions are the policy's mean.
    policy = eqx.tree_at(lambda p: p.std_parameter, policy_for(ours), jnp.full(1, -30.0))
    envs = theirs.begin(jax.random.key(0), NUM_ENVS)
    position = jnp.asarray(np.array(envs.observation[:, 0]))
    _, host = theirs.rollout(jax.random.key(1), policy, envs, 30)
    start = ours.begin(jax.random.key(0), NUM_ENVS)
    state = start.state._replace(inner=start.state.inner._replace(position=position))
    observation = jnp.stack([position, jnp.zeros(NUM_ENVS)], axis=1)
    _, compiled = ours.rollout(
        jax.random.key(2), policy, start._replace(state=state, observation=observation), 30
    )
    for name in ("observation", "action", "value", "next_value", "reward", "truncated"):
        a, b = np.asarray(getattr(compiled, name)), np.asarray(getattr(host, name))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3, err_msg=name)
