"""What every bonus keeps to, in every kind of space, so that the loop can carry any of them."""

import functools
from dataclasses import dataclass, fields, is_dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from eniac.bonuses import (
    BONUSES,
    RND,
    Bonus,
    BonusRule,
    Counts,
    Ensemble,
    Episodic,
    EpisodicWidth,
    Kernel,
    LastLayer,
    Width,
    Zero,
)
from eniac.buffer import Buffer, Pairs, take
from eniac.policies import actor_critic
from eniac.spaces import Spaces
from pairs import add, fresh, holding, rollout, values

HIDDEN = (16, 16)
NUM = 64
KEY = jax.random.key(3)
TRAINING = {
    "outer": 100,
    "inner": 5,
    "query_size": 64,
    "query_batch": 16,
    "buffer_batch": 32,
    "of": "state-action",
}
RULES = {
    "width": Width(**TRAINING),
    "last-layer": LastLayer(),
    "ensemble": Ensemble(members=3, steps=300, minibatch=32),
    "kernel": Kernel(features=32),
    "counts": Counts(cell=0.25),
    "episodic": Episodic(features=16),
    "episodic-width": EpisodicWidth(**TRAINING, episodic_features=16),
    "rnd": RND(coefficient=10.0, learning_rate=1e-2, minibatch=16, passes=20),
    "zero": Zero(),
}
SPACES = {
    "box": Spaces(Box(-1.0, 1.0, (2,), np.float32), Box(-1.0, 1.0, (1,), np.float32)),
    "discrete": Spaces(Discrete(6), Discrete(2)),
    "dict": Spaces(Dict(place=Box(-1.0, 1.0, (2,), np.float32), room=Discrete(4)), Discrete(2)),
    "picture": Spaces(Box(0, 255, (16, 16, 1), np.uint8), Discrete(2)),
}
NAMES = [
    # Convolutions take minutes of a CPU.
    pytest.param((rule, spaces), marks=[pytest.mark.slow] * (spaces == "picture"))
    for rule in RULES
    for spaces in SPACES
    # Its halves are tried in all of them.
    if rule != "episodic-width" or spaces == "dict"
]


def test_the_table_has_every_bonus_that_is_tried_here():
    assert set(RULES) == set(BONUSES)
    for name, rule in RULES.items():
        assert type(rule) is BONUSES[name]
        assert is_dataclass(rule)
        assert BONUSES[name]() == BONUSES[name]()  # defaults for all, and equality by value


def part(space, part, rng, num):
    """Elements of one half of a space: `part` 0 or 1."""
    if isinstance(space, Dict):
        return {name: one(space[name], part, rng, num) for name in space}
    return one(space, part, rng, num)


def one(space, part, rng, num):
    if isinstance(space, Discrete):
        half = int(space.n) // 2
        return jnp.asarray(rng.integers(part * half, (part + 1) * half, num), jnp.int32)
    if space.dtype == np.uint8:
        # A bright half of the picture, left or right, and noise.
        picture = rng.integers(0, 40, (num, *space.shape))
        side = space.shape[1] // 2
        picture[:, :, part * side : (part + 1) * side] += 200
        return jnp.asarray(picture, jnp.uint8)
    low = np.where(part, 1 / 3, -1)
    return jnp.asarray(rng.uniform(low, low + 2 / 3, (num, *space.shape)), jnp.float32)


def pairs(spaces, half, seed=0, num=NUM):
    rng = np.random.default_rng((seed, half))
    action = one(spaces.action, 0, rng, num)
    return Pairs(part(spaces.observation, half, rng, num), action)


def shapes(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), eqx.filter(tree, eqx.is_array))


class Case:
    """A bonus before, after its fit and after a rollout, all on the same half of the space."""

    def __init__(self, rule_name, spaces_name):
        self.rule, self.spaces = RULES[rule_name], SPACES[spaces_name]
        self.spaces_name = spaces_name
        if spaces_name == "picture":
            if isinstance(self.rule, Width):
                self.rule = replace(self.rule, outer=15, inner=4)
            if isinstance(self.rule, RND):
                self.rule = replace(self.rule, passes=4)
            if isinstance(self.rule, Ensemble):
                self.rule = replace(self.rule, steps=20)
        self.seen, self.unseen = (pairs(self.spaces, half) for half in (0, 1))
        # The queries are of both halves.
        self.queries = jax.tree.map(lambda x, y: jnp.concatenate([x, y])[::2], *(
            (self.seen, self.unseen)
        ))  # fmt: skip
        self.buffer = holding(Buffer.empty(self.spaces, 2 * NUM), self.seen)
        self.before = fresh(self.rule, self.spaces, HIDDEN)
        self.fit = jax.jit(self.rule.fit)
        self.update = jax.jit(self.rule.update_online)
        self.fitted = self.fit(KEY, self.before, self.buffer, self.queries)
        self.after = self.update(KEY, self.fitted, self.seen, jnp.asarray(NUM))


