"""The samplers against exact occupancies and values: chi-squared and z-tests with fixed seeds."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from eniac.envs import make
from eniac.envs.mdp import random_mdp, river_swim
from eniac.sampling.base import LONGEST_EPISODE
from eniac.sampling.tables import (
    TableSampler,
    alias_tables,
    final_states,
    policy_tables,
)
from eniac.theory.planning import (
    Model,
    action_values,
    advantages,
    mixture_occupancy,
    occupancy,
    state_values,
)

NUM = 200_000
# A right sampler fails a test at this level once in ten thousand seeds, a wrong one at NUM surely.
LEVEL = 1e-4


def generator(seed=0):
    return np.random.Generator(np.random.SFC64(seed))


def setting(name="random", gamma=0.8, num_policies=1):
    mdp = {
        "random": lambda: random_mdp(3, num_states=6, num_actions=3),
        "river": river_swim,
        "sea": lambda: make("DeepSea-4").tabular(),
        "lock": lambda: make("CombinationLock-2").tabular(),
    }[name]()
    model = Model.of(mdp, gamma)
    policies = np.random.default_rng(1).dirichlet(
        np.ones(mdp.num_actions), (num_policies, mdp.num_states)
    )
    # The policy that is executed is the float32 table.
    return model, policies.astype(np.float32), TableSampler(model.transition, model.start, gamma)


def chi_squared(pairs, distribution):
    """The p-value of the counts of `pairs` under `distribution`; 0 if the impossible happened."""
    expected = distribution.ravel() * len(pairs)
    counts = np.bincount(pairs, minlength=len(expected))
    if counts[expected < 1e-9].any():
        return 0.0
    usual = expected >= 5
    rest = ~usual & (expected >= 1e-9)
    seen = np.append(counts[usual], counts[rest].sum())
    wanted = np.append(expected[usual], expected[rest].sum())
    kept = wanted > 0
    statistic = np.sum((seen[kept] - wanted[kept]) ** 2 / wanted[kept])
    return stats.chi2.sf(statistic, kept.sum() - 1)


@pytest.mark.parametrize("columns", [1, 2, 3, 10])
def test_alias_tables_give_every_outcome_its_probability(columns):
    rows = np.random.default_rng(0).dirichlet(np.full(columns, 0.3), 50)
    rows[0] = np.eye(columns)[-1]  # zeros, and a sure outcome
    outcomes = np.tile(np.arange(columns), (50, 1))
    table = alias_tables(rows, outcomes)
    keep, own, other = (x.reshape(50, columns) for x in (table.keep, table.own, table.other))
    found = np.zeros_like(rows)
    for row in range(50):
        np.add.at(found[row], own[row], keep[row] / columns)
        np.add.at(found[row], other[row], (1 - keep[row]) / columns)
    np.testing.assert_allclose(found, rows, atol=1e-6)
    assert not found[0, :-1].any()


@pytest.mark.parametrize("name", ["random", "river", "sea", "lock"])
def test_the_sampler_visits_pairs_by_their_occupancy(name):
    model, policies, sampler = setting(name)
    drawn = sampler.visit(generator(), policy_tables(policies), NUM)
    assert chi_squared(drawn.pairs, occupancy(model, policies[0])) > LEVEL


def test_a_mixture_is_drawn_once_an_episode():
    model, policies, sampler = setting("random", 0.9, num_policies=3)
    drawn = sampler.visit(generator(), policy_tables(policies), NUM)
    assert chi_squared(drawn.pairs, mixture_occupancy(model, list(policies))) > LEVEL
    # Drawing anew at each step is another distribution, and this test can tell.
    assert chi_squared(drawn.pairs, occupancy(model, policies.mean(0))) < LEVEL


def test_a_cover_may_have_weights():
    model, policies, sampler = setting("random", 0.9, num_policies=3)
    weights = np.array([0.7, 0.0, 0.3])
    drawn = sampler.visit(generator(), policy_tables(policies), NUM, weights)
    expected = mixture_occupancy(model, list(policies), list(weights))
    assert chi_squared(drawn.pairs, expected) > LEVEL


def worst_z(groups, values, expected):
    """The p-value of the largest z-score over groups, corrected for their number."""
    scores = []
    for group in np.unique(groups):
        mine = values[groups == group]
        error = mine.std(ddof=1) / np.sqrt(len(mine))
        if error == 0:
            assert mine[0] == pytest.approx(expected[group], abs=1e-9)
            continue
        scores.append(abs(mine.mean() - expected[group]) / error)
    return 2 * stats.norm.sf(max(scores)) * len(scores)


@pytest.mark.parametrize("name", ["random", "river", "sea", "lock"])
def test_action_returns_are_unbiased_from_the_pairs_that_a_sampler_visits(name):
    model, policies, sampler = setting(name)
    rng, table = generator(2), policy_tables(policies)
    pairs = sampler.visit(rng, table, NUM).pairs
    # Rewards everywhere: the z-test needs returns whose mean is nearly normal.
    reward = np.random.default_rng(0).uniform(size=model.reward.shape)
    found = sampler.action_returns(rng, table, pairs, reward)
    np.testing.assert_array_equal(np.sort(found.pairs), np.sort(pairs))
    expected = action_values(dataclasses.replace(model, reward=reward), policies[0]).ravel()
    frequent = np.isin(found.pairs, np.flatnonzero(np.bincount(pairs) >= 200))
    assert worst_z(found.pairs[frequent], found.returns[frequent], expected) > LEVEL


def test_state_returns_are_unbiased_and_keep_their_order():
    model, policies, sampler = setting()
    states = np.tile(np.arange(6, dtype=np.int32), NUM // 6)
    found = sampler.state_returns(generator(3), policy_tables(policies), states, model.reward)
    np.testing.assert_array_equal(found.pairs // 3, states)
    assert worst_z(states, found.returns, state_values(model, policies[0])) > LEVEL


def test_advantages_are_unbiased():
    model, policies, sampler = setting()
    pairs = np.tile(np.arange(18, dtype=np.int32), NUM // 18)
    found = sampler.advantages(generator(4), policy_tables(policies), pairs, model.reward)
    expected = advantages(model, policies[0]).ravel()
    assert worst_z(found.pairs, found.returns, expected) > LEVEL


def test_returns_are_of_the_reward_that_is_given():
    model, policies, sampler = setting()
    bonus = np.full(model.reward.shape, 10.0)
    pairs = np.zeros(NUM, np.int32)
    found = sampler.action_returns(generator(5), policy_tables(policies), pairs, bonus)
    # Every step pays 10, and 1/(1 - gamma) = 5 steps are expected.
    assert worst_z(found.pairs, found.returns, [50.0]) > LEVEL
    assert found.returns.sum() == 10 * found.steps


def test_no_length_is_cut():
    _, policies, sampler = setting(gamma=0.9)
    found = sampler.action_returns(
        generator(6), policy_tables(policies), np.zeros(NUM, np.int32), np.ones((6, 3))
    )
    lengths = found.returns.astype(int)
    chances = 0.1 * 0.9 ** np.arange(lengths.max() + 1)
    edges = np.minimum(lengths - 1, 80)
    chances = np.append(chances[:80], 0.9**80)
    assert chi_squared(edges, chances) > LEVEL
    assert lengths.max() > 90


def test_steps_are_counted_as_the_paper_samples():
    _, policies, sampler = setting(gamma=0.9)
    table = policy_tables(policies)
    visited = sampler.visit(generator(7), table, NUM)
    found = sampler.advantages(generator(8), table, visited.pairs, np.zeros((6, 3)))
    assert visited.steps == pytest.approx(NUM / 0.1, rel=0.01)
    assert found.steps == pytest.approx(2 * NUM / 0.1, rel=0.01)


def test_no_samples_are_no_samples():
    _, policies, sampler = setting()
    found = sampler.action_returns(
        generator(), policy_tables(policies), np.zeros(0, np.int32), np.zeros((6, 3))
    )
    assert len(found.pairs) == len(found.returns) == found.steps == 0


@pytest.mark.parametrize("gamma", [0.0, 1.0, -0.5, 2.0])
def test_a_discount_outside_the_open_interval_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma is"):
        TableSampler(np.ones((1, 1, 1)), np.ones(1), gamma)


def test_episodes_are_worth_what_the_chain_says():
    """Left or right with even odds from the middle of five, the ends final: 4 steps on average."""
    transition = np.zeros((5, 2, 5))
    transition[[0, 4], :, [0, 4]] = 1
    for s in (1, 2, 3):
        transition[s, 0, s - 1] = transition[s, 1, s + 1] = 1
    reward = np.zeros((5, 2))
    reward[1, 0], reward[3, 1] = 1.0, 3.0
    sampler = TableSampler(transition, np.eye(5)[2], 0.9)
    assert final_states(transition, reward).tolist() == [True, False, False, False, True]
    found = sampler.evaluate(generator(), np.full((5, 2), 0.5), reward, 20_000)
    assert float(found.returns.mean()) == pytest.approx(2.0, abs=0.05)
    assert float(found.lengths.mean()) == pytest.approx(4.0, abs=0.1)
    assert set(np.unique(found.returns)) == {1.0, 3.0}
    cut = sampler.evaluate(generator(), np.full((5, 2), 0.5), reward, 20_000, horizon=2)
    assert float(cut.lengths.max()) == 2
    assert float(cut.returns.mean()) == pytest.approx(1.0, abs=0.05)
    sure = sampler.evaluate(generator(), np.full((5, 2), [0.4, 0.6]), reward, 3, None, True, 1)
    assert (sure.returns.tolist(), sure.lengths.tolist()) == ([3.0] * 3, [2] * 3)
    assert sure.first_returns.tolist() == [0.0] * 3


def test_episodes_without_an_end_are_cut_at_the_limit():
    sampler = TableSampler(np.ones((1, 2, 1)), np.ones(1), 0.9)
    found = sampler.evaluate(generator(), np.full((1, 2), 0.5), np.array([[1.0, 0.0]]), 2)
    assert found.lengths.tolist() == [LONGEST_EPISODE] * 2
    assert found.cut.tolist() == [True] * 2
    assert float(found.returns.mean()) == pytest.approx(LONGEST_EPISODE / 2, rel=0.05)
