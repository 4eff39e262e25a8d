"""The algorithms of the table, end to end on environments whose answer is known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.algorithm1 import epoch
from eniac.algorithms import ALGORITHMS
from eniac.algorithms.deep import NO_INCUMBENT, DeepConfig
from eniac.envs import DeepSea, Environment, TimeLimit
from eniac.envs.names import find_env
from eniac.networks import DEPTHS
from eniac.sampling.base import Evaluation
from eniac.updates.ppo import PPO
from probes import PROBES, ContinuousActionMatters

GAMMA = 0.8
NUM_EPOCHS = 90


FEW = Evaluation(episodes=2)


def build(config, env):
    """Judged in a few short episodes, whatever the environment's own limit is."""
    return config.build(env, TimeLimit(env, 10), FEW)


def after_epochs(learner, seed):
    """The state after all epochs: to be compiled."""
    return jax.lax.scan(
        lambda state, _: epoch(learner, state, jnp.inf), learner.init(seed), length=NUM_EPOCHS
    )[0]


def small(**ppo):
    return DeepConfig(
        hidden=(16,),
        num_envs=16,
        rollout_length=10,
        updates_per_round=4,
        incumbent=NO_INCUMBENT,  # what is asked is what is learned
        update=PPO(
            optimizer="adam",
            learning_rate=5e-3,
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

    def train(which, seed):
        learner = build(small(), Switch(which, tuple(probes)))
        return learner.policy(after_epochs(learner, seed))

    num = len(probes)
    stack = jax.jit(jax.vmap(train))(jnp.arange(num), jnp.arange(num))
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
    learner = build(small(), ContinuousActionMatters())
    state = jax.jit(lambda: after_epochs(learner, 0))()
    law, value = learner.policy(state)(jnp.array([0.0]))
    np.testing.assert_allclose(law.mean, 0.5, atol=0.1)
    # The return is -(mean - 1/2)^2 - std^2 but for the few actions that are clipped.
    np.testing.assert_allclose(value, -((law.mean[0] - 0.5) ** 2) - law.std[0] ** 2, atol=0.03)


# A real environment, and what an epoch is


@pytest.fixture(scope="module")
def diving():
    """PPO in a deep sea of 3 x 3, and every epoch traced so far."""
    env = DeepSea(3)
    learner = build(small(), env)
    traces = []

    def one_epoch(state):
        traces.append(state)
        return epoch(learner, state, jnp.inf)

    init, one_epoch = jax.jit(learner.init), jax.jit(one_epoch)

    def run(seed, num_epochs):
        state = init(seed)
        for _ in range(num_epochs):
            state, metrics = one_epoch(state)
        return state, metrics

    return learner, run, traces, one_epoch


def test_ppo_finds_the_treasure_of_a_small_sea(diving):
    learner, run, _, _ = diving
    state, _ = run(0, NUM_EPOCHS)
    asked = Evaluation(episodes=4, deterministic=True)
    best = learner.sampler.evaluate(jax.random.key(1), learner.policy(state), asked)
    np.testing.assert_allclose(best.returns, 0.99, rtol=1e-5)


def test_an_epoch_is_compiled_once(diving):
    _, run, traces, one_epoch = diving
    run(0, 3)
    assert len(traces) == 1
    assert one_epoch._cache_size() == 1


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(diving):
    run = diving[1]
    (a, _), (b, _), (c, _) = run(3, 2), run(3, 2), run(4, 2)
    keys = lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x  # noqa: E731
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(keys(x), keys(y))
    weight = lambda state: diving[0].policy(state).body.layers[0].weight  # noqa: E731
    assert not np.array_equal(weight(a), weight(c))


def test_a_round_counts_its_steps_and_reports_finite_numbers(diving):
    metrics = diving[1](0, 1)[1]
    assert metrics["steps"].tolist() == [16 * 10 * 4]
    assert metrics["nonfinite"].tolist() == [0]
    for name, value in metrics.items():
        assert value.shape == (1,), name
        assert np.isfinite(value).all(), name


def test_ppo_balances_the_pole_of_envpool():
    """On the host, in 80 updates; 200 is the most an episode can bring."""
    env = find_env("envpool:CartPole-v1", {}, 200)
    update = replace(small().update, learning_rate=5e-3, minibatch=256, passes=6, gamma=0.98)
    config = DeepConfig(
        hidden=(32,),
        num_envs=16,
        rollout_length=64,
        updates_per_round=80,
        update=replace(update, value_weight=0.1),
    ).resolve(env, "CartPole-v1", {})
    asked = Evaluation(episodes=16, horizon=200, deterministic=True)
    learner = config.build(env, env, asked)
    _, metrics = epoch(learner, learner.init(0), np.inf)
    assert metrics["return_mean"][0] > 150


# The table


def test_a_row_is_under_its_own_name_and_its_default_names_it():
    for name, row in ALGORITHMS.items():
        assert row.name == name == row.default.name


def test_the_default_update_is_the_papers():
    default = ALGORITHMS["ppo"].settings(preset="paper-depth2")
    assert default.hidden == DEPTHS[2]
    assert default.update == PPO()
    # 500 updates of a trajectory by 10 workers, 100 steps each: half a million steps an epoch.
    assert default.num_envs * default.rollout_length * default.updates_per_round == 500_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", ()),
        ("hidden", (8, 0)),
        ("num_envs", 0),
        ("rollout_length", 0),
        ("rounds", 0),
        ("updates_per_round", -1),
    ],
)
def test_a_bad_setting_is_refused_with_its_name_and_value(name, value):
    with pytest.raises(ValueError) as error:
        replace(ALGORITHMS["ppo"].default, **{name: value})
    assert str(error.value).startswith(f"{name} is {value!r}; it must be ")