CASES = {}


@pytest.fixture(params=NAMES, ids="-".join)
def case(request, monkeypatch):
    # Twenty thousand pictures are looked at for the quality of a width, if there are so many.
    monkeypatch.setattr("eniac.bonuses.width.NUM_JUDGED", NUM)
    monkeypatch.setattr("eniac.bonuses.ensemble.NUM_JUDGED", NUM)
    if request.param not in CASES:
        CASES[request.param] = Case(*request.param)
    return CASES[request.param]


def test_a_rule_is_a_bonus_rule_and_makes_a_bonus(case):
    assert isinstance(case.rule, BonusRule)
    assert isinstance(case.before, Bonus)
    assert case.rule.query_size >= 1
    assert case.rule.coefficient >= 0


def test_structure_shapes_and_types_stay_so_that_a_loop_can_carry_them(case):
    for bonus in (case.fitted, case.after):
        assert jax.tree.structure(bonus) == jax.tree.structure(case.before)
        assert shapes(bonus) == shapes(case.before)
    metrics = [case.rule.metrics(bonus) for bonus in (case.before, case.fitted, case.after)]
    assert metrics[0].keys() == metrics[1].keys() == metrics[2].keys()
    assert all(x.shape == () for one in metrics for x in one.values())

    def body(bonus, key):
        return case.rule.fit(key, bonus, case.buffer, case.queries), None

    jax.eval_shape(lambda b: jax.lax.scan(body, b, jax.random.split(KEY, 2)), case.before)


def test_all_of_it_is_arrays_so_that_it_stacks_and_saves(case):
    for leaf in jax.tree.leaves(case.after):
        assert isinstance(leaf, jax.Array)
        assert not jnp.issubdtype(leaf.dtype, jnp.floating) or bool(jnp.all(jnp.isfinite(leaf)))
    again = jax.tree.unflatten(jax.tree.structure(case.after), jax.tree.leaves(case.after))
    np.testing.assert_array_equal(values(again, case.unseen), values(case.after, case.unseen))


def test_the_bonus_is_finite_and_not_negative(case):
    for bonus in (case.before, case.fitted, case.after):
        for where in (case.seen, case.unseen):
            got = values(bonus, where)
            assert got.shape == (NUM,)
            assert got.dtype == np.float32
            assert np.all(np.isfinite(got))
            assert np.all(got >= 0)


def test_one_pair_many_pairs_and_a_compiled_pair_are_the_same(case):
    many = values(case.after, case.unseen)
    one = take(case.unseen, 5)
    np.testing.assert_allclose(case.after(*one), many[5], rtol=2e-4, atol=1e-6)
    compiled = jax.jit(lambda b, p: b(*p))(case.after, one)
    np.testing.assert_allclose(compiled, many[5], rtol=2e-4, atol=1e-6)


