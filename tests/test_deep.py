"""Algorithm 1: what an epoch of each algorithm does, and when."""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.algorithms import ALGORITHMS, Deep, RollInRule, Row
from eniac.bonuses.base import Bonus
from eniac.bonuses.kernel import Kernel
from eniac.bonuses.rnd import RND
from eniac.bonuses.width import Width
from eniac.cover import uniform
from eniac.envs import make
from eniac.updates.ppo import PPO
from line import ENV, OPTIONS, Line, Recorder

DEEP = [name for name, row in ALGORITHMS.items() if isinstance(row, Row)]
NUM_ENVS, TIME, LOOPS = 4, 6, 2
VISITS, INTERVAL, EXPLOIT_FROM, CAPACITY = 12, 2, 2, 2
EPOCHS = 5  # one more than the cover has room for
STILL = 1e-30
"""A learning rate at which nothing moves."""


def tiny(name, **changes):
    parts = ALGORITHMS[name].default
    bonus = parts.bonus
    if isinstance(bonus, Width):
        bonus = replace(bonus, outer=2, inner=2, query_size=30, buffer_batch=8, query_batch=4)
    elif isinstance(bonus, Kernel):
        bonus = replace(bonus, features=6)
    settings = {
        "hidden": (8,),
        "num_envs": NUM_ENVS,
        "trajectory": TIME,
        "loops": LOOPS,
        "bonus": bonus,
        "roll_in": replace(parts.roll_in, group=2),
        "interval": INTERVAL,
        "fit_at": 0,
        "visits": VISITS,
        "visit_envs": 4,
        "capacity": CAPACITY,
        "exploit_from": EXPLOIT_FROM,
        "ppo": replace(parts.ppo, minibatch=16, passes=1),
    }
    return replace(parts, **(settings | changes))


class Run:
    """The states and metrics of a few epochs; `states[n]` is before epoch n."""

    def __init__(self, parts, env):
        self.learner = parts.build(make(env))
        self.epoch = jax.jit(self.learner.epoch, compiler_options=OPTIONS)
        self.states = [jax.jit(self.learner.init)(jax.random.key(0))]
        self.metrics = []
        for _ in range(EPOCHS):
            state, metrics = self.epoch(self.states[-1])
            self.states.append(state)
            self.metrics.append(jax.device_get(metrics))


@pytest.fixture(scope="module")
def eniac():
    """ENIAC on mountain car, whose exploiting policy starts afresh and otherwise stands still."""
    parts = tiny("eniac", restart=INTERVAL)
    return Run(
        replace(parts, ppo=replace(parts.ppo, learning_rate=STILL)), "MountainCarContinuous-v0"
    )


@pytest.fixture(scope="module")
def pc_pg():
    """PC-PG on a deep sea, with discrete actions."""
    return Run(tiny("pc-pg", restart=0), "DeepSea-4")


@pytest.fixture(scope="module")
def rnd():
    return Run(tiny("ppo-rnd"), "DeepSea-4")


@pytest.fixture(params=["eniac", "pc_pg"])
def covered(request):
    return request.getfixturevalue(request.param)


