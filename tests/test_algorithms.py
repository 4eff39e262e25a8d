"""The algorithms of the table, end to end on environments whose answer is known."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.algorithms import ALGORITHMS, Deep
from eniac.envs import DeepSea, Environment, TimeLimit
from eniac.policies import DEPTHS
from eniac.sampling.compiled import evaluate
from eniac.updates.ppo import PPO
from probes import PROBES, ContinuousActionMatters

GAMMA = 0.8
NUM_EPOCHS = 30


def small(**ppo):
    return Deep(
        hidden=(16,),
        num_envs=16,
        trajectory=10,
        loops=4,
        ppo=PPO(
            optimizer="adam",
            learning_rate=1e-2,
            gamma=GAMMA,
            minibatch=80,
            passes=4,
            entropy=1e-3,
            **ppo,
        ),
    )


class Switch(Environment):
    """One of several probes, chosen by an array: all of them train in one compiled program."""

    which: jax.Array
    probes: tuple[Environment, ...]

    @property
    def observation_space(self):
        return self.probes[0].observation_space

    @property
    def action_space(self):
        return self.probes[0].action_space

    def reset(self, key):
        return jax.lax.switch(self.which, [lambda env=env: env.reset(key) for env in self.probes])

    def step(self, key, state, action):
        return jax.lax.switch(
            self.which, [lambda env=env: env.step(key, state, action) for env in self.probes]
        )


DISCRETE = {name: make for name, make in PROBES.items() if make is not ContinuousActionMatters}


@pytest.fixture(scope="module")
def trained():
    """The trained policy of each discrete probe, by its name."""
    # A limit that is never reached gives all probes the same kind of state.
    probes = [env if isinstance(env, TimeLimit) else TimeLimit(env, 10**6) for env in
              (make() for make in DISCRETE.values())]  # fmt: skip

    def train(which, key):
        learner = small().build(Switch(which, tuple(probes)))
        state, _ = jax.lax.scan(
            lambda state, _: learner.epoch(state), learner.init(key), length=NUM_EPOCHS
        )
        return learner.policy(state)

    num = len(probes)
    stack = jax.jit(jax.vmap(train))(jnp.arange(num), jax.random.split(jax.random.key(0), num))
    return {name: jax.tree.map(lambda x, i=i: x[i], stack) for i, name in enumerate(DISCRETE)}


def probability(policy, seen, action):
    return float(jax.nn.softmax(policy(jnp.array([seen]))[0].logits)[action])


def test_the_value_of_a_constant_reward_is_learned(trained):
    value = trained["constant value"].value(jnp.array([0.0]))
    np.testing.assert_allclose(value, 1.0, atol=0.02)


def test_a_reward_one_step_ahead_is_worth_the_discount(trained):
    policy = trained["value one step ahead"]
    np.testing.assert_allclose(policy.value(jnp.array([0.0])), GAMMA, atol=0.03)
    np.testing.assert_allclose(policy.value(jnp.array([1.0])), 1.0, atol=0.03)


def test_the_better_action_is_learned(trained):
    assert probability(trained["action matters"], 0.0, 1) > 0.95


def test_the_better_action_of_each_observation_is_learned(trained):
    policy = trained["observation matters"]
    assert probability(policy, -1.0, 0) > 0.95
    assert probability(policy, 1.0, 1) > 0.95


def test_a_time_limit_is_not_death(trained):
    value = float(trained["time limit is not death"].value(jnp.array([0.0])))
    np.testing.assert_allclose(value, 1 / (1 - GAMMA), rtol=0.04)
    # A learner that takes the limit for death would see the mean over 5, ..., 1 steps to go.
    finite = np.mean([(1 - GAMMA**k) / (1 - GAMMA) for k in range(1, 6)])
    assert value - finite > 2


def test_the_best_continuous_action_is_learned():
    learner = small().build(ContinuousActionMatters())
    state, _ = jax.jit(
        lambda key: jax.lax.scan(
            lambda state, _: learner.epoch(state), learner.init(key), length=NUM_EPOCHS
        )
    )(jax.random.key(0))
    law, value = learner.policy(state)(jnp.array([0.0]))
    np.testing.assert_allclose(law.mean, 0.5, atol=0.1)
    # The return is -(mean - 1/2)^2 - std^2 but for the few actions that are clipped.
    np.testing.assert_allclose(value, -((law.mean[0] - 0.5) ** 2) - law.std[0] ** 2, atol=0.03)


# A real environment, and what an epoch is


@pytest.fixture(scope="module")
def diving():
    """PPO in a deep sea of 3 x 3, and every epoch traced so far."""
    env = DeepSea(3)
    learner = small().build(env)
    traces = []

    def epoch(state):
        traces.append(state)
        return learner.epoch(state)

    init, epoch = jax.jit(learner.init), jax.jit(epoch)

    def run(seed, num_epochs):
        state = init(jax.random.key(seed))
        for _ in range(num_epochs):
            state, metrics = epoch(state)
        return state, metrics

    return env, learner, run, traces, epoch


def test_ppo_finds_the_treasure_of_a_small_sea(diving):
    env, learner, run, _, _ = diving
    state, _ = run(0, NUM_EPOCHS)
    best = evaluate(env, learner.policy(state), jax.random.key(1), 4, deterministic=True)
    np.testing.assert_allclose(best.returns, 0.99, rtol=1e-5)


def test_an_epoch_is_compiled_once(diving):
    _, _, run, traces, epoch = diving
    run(0, 3)
    assert len(traces) == 1
    assert epoch._cache_size() == 1


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(diving):
    run = diving[2]
    (a, _), (b, _), (c, _) = run(3, 2), run(3, 2), run(4, 2)
    keys = lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x  # noqa: E731
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(keys(x), keys(y))
    weight = lambda state: diving[1].policy(state).body.layers[0].weight  # noqa: E731
    assert not np.array_equal(weight(a), weight(c))


def test_an_epoch_counts_its_steps_and_reports_finite_scalars(diving):
    metrics = diving[2](0, 1)[1]
    assert int(metrics["steps"]) == 16 * 10 * 4
    assert int(metrics["nonfinite_rewards"]) == 0
    for name, value in metrics.items():
        assert value.shape == (), name
        assert np.isfinite(value), name


# The table


def test_a_row_is_under_its_own_name_and_its_default_names_it():
    for name, row in ALGORITHMS.items():
        assert row.name == name == row.default.name


def test_the_default_of_ppo_is_the_papers_setting():
    default = ALGORITHMS["ppo"].default
    assert default.hidden == DEPTHS[2]
    assert default.ppo == PPO()
    # 10 loops of 50 trajectories by 10 workers, 100 steps each: half a million steps an epoch.
    assert default.num_envs * default.trajectory * default.loops == 500_000


@pytest.mark.parametrize(
    ("name", "value"),
    [("hidden", ()), ("hidden", (8, 0)), ("num_envs", 0), ("trajectory", 0), ("loops", -1)],
)
def test_a_bad_setting_is_refused_with_its_name_and_value(name, value):
    with pytest.raises(ValueError) as error:
        dataclasses.replace(ALGORITHMS["ppo"].default, **{name: value})
    assert str(error.value).startswith(f"{name} is {value!r}; it must be ")