def test_compiled_and_not_compiled_are_the_same_but_for_rounding(case):
    # Rounding grows with every step of training, hence few of them.
    short = {"outer": 2, "inner": 2, "passes": 1, "steps": 2}
    names = {f.name for f in fields(case.rule)} & set(short)
    rule = replace(case.rule, **{name: short[name] for name in names})
    eager = rule.fit(KEY, case.before, case.buffer, case.queries)
    compiled = jax.jit(rule.fit)(KEY, case.before, case.buffer, case.queries)
    np.testing.assert_allclose(
        values(eager, case.unseen), values(compiled, case.unseen), rtol=2e-2, atol=1e-3
    )
    few = jnp.asarray(NUM // 2)
    eager = rule.update_online(KEY, case.before, case.seen, few)
    compiled = jax.jit(rule.update_online)(KEY, case.before, case.seen, few)
    np.testing.assert_allclose(
        values(eager, case.unseen), values(compiled, case.unseen), rtol=2e-2, atol=1e-3
    )


def test_nothing_seen_is_no_nan(case):
    empty = Buffer.empty(case.spaces, 2 * NUM)
    bonus = case.fit(KEY, case.before, empty, case.queries)
    bonus = case.update(KEY, bonus, case.seen, jnp.asarray(0))
    assert np.all(np.isfinite(values(bonus, case.unseen)))
    for leaf in jax.tree.leaves(bonus):
        assert np.all(np.isfinite(leaf))


@functools.cache
def subsampled(spaces_name):
    """Three times as many pairs of one half as there is room for."""
    spaces = SPACES[spaces_name]
    buffer = Buffer.empty(spaces, NUM, bounded=True)
    for seed in range(3):
        buffer = add(buffer, jax.random.key(seed), pairs(spaces, 0, seed), NUM, seed)
    return buffer


def test_a_buffer_that_was_subsampled_does_as_well(case):
    if not case.rule.reads_buffer:
        pytest.skip("does not read the buffer")
    buffer = subsampled(case.spaces_name)
    assert float(jnp.max(buffer.weight)) > 1
    bonus = jax.jit(case.rule.fit)(KEY, case.before, buffer, case.queries)
    assert values(bonus, case.unseen).mean() > 1.25 * values(bonus, case.seen).mean()


def test_it_is_higher_where_nobody_was(case):
    if isinstance(case.rule, Zero):
        np.testing.assert_array_equal(values(case.after, case.unseen), np.zeros(NUM))
        return
    if isinstance(case.rule, Episodic):
        # Two episodes: one stays in a state, and is paid once; the other is always elsewhere.
        there = jax.tree.map(lambda x: jnp.stack([x[jnp.zeros(4, int)], x[:4]], 1), case.seen)
        stays, moves = np.asarray(case.after.along(rollout(*there))).T
        np.testing.assert_array_equal(stays[0], moves[0])
        assert np.all(stays[1:] < 0.2 * stays[0])
        return
    ratio = lambda bonus: values(bonus, case.unseen).mean() / values(bonus, case.seen).mean()  # noqa: E731
    if case.rule.reads_buffer:
        assert ratio(case.fitted) > 1.5
    if isinstance(case.rule, RND):
        # Units of the predictor that are off have no gradient, and their error stays.
        assert ratio(case.after) > 1.25 * ratio(case.before)


def test_a_rule_says_what_it_reads(case):
    told = (case.rule.reads_buffer, case.rule.learns_online)
    for does, bonus, other in (
        (told[0], case.fitted, case.before),
        (told[1], case.after, case.fitted),
    ):
        same = map(np.array_equal, jax.tree.leaves(bonus), jax.tree.leaves(other))
        assert all(same) == (not does)


def test_what_a_rollout_earns_is_the_bonus_of_its_pairs_or_less_where_the_episode_knows_them(case):
    seen = rollout(*jax.tree.map(lambda x: x.reshape((16, 4, *x.shape[1:])), case.unseen))
    earned = np.asarray(jax.jit(lambda b, s: b.along(s))(case.after, seen))
    alone = values(case.after, case.unseen).reshape(16, 4)
    assert earned.shape == (16, 4)
    assert np.all(np.isfinite(earned))
    assert np.all(earned >= 0)
    np.testing.assert_allclose(earned[0], alone[0], rtol=2e-4, atol=1e-6)
    if isinstance(case.rule, Episodic | EpisodicWidth):
        assert np.all(earned <= alone * (1 + 1e-4))
        assert earned[1:].mean() < 0.9 * alone[1:].mean()
    else:
        np.testing.assert_allclose(earned, alone, rtol=2e-4, atol=1e-6)


def test_a_fit_can_begin_with_the_critic_and_keeps_shapes(case):
    for normalise in (False, True):
        critic = actor_critic(KEY, *case.spaces, HIDDEN, normalise)
        bonus = jax.eval_shape(case.rule.with_critic, case.before, critic)
        assert jax.tree.structure(bonus) == jax.tree.structure(case.before)
        assert jax.tree.map(lambda x: (x.shape, x.dtype), bonus) == shapes(case.before)


# A bonus of one's own


class CountBonus(Bonus):
    visits: jax.Array
    coefficient: float = eqx.field(static=True)

    def __call__(self, observation, action):
        return self.coefficient / jnp.sqrt(1 + self.visits[observation, action])


@dataclass(frozen=True)
class Count(BonusRule):
    coefficient: float = 2.0

    def init(self, key, spaces, hidden):
        visits = jnp.zeros((int(spaces.observation.n), int(spaces.action.n)))
        return CountBonus(visits, self.coefficient)

    def fit(self, key, bonus, buffer, queries):
        visits = jnp.zeros_like(bonus.visits).at[*buffer.pairs].add(buffer.weight)
        return CountBonus(visits, self.coefficient)


def test_a_bonus_of_ones_own_is_a_few_lines():
    rule = Count()
    assert isinstance(rule, BonusRule)
    assert rule.reads_buffer
    assert not rule.learns_online
    bonus = rule.init(KEY, SPACES["discrete"], HIDDEN)
    visits = Pairs(jnp.asarray([0, 0, 0, 4]), jnp.asarray([1, 1, 1, 0]))
    buffer = Buffer.empty(SPACES["discrete"], 10).add(KEY, visits, 4, 0)
    bonus = jax.jit(rule.fit)(KEY, bonus, buffer, visits)
    assert rule.update_online(KEY, bonus, visits, jnp.asarray(4)) is bonus
    assert rule.metrics(bonus) == {}
    assert [float(bonus(jnp.asarray(s), jnp.asarray(a))) for s, a in ((0, 1), (1, 1))] == [1, 2]


def test_a_rule_without_a_start_cannot_be_made():
    @dataclass(frozen=True)
    class Unfinished(BonusRule):
        coefficient: float = 1.0

    with pytest.raises(TypeError, match=r"abstract method '?init"):
        Unfinished()
