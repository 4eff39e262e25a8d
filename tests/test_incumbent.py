"""The best policy of a run: how it is chosen, what that costs, and that it is not lost."""

import itertools
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from eniac.actors import Actor, take
from eniac.algorithm1 import epoch
from eniac.algorithms import ALGORITHMS
from eniac.bonuses.kernel import Kernel
from eniac.cover import Uniform
from eniac.deep import DeepLearner
from eniac.envs import make
from eniac.envs.names import env_from
from eniac.incumbent import (
    Acting,
    Contest,
    Incumbent,
    IncumbentRule,
    Record,
    both_ways,
    challenger,
    clearly_above,
    settle,
)
from eniac.policies import actor_critic
from eniac.provable.policies import TablePolicy
from eniac.rewards import RewardScale
from eniac.sampling import make_sampler
from eniac.sampling.base import Episodes, Evaluation
from eniac.updates.ppo import PPO
from envs.counting import Counting
from line import ENV, around

# Records


def record_of(returns):
    return Record.of(jnp.asarray(returns, jnp.float32))


def test_records_are_pooled_as_numpy_pools_their_returns():
    rng = np.random.default_rng(0)
    parts = [rng.normal(m, s, n) for m, s, n in ((0, 1, 5), (3, 2, 1), (-1, 0.1, 12), (3, 3, 4))]
    pooled, seen = Record.empty(), np.zeros(0)
    for part in parts:
        pooled, seen = pooled + record_of(part), np.concatenate([seen, part])
        assert int(pooled.episodes) == len(seen)
        np.testing.assert_allclose(pooled.mean, seen.mean(), rtol=1e-5)
        np.testing.assert_allclose(pooled.variance, seen.var(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(pooled.variance_of_mean, seen.var(ddof=1) / len(seen), rtol=1e-4)


def test_a_record_has_all_episodes_of_the_last_axis_and_keeps_the_others():
    returns = np.arange(12.0).reshape(2, 3, 2)
    record = record_of(returns)
    np.testing.assert_array_equal(record.episodes, np.full((2, 3), 2))
    np.testing.assert_allclose(record.mean, returns.mean(-1))
    np.testing.assert_allclose(record.variance, returns.var(-1))


def test_clearly_above_asks_for_two_standard_errors_of_the_difference():
    # Each mean has a variance of 1/3, and two errors of the difference are 1.633.
    low, *higher = (record_of([x, x + 2.0] * 2) for x in (0.0, 1.63, 1.64))
    assert not clearly_above(higher[0], low)
    assert clearly_above(higher[1], low)
    assert not clearly_above(low, higher[1])
    sure = record_of([1.0, 1.0])
    assert not clearly_above(sure, sure), "the same is not above"


# Two ways to act

SEES = spaces.Box(-1.0, 1.0, (3,), np.float32)
ACTIONS = {
    "box": spaces.Box(-2.0, 1.0, (2,), np.float32),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "discrete": spaces.Discrete(4),
    "multi-discrete": spaces.MultiDiscrete([3, 2, 4]),
    "multi-binary": spaces.MultiBinary(5),
}
NUM = 64


def policy_for(kind):
    if kind == "table":
        return TablePolicy(jax.random.dirichlet(jax.random.key(1), jnp.ones(3), (7,)))
    policy = actor_critic(jax.random.key(0), SEES, ACTIONS[kind], (8,))
    return eqx.tree_at(lambda p: p.action_head.weight, policy, replace_fn=lambda w: 300 * w)


@pytest.mark.parametrize("kind", [*ACTIONS, "table"])
def test_greedy_is_the_most_likely_action_and_sampled_is_what_the_noise_leads_to(kind):
    policy = policy_for(kind)
    see_key, noise_key = jax.random.split(jax.random.key(2))
    seen = jax.random.uniform(see_key, (NUM, 3), minval=-1.0)
    if kind == "table":
        seen = jnp.arange(NUM) % 7
    noise = policy.noise(noise_key, (NUM,))
    ways = both_ways(policy)
    np.testing.assert_array_equal(ways.noise(noise_key, (NUM,)), noise)
    assert ways.greedy.tolist() == [False, True]
    act = jax.jit(jax.vmap(lambda way: jax.vmap(way.action)(noise, seen)))
    sampled, greedy = act(ways)
    mode = jax.vmap(policy.mode)(seen)
    # Stacked or not, floats are rounded in another order.
    np.testing.assert_allclose(sampled, jax.vmap(policy.action)(noise, seen), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(greedy, mode, rtol=1e-5, atol=1e-6)
    assert greedy.dtype == mode.dtype == sampled.dtype
    assert not np.array_equal(greedy, sampled)
    # `mode` is the policy's, whichever way it acts.
    for way in (take(ways, 0), take(ways, 1)):
        np.testing.assert_allclose(jax.vmap(way.mode)(seen), mode, rtol=1e-5, atol=1e-6)


def test_a_way_to_act_is_kept_unless_another_is_asked_for():
    for given, asked in itertools.product((False, True), (None, False, True)):
        acting = Acting(policy_for("discrete"), jnp.asarray(given)).acts(asked)
        assert bool(acting.greedy) == (given if asked is None else asked)


# What a duel comes to


def acting(mean):
    return Acting(around(mean), jnp.asarray(False))


def incumbent_with(returns=None, first=None, mean=0.0):
    record, first = (Record.empty() if x is None else record_of(x) for x in (returns, first))
    return Incumbent(acting(mean), record, first, jnp.asarray(False))


def duel(incumbent, defended, fresh):
    """The challenger's actions are around 1, those of the incumbent around 0."""
    after = jax.jit(settle)(incumbent, acting(1.0), record_of([defended, fresh]))
    return after, bool(after.acting.mode(jnp.zeros(2))[0] > 0.5)


def test_fresh_episodes_decide_and_become_the_winners_record():
    after, won = duel(incumbent_with([1.0, 1.0], [0.0]), [1.0, 1.0], [2.0, 1.0])
    assert won
    assert int(after.record.episodes) == 2
    np.testing.assert_allclose((after.record.mean, after.record.variance), (1.5, 0.25))


def test_all_that_the_incumbent_has_played_defends_it():
    """Its last two episodes alone are worse than the challenger's; all ten together are not."""
    before = incumbent_with([2.0] * 8, [0.0])
    after, won = duel(before, [0.0, 0.0], [1.5, 1.5])
    assert not won
    assert int(after.record.episodes) == 10
    np.testing.assert_allclose(after.record.mean, 1.6, rtol=1e-6)
    # And a tie is the incumbent's.
    assert not duel(before, [2.0, 2.0], [2.0, 2.0])[1]


def test_the_first_duel_has_the_record_of_the_first_policy_and_no_later_one_changes_it():
    after, won = duel(incumbent_with(), [-1.0, 1.0], [5.0, 7.0])
    assert won
    np.testing.assert_allclose((after.first.mean, after.first.variance), (0.0, 1.0))
    assert int(after.first.episodes) == 2
    later, _ = duel(after, [9.0, 9.0], [1.0, 1.0])
    np.testing.assert_allclose(later.first, after.first)
    stays, won = duel(incumbent_with(), [5.0, 7.0], [-1.0, 1.0])
    assert not won
    np.testing.assert_allclose(stays.record.mean, 6.0)


def test_where_chance_has_no_part_the_estimate_is_the_best_so_far():
    rng, best = np.random.default_rng(0), 0.25
    incumbent, _ = duel(incumbent_with(), [best] * 3, [best] * 3)
    for value in rng.uniform(size=20).round(2):
        played = int(incumbent.record.episodes)
        incumbent, _ = duel(incumbent, [best] * 3, [value] * 3)
        assert int(incumbent.record.episodes) == (3 if value > best else played + 3)
        best = max(best, value)
        np.testing.assert_allclose(incumbent.record.mean, best, rtol=1e-5)
    assert best > 0.9


class Replayed:
    """A sampler whose episodes are written down before: each call brings the next."""

    compiled = True
    spaces = (ENV.observation_space, ENV.action_space)

    def __init__(self, *returns):
        self.returns, self.calls = list(returns), 0

    def evaluate_each(self, key, policies, evaluation):
        del key, policies, evaluation
        self.calls += 1
        returns = jnp.asarray(self.returns.pop(0))
        nothing = jnp.zeros(returns.shape)
        steps = jnp.asarray(returns.size, jnp.int32)
        return Episodes(returns, nothing.astype(jnp.int32), nothing, steps)

    def when(self, condition, step, carry):
        return step(carry) if condition else (carry, {})

    def pure(self, function):
        return function


UPDATE = PPO()


def contest_with(*returns, **rule):
    rule, roles = IncumbentRule(**rule), ("explore", "exploit")
    contest = Contest(make_sampler(ENV, ENV, 1), rule, Evaluation(), roles, UPDATE.init)
    contest.sampler = Replayed(*returns)
    return contest


def test_the_look_that_chose_the_challenger_does_not_enter():
    """It looked like 100, and its fresh episodes bring 0.5: less than the incumbent's 1."""
    contest = contest_with([[1.0, 1.0], [0.5, 0.5]])
    before = incumbent_with([1.0, 1.0], [0.0])
    after, steps = contest.duel(jax.random.key(0), before, acting(1.0), jnp.asarray(100.0))
    assert contest.sampler.calls == 1
    np.testing.assert_allclose(after.record.mean, 1.0)
    assert int(after.record.episodes) == 4
    assert int(steps) == 4


def test_there_is_no_duel_where_none_looked_better():
    contest = contest_with()
    before = incumbent_with([1.0, 1.0], [0.0])
    after, steps = contest.duel(jax.random.key(0), before, acting(1.0), jnp.asarray(1.0))
    assert after is before
    assert contest.sampler.calls == int(steps) == 0


def stacked(*trees):
    return jax.tree.map(lambda *x: jnp.stack(x), *trees)


def test_the_challenger_is_the_policy_and_the_way_that_looked_best_among_those_that_learn():
    policies = stacked(around(0.25), around(0.75))
    looks = record_of([[[1.0], [2.0]], [[4.0], [3.0]]])
    for active, mean, greedy, looked in (
        ((True, True), 0.75, False, 4),
        ((True, False), 0.25, True, 2),
    ):
        found, value = challenger(policies, looks, jnp.asarray(active))
        np.testing.assert_allclose(found.mode(jnp.zeros(2)), [mean], rtol=1e-4)
        assert bool(found.greedy) == greedy
        assert float(value) == looked


def handed_over(
    exploiting,
    exploring=(0.0, 0.0),
    record=(2.0, 2.0, 2.0),
    active=(True, True),
    found=False,
    rollouts=((0.0, 0.0), (0.0, 0.0)),
    compares=True,
):
    """Where an exploiting policy around 0.5 goes on from beside an incumbent around 1.5 and an
    exploring policy around -0.5; and whether a reward is found."""
    policies = around(-0.5), around(0.5)
    actors = stacked(*(Actor(one, UPDATE.init(one), RewardScale.start()) for one in policies))
    worse = np.full(2, -99.0)
    looks = record_of([[exploring, worse], [worse, exploiting]])
    incumbent = incumbent_with(record, [0.0, 0.1, -0.1], mean=1.5)
    incumbent = incumbent._replace(found=jnp.asarray(found))
    learns, earned = jnp.asarray(active), record_of(rollouts)
    contest = contest_with(rollouts=compares)
    actors, after, told = contest.hand_over(actors, incumbent, looks, earned, learns)
    explores, exploits = (float(take(actors, k).policy.mode(jnp.zeros(2))[0]) for k in (0, 1))
    np.testing.assert_allclose(explores, -0.5, rtol=1e-3)
    source = {0.5: "", 1.5: "incumbent", -0.5: "exploring"}[round(exploits, 2)]
    assert bool(told["exploit/handed_over"]) == bool(source)
    return source, bool(after.found), told


def test_the_exploiting_policy_goes_on_from_the_incumbent_only_if_that_is_clearly_better():
    # Its better way counts. Its mean of 0 has a variance of 1, so that 2 is two errors above.
    assert handed_over((-0.9, 1.1))[0] == ""
    assert handed_over((-1.1, 0.9))[0] == "incumbent"
    assert handed_over((2.0, 2.0))[0] == ""
    assert handed_over((5.0, 5.0))[0] == ""
    assert handed_over((1.9, 1.9))[0] == "incumbent"


def test_an_exploiting_policy_that_does_not_learn_yet_takes_over_and_has_no_return():
    source, _, told = handed_over((5.0, 5.0), active=(True, False))
    assert source == "incumbent"
    assert np.isnan([told["exploit/sampled_return"], told["exploit/greedy_return"]]).all()
    assert float(told["explore/sampled_return"]) == 0
    assert float(handed_over((5.0, 7.0))[2]["exploit/greedy_return"]) == 6


def test_the_reward_is_found_when_an_exploring_policy_is_clearly_above_the_first():
    assert not handed_over((2.0, 2.0), exploring=(0.1, 0.1))[1]
    assert handed_over((2.0, 2.0), exploring=(0.5, 0.5))[1]
    assert handed_over((2.0, 2.0), exploring=(0.1, 0.1), found=True)[1]


RICHER = (1.0, 1.2), (0.5, 0.6)


def test_the_exploiting_policy_goes_on_from_an_exploring_one_that_earned_clearly_more_on_its_way():
    assert handed_over((2.0, 2.0), rollouts=RICHER)[:2] == ("exploring", False)
    assert handed_over((2.0, 2.0), rollouts=RICHER[::-1])[:2] == ("", False)
    assert handed_over((2.0, 2.0), rollouts=((0.6, 1.6), RICHER[1]))[:2] == ("", False)
    # What the incumbent is known to earn comes first.
    assert handed_over((1.9, 1.9), rollouts=RICHER)[:2] == ("incumbent", False)
    # In extra rounds the exploring policy has no rollouts, and the paper does not ask.
    assert handed_over((2.0, 2.0), rollouts=RICHER, active=(False, True))[:2] == ("", False)
    assert handed_over((2.0, 2.0), rollouts=RICHER, compares=False)[:2] == ("", False)


# Whole runs

SIZE, EPISODES, EPOCHS = 3, 200, 4


def small(name="pc-pg", **changes):
    default = ALGORITHMS[name].default
    settings = {
        "hidden": (16,),
        "num_envs": 10,
        "rollout_length": 2 * SIZE,
        "updates_per_round": 3,
        "rounds": 2,
        "extra_rounds": 0,
        "visit_steps": 12,
        "visit_envs": 4,
        "capacity": EPOCHS,
        "exploit_from": 1,
        "restart": 0,
        "update": PPO(optimizer="adam", learning_rate=2e-2, minibatch=30, passes=3),
        "incumbent": IncumbentRule(EPISODES),
    }
    if default.cover is not None:
        settings |= {"bonus": Kernel(features=8), "cover": Uniform()}
        settings["roll_in"] = replace(default.roll_in, group=2)
    return replace(default, **(settings | changes))


class Sea:
    """Some epochs on a small deep sea, which has no chance in it; every episode has SIZE steps."""

    def __init__(self, config):
        self.env = make(f"DeepSea-{SIZE}")
        self.config, self.learner = config, config.build(self.env, self.env, Evaluation(episodes=9))
        run = jax.jit(lambda state: epoch(self.learner, state, np.inf))
        self.states, self.metrics = [jax.jit(self.learner.init)(0)], []
        for _ in range(EPOCHS):
            state, metrics = run(self.states[-1])
            self.states.append(state)
            self.metrics.append(jax.device_get(metrics))

    def column(self, name):
        return np.concatenate([metrics[name] for metrics in self.metrics])

    def value(self, acting):
        """The exact mean and standard deviation of a policy's return, over all its paths."""
        returns, chances = [], []
        for actions in itertools.product((0, 1), repeat=SIZE):
            (state, seen), total, chance = self.env.reset(jax.random.key(0)), 0.0, 1.0
            for action in actions:
                chosen = np.eye(2)[int(acting.mode(seen))]
                law = np.asarray(jax.nn.softmax(acting.policy(seen)[0].logits), np.float64)
                chance *= (chosen if acting.greedy else law)[action]
                step = self.env.step(jax.random.key(0), state, jnp.asarray(action))
                state, seen, total = step.state, step.observation, total + float(step.reward)
            returns.append(total)
            chances.append(chance)
        mean = np.dot(chances, returns)
        return mean, np.sqrt(np.dot(chances, (np.array(returns) - mean) ** 2))


@pytest.fixture(scope="module", params=["pc-pg", "ppo"])
def sea(request):
    return Sea(small(request.param))


def test_the_first_of_all_policies_is_the_incumbent_as_it_was_judged(sea):
    for state in sea.states:
        named = sea.learner.policies(state)
        assert next(iter(named)) == "incumbent"
        assert named["incumbent"] is state.incumbent.acting
        assert sea.learner.policy(state) is state.incumbent.acting.policy
    assert ("exploring" in named) == ("cover:1" in named) == (state.cover is not None)


def test_what_the_estimate_says_is_what_the_incumbent_is_worth(sea):
    """Within five standard errors of the exact value, at the end of every epoch."""
    for state, metrics in zip(sea.states[1:], sea.metrics, strict=True):
        incumbent = state.incumbent
        mean, std = sea.value(incumbent.acting)
        episodes = int(incumbent.record.episodes)
        assert episodes >= EPISODES
        assert abs(float(incumbent.record.mean) - mean) <= 5 * std / np.sqrt(episodes) + 1e-6
        assert float(metrics["incumbent/estimate"][-1]) == float(incumbent.record.mean)
        assert int(metrics["incumbent/episodes"][-1]) == episodes
        assert bool(metrics["incumbent/greedy"][-1]) == bool(incumbent.acting.greedy)


def test_the_result_of_a_run_gets_no_worse_with_more_epochs(sea):
    """By exact values. A policy with random actions is judged by some episodes of it, so that one
    that is better by luck may win: by five standard errors, but not by more."""
    values = [sea.value(state.incumbent.acting) for state in sea.states[1:]]
    for (before, std), (after, other) in itertools.pairwise(values):
        assert after >= before - 5 * np.hypot(std, other) / np.sqrt(EPISODES)
    first, _ = sea.value(Acting(take(sea.states[0].actors, 0).policy, jnp.asarray(False)))
    assert values[-1][0] > first + 0.3


def test_a_greedy_incumbent_in_a_world_without_chance_is_known_exactly(sea):
    found = [state.incumbent for state in sea.states[1:] if bool(state.incumbent.acting.greedy)]
    assert found
    for incumbent in found:
        mean, std = sea.value(incumbent.acting)
        assert std == 0
        np.testing.assert_allclose(incumbent.record.mean, mean, rtol=1e-5)
        np.testing.assert_allclose(incumbent.record.variance, 0, atol=1e-9)


def test_every_step_that_is_taken_to_choose_is_counted(sea):
    """Training, visits, a look at each policy that learns, and a duel where one looked better."""
    config, covered = sea.config, sea.config.cover is not None
    roles = ("explore/", "exploit/") if covered else ("",)
    looks = np.stack(
        [sea.column(f"{r}{way}_return") for r in roles for way in ("sampled", "greedy")]
    )
    estimate = sea.column("incumbent/estimate")
    one = config.num_envs * config.rollout_length * config.updates_per_round
    both = 2 * EPISODES * SIZE
    duels = 0
    for n, steps in enumerate(sea.column("steps")):
        active = 1 + (covered and not np.isnan(sea.column("exploit/sampled_return")[n]))
        expected = active * (one + both)
        if covered and n % config.rounds == 0:
            expected += config.visit_rows
        fights = n == 0 or np.nanmax(looks[:, n]) > estimate[n - 1]
        duels += fights
        assert int(steps) == expected + fights * both
    assert 0 < duels < len(estimate)


def test_rounds_that_are_left_out_leave_the_incumbent(sea):
    """After a round that is good enough: the state has the incumbent of that round."""
    run = jax.jit(lambda state, until: epoch(sea.learner, state, until))
    _, all_rounds = run(sea.states[0], np.inf)
    stopped, metrics = run(sea.states[0], -99.0)
    assert metrics["ran"].tolist() == [True, False]
    first = np.asarray(all_rounds["incumbent/estimate"])[0]
    np.testing.assert_allclose(stopped.incumbent.record.mean, first)


@pytest.mark.parametrize("compares", [False, True])
def test_extra_rounds_are_the_exploiting_policys_alone_once_a_reward_is_found(
    compares, monkeypatch
):
    """Or in an epoch in which the exploring policy is ahead, where that is looked at."""
    improving = DeepLearner.improve_policy

    def ahead_of(learner, state, role, shared):
        explores = role[2]
        *improved, _ = improving(learner, state, role, shared)
        return *improved, Record.of(jnp.full(3, jnp.where(explores, 1.0, 0.0)))

    monkeypatch.setattr(DeepLearner, "improve_policy", ahead_of)
    rule = IncumbentRule(5, rollouts=compares)
    sea = Sea(small(rounds=1, extra_rounds=2, incumbent=rule))
    one = sea.config.num_envs * sea.config.rollout_length * 3
    roles = ("explore", "exploit")
    found = [bool(state.incumbent.found) for state in sea.states[1:]]
    assert True in found
    ahead = [bool(metrics["explore/ahead"][0]) for metrics in sea.metrics]
    assert (not found[0] and any(ahead)) == compares
    for metrics, *again in zip(sea.metrics, found, ahead, strict=True):
        known = any(again)
        assert metrics["ran"].tolist() == [True, known, known]
        played = ~np.isnan(np.stack([metrics[f"{role}/sampled_return"] for role in roles]))
        assert played[0, 0]
        if known:
            assert played[:, 1:].tolist() == [[False, False], [True, True]]
            assert (metrics["steps"][1:] // one == 1).all()
    assert [int(state.epoch) for state in sea.states] == list(range(EPOCHS + 1))


# On the host


class Tallied(Counting):
    """Counts all steps of all its copies."""

    taken = 0

    def step(self, action):
        Tallied.taken += 1
        return super().step(action)


@pytest.mark.parametrize("name", ["pc-pg", "ppo"])
def test_on_the_host_all_steps_but_those_of_the_evaluation_are_counted(name):
    given = env_from(Tallied)
    config = small(name, num_envs=4, visit_envs=4, incumbent=IncumbentRule(3), exploit_from=2)
    config = config.resolve(given, "tallied", {})
    learner = config.build(given, given, Evaluation(episodes=5))
    judged, evaluate = 0, learner.sampler.evaluate

    def counting(*asked):
        nonlocal judged
        before = Tallied.taken
        found = evaluate(*asked)
        judged += Tallied.taken - before
        return found

    learner.sampler.evaluate = counting
    Tallied.taken = 0
    state, reported = learner.init(0), 0
    for _ in range(2):
        state, metrics = epoch(learner, state, np.inf)
        reported += int(np.sum(metrics["steps"]))
        assert int(state.incumbent.record.episodes) >= 3
    learner.close()
    assert judged > 0
    assert reported == Tallied.taken - judged


# What cannot be


@pytest.mark.parametrize("episodes", [-1, 10_001])
def test_impossible_numbers_of_episodes_are_refused(episodes):
    with pytest.raises(ValueError, match=r"incumbent.episodes is .*; it must be in 0..10000"):
        IncumbentRule(episodes)
