import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eniac.envs import (
    LinearMDP,
    TabularMDP,
    chain,
    random_linear_mdp,
    random_mdp,
    river_swim,
)
from eniac.envs.exact import cumulative, draw
from planning_by_hand import optimal_values

STAY = np.eye(2)[:, None, :]  # two states, one action, nothing moves


def test_theory_reads_back_the_very_float64_numbers_it_gave():
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(3), size=(3, 2))
    reward, start = rng.normal(size=(3, 2)), rng.dirichlet(np.ones(3))
    mdp = TabularMDP(transition, reward, start)
    for mine, given in ((mdp.transition, transition), (mdp.reward, reward), (mdp.start, start)):
        assert mine.dtype == np.float64
        np.testing.assert_array_equal(mine, given)


def test_arrays_are_copies_that_nobody_can_change():
    reward = np.zeros((2, 1))
    mdp = TabularMDP(STAY, reward, [1, 0])
    reward[0, 0] = 7
    assert mdp.reward[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        mdp.reward[0, 0] = 7


def test_equal_mdps_are_equal_and_share_a_compilation():
    traces = []

    @eqx.filter_jit
    def reset(mdp, key):
        traces.append(mdp)
        return mdp.reset(key)

    assert river_swim() == river_swim()
    assert hash(river_swim()) == hash(river_swim())
    assert river_swim(6) != river_swim(7)
    assert random_mdp(0) != random_mdp(1)
    for mdp in (river_swim(), river_swim(), chain(6)):
        reset(mdp, jax.random.key(0))
    assert len(traces) == 2


def test_a_state_of_probability_zero_is_never_drawn():
    # The row does not sum to one in float32, and begins and ends with impossible outcomes.
    row = np.array([0, 0.1, 0, 0.2, 0.7 - 5e-8, 0, 0])
    keys = jax.random.split(jax.random.key(0), 100_000)
    drawn = np.asarray(jax.vmap(lambda key: draw(key, jnp.asarray(cumulative(row))))(keys))
    assert set(drawn.tolist()) == {1, 3, 4}
    assert np.all(cumulative(row)[4:] == 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transition": np.ones((2, 2))}, "transition has shape (2, 2); expected [states"),
        ({"transition": np.ones((2, 1, 3)) / 3}, "transition has shape (2, 1, 3)"),
        ({"reward": np.zeros(2)}, "reward has shape (2,); expected [states, actions] = (2, 1)"),
        ({"start": [1.0]}, "start has shape (1,); expected [states] = (2,)"),
        ({"start": [0.5, 0.4]}, "start sums to 0.9"),
        ({"start": [1.5, -0.5]}, "start[1] is -0.5"),
        ({"transition": 0.8 * STAY}, "row [0, 0] of transition sums to 0.8"),
        ({"transition": [[[1, 0]], [[0.3, 0.4]]]}, "row [1, 0] of transition sums to 0.7"),
        ({"transition": [[[2, -1]], [[0, 1]]]}, "transition[0, 0, 1] is -1.0"),
        ({"transition": [[[np.nan, 1]], [[0, 1]]]}, "transition[0, 0, 0] is nan"),
        ({"reward": [[np.inf], [0]]}, "reward[0, 0] is inf"),
        ({"terminal": [True]}, "terminal has shape (1,); expected (2,)"),
        ({"terminal": [True, False]}, "terminal state 0 begins with probability 1.0"),
        ({"terminal": [False, True], "reward": [[0], [1]]}, "terminal state 1 pays [1.0]"),
        (
            {"terminal": [False, True], "transition": STAY[::-1]},
            "terminal state 1 can be left",
        ),
    ],
)
def test_a_wrong_mdp_is_refused_by_name(change, message):
    arguments = {"transition": STAY, "reward": np.zeros((2, 1)), "start": [1, 0], **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        TabularMDP(**arguments)


def test_entering_a_terminal_state_terminates():
    transition = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    mdp = TabularMDP(transition, [[3.0], [0.0]], [1, 0], [False, True])
    first = jnp.asarray(0)
    step = mdp.step(jax.random.key(0), mdp.reset(jax.random.key(0))[0], first)
    assert step.terminated
    assert step.reward == 3
    unending = TabularMDP(transition, [[3.0], [0.0]], [1, 0])
    assert not unending.step(jax.random.key(0), first, first).terminated


@pytest.mark.parametrize("length", [2, 5, 9])
def test_chain_is_worth_the_walk(length):
    # Walking right pays 1 for ever from step length - 1 on.
    gamma = 0.9
    mdp = chain(length)
    assert mdp.start @ optimal_values(mdp, gamma) == pytest.approx(
        gamma ** (length - 1) / (1 - gamma)
    )


def test_chain_lures_with_the_reward_it_is_given():
    assert chain(4, lure=0.25).reward.tolist() == [[0.25, 0], [0, 0], [0, 0], [0, 1]]


def test_river_swim_is_strehl_and_littmans():
    mdp = river_swim()
    swim = mdp.transition[:, 1]
    np.testing.assert_array_equal(swim.diagonal(), [0.7, 0.6, 0.6, 0.6, 0.6, 0.3])
    np.testing.assert_array_equal(swim.diagonal(1), [0.3] * 5)
    np.testing.assert_array_equal(swim.diagonal(-1), [0.1] * 4 + [0.7])
    np.testing.assert_array_equal(mdp.transition[:, 0].argmax(1), [0, 0, 1, 2, 3, 4])
    np.testing.assert_array_equal(mdp.start, [0, 0.5, 0.5, 0, 0, 0])
    assert mdp.reward[0].tolist() == [0.0005, 0]
    assert mdp.reward[5].tolist() == [0, 1]
    assert mdp.reward.sum() == 1.0005


def test_in_river_swim_it_is_best_to_swim_everywhere():
    mdp = river_swim()
    v = optimal_values(mdp, 0.95)
    assert np.all((mdp.reward + 0.95 * mdp.transition @ v).argmax(1) == 1)


def test_random_mdp_is_its_seed_and_has_the_successors_asked_for():
    assert random_mdp(3) == random_mdp(3)
    assert random_mdp(jax.random.key(3)) == random_mdp(jax.random.key(3))
    assert random_mdp(jax.random.key(3)) != random_mdp(jax.random.key(4))
    mdp = random_mdp(0, num_states=7, num_actions=3, num_successors=2)
    assert np.all((mdp.transition > 0).sum(-1) == 2)
    assert mdp.reward.min() >= 0
    assert mdp.reward.max() <= 1


def test_linear_mdp_is_exactly_linear_in_its_features():
    env = random_linear_mdp(0, num_states=12, num_actions=3, dim=4)
    assert env.features.shape == (12, 3, 4)
    np.testing.assert_array_equal(env.mdp.transition, env.features @ env.measures)
    np.testing.assert_array_equal(env.mdp.reward, env.features @ env.theta)
    assert np.linalg.matrix_rank(env.mdp.transition.reshape(36, 12)) == 4


def test_action_values_of_a_linear_mdp_lie_in_the_span_of_its_features():
    env = random_linear_mdp(1)
    mdp = env.tabular()
    v = optimal_values(mdp, 0.9)
    q = (mdp.reward + 0.9 * mdp.transition @ v).ravel()
    features = env.features.reshape(len(q), -1)
    weights = np.linalg.lstsq(features, q, rcond=None)[0]
    np.testing.assert_allclose(features @ weights, q, rtol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 1)), np.eye(2), [0, 0], [1, 0]), "features has shape (2, 1)"),
        ((np.ones((2, 1, 1)), np.eye(2), [0], [1, 0]), "measures has shape (2, 2)"),
        ((np.ones((2, 1, 1)), [[1, 0]], [0, 0], [1, 0]), "theta has shape (2,)"),
        ((2 * np.ones((2, 1, 1)), [[1, 0]], [0], [1, 0]), "row [0, 0] of features sums to 2.0"),
        ((np.ones((2, 1, 1)), [[1, 1]], [0], [1, 0]), "row [0] of measures sums to 2.0"),
    ],
)
def test_a_wrong_linear_mdp_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LinearMDP(*arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chain(1), "length is 1"),
        (lambda: river_swim(2), "num_states is 2"),
        (lambda: random_mdp(0, num_states=0), "num_states is 0"),
        (lambda: random_mdp(0, num_states=2.5), "num_states is 2.5"),
        (lambda: random_mdp(-1), "seed is -1"),
        (lambda: random_mdp(0, num_states=3, num_successors=4), "num_successors is 4, more than"),
        (lambda: random_linear_mdp(0, dim=0), "dim is 0"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_sizes_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
