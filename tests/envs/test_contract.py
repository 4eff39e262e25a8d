"""What every environment promises, tested on every one of the table, and on the probes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from eniac.envs import ENVS, DeepSea, LogisticMDP, TimeLimit, make, tabular, unwrap
from planning_by_hand import optimal_action_values, optimal_values
from probes import PROBES, ConstantValue

SMALL = {
    "DeepSea-v0": {"size": 4},
    "CombinationLock-v0": {"length": 3},
    "RandomMDP-v0": {"num_states": 5, "num_actions": 3, "num_successors": 3},
    "LinearMDP-v0": {"num_states": 6, "num_actions": 2, "dim": 3},
    "LogisticMDP-v0": {"num_contexts": 2, "num_actions": 3, "dim": 2},
}
ENVIRONMENTS = {id: make(id, **SMALL.get(id, {})) for id in ENVS}
TABULAR = {id: env for id, env in ENVIRONMENTS.items() if id != "MountainCarContinuous-v0"}
EVERY = {**ENVIRONMENTS, **{name: probe() for name, probe in PROBES.items()}}

every = pytest.mark.parametrize("env", EVERY.values(), ids=EVERY.keys())
every_registered = pytest.mark.parametrize("env", ENVIRONMENTS.values(), ids=ENVIRONMENTS.keys())
every_tabular = pytest.mark.parametrize("env", TABULAR.values(), ids=TABULAR.keys())


def sample_actions(env, count):
    env_space = env.action_space
    env_space.seed(0)
    return jnp.asarray(np.stack([env_space.sample() for _ in range(count)]))


def assert_fits(observation, space):
    """In the space, and of its type; of 32 bits where gymnasium counts in 64."""
    assert observation.shape == space.shape
    expected = np.int32 if space.dtype == np.int64 else space.dtype
    assert observation.dtype == expected
    assert space.contains(np.asarray(observation).astype(space.dtype))


def assert_trees_equal(one, other, rtol=0.0):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


@every
def test_shapes_and_types_fit_the_spaces_and_stay_so(env):
    state, observation = env.reset(jax.random.key(0))
    assert_fits(observation, env.observation_space)
    signature = jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), state)
    compiled = jax.jit(env.step)
    for t, action in enumerate(sample_actions(env, 5)):
        step = compiled(jax.random.key(t), state, action)
        assert_fits(step.observation, env.observation_space)
        assert (step.reward.shape, step.reward.dtype) == ((), jnp.float32)
        assert not step.reward.weak_type
        for flag in (step.terminated, step.truncated):
            assert (flag.shape, flag.dtype) == ((), jnp.bool_)
        # A state that keeps its type can be carried through lax.scan.
        assert jax.tree.map(lambda x: (x.shape, x.dtype, x.weak_type), step.state) == signature
        state = env.reset(jax.random.key(t))[0] if step.terminated else step.state


@every
def test_functions_are_pure_and_the_same_compiled_and_batched(env):
    keys = jax.random.split(jax.random.key(1), 2)
    actions = sample_actions(env, 2)
    starts = jax.jit(jax.vmap(env.reset))(keys)
    batch = jax.jit(jax.vmap(env.step))(keys, starts[0], actions)
    # Compiled and vectorised cosines may differ in the last bits of a float32.
    for i, key in enumerate(keys):
        state, observation = env.reset(key)
        assert_trees_equal((state, observation), env.reset(key))
        assert_trees_equal((state, observation), jax.tree.map(lambda x: x[i], starts), 1e-6)  # noqa: B023
        step = env.step(key, state, actions[i])
        assert_trees_equal(step, env.step(key, state, actions[i]))
        assert_trees_equal(step, jax.tree.map(lambda x: x[i], batch), 1e-6)  # noqa: B023


@every
def test_an_environment_can_be_passed_through_a_compiled_function(env):
    reset = eqx.filter_jit(lambda env, key: env.reset(key))
    assert_trees_equal(reset(env, jax.random.key(0)), env.reset(jax.random.key(0)), 1e-6)
    hash(env)  # needed by jax.jit(env.step); raises if there is a JAX array inside


@every_registered
def test_time_limit_truncates_at_exactly_its_horizon(env):
    # Shorter than any episode: those of the logistic MDP have two steps.
    horizon = 1 if isinstance(unwrap(env), LogisticMDP) else 3
    limited = TimeLimit(unwrap(env), horizon)
    compiled = jax.jit(limited.step)
    state, _ = limited.reset(jax.random.key(0))
    truncated = []
    for t, action in enumerate(sample_actions(env, horizon)):
        step = compiled(jax.random.key(t), state, action)
        state = step.state
        truncated.append(bool(step.truncated))
        assert not step.terminated
    assert truncated == [False] * (horizon - 1) + [True]


@pytest.mark.parametrize(
    ("env", "steps"), [(DeepSea(3), 3), (ConstantValue(), 1), (make("CombinationLock-2"), 3)]
)
def test_a_step_that_terminates_is_not_truncated_as_well(env, steps):
    limited = TimeLimit(env, steps)
    state, _ = limited.reset(jax.random.key(0))
    for t in range(steps):
        step = limited.step(jax.random.key(t), state, jnp.int32(0))
        state = step.state
        assert bool(step.terminated) == (t == steps - 1)
        assert not step.truncated


def test_a_time_limit_below_one_step_is_refused():
    with pytest.raises(ValueError, match="horizon is 0"):
        make("Chain-v0", horizon=0)


def play(env, greedy, num_episodes, num_steps):
    """Transitions (s, a, s', r, terminated) by number, half greedy and half uniformly random."""
    greedy = jnp.asarray(greedy)
    rng = np.random.default_rng(7)
    random = rng.integers(env.action_space.n, size=(num_steps, num_episodes))
    random[rng.uniform(size=random.shape) < 0.5] = -1  # these are greedy
    keys = jax.random.split(jax.random.key(7), (num_steps + 1, num_episodes))

    def advance(carry, inputs):
        (state, alive), (key, action) = carry, inputs
        here = env.index(state)
        action = jnp.where(action < 0, greedy[here], action)
        step = env.step(key, state, action)
        seen = (here, action, env.index(step.state), step.reward, step.terminated, alive)
        return (step.state, alive & ~step.terminated), seen

    starts = jax.vmap(lambda key: env.reset(key)[0])(keys[0])
    carry = (starts, np.ones(num_episodes, bool))
    inputs = (keys[1:], random.astype(np.int32))
    _, seen = jax.jit(lambda c, x: jax.lax.scan(jax.vmap(advance), c, x))(carry, inputs)
    *columns, alive = (np.asarray(x).ravel() for x in seen)
    return np.asarray(jax.vmap(env.index)(starts)), [column[alive] for column in columns]


def chi_squared(counts, probabilities):
    """The p-value of counts against distributions, rows with at least 5 expected everywhere."""
    expected = counts.sum(-1, keepdims=True) * probabilities
    possible = probabilities > 0
    rows = np.all((expected >= 5) | ~possible, axis=-1) & (counts.sum(-1) > 0)
    observed, expected, possible = counts[rows], expected[rows], possible[rows]
    statistic = np.sum((observed - expected)[possible] ** 2 / expected[possible])
    freedom = np.sum(possible) - len(observed)
    return 1.0 if freedom == 0 else scipy.stats.chi2.sf(statistic, freedom)


@every_tabular
def test_play_agrees_with_the_exact_table(env):
    mdp = tabular(env)
    values = optimal_values(mdp, 0.95, 300)
    greedy = optimal_action_values(mdp, values, 0.95).argmax(1)
    starts, (s, a, following, reward, terminated) = play(env, greedy, 4000, 12)
    assert np.all(mdp.transition[s, a, following] > 0)
    np.testing.assert_allclose(reward, mdp.reward[s, a], rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(terminated, mdp.terminal[following])

    counts = np.zeros_like(mdp.transition)
    np.add.at(counts, (s, a, following), 1)
    # One false alarm in a thousand if the seed were not fixed; a probability that is wrong by a
    # few hundredths in one row already gives a p-value below 1e-6.
    assert chi_squared(counts, mdp.transition) > 1e-3
    started = np.bincount(starts, minlength=mdp.num_states)
    assert np.all(mdp.start[started > 0] > 0)
    assert chi_squared(started[None], mdp.start[None]) > 1e-3
    # Play that did not get anywhere would agree with any table.
    reachable = mdp.start > 0
    for _ in range(mdp.num_states):
        reachable = reachable | (mdp.transition[reachable].sum((0, 1)) > 0)
    np.testing.assert_array_equal(counts.sum((1, 2)) > 0, reachable & ~mdp.terminal)


@pytest.mark.parametrize("size", [1, 3, 10])
def test_best_value_of_deep_sea_is_0_99(size):
    mdp = tabular(DeepSea(size))
    assert mdp.start @ optimal_values(mdp, num_iterations=size) == pytest.approx(0.99, abs=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("length", [2, 5, 10])
def test_best_value_of_the_lock_is_4_and_it_is_the_good_one(length, seed):
    env = make(f"CombinationLock-{length}", seed=seed)
    mdp = env.tabular()
    values = optimal_values(mdp, num_iterations=length + 1)
    assert mdp.start @ values == pytest.approx(4.0, abs=1e-12)
    by_choice = optimal_action_values(mdp, values)[0]
    good = (np.arange(10) >= 5) == bool(env.good_lock)
    np.testing.assert_allclose(by_choice[good], 4.0, atol=1e-12)
    np.testing.assert_allclose(by_choice[~good], 1.0, atol=1e-12)


def test_mountain_car_says_that_it_has_no_table():
    with pytest.raises(NotImplementedError, match="MountainCarContinuous has no exact tabular"):
        tabular("MountainCarContinuous-v0")
