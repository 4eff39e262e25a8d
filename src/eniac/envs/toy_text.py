"""gymnasium's toy_text environments as exact tables: FrozenLake, CliffWalking and Taxi."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np

from eniac.errors import ConfigError

# What gymnasium.make puts around an environment without changing what is observed or paid.
_HARMLESS = (
    gymnasium.wrappers.OrderEnforcing,
    gymnasium.wrappers.PassiveEnvChecker,
    gymnasium.wrappers.TimeLimit,
)


class Tables(NamedTuple):
    """An MDP of `n + 1` states in float64, where the environment observes `n`.

    State s < n is observed as s. The last state stands for "the episode has terminated": whatever
    terminates leads there, nothing leaves it and it pays nothing. The environment's own end states
    are thereby never reached, which matters where its table lets one walk on from them.
    """

    transition: np.ndarray
    reward: np.ndarray
    start: np.ndarray


def tabular_from_gymnasium(env: gymnasium.Env[Any, Any]) -> Tables | None:
    """The transition[s, a, s'], expected reward[s, a] and start[s] of an environment that has them.

    That is one with a table `P[s][a]` of (probability, next state, reward, terminated) and an
    `initial_state_distrib`. None for any other, for one inside wrappers that may change what is
    seen or paid, and for Taxi with a fickle passenger, whose table leaves the fickleness out. A
    time limit is not in the tables: it ends the watching, not the MDP.

    **Raises** ConfigError for a table whose probabilities do not sum to one.
    """
    inner = env
    while isinstance(inner, gymnasium.Wrapper):
        if not isinstance(inner, _HARMLESS):
            return None
        inner = inner.env
    table, start = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
    spaces = inner.observation_space, inner.action_space
    if (
        table is None
        or start is None
        or not all(isinstance(space, gymnasium.spaces.Discrete) for space in spaces)
        or getattr(inner, "fickle_passenger", False)
    ):
        return None
    num_states, num_actions = (int(space.n) for space in spaces)  # pyright: ignore[reportAttributeAccessIssue]
    end = num_states
    transition = np.zeros((num_states + 1, num_actions, num_states + 1))
    reward = np.zeros((num_states + 1, num_actions))
    transition[end, :, end] = 1.0
    for state in range(num_states):
        for action in range(num_actions):
            for probability, following, pays, terminated in table[state][action]:
                transition[state, action, end if terminated else following] += probability
                reward[state, action] += probability * pays
    start = np.append(np.asarray(start, np.float64), 0.0)
    _check_sums("P", transition)
    _check_sums("initial_state_distrib", start)
    return Tables(transition, reward, start)


def _check_sums(name: str, probabilities: np.ndarray) -> None:
    sums = probabilities.sum(-1)
    if not np.allclose(sums, 1.0, atol=1e-9):
        where = np.argwhere(np.abs(sums - 1.0) > 1e-9)[0].tolist()
        raise ConfigError(
            f"the environment's {name}{where or ''} sums to {np.min(sums):.6g}, not to 1; its "
            "table is no table of probabilities."
        )
