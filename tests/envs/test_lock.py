import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.envs import CombinationLock
from eniac.envs.lock import DEAD


@eqx.filter_jit
def compiled_step(env, seed, t, state, action):
    return env.step(jax.random.fold_in(jax.random.key(seed), t), state, action)


def play(env, lock, wrong_at=None, seed=0):
    """States, observations and rewards of one episode that errs at time `wrong_at`, if ever."""
    state, observation = env.reset(jax.random.key(0))
    states, observations, rewards, ends = [state], [observation], [], []
    for t in range(env.length + 1):
        if t == 0:
            action = 5 * lock
        else:
            action = env.code[lock, t - 1, min(int(state.cell), 1)]
            action = (action + 1) % 10 if t - 1 == wrong_at else action
        result = compiled_step(env, np.uint32(seed), np.int32(t), state, np.int32(action))
        state = result.state
        states.append(state)
        observations.append(np.asarray(result.observation))
        rewards.append(float(result.reward))
        ends.append(bool(result.terminated))
    assert ends == [False] * env.length + [True]
    return states, np.array(observations), np.array(rewards)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("length", [2, 5, 10])
def test_the_right_codes_return_4_in_the_good_lock_and_1_in_the_other(length, seed):
    env = CombinationLock(length, seed)
    for lock, prize in ((env.good_lock, 5), (1 - env.good_lock, 2)):
        _, _, rewards = play(env, lock)
        np.testing.assert_allclose(
            rewards, [0] + [-1 / (length - 1)] * (length - 1) + [prize], rtol=1e-6
        )
        assert rewards.sum() == pytest.approx(prize - 1)


def test_a_wrong_digit_pays_nothing_and_is_for_good():
    env = CombinationLock(5)
    for wrong_at in range(5):
        states, _, rewards = play(env, env.good_lock, wrong_at)
        np.testing.assert_allclose(rewards[1 : wrong_at + 1], -0.25)
        assert np.all(rewards[wrong_at + 1 :] == 0)
        assert [int(s.cell) for s in states[wrong_at + 2 :]] == [DEAD] * (5 - wrong_at)


def test_observation_is_cell_then_time_then_zeros_then_lock():
    length = 4
    env = CombinationLock(length)
    states, observations, _ = play(env, lock=1, wrong_at=2)
    assert observations.shape == (length + 2, 2 * length + 5)
    assert np.all(observations[0] == 0)
    for t in range(length + 1):
        expected = np.zeros(2 * length + 5)
        expected[int(states[t + 1].cell)] = 1
        expected[3 + t] = 1
        expected[-1] = 1
        np.testing.assert_array_equal(observations[t + 1], expected)
    assert play(env, lock=0)[1][:, -1].sum() == 0


def test_actions_below_5_choose_lock_0_and_the_others_lock_1():
    env = CombinationLock(3)
    state, _ = env.reset(jax.random.key(0))
    locks = jax.vmap(lambda a: env.step(jax.random.key(0), state, a).state.lock)(np.arange(10))
    assert locks.tolist() == [0] * 5 + [1] * 5


def test_the_good_cells_are_entered_and_swapped_by_a_fair_coin():
    env = CombinationLock(2)
    choice, _ = env.reset(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 10_000)
    started = jax.vmap(lambda key: env.step(key, choice, jnp.asarray(0)).state)(keys)
    inside = jax.tree.map(lambda x: x[0], started)
    right = env.code[0, 0, int(inside.cell)]
    moved = jax.vmap(lambda key: env.step(key, inside, jnp.asarray(right)).state)(keys)
    for cells in (started.cell, moved.cell):
        assert set(np.asarray(cells).tolist()) == {0, 1}
        # Four standard deviations of the mean of 10,000 fair coins.
        assert abs(np.mean(cells) - 0.5) < 4 * 0.5 / 100


def test_codes_are_drawn_with_the_seed_and_independent_of_each_other():
    assert CombinationLock(6, 3) == CombinationLock(6, 3)
    codes = np.stack([CombinationLock(10, seed).code for seed in range(200)])
    assert codes.min() == 0
    assert codes.max() == 9
    # Independent digits agree with probability 1/10: four standard deviations of 4,000 digits.
    for one, other in ((codes[:, 0], codes[:, 1]), (codes[:-1], codes[1:])):
        share = np.mean(one == other)
        assert abs(share - 0.1) < 4 * np.sqrt(0.09 / one.size)


def test_the_parity_of_the_seed_decides_the_good_lock():
    assert [CombinationLock(3, seed).good_lock for seed in range(4)] == [0, 1, 0, 1]


@pytest.mark.parametrize(("arguments", "name"), [((1,), "length"), ((3, -1), "seed")])
def test_wrong_arguments_are_refused_by_name(arguments, name):
    with pytest.raises(ValueError, match=f"{name} is"):
        CombinationLock(*arguments)
