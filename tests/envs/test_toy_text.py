"""Exact tables of gymnasium's toy_text, against play."""

import gymnasium
import numpy as np
import pytest

from eniac.envs.mdp import TabularMDP
from eniac.envs.toy_text import tabular_from_gymnasium
from eniac.errors import ConfigError

CASES = [
    ("FrozenLake-v1", {}),
    ("FrozenLake-v1", {"is_slippery": False, "map_name": "8x8"}),
    ("CliffWalking-v1", {}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("Taxi-v4", {}),
    ("Taxi-v4", {"is_rainy": True}),
]


@pytest.mark.parametrize(("id", "options"), CASES, ids=str)
def test_the_table_is_what_play_shows(id, options):
    env = gymnasium.make(id, **options)
    tables = tabular_from_gymnasium(env)
    n, num_actions = env.observation_space.n, env.action_space.n
    assert tables.transition.shape == (n + 1, num_actions, n + 1)
    assert all(table.dtype == np.float64 for table in tables)
    np.testing.assert_allclose(tables.transition.sum(-1), 1, atol=1e-12)
    rng = np.random.default_rng(0)
    # From chosen states many times: the frequencies and mean rewards must be the table's.
    starts = np.flatnonzero(tables.start)
    states = {int(env.reset(seed=seed)[0]) for seed in range(4)}
    assert states <= set(starts.tolist())
    # States that play reaches, and never one past an end.
    state, _ = env.reset(seed=1)
    for _ in range(60):
        states.add(int(state))
        state, _, terminated, truncated, _ = env.step(int(rng.integers(num_actions)))
        if terminated or truncated:
            state, _ = env.reset()
    repeats = 300
    for state in sorted(states)[:6]:
        for action in range(num_actions):
            counts, total = np.zeros(n + 1), 0.0
            for _ in range(repeats):
                env.reset()
                env.unwrapped.s = state
                following, reward, terminated, _, _ = env.step(action)
                counts[n if terminated else following] += 1
                total += float(reward)
            expected = tables.transition[state, action]
            assert not counts[expected == 0].any()
            np.testing.assert_allclose(counts / repeats, expected, atol=0.15)
            spread = 0.15 * np.abs(np.array([r for _, _, r, _ in env.unwrapped.P[state][action]]))
            assert abs(total / repeats - tables.reward[state, action]) <= spread.max() + 1e-9


@pytest.mark.parametrize(("id", "options"), CASES, ids=str)
def test_the_tables_make_an_mdp_of_ours_whose_last_state_ends_it(id, options):
    env = gymnasium.make(id, **options)
    tables = tabular_from_gymnasium(env)
    terminal = np.arange(len(tables.start)) == len(tables.start) - 1
    TabularMDP(*tables, terminal=terminal)  # which checks that the last state is absorbing


def test_a_known_value_comes_out():
    # The shortest way along the cliff takes 13 steps of reward -1.
    tables = tabular_from_gymnasium(gymnasium.make("CliffWalking-v1"))
    value = np.zeros(len(tables.start))
    for _ in range(100):
        value = (tables.reward + tables.transition @ value).max(1)
    assert tables.start @ value == -13
    # FrozenLake 4x4: reached with probability 14/17 by the best policy, without a limit in time.
    tables = tabular_from_gymnasium(gymnasium.make("FrozenLake-v1"))
    value = np.zeros(len(tables.start))
    for _ in range(5000):
        value = (tables.reward + tables.transition @ value).max(1)
    assert tables.start @ value == pytest.approx(14 / 17, abs=1e-6)


def test_what_has_no_exact_table_has_none():
    assert tabular_from_gymnasium(gymnasium.make("Blackjack-v1")) is None
    assert tabular_from_gymnasium(gymnasium.make("CartPole-v1")) is None
    assert tabular_from_gymnasium(gymnasium.make("Taxi-v4", fickle_passenger=True)) is None
    changed = gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda r: 2 * r)
    assert tabular_from_gymnasium(changed) is None
    env = gymnasium.make("FrozenLake-v1")
    env.unwrapped.P[3][1] = [(0.5, 0, 0.0, False)]
    with pytest.raises(ConfigError, match=r"P\[3, 1\] sums to 0.5, not to 1"):
        tabular_from_gymnasium(env)
