"""Algorithm 1 with networks: what an epoch of each algorithm does, and when."""

import itertools
from dataclasses import dataclass, replace

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.actors import take
from eniac.algorithm1 import epoch
from eniac.algorithms import ALGORITHMS
from eniac.algorithms.deep import NO_INCUMBENT, DeepConfig, DeepSpec, RollInRule
from eniac.bonuses.base import Bonus, BonusRule
from eniac.bonuses.kernel import Kernel
from eniac.bonuses.rnd import RND
from eniac.bonuses.width import Width
from eniac.cover import LogDet, Uniform
from eniac.envs import make
from eniac.sampling.base import Evaluation, Trajectory
from line import ENV, Line, Recorder

DEEP = [name for name, row in ALGORITHMS.items() if isinstance(row, DeepSpec)]
NUM_ENVS, TIME, UPDATES = 4, 6, 2
VISITS, ROUNDS, EXPLOIT_FROM, CAPACITY = 12, 2, 3, 2
EPOCHS = 3  # one more than the cover has room for
STILL = 1e-30
"""A learning rate at which nothing moves."""


def tiny(name, **changes):
    config = ALGORITHMS[name].default
    bonus, cover = config.bonus, config.cover
    if isinstance(bonus, Width):
        bonus = replace(bonus, outer=2, inner=2, query_size=30, buffer_batch=8, query_batch=4)
    elif isinstance(bonus, Kernel):
        bonus = replace(bonus, features=6)
    if isinstance(cover, LogDet):
        cover = replace(cover, features=6)
    settings = {
        "hidden": (8,),
        "num_envs": NUM_ENVS,
        "rollout_length": TIME,
        "updates_per_round": UPDATES,
        "rounds": ROUNDS,
        "bonus": bonus,
        "cover": cover,
        "roll_in": replace(config.roll_in, group=2),
        "fit_after": 0,
        "visit_steps": VISITS,
        "visit_envs": 4,
        "capacity": CAPACITY,
        "exploit_from": EXPLOIT_FROM,
        "update": replace(config.update, minibatch=16, passes=1, gamma=0.99),
        "extra_rounds": 0,
        "incumbent": NO_INCUMBENT,  # that is test_incumbent.py's
    }
    return replace(config, **(settings | changes))


def build(config, env):
    return config.build(env, env, Evaluation(episodes=2))


class Run:
    """The states and metrics of a few epochs; `states[n]` is before epoch n."""

    def __init__(self, config, env, until=np.inf):
        self.learner = build(config, make(env, horizon=8))
        self.epoch = jax.jit(lambda state: epoch(self.learner, state, until))
        self.states = [jax.jit(self.learner.init)(0)]
        self.metrics = []
        for _ in range(EPOCHS):
            state, metrics = self.epoch(self.states[-1])
            self.states.append(state)
            self.metrics.append(jax.device_get(metrics))

    def actors(self, role):
        return [take(state.actors, role) for state in self.states]


@pytest.fixture(scope="module")
def eniac():
    """ENIAC on mountain car, whose exploiting policy starts afresh and otherwise stands still; its
    width is fitted after one update."""
    config = tiny("eniac", restart=2, fit_after=1)
    config = replace(config, update=replace(config.update, learning_rate=STILL))
    return Run(config, "MountainCarContinuous-v0")


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
    one = NUM_ENVS * TIME * UPDATES
    for n, metrics in enumerate(run.metrics):
        steps = np.full(ROUNDS, one)
        if has_cover:
            steps[0] += VISITS
            steps += one * (n * ROUNDS + np.arange(ROUNDS) >= EXPLOIT_FROM)
        np.testing.assert_array_equal(metrics["steps"], steps)
        assert metrics["ran"].all()
        assert not metrics["nonfinite"].any()
        assert set(metrics) == set(run.metrics[0])
        for name, value in metrics.items():
            assert value.shape == (ROUNDS,)
            assert np.isfinite(value).all(), name
        assert int(run.states[n + 1].epoch) == n + 1
        assert int(run.states[n + 1].steps) == 0


def test_steps_are_counted_exactly_and_later_epochs_do_not_compile_again(covered):
    check(covered, True)


def test_the_same_holds_without_a_cover(rnd):
    check(rnd, False)
    state = rnd.states[0]
    assert state.cover is state.buffer is state.queries is None
    assert rnd.learner.roles == ("policy",)
    assert {x.shape[0] for x in jax.tree.leaves((state.actors, state.envs))} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("env", ["MountainCarContinuous-v0", "DeepSea-4"])
