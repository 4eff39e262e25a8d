"""First visits within an episode, against a slow loop that remembers a set."""

from dataclasses import dataclass, replace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from eniac.algorithms import ALGORITHMS
from eniac.bonuses.base import Bonus, BonusRule
from eniac.envs.names import env_from
from eniac.sampling.base import Evaluation
from eniac.visits import first_visits
from pairs import rollout

TIME, ENVS = 40, 6


def visits(seed, observation, on_policy=None):
    ends = np.random.default_rng(seed).random((2, TIME, ENVS)) < 0.05
    return rollout(observation, jnp.zeros((TIME, ENVS), jnp.int32), ends, on_policy)


def slowly(seen):
    leaves = [np.asarray(x).reshape((TIME, ENVS, -1)) for x in jax.tree.leaves(seen.observation)]
    ended = np.asarray(seen.terminated | seen.truncated)
    first = np.zeros((TIME, ENVS), bool)
    for env in range(ENVS):
        met = set()
        for t in range(TIME):
            begins = t > 0 and ended[t - 1, env]
            met = set() if begins else met
            what = tuple(tuple(leaf[t, env].tolist()) for leaf in leaves)
            first[t, env] = what not in met
            if not (begins and not seen.on_policy[t, env]):
                met.add(what)
    return first


def observations(kind, rng):
    """Few enough that many come back."""
    shape = (TIME, ENVS)
    coins = rng.integers(0, 2, (*shape, 2, 2, 1))
    return {
        "bytes": jnp.asarray(coins, jnp.uint8),
        "number": jnp.asarray(rng.integers(-3, 3, shape), jnp.int32),
        "both": {
            "image": jnp.asarray(255 * coins[..., :1, :], jnp.uint8),
            "direction": jnp.asarray(rng.integers(0, 4, shape), jnp.int32),
        },
    }[kind]


@pytest.mark.parametrize("kind", ["bytes", "number", "both"])
@pytest.mark.parametrize("rolls_in", [False, True])
def test_it_is_what_a_set_of_the_episode_says(kind, rolls_in):
    rng = np.random.default_rng(0)
    on_policy = rng.random((TIME, ENVS)) < 0.7 if rolls_in else None
    seen = visits(1, observations(kind, rng), on_policy)
    found = np.asarray(jax.jit(first_visits)(seen))
    np.testing.assert_array_equal(found, slowly(seen))
    assert 0.2 < found.mean() < 0.9
    # Where Python steps the environments they come as NumPy's.
    np.testing.assert_array_equal(first_visits(jax.tree.map(np.asarray, seen)), found)


class Pays(Bonus):
    """2 for every pair."""

    def __call__(self, observation, action):
        del observation, action
        return jnp.asarray(2.0)


@dataclass(frozen=True)
class Always(BonusRule):
    coefficient: float = 2.0

    def init(self, key, spaces, hidden):
        del key, spaces, hidden
        return Pays()


class Coded(gymnasium.Env):
    """Sees three bytes."""

    observation_space = spaces.Box(0, 255, (3,), np.uint8)
    action_space = spaces.Discrete(2)


class Floating(Coded):
    observation_space = spaces.Box(0.0, 255.0, (3,), np.float32)


@pytest.mark.parametrize(
    ("env", "asked", "once"), [(Coded, True, True), (Coded, False, False), (Floating, True, False)]
)
def test_only_first_visits_are_paid_where_observations_have_no_floats(env, asked, once):
    settings = replace(
        ALGORITHMS["eniac"].settings(), bonus=Always(), first_visits=asked, hidden=(4,), num_envs=10
    )
    given = env_from(env)
    settings = settings.resolve(given, "given", {})
    learner = settings.build(given, given, Evaluation(episodes=2))
    rng = np.random.default_rng(3)
    dtype = env.observation_space.dtype
    seen = visits(4, jnp.asarray(rng.integers(0, 2, (TIME, ENVS, 3)), dtype))
    bonus = settings.bonus.init(jax.random.key(0), learner.sampler.spaces, (4,))
    actor = learner.new_actor(jax.random.key(1))
    keys = list(jax.random.split(jax.random.key(2), 3))
    share = slowly(seen).mean() if once else 1.0
    assert share > 0.9 or once
    for explores, expected in ((True, 2 * share), (False, 0.0)):
        shared = (bonus, None, jnp.zeros((), jnp.int32))
        _, _, metrics = learner.learn(keys, actor, shared, seen, jnp.asarray(explores))
        np.testing.assert_allclose(metrics["bonus"], expected, rtol=1e-5)


def test_ours_pay_first_visits_and_the_papers_every_one():
    for name in ("eniac", "pc-pg"):
        assert ALGORITHMS[name].settings().first_visits
        assert not ALGORITHMS[name].settings(preset="paper-depth2").first_visits