def same(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


def check(run, has_cover):
    """What holds in every algorithm."""
    assert run.epoch._cache_size() == 1
    for n, metrics in enumerate(run.metrics):
        one = NUM_ENVS * TIME * LOOPS
        steps = one
        if has_cover:
            steps += (VISITS if n % INTERVAL == 0 else 0) + (one if n >= EXPLOIT_FROM else 0)
        assert int(metrics["steps"]) == steps
        assert int(metrics["nonfinite_rewards"]) == 0
        assert set(metrics) == set(run.metrics[0])
        for name, value in metrics.items():
            assert value.shape == ()
            assert np.isfinite(value), name
        assert int(run.states[n + 1].epoch) == n + 1


def test_steps_are_counted_exactly_and_later_epochs_do_not_compile_again(covered):
    check(covered, True)


def test_the_same_holds_without_a_cover(rnd):
    check(rnd, False)
    assert rnd.states[0].cover is rnd.states[0].buffer is rnd.states[0].explore is None


@pytest.mark.slow
@pytest.mark.parametrize("env", ["MountainCarContinuous-v0", "DeepSea-4"])
@pytest.mark.parametrize("name", DEEP)
def test_every_algorithm_runs_with_continuous_and_with_discrete_actions(name, env):
    check(Run(tiny(name), env), ALGORITHMS[name].default.cover != "none")


def test_the_cover_and_the_buffer_grow_at_every_interval_until_they_are_full(covered):
    for n in range(EPOCHS):
        count = min(n // INTERVAL + 1, CAPACITY)
        state = covered.states[n + 1]
        assert int(state.cover.count) == int(covered.metrics[n]["cover/count"]) == count
        assert int(state.buffer.count) == count * VISITS
    assert int(covered.states[0].cover.count) == int(covered.states[0].buffer.count) == 0
    np.testing.assert_allclose(np.sum(covered.states[-1].cover.weights), 1, rtol=1e-5)


def test_a_full_cover_and_a_full_buffer_stay_as_they_are(covered):
    before, after = covered.states[4], covered.states[5]
    assert same(before.cover.policies, after.cover.policies)
    assert same(before.buffer, after.buffer)


def test_the_cover_holds_the_exploring_policy_as_it_was_when_added(covered):
    for place, n in enumerate((0, 2)):
        held = covered.states[-1].cover.take(jnp.asarray(place))
        assert same(held, covered.states[n].explore.policy)


def test_the_exploring_policy_learns_and_is_never_reset(pc_pg):
    for before, after in zip(pc_pg.states[:-1], pc_pg.states[1:], strict=True):
        a, b = before.explore.policy, after.explore.policy
        assert not same(a, b)
        step = max(np.abs(x - y).max() for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True))
        assert step < 0.2  # a few steps of RMSprop, not a new draw


def test_the_exploiting_policy_is_untouched_before_its_epoch(pc_pg):
    start = pc_pg.states[0].exploit
    assert same(pc_pg.states[1].exploit, start)
    assert same(pc_pg.states[2].exploit, start)
    assert not same(pc_pg.states[3].exploit.policy, start.policy)


def test_the_exploiting_policy_starts_afresh_when_the_cover_grows_if_asked(eniac):
    weights = [state.exploit.policy.body.layers[0].weight for state in eniac.states]
    changed = [not same(a, b) for a, b in itertools.pairwise(weights)]
    assert changed == [False, False, True, False, True]


def test_the_policy_judged_is_the_exploiting_one(covered):
    state = covered.states[-1]
    assert covered.learner.policy(state) is state.exploit.policy


def test_the_bonus_is_fitted_when_the_cover_grows_and_only_then(covered):
    bonuses = [state.bonus for state in covered.states[:4]]
    changed = [not same(a, b) for a, b in itertools.pairwise(bonuses)]
    assert changed == [True, False, True]


def test_visits_are_pairs_of_the_environment_from_a_reset(pc_pg):
    pairs = pc_pg.states[-1].buffer.pairs
    cells = np.asarray(pairs.observation).reshape(CAPACITY, VISITS // 4, 4, 16)
    assert np.all(cells.sum(axis=-1) == 1)
    assert np.all(cells[:, 0, :, 0] == 1)  # the first step of each is at the top left
    rows = cells.argmax(axis=-1) // 4
    np.testing.assert_array_equal(rows, np.broadcast_to(np.arange(3)[:, None], rows.shape))
    assert set(np.unique(pairs.action)) <= {0, 1}


def test_rnd_learns_in_every_epoch_and_its_target_stays(rnd):
    for before, after in zip(rnd.states[:-1], rnd.states[1:], strict=True):
        assert same(before.bonus.target, after.bonus.target)
        assert not same(before.bonus.predictor, after.bonus.predictor)


# The reward of the exploring policy


class Flat(Bonus):
    """0.5 wherever the position is even, else 0."""

    seen: jax.Array

    def __call__(self, observation, action):
        return jnp.where(observation[0] % 2 == 0, 0.5, 0.0)


@dataclass(frozen=True)
class FlatRule:
    query_size: ClassVar[int] = 1
    coefficient: float = 1.0

    def init(self, key, spaces, hidden, capacity):
        return Flat(jnp.zeros((), jnp.int32))

    def fit(self, key, bonus, buffer, newest, query):
        return bonus

    def watch(self, key, bonus, pairs, num):
        return Flat(bonus.seen + num)

    def weights(self, bonus, count, capacity):
        return uniform(capacity, count)

    def metrics(self, bonus):
        return {}


@pytest.mark.parametrize("combine", ["max", "add"])
def test_the_exploring_policy_earns_the_larger_or_the_sum_and_the_exploiting_one_r(combine):
    parts = Deep(
        "x",
        (4,),
        num_envs=4,
        trajectory=TIME,
        loops=1,
        cover="uniform",
        bonus=FlatRule(),
        combine=combine,
        roll_in=RollInRule(group=1),
        visits=10,
        ppo=Recorder(num_rows=4 * TIME, gamma=0.0),
    )
    learner = parts.build(ENV)
    state = learner.init(jax.random.key(0))
    state = state._replace(cover=state.cover.add(state.explore.policy))
    run = jax.jit(
        lambda explores: learner.improve(jax.random.key(1), state.explore, state, explores),
        compiler_options=OPTIONS,
    )
    for explores in (True, False):
        actor, bonus, _, metrics = run(jnp.asarray(explores))
        rows, num = actor.optimiser
        rows = jax.tree.map(lambda x, num=num: np.asarray(x)[: int(num)], rows)
        # With a discount of 0 the return is the reward; the line pays the action.
        r, b = rows.action[:, 0], np.where(rows.observation[:, 0] % 2 == 0, 0.5, 0)
        expected = np.maximum(r, b) if combine == "max" else r + b
        np.testing.assert_allclose(rows.target, expected if explores else r, rtol=1e-6)
        np.testing.assert_allclose(metrics["reward"], r.mean(), rtol=1e-4)
        np.testing.assert_allclose(metrics["bonus"], b.mean() if explores else 0, rtol=1e-5)
        # A bonus that learns from what it sees does so with the exploring policy only.
        assert int(bonus.seen) == (int(num) if explores else 0)


# What cannot be

SETTINGS = tiny("eniac")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cover": "log-det"}, "cover is 'log-det'; it must be uniform unless the bonus is a K"),
        ({"bonus": None}, "bonus is None; it must be a bonus when there is a cover"),
        ({"cover": "none"}, "it must be an RND or None without a cover"),
        ({"num_envs": 5}, r"num_envs is 5; it must be a multiple of roll_in.group \(2\)"),
        ({"trajectory": 1}, "trajectory is 1; it must be 2 or more with a cover"),
        (
            {"visits": 10},
            r"visits is 10; it must be a multiple of the number of environments .* \(4\)",
        ),
        ({"fit_at": 2}, r"fit_at is 2; it must be in 0..1 \(loops\)"),
        ({"exploit_from": -1}, "exploit_from is -1; it must be 0 or more"),
        ({"capacity": 0}, "capacity is 0; it must be 1 or more"),
        ({"cover": "logdet"}, "cover is 'logdet'; it must be one of 'none', 'uniform', 'log-det'"),
        ({"combine": "sum"}, "combine is 'sum'; it must be one of 'max', 'add'"),
        ({"episodes": "forever"}, "episodes is 'forever'; it must be one of 'continuing', 'epis"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 1.1}, r"roll_in.share is 1.1; it must be in \[0, 1\]"),
        ({"epsilon": 1.0}, r"roll_in.epsilon is 1.0; it must be in \[0, 1\)"),
        ({"group": 0}, "roll_in.group is 0; it must be 1 or more"),
        ({"length": "long"}, "roll_in.length is 'long'; it must be one of 'uniform', 'geometric'"),
    ],
)
def test_impossible_roll_ins_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        RollInRule(**changes)


