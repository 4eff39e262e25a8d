"""How trajectories begin in the states that the cover reaches (Algorithm 4)."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from eniac.actors import put, take
from eniac.algorithms.deep import DeepConfig, RollInRule
from eniac.bonuses.zero import Zero
from eniac.cover import Cover, Uniform
from eniac.sampling.base import Evaluation, RollIn, on_policy_first
from eniac.sampling.compiled import CompiledSampler
from eniac.updates.ppo import PPO
from line import ENV, Line, Recorder, around

MEANS = (-1.0, 0.0, 1.0)
OURS = 0.5
NUM_ENVS, GROUP, TIME = 12, 3, 10
GROUPS = NUM_ENVS // GROUP
EPSILON = 0.25


def cover():
    cover = Cover.empty(around(0.0), 4)
    for mean in MEANS:
        cover = cover.add(around(mean))
    return cover


LENGTH = np.array([3, 0, 8, 0])
HAPPENS = np.array([True, True, True, False])
COIN = np.array([True, True, False, True])
PLACES = np.array([0, 1, 2, 2])


@pytest.fixture(scope="module")
def seen():
    """A rollout whose four groups begin as the constants above say."""
    begin = RollIn(
        cover().take(jnp.asarray(PLACES)),
        jnp.asarray(LENGTH),
        jnp.asarray(HAPPENS),
        jnp.asarray(COIN),
        jnp.asarray(EPSILON),
    )
    sampler = CompiledSampler(ENV)
    envs = sampler.begin(jax.random.key(0), NUM_ENVS)
    run = jax.jit(lambda key: sampler.rollout(key, around(OURS), envs, TIME, begin)[1])
    return run(jax.random.key(1))


def by_group(x):
    """[time, groups, members]"""
    return np.asarray(x).reshape(TIME, GROUPS, GROUP)


def test_exactly_the_first_steps_of_a_group_are_not_its_own(seen):
    expected = np.arange(TIME)[:, None, None] >= LENGTH[:, None]
    np.testing.assert_array_equal(
        by_group(seen.on_policy), np.broadcast_to(expected, (TIME, GROUPS, GROUP))
    )


def test_actions_of_the_roll_in_are_those_of_the_groups_policy(seen):
    action, own = by_group(seen.action), by_group(seen.on_policy)
    theirs = np.broadcast_to(np.asarray(MEANS)[PLACES][:, None], own.shape)
    assert (~own).sum() == GROUP * (3 + 8)
    np.testing.assert_allclose(action[~own], theirs[~own], atol=0.06)


def test_the_steps_of_a_roll_in_are_marked_and_judged_by_the_current_policy(seen):
    np.testing.assert_array_equal(seen.rolled_in, ~np.asarray(seen.on_policy))
    law, _ = jax.vmap(jax.vmap(around(OURS)))(seen.observation)
    expected = jax.vmap(jax.vmap(lambda d, a: d.log_prob(a)))(law, seen.action)
    where = np.asarray(seen.rolled_in)
    np.testing.assert_allclose(seen.log_prob[where], expected[where], rtol=1e-4)


def first_own():
    """Which steps follow a roll-in at once."""
    times = np.arange(TIME)[:, None, None] == LENGTH[:, None]
    return np.broadcast_to(times & HAPPENS[:, None], (TIME, GROUPS, GROUP))


def test_later_actions_are_the_current_policys(seen):
    plain = by_group(seen.on_policy) & ~(first_own() & COIN[:, None])
    np.testing.assert_allclose(by_group(seen.action)[plain], OURS, atol=0.06)


def test_the_first_own_action_is_uniform_where_the_coin_says_so(seen):
    chosen = by_group(seen.action)[first_own() & COIN[:, None]]
    assert chosen.shape == (2 * GROUP,)
    assert np.all(np.abs(chosen) <= 2)
    assert len(np.unique(chosen)) == 2 * GROUP
    assert np.max(np.abs(chosen - OURS)) > 0.5  # no draw of the policy's


def test_the_first_own_log_prob_is_that_of_the_mixture_and_later_ones_are_plain(seen):
    action, own = by_group(seen.action), by_group(seen.on_policy)
    std = float(around(OURS)(jnp.zeros(2))[0].std[0])
    plain = scipy.stats.norm(OURS, std).logpdf(action)
    # The uniform density on [-2, 2] is 1/4.
    mixture = np.logaddexp(np.log(1 - EPSILON) + plain, np.log(EPSILON / 4))
    expected = np.where(first_own(), mixture, plain)
    np.testing.assert_allclose(by_group(seen.log_prob)[own], expected[own], rtol=2e-3, atol=2e-3)


def test_the_environment_goes_on_from_the_roll_in(seen):
    np.testing.assert_array_equal(seen.observation[:, 0, 0], np.arange(TIME))
    np.testing.assert_array_equal(seen.reward, seen.action[..., 0])


# How the beginnings are drawn

RULE = RollInRule(share=0.8, epsilon=0.05, group=1)
MANY = DeepConfig(
    "x",
    (4,),
    num_envs=20_000,
    rollout_length=12,
    updates_per_round=1,
    cover=Uniform(),
    roll_in=RULE,
    update=PPO(gamma=0.9),
)


def drawn(**changes):
    learner = replace(MANY, roll_in=replace(RULE, **changes)).build(ENV, ENV, Evaluation())
    three = cover().reweighted(jnp.asarray([0.6, 0.3, 0.1, 0.0]))
    return learner.draw_roll_in(jax.random.key(3), three, jnp.asarray(True))


def plausible(counts, law):
    law = np.asarray(law, np.float64) / np.sum(law)
    return scipy.stats.chisquare(counts, law * np.sum(counts)).pvalue > 1e-3


def test_uniform_lengths_leave_the_current_policy_two_steps():
    begin = drawn()
    lengths = np.asarray(begin.length)[np.asarray(begin.happens)]
    assert plausible(np.bincount(lengths, minlength=11), np.ones(11))
    assert lengths.max() == MANY.rollout_length - 2


def test_geometric_lengths_are_those_of_the_discount_given_that_two_steps_are_left():
    begin = drawn(length="geometric")
    lengths = np.asarray(begin.length)[np.asarray(begin.happens)]
    assert plausible(np.bincount(lengths, minlength=11), 0.9 ** np.arange(11))


def test_a_share_of_the_trajectories_rolls_in_and_the_others_do_not_wait():
    begin = drawn()
    happens = np.asarray(begin.happens)
    assert scipy.stats.binomtest(int(happens.sum()), happens.size, 0.8).pvalue > 1e-3
    assert np.all(np.asarray(begin.length)[~happens] == 0)


def test_the_coin_falls_with_probability_epsilon():
    coin = np.asarray(drawn().coin)
    assert scipy.stats.binomtest(int(coin.sum()), coin.size, 0.05).pvalue > 1e-3
    assert not np.any(drawn(epsilon=0.0).coin)


def test_policies_are_drawn_by_the_weights_of_the_cover():
    bias = np.asarray(drawn().policies.action_head.bias)[:, 0]
    counts = [np.sum(np.isclose(2 * np.tanh(bias), mean)) for mean in MEANS]
    assert plausible(counts, [0.6, 0.3, 0.1])
    assert sum(counts) == MANY.num_envs


def test_a_group_has_one_draw_of_everything():
    begin = drawn(group=100)
    assert {x.shape[0] for x in jax.tree.leaves(begin) if x.ndim} == {200}


# What is learned from


def test_on_policy_rows_come_first_and_no_row_is_lost():
    own = jnp.asarray(np.random.default_rng(0).random(100) < 0.4)
    order, num = on_policy_first(own)
    assert int(num) == int(own.sum())
    np.testing.assert_array_equal(np.sort(order), np.arange(100))
    np.testing.assert_array_equal(order[: int(num)], np.flatnonzero(own))
    np.testing.assert_array_equal(order[int(num) :], np.flatnonzero(~own))


def recorded(env, episodes):
    """Two updates of one policy: its environments, and the rows of the last update."""
    config = DeepConfig(
        "x",
        (4,),
        num_envs=6,
        rollout_length=TIME,
        updates_per_round=2,
        episodes=episodes,
        cover=Uniform(),
        bonus=Zero(),
        roll_in=RollInRule(share=1.0, group=1, epsilon=0.0),
        visit_steps=10,
        capacity=2,
        update=Recorder(num_rows=6 * TIME, gamma=0.5, gae_lambda=1.0),
    )
    learner = config.build(env, env, Evaluation())
    state = learner.init(0)
    # The roll-in goes one way and the current policy the other.
    actor = take(state.actors, 0)._replace(policy=around(OURS))
    state = state._replace(
        actors=put(state.actors, 0, actor), cover=Cover.empty(around(0.0), 2).add(around(-1.0))
    )
    explores = jnp.asarray(False)
    run = jax.jit(
        lambda key: learner.improve_policy(
            state,
            (actor, take(state.envs, 0), explores, jnp.asarray(False), key),
            (state.bonus, state.queries, state.nonfinite),
        )
    )
    actor, envs, *_ = run(jax.random.key(1))
    rows, num = actor.memory
    return envs, jax.tree.map(lambda x: np.asarray(x)[: int(num)], rows)


class Taxed(Line):
    """A line on which what the roll-in does costs a fortune."""

    def step(self, key, state, action):
        step = super().step(key, state, action)
        return step._replace(reward=jnp.where(action[0] < 0, -1e6, step.reward))


@pytest.fixture(scope="module")
def continuing():
    return recorded(ENV, "continuing")


def test_only_what_the_current_policy_did_is_learned_from(continuing):
    rows = continuing[1]
    assert 12 <= len(rows.action) < 6 * TIME
    np.testing.assert_allclose(rows.action[:, 0], OURS, atol=0.06)


def test_rewards_of_the_roll_in_change_nothing_that_is_learned(continuing):
    taxed = recorded(Taxed(), "continuing")[1]
    for a, b in zip(continuing[1], taxed, strict=True):
        np.testing.assert_array_equal(a, b)


def test_continuing_environments_go_on_and_episodic_ones_start_again(continuing):
    envs, rows = continuing
    np.testing.assert_array_equal(envs.observation[:, 0], np.full(6, 2 * TIME))
    assert rows.observation[:, 0].min() >= TIME  # the second update of two
    assert rows.observation[:, 0].max() == 2 * TIME - 1
    envs, rows = recorded(ENV, "episodic")
    np.testing.assert_array_equal(envs.observation[:, 0], np.full(6, TIME))
    assert rows.observation[:, 0].max() == TIME - 1