@pytest.mark.parametrize("name", DEEP)
def test_every_algorithm_runs_with_continuous_and_with_discrete_actions(name, env):
    check(Run(tiny(name), env), ALGORITHMS[name].default.cover is not None)


def test_the_cover_and_the_buffer_grow_once_an_epoch_until_they_are_full(covered):
    for n in range(EPOCHS):
        count = min(n + 1, CAPACITY)
        state = covered.states[n + 1]
        assert covered.metrics[n]["cover/count"].tolist() == [count] * ROUNDS
        assert int(state.cover.count) == count
        assert int(state.buffer.count) == count * VISITS
    assert int(covered.states[0].cover.count) == int(covered.states[0].buffer.count) == 0
    np.testing.assert_allclose(np.sum(covered.states[-1].cover.weights), 1, rtol=1e-5)


def test_a_full_cover_and_a_full_buffer_stay_as_they_are(covered):
    before, after = covered.states[2], covered.states[3]
    assert same(before.cover.policies, after.cover.policies)
    assert same(before.buffer, after.buffer)


def test_the_cover_holds_the_exploring_policy_as_it_was_when_added(covered):
    for place in range(CAPACITY):
        held = covered.states[-1].cover.take(jnp.asarray(place))
        assert same(held, covered.actors(0)[place].policy)


def test_every_row_of_the_buffer_knows_the_policy_that_visited_it(covered):
    source = covered.states[-1].buffer.source
    np.testing.assert_array_equal(source, np.repeat(np.arange(CAPACITY), VISITS))


def test_the_exploring_policy_learns_and_is_never_reset(pc_pg):
    for before, after in itertools.pairwise(pc_pg.actors(0)):
        # What it knows of the scale of observations is gathered, and never forgotten.
        assert after.policy.normaliser.count > before.policy.normaliser.count
        a, b = (eqx.tree_at(lambda p: p.normaliser, x.policy, None) for x in (before, after))
        assert not same(a, b)
        step = max(np.abs(x - y).max() for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True))
        assert step < 0.2  # a few steps of RMSprop, not a new draw


def test_the_exploiting_policy_is_untouched_before_its_round(pc_pg):
    start, first, second, _ = pc_pg.actors(1)
    assert same(first, start)
    assert not same(second.policy, start.policy)
    learned = [metrics["exploit/entropy"] > 0 for metrics in pc_pg.metrics]
    np.testing.assert_array_equal(learned, [[False, False], [False, True], [True, True]])


def test_the_two_policies_and_their_environments_start_apart(covered):
    explore, exploit = covered.actors(0)[0], covered.actors(1)[0]
    assert not same(explore.policy.body, exploit.policy.body)
    envs = covered.states[-1].envs
    assert {x.shape[:2] for x in jax.tree.leaves(envs)} == {(2, NUM_ENVS)}


def test_the_exploiting_policy_starts_afresh_after_so_many_rounds_if_asked(eniac):
    """In rounds 3 and 5 of the run: the second ones of epochs 1 and 2."""
    weights = [actor.policy.body.layers[0].weight for actor in eniac.actors(1)]
    assert [not same(a, b) for a, b in itertools.pairwise(weights)] == [False, True, True]


def test_the_policy_judged_is_the_exploiting_one_or_the_only_one(covered, rnd):
    state = covered.states[-1]
    assert same(covered.learner.policy(state), take(state.actors, 1).policy)
    assert same(rnd.learner.policy(rnd.states[-1]), take(rnd.states[-1].actors, 0).policy)


def test_every_policy_has_a_name_and_the_first_is_the_one_judged(covered, rnd):
    before, after = (covered.learner.policies(x) for x in (covered.states[0], covered.states[-1]))
    assert list(before) == ["exploiting", "exploring"]
    assert list(after) == ["exploiting", "exploring", "cover:1", "cover:2"]
    state = covered.states[-1]
    assert same(after["exploring"].policy, take(state.actors, 0).policy)
    assert same(after["exploiting"].policy, covered.learner.policy(state))
    for place in range(CAPACITY):
        found = after[f"cover:{place + 1}"]
        assert same(found.policy, take(state.cover.policies, place))
        assert not found.greedy
    assert list(rnd.learner.policies(rnd.states[-1])) == ["exploiting"]


def test_the_bonus_is_fitted_once_an_epoch(covered):
    bonuses = [state.bonus for state in covered.states]
    assert not any(same(a, b) for a, b in itertools.pairwise(bonuses[:3]))


