import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import eniac
from eniac.envs import ENVS, DeepSea, TimeLimit, make
from eniac.envs.gymnasium import GymnasiumEnv
from eniac.envs.gymnasium_plugin import register


def roll(env, seed, actions):
    trace = [env.reset(seed=seed)[0]]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        trace.append((observation, reward, terminated, truncated))
    return trace


@pytest.mark.parametrize("id", ENVS)
def test_every_environment_passes_gymnasiums_own_check(id):
    # Warnings are errors here; gymnasium's logger warns through the warnings module.
    env = gymnasium.make(f"eniac/{id}", render_mode="rgb_array", disable_env_checker=True)
    check_env(env.unwrapped)


@pytest.mark.parametrize("id", ENVS)
def test_the_time_limit_is_gymnasiums_own_and_only_that(id):
    env = gymnasium.make(f"eniac/{id}", max_episode_steps=3)
    assert not isinstance(env.unwrapped.env, TimeLimit)
    trace = roll(env, 0, [env.action_space.sample() for _ in range(3)])
    assert [step[3] for step in trace[1:]] == [False, False, True]
    assert gymnasium.spec(f"eniac/{id}").max_episode_steps == ENVS[id].horizon


def test_an_environment_that_is_given_keeps_its_own_time_limit():
    env = GymnasiumEnv(make("Chain-v0", horizon=2))
    assert [step[3] for step in roll(env, 0, [1, 1])[1:]] == [False, True]


def test_parameters_go_to_the_environment():
    env = gymnasium.make("eniac/CombinationLock-v0", length=10)
    assert env.observation_space.shape == (25,)
    with pytest.raises(TypeError, match="takes no 'size'; it takes length"):
        gymnasium.make("eniac/CombinationLock-v0", size=10)
    with pytest.raises(TypeError, match="size cannot be set on an environment that is made"):
        GymnasiumEnv(DeepSea(3), size=4)


def test_registering_twice_is_harmless():
    before = dict(gymnasium.registry)
    register()
    assert gymnasium.registry == before
    assert eniac.make is make


def test_the_seed_decides_everything_and_no_seed_goes_on():
    env = gymnasium.make("eniac/RiverSwim-v0")
    actions = [1] * 20
    one, same, other = (roll(env, seed, actions) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    env.reset(seed=1)
    assert roll(env, None, actions) != one


def test_observations_are_the_callers_to_change():
    env = gymnasium.make("eniac/DeepSea-v0", size=3)
    observation, _ = env.reset(seed=0)
    observation[:] = 7
    assert env.unwrapped.reset(seed=0)[0].sum() == 1


@pytest.mark.parametrize("action", [2, -1, 0.5, [1]])
def test_an_action_that_does_not_exist_is_refused(action):
    env = GymnasiumEnv("DeepSea-3")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"expected a whole number in Discrete\(2\)"):
        env.step(action)


@pytest.mark.parametrize("action", [0.5, [0.1, 0.2], [np.nan]])
def test_a_force_of_the_wrong_shape_or_not_finite_is_refused(action):
    env = GymnasiumEnv("MountainCarContinuous-v0")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="expected finite numbers in Box"):
        env.step(action)


def test_a_force_outside_the_box_is_taken_as_gymnasiums_car_takes_it():
    env = GymnasiumEnv("MountainCarContinuous-v0")
    env.reset(seed=0)
    assert env.step(np.array([2.0]))[1] == pytest.approx(-0.4)


def test_wrong_order_and_wrong_render_mode_are_refused():
    env = GymnasiumEnv("DeepSea-3", render_mode="rgb_array")
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset before step"):
        env.step(0)
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset before render"):
        env.render()
    with pytest.raises(ValueError, match="render_mode is 'human'; expected None or one of"):
        GymnasiumEnv("DeepSea-3", render_mode="human")
