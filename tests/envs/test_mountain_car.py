import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.envs.classic_control.continuous_mountain_car import Continuous_MountainCarEnv

from eniac.envs import MountainCarContinuous, make
from eniac.envs.mountain_car import CarState

# Gymnasium keeps float32 states but takes the cosine in float64. Rounding the cosine, and fusing
# a product with a sum, each can move a float32 result by one unit in the last place: 2^-27 for
# velocities up to 0.07, 2^-23 for positions up to 1.2 in size, 2^-17 for rewards near 100.
VELOCITY_TOLERANCE = 2.0**-27
POSITION_TOLERANCE = 2.0**-23
REWARD_TOLERANCE = 2.0**-17


def theirs(state, action, goal_velocity=0.0):
    env = Continuous_MountainCarEnv(goal_velocity=goal_velocity)
    env.state = np.array(state, np.float32)
    observation, reward, terminated, truncated, _ = env.step(np.array([action], np.float32))
    assert not truncated
    return observation, float(reward), terminated


@functools.cache
def compiled_step(goal_velocity):
    return jax.jit(MountainCarContinuous(goal_velocity).step)


def ours(state, action, goal_velocity=0.0):
    position, velocity = (jnp.float32(x) for x in state)
    step = compiled_step(goal_velocity)(
        jax.random.key(0), CarState(position, velocity), jnp.array([action], jnp.float32)
    )
    assert not step.truncated
    assert np.array_equal(step.observation, jnp.stack(step.state))
    return np.asarray(step.observation), float(step.reward), bool(step.terminated)


def assert_same(mine, gymnasiums):
    np.testing.assert_allclose(mine[0][0], gymnasiums[0][0], rtol=0, atol=POSITION_TOLERANCE)
    np.testing.assert_allclose(mine[0][1], gymnasiums[0][1], rtol=0, atol=VELOCITY_TOLERANCE)
    np.testing.assert_allclose(mine[1], gymnasiums[1], rtol=0, atol=REWARD_TOLERANCE)
    assert mine[2] == gymnasiums[2]


BOUNDARY_STATES = {
    "at the left wall, at rest": (-1.2, 0.0),
    "at the left wall, moving into it": (-1.2, -0.03),
    "at the left wall, moving away": (-1.2, 0.03),
    "into the left wall at full speed": (-1.17, -0.07),
    "just short of the left wall": (-1.19, -0.005),
    "at the right wall, at full speed": (0.6, 0.07),
    "into the right wall": (0.58, 0.06),
    "at the right wall, moving back": (0.6, -0.02),
    "at full speed to the right": (-0.9, 0.07),
    "at full speed to the left": (-0.1, -0.07),
    "a touch below full speed to the right": (-0.9, 0.0699),
    "a touch below full speed to the left": (-0.1, -0.0699),
    "passing the flag": (0.44, 0.05),
    "just short of the flag": (0.44, 0.001),
    "at the flag, at rest": (0.45, 0.0),
    "past the flag, rolling back": (0.52, -0.01),
    "at the bottom, at rest": (-np.pi / 6, 0.0),
}


