import jax
import numpy as np
import pytest

from eniac.envs import DeepSea


def dive(env, rights):
    """Observations, rewards and ends of a dive that goes right where `rights` says so."""
    step = jax.jit(env.step)
    state, observation = env.reset(jax.random.key(0))
    observations, rewards, ends = [observation], [], []
    for right in rights:
        mapped = env.right_action[state.row, state.column]
        result = step(jax.random.key(0), state, mapped if right else 1 - mapped)
        state = result.state
        observations.append(result.observation)
        rewards.append(float(result.reward))
        ends.append(bool(result.terminated))
    return np.array(observations), np.array(rewards), ends


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_all_rights_find_the_treasure_and_return_0_99(size):
    observations, rewards, ends = dive(DeepSea(size), [True] * size)
    np.testing.assert_allclose(rewards[:-1], -0.01 / size, rtol=1e-6)
    assert rewards.sum() == pytest.approx(0.99)
    assert ends == [False] * (size - 1) + [True]
    cells = observations[:-1].reshape(size, size, size)
    for t in range(size):
        assert cells[t].sum() == 1
        assert cells[t, t, t] == 1
    assert np.all(observations[-1] == 0)


def test_all_lefts_stay_in_the_first_column_for_nothing():
    observations, rewards, _ = dive(DeepSea(4), [False] * 4)
    assert np.all(rewards == 0)
    assert observations[:-1].reshape(4, 4, 4)[:, :, 0].sum() == 4


def test_one_left_loses_the_treasure():
    for t in range(4):
        rights = np.arange(4) != t
        _, rewards, _ = dive(DeepSea(4), rights)
        assert rewards.sum() == pytest.approx(-0.01 * 3 / 4)


def test_the_mapping_of_actions_is_drawn_with_the_seed():
    assert DeepSea(8, seed=1) == DeepSea(8, seed=1)
    assert DeepSea(8, seed=1) != DeepSea(8, seed=2)
    assert set(DeepSea(8).right_action.ravel().tolist()) == {0, 1}
    assert np.all(DeepSea(8, randomize_actions=False).right_action == 1)


@pytest.mark.parametrize("size", [0, -3, 2.0, True])
@pytest.mark.usefixtures("unchecked")
def test_a_wrong_size_is_refused_by_name(size):
    with pytest.raises(ValueError, match=r"size is .*expected a whole number of 1 or more"):
        DeepSea(size)
