import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.envs import ENVS, DeepSea, chain, make, random_mdp, unwrap
from eniac.envs.deep_sea import DiverState
from eniac.envs.drawing import CORAL, blend
from eniac.envs.lock import LockState
from eniac.envs.mountain_car import CarState

AGENT = np.array([int(CORAL[i : i + 2], 16) for i in (1, 3, 5)])


def agent_at(picture):
    """The middle (x, y) of the pixels that have the agent's colour."""
    rows, columns = np.nonzero(np.all(np.abs(picture.astype(int) - AGENT) <= 2, axis=-1))
    assert len(rows) > 0
    return columns.mean(), rows.mean()


@pytest.mark.parametrize("id", ENVS)
def test_every_environment_draws_its_start_no_larger_than_a_window(id):
    env = make(id)
    picture = env.render(env.reset(jax.random.key(0))[0])
    height, width, channels = picture.shape
    assert picture.dtype == np.uint8
    assert channels == 3
    assert 100 <= height <= 480
    assert 100 <= width <= 800
    agent_at(picture)


def test_the_car_is_drawn_where_it_is():
    env = unwrap(make("MountainCarContinuous-v0"))
    where = [agent_at(env.render(CarState(p, 0.0))) for p in (-1.1, -0.52, 0.4)]
    xs, ys = zip(*where, strict=True)
    assert list(xs) == sorted(xs)
    assert ys[1] > max(ys[0], ys[2])  # the valley is below both slopes


def test_the_diver_is_drawn_in_its_cell_and_on_the_floor_at_the_end():
    env = DeepSea(5)
    xs, ys = zip(*(agent_at(env.render(DiverState(i, i))) for i in range(5)), strict=True)
    np.testing.assert_allclose(np.diff(xs), 48, atol=0.5)
    np.testing.assert_allclose(np.diff(ys), 48, atol=0.5)
    assert agent_at(env.render(DiverState(5, 3)))[1] > ys[-1] + 24


def test_the_lock_draws_choice_lanes_and_prize_apart():
    env = make("CombinationLock-4")
    states = [(0, 0, 0), (1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 1, 0), (5, 1, 0), (5, 1, 2)]
    places = [agent_at(env.render(LockState(*state))) for state in states]
    assert len({(round(x), round(y)) for x, y in places}) == len(states)


@pytest.mark.parametrize("env", [chain(2), chain(24), random_mdp(0, 30, 7, 3), random_mdp(0, 60)])
def test_tables_of_any_size_show_every_state_in_a_place_of_its_own(env):
    places = [agent_at(env.render(jnp.int32(s))) for s in range(0, env.num_states, 6)]
    assert len({(round(x), round(y)) for x, y in places}) == len(places)


def test_blend_goes_from_one_colour_to_the_other():
    assert [blend("#000000", "#ff8040", t) for t in (0, 0.5, 1)] == [
        "#000000",
        "#804020",
        "#ff8040",
    ]