@pytest.mark.parametrize("action", [-3.0, -1.0, -0.2, 0.0, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("state", BOUNDARY_STATES.values(), ids=BOUNDARY_STATES.keys())
def test_step_from_a_boundary_equals_gymnasium(state, action):
    assert_same(ours(state, action), theirs(state, action))


def test_step_equals_gymnasium_on_a_grid_of_states_and_actions():
    positions = np.linspace(-1.2, 0.6, 37, dtype=np.float32)
    velocities = np.linspace(-0.07, 0.07, 29, dtype=np.float32)
    actions = np.linspace(-1.4, 1.4, 8, dtype=np.float32)
    p, v, a = (x.ravel() for x in np.meshgrid(positions, velocities, actions, indexing="ij"))
    env = MountainCarContinuous()
    key = jax.random.key(0)
    step = jax.jit(jax.vmap(lambda p, v, a: env.step(key, CarState(p, v), a[None])))(p, v, a)
    reference = Continuous_MountainCarEnv()
    expected = []
    for state, action in zip(np.stack([p, v], 1), a, strict=True):
        reference.state = state
        observation, reward, terminated, _, _ = reference.step(action[None])
        expected.append((*observation, reward, terminated))
    position, velocity, reward, terminated = (np.array(x) for x in zip(*expected, strict=True))
    np.testing.assert_allclose(step.state.position, position, rtol=0, atol=POSITION_TOLERANCE)
    np.testing.assert_allclose(step.state.velocity, velocity, rtol=0, atol=VELOCITY_TOLERANCE)
    np.testing.assert_allclose(step.reward, reward, rtol=0, atol=REWARD_TOLERANCE)
    np.testing.assert_array_equal(step.terminated, terminated)
    assert terminated.any()
    assert not terminated.all()


@pytest.mark.parametrize("goal_velocity", [0.0, 0.02, 0.05])
@pytest.mark.parametrize("velocity", [-0.02, 0.0, 0.01, 0.03, 0.06])
def test_goal_velocity_counts_as_in_gymnasium(velocity, goal_velocity):
    state = (0.5, velocity)
    assert_same(ours(state, 0.3, goal_velocity), theirs(state, 0.3, goal_velocity))


def test_left_wall_stops_the_car():
    (position, velocity), _, _ = ours((-1.19, -0.05), 0.0)
    assert position == np.float32(-1.2)
    assert velocity == 0


def test_reward_charges_for_the_action_as_given_while_the_force_is_clipped():
    inside, outside = ours((-0.5, 0.0), 1.0), ours((-0.5, 0.0), 2.0)
    np.testing.assert_array_equal(inside[0], outside[0])
    assert inside[1] == pytest.approx(-0.1)
    assert outside[1] == pytest.approx(-0.4)


def test_an_episode_of_energy_pumping_follows_gymnasium_to_the_flag():
    # Rounding errors grow from step to step: 1e-5 is a hundred times the error of one step, and
    # a thousandth of the distance that a wrong sign or a missed clip makes.
    env, reference = MountainCarContinuous(), Continuous_MountainCarEnv()
    step = jax.jit(env.step)
    state, observation = env.reset(jax.random.key(3))
    reference.state = np.asarray(observation)
    num_steps, terminated = 0, False
    while not terminated and num_steps < 999:
        action = np.array([np.sign(observation[1]) or 1.0], np.float32)
        result = step(jax.random.key(0), state, action)
        expected, reward, terminated, _, _ = reference.step(action)
        state, observation = result.state, np.asarray(result.observation)
        np.testing.assert_allclose(observation, expected, rtol=0, atol=1e-5)
        assert float(result.reward) == pytest.approx(reward, abs=REWARD_TOLERANCE)
        assert bool(result.terminated) == terminated
        num_steps += 1
    assert terminated
    assert 50 < num_steps < 200


def test_reset_is_at_rest_and_uniform_between_minus_0_6_and_minus_0_4():
    keys = jax.random.split(jax.random.key(0), 20_000)
    state, observation = jax.vmap(MountainCarContinuous().reset)(keys)
    assert np.all(np.asarray(state.velocity) == 0)
    np.testing.assert_array_equal(observation[:, 0], state.position)
    deciles = np.quantile(np.asarray(state.position), np.linspace(0, 1, 11))
    # The standard error of a quantile is at most 0.2 * 0.5 / sqrt(20000) = 0.0007.
    np.testing.assert_allclose(deciles, np.linspace(-0.6, -0.4, 11), atol=0.003)


def test_spaces_and_time_limit_are_gymnasiums():
    mine, reference = make("MountainCarContinuous-v0"), gymnasium.make("MountainCarContinuous-v0")
    assert mine.observation_space == reference.observation_space
    assert mine.action_space == reference.action_space
    assert mine.horizon == reference.spec.max_episode_steps


def test_infinite_goal_velocity_is_refused():
    with pytest.raises(ValueError, match="goal_velocity is inf"):
        MountainCarContinuous(goal_velocity=float("inf"))