class Elsewhere(Line):
    """The line with another action space."""

    space: gymnasium.Space

    @property
    def action_space(self):
        return self.space


def box(low, high, shape=(2,)):
    return Elsewhere(gymnasium.spaces.Box(low, high, shape, np.float32))


def test_uniform_actions_need_a_bounded_box():
    for env in (box(-np.inf, np.inf), box(0.0, np.inf)):
        with pytest.raises(ValueError, match=r"the action space is Box.*it must be bounded on all"):
            SETTINGS.build(env)
        replace(SETTINGS, roll_in=RollInRule(epsilon=0.0, group=2)).build(env)
        Deep().build(env)


@pytest.mark.parametrize("env", [box(-1.0, 1.0, ()), box(-1.0, 1.0, (2, 2)), box(1.0, 1.0)])
def test_action_boxes_that_are_not_vectors_are_refused(env):
    with pytest.raises(ValueError, match="a Box of actions must have one axis, and low below hig"):
        Deep().build(env)


def test_spaces_that_no_policy_is_made_for_are_refused_before_any_work():
    with pytest.raises(ValueError, match="policies act in a Box or Discrete space"):
        Deep().build(Elsewhere(gymnasium.spaces.MultiBinary(3)))
    with pytest.raises(ValueError, match="starts at 1"):
        Deep().build(Elsewhere(gymnasium.spaces.Discrete(3, start=1)))


def test_rnd_may_stand_alone_or_with_a_cover():
    assert replace(SETTINGS, bonus=RND()).max_epochs == CAPACITY * INTERVAL
    assert Deep(bonus=RND(), ppo=PPO()).max_epochs is None