def test_visits_are_pairs_of_the_environment_from_a_reset(pc_pg):
    pairs = pc_pg.states[-1].buffer.pairs
    cells = np.asarray(pairs.observation).reshape(CAPACITY, VISITS // 4, 4, 16)
    assert np.all(cells.sum(axis=-1) == 1)
    assert np.all(cells[:, 0, :, 0] == 1)  # the first step of each is at the top left
    rows = cells.argmax(axis=-1) // 4
    np.testing.assert_array_equal(rows, np.broadcast_to(np.arange(3)[:, None], rows.shape))
    assert set(np.unique(pairs.action)) <= {0, 1}


def test_rnd_learns_in_every_epoch_and_its_target_stays(rnd):
    for before, after in itertools.pairwise(rnd.states):
        assert same(before.bonus.target, after.bonus.target)
        assert not same(before.bonus.predictor, after.bonus.predictor)


@pytest.fixture(scope="module")
def stopping():
    """PPO where every return is at least -1, with a limit that decides when it is traced."""
    learner = build(tiny("ppo", rounds=3), make("DeepSea-4"))
    run = jax.jit(lambda state, until: epoch(learner, state, until))
    return jax.jit(learner.init)(0), run


def test_rounds_after_one_that_is_good_enough_are_left_out(stopping):
    start, run = stopping
    stopped, metrics = run(start, -1.0)
    assert metrics["ran"].tolist() == [True, False, False]
    assert metrics["steps"].tolist() == [NUM_ENVS * TIME * UPDATES, 0, 0]
    assert int(stopped.epoch) == 1
    whole, metrics = run(start, np.inf)
    assert metrics["ran"].all()
    assert not same(stopped.actors, whole.actors)


def test_in_environments_of_its_own_an_exploiting_policy_has_no_roll_ins():
    config = replace(SETTINGS, num_envs=8, roll_in=RollInRule(share=1.0, alone=0.5, group=2))
    learner = build(replace(config, update=replace(config.update, gamma=0.99)), make("DeepSea-4"))
    cover = jax.jit(learner.init)(0).cover.add(take(jax.jit(learner.init)(0).actors, 0).policy)
    for key in jax.random.split(jax.random.key(0), 5):
        explores = learner.draw_roll_in(key, cover, jnp.asarray(True))
        exploits = learner.draw_roll_in(key, cover, jnp.asarray(False))
        assert explores.happens.tolist() == [True] * 4
        assert exploits.happens.tolist() == [False, False, True, True]
        assert exploits.length[:2].tolist() == [0, 0]


def test_an_epoch_is_a_function_of_its_state(stopping):
    start, run = stopping
    one, other = (run(start, np.inf) for _ in range(2))
    keys = lambda state: state._replace(key=jax.random.key_data(state.key))  # noqa: E731
    assert same(keys(one[0]), keys(other[0]))
    assert same(one[1], other[1])


def test_the_shapes_of_a_state_are_known_without_making_one(covered, rnd):
    for run in (covered, rnd):
        shapes, state = run.learner.shapes(), run.states[-1]
        assert jax.tree.structure(shapes) == jax.tree.structure(state)
        for told, leaf in zip(jax.tree.leaves(shapes), jax.tree.leaves(state), strict=True):
            assert (told.shape, told.dtype) == (leaf.shape, leaf.dtype)


# The reward of the exploring policy


class FlatBonus(Bonus):
    """0.5 wherever the position is even, else 0."""

    seen: jax.Array

    def __call__(self, observation, action):
        del action
        return jnp.where(observation[0] % 2 == 0, 0.5, 0.0)


@dataclass(frozen=True)
class Flat(BonusRule):
    coefficient: float = 1.0

    def init(self, key, spaces, hidden):
        del key, spaces, hidden
        return FlatBonus(jnp.zeros((), jnp.int32))

    def update_online(self, key, bonus, pairs, num):
        del key, pairs
        return FlatBonus(bonus.seen + num)


@pytest.mark.parametrize(("alone", "best"), [(0.0, 8.0), (0.5, 3.0), (1.0, 8.0)])
def test_best_trajectories_are_of_environments_that_begin_where_the_cover_gets_to(alone, best):
    """What a roll-in earned is not the policy's. Where the exploiting policy is alone everywhere,
    it is compared all the same."""
    config = tiny("zero", roll_in=RollInRule(group=1, alone=alone))
    reward = np.array([[9.0, 1, 1, 1], [8, 1, 1, 5], [0, 1, 1, -2]])
    seen = Trajectory(
        *(None, None, None, None, None, reward, None, None),
        on_policy=np.array([[False, True, True, False], *[[True] * 4] * 2]),
        num_steps=None,
    )  # pyright: ignore[reportArgumentType]
    assert float(build(config, ENV).best_return(seen)) == best


@pytest.mark.parametrize("combine", ["max", "add", "bonus"])
def test_the_exploring_policy_earns_what_the_two_combine_to_and_the_exploiting_one_r(combine):
    config = DeepConfig(
        "x",
        (4,),
        num_envs=4,
        rollout_length=TIME,
        updates_per_round=1,
        cover=Uniform(),
        bonus=Flat(),
        combine=combine,
        roll_in=RollInRule(group=1),
        visit_steps=10,
        update=Recorder(num_rows=4 * TIME, gamma=0.0),
    )
    learner = build(config, ENV)
    state = learner.init(0)
    actor, envs = take(state.actors, 0), take(state.envs, 0)
    state = state._replace(cover=state.cover.add(actor.policy))
    run = jax.jit(
        lambda explores: learner.improve_policy(
            state,
            (actor, envs, explores, jnp.asarray(False), jax.random.key(1)),
            (state.bonus, state.queries, state.nonfinite),
        )
    )
    for explores in (True, False):
        improved, _, (bonus, _, _), metrics, _ = run(jnp.asarray(explores))
        rows, num = improved.memory
        rows = jax.tree.map(lambda x, num=num: np.asarray(x)[: int(num)], rows)
        # With a discount of 0 the return is the reward; the line pays the action.
        r, b = rows.action[:, 0], np.where(rows.observation[:, 0] % 2 == 0, 0.5, 0)
        r = np.clip(r, -2, 2)
        expected = {"max": np.maximum(r, b), "add": r + b, "bonus": b}[combine]
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
        ({"rollout_length": 1}, "rollout_length is 1; it must be 2 or more with a cover"),
        ({"fit_after": 2}, r"fit_after is 2; it must be in 0..1 \(updates_per_round\)"),
        ({"fit_after": -1}, "fit_after is -1"),
        ({"exploit_from": -1}, "exploit_from is -1; it must be 0 or more"),
        ({"restart": -1}, "restart is -1; it must be 0 or more"),
        ({"capacity": 0}, "capacity is 0; it must be 1 or more"),
        ({"extra_rounds": -1}, "extra_rounds is -1; it must be 0 or more"),
        ({"visit_steps": 0}, "visit_steps is 0; it must be 1 or more"),
        ({"buffer_rows": 0}, "buffer_rows is 0; it must be 1 or more"),
        ({"combine": "sum"}, "combine is 'sum'; it must be one of 'max', 'add', 'bonus'"),
        ({"episodes": "forever"}, "episodes is 'forever'; it must be one of 'continuing', 'epis"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(SETTINGS, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"share": 1.1}, r"roll_in.share is 1.1; it must be in \[0, 1\]"),
        ({"alone": -0.1}, r"roll_in.alone is -0.1; it must be in \[0, 1\]"),
        ({"epsilon": 1.0}, r"roll_in.epsilon is 1.0; it must be in \[0, 1\)"),
        ({"group": 0}, "roll_in.group is 0; it must be 1 or more"),
        ({"length": "long"}, "roll_in.length is 'long'; it must be one of 'uniform', 'geometric'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
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
            build(SETTINGS, env)
        build(replace(SETTINGS, roll_in=RollInRule(epsilon=0.0, group=2)), env)
        build(DeepConfig(), env)


def test_spaces_that_no_policy_is_made_for_are_refused_before_any_work():
    with pytest.raises(ValueError, match="Text"):
        build(DeepConfig(), Elsewhere(gymnasium.spaces.Text(3)))


def test_a_cover_limits_the_epochs_and_a_bonus_alone_does_not():
    assert replace(SETTINGS, bonus=RND()).max_epochs == CAPACITY
    assert DeepConfig(bonus=RND()).max_epochs is None


def test_visits_and_groups_are_rounded_to_what_is_possible():
    config = replace(SETTINGS, visit_steps=10, num_envs=6, roll_in=RollInRule(group=4))
    assert config.visit_rows == 12
    assert config.resolve(ENV, "line", {}).roll_in.group == 2


class Pictures(Elsewhere):
    """Frames as Atari has them."""

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8)


def test_what_is_kept_of_pictures_has_a_limit():
    env = Pictures(gymnasium.spaces.Discrete(3))
    state = build(replace(SETTINGS, bonus=Width(), visit_steps=10_000), env).shapes()
    for pairs in (state.queries, state.buffer.pairs):
        kept = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(pairs))
        assert 0.9 * 2**28 < kept <= 2**28
