"""Finite Markov decision processes that know their own transition probabilities and rewards."""

from __future__ import annotations

from typing import Any, SupportsInt

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from eniac.envs.base import Environment, Step
from eniac.envs.exact import (
    StaticArrays,
    check_count,
    check_distributions,
    check_table,
    cumulative,
    draw,
)
from eniac.envs.pictures import draw_table
from eniac.memory import require_memory

LEFT, RIGHT = 0, 1


class TabularMDP(Environment):
    """The MDP with transition[s, a, s'], reward[s, a] and start[s]; it observes the state's index.

    Where `terminal` is given, the states it marks are absorbing and pay nothing, and reaching one
    terminates. Otherwise an episode has no end of its own: put a `TimeLimit` around it.

    `transition`, `reward` and `start` are read back as NumPy float64 exactly as given; sampling
    uses float32. A state is its own index.

    **Raises** ValueError for wrong shapes, entries that are not finite, negative probabilities,
    distributions that do not sum to one, and terminal states that can be left, pay or begin.
    """

    exact: StaticArrays = eqx.field(static=True)

    def __init__(self, transition: Any, reward: Any, start: Any, terminal: Any = None):
        transition, reward, start = (
            np.array(array, np.float64) for array in (transition, reward, start)
        )
        _check_shapes(transition, reward, start)
        check_distributions("transition", transition)
        check_distributions("start", start)
        if not np.all(np.isfinite(reward)):
            s, a = np.argwhere(~np.isfinite(reward))[0]
            raise ValueError(f"reward[{s}, {a}] is {reward[s, a]}; every reward must be finite.")
        terminal = np.zeros(len(start), bool) if terminal is None else np.array(terminal, bool)
        _check_terminal(transition, reward, start, terminal)
        self.exact = StaticArrays(
            transition=transition,
            reward=reward,
            start=start,
            terminal=terminal,
            cumulative_transition=cumulative(transition),
            cumulative_start=cumulative(start),
        )

    @property
    def transition(self) -> np.ndarray:
        """P(s' | s, a): float64, [states, actions, states], read-only."""
        return self.exact["transition"]

    @property
    def reward(self) -> np.ndarray:
        """r(s, a): float64, [states, actions], read-only."""
        return self.exact["reward"]

    @property
    def start(self) -> np.ndarray:
        """The distribution of the first state: float64, [states], read-only."""
        return self.exact["start"]

    @property
    def terminal(self) -> np.ndarray:
        """Which states end an episode: bool, [states], read-only."""
        return self.exact["terminal"]

    @property
    def num_states(self) -> int:
        return self.reward.shape[0]

    @property
    def num_actions(self) -> int:
        return self.reward.shape[1]

    @property
    def observation_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(self.num_states)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(self.num_actions)

    def reset(self, key: PRNGKeyArray) -> tuple[Int[Array, ""], Int[Array, ""]]:
        state = draw(key, jnp.asarray(self.exact["cumulative_start"]))
        return state, state

    def step(self, key: PRNGKeyArray, state: Int[Array, ""], action: Int[Array, ""]) -> Step:
        table = jnp.asarray(self.exact["cumulative_transition"])
        following = draw(key, table[state, action])
        reward = jnp.asarray(self.reward, jnp.float32)[state, action]
        terminated = jnp.asarray(self.terminal)[following]
        return Step(following, following, reward, terminated, jnp.zeros((), bool))

    def render(self, state: SupportsInt) -> np.ndarray:
        return draw_table(int(state), self.transition, self.reward, self.terminal)

    def tabular(self) -> TabularMDP:
        return self

    def index(self, state: Int[Array, ""]) -> Int[Array, ""]:
        return state


def _check_shapes(transition: np.ndarray, reward: np.ndarray, start: np.ndarray) -> None:
    shape = transition.shape
    if len(shape) != 3 or shape[0] != shape[2] or 0 in shape:
        raise ValueError(
            f"transition has shape {shape}; expected [states, actions, states], none of them 0."
        )
    if reward.shape != shape[:2]:
        raise ValueError(
            f"reward has shape {reward.shape}; expected [states, actions] = {shape[:2]}, the first "
            "two axes of transition. A reward r(s, a, s') is to be averaged over s' first."
        )
    if start.shape != shape[:1]:
        raise ValueError(f"start has shape {start.shape}; expected [states] = {shape[:1]}.")


def _check_terminal(
    transition: np.ndarray, reward: np.ndarray, start: np.ndarray, terminal: np.ndarray
) -> None:
    if terminal.shape != start.shape:
        raise ValueError(f"terminal has shape {terminal.shape}; expected {start.shape}.")
    for s in np.flatnonzero(terminal):
        if np.any(transition[s, :, s] != 1):
            raise ValueError(f"terminal state {s} can be left; its rows of transition must stay.")
        if np.any(reward[s] != 0):
            raise ValueError(f"terminal state {s} pays {reward[s].tolist()}; it must pay 0.")
        if start[s] > 0:
            raise ValueError(f"terminal state {s} begins with probability {start[s]}; expected 0.")


class TableBacked(Environment):
    """An environment that is a table with something more to say about it, such as features."""

    mdp: eqx.AbstractVar[TabularMDP]

    @property
    def observation_space(self) -> gymnasium.spaces.Discrete:
        return self.mdp.observation_space

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return self.mdp.action_space

    def reset(self, key: PRNGKeyArray) -> tuple[Int[Array, ""], Int[Array, ""]]:
        return self.mdp.reset(key)

    def step(self, key: PRNGKeyArray, state: Int[Array, ""], action: Int[Array, ""]) -> Step:
        return self.mdp.step(key, state, action)

    def render(self, state: SupportsInt) -> np.ndarray:
        return self.mdp.render(state)

    def tabular(self) -> TabularMDP:
        return self.mdp

    def index(self, state: Int[Array, ""]) -> Int[Array, ""]:
        return state


class LinearMDP(TableBacked):
    """P(s' | s, a) = phi(s, a)' mu(s') and r(s, a) = phi(s, a)' theta, exactly.

    Every feature vector phi(s, a) lies on the simplex and every row of mu is a distribution over
    states, so that their products are distributions. `mdp` is the same process as a table; the
    features of a pair are `features[s, a]`.
    """

    mdp: TabularMDP
    exact: StaticArrays = eqx.field(static=True)

    def __init__(self, features: Any, measures: Any, theta: Any, start: Any):
        features, measures, theta = (
            np.array(array, np.float64) for array in (features, measures, theta)
        )
        if features.ndim != 3:
            raise ValueError(
                f"features has shape {features.shape}; expected [states, actions, dim]."
            )
        states, _, dim = features.shape
        if measures.shape != (dim, states):
            raise ValueError(
                f"measures has shape {measures.shape}; expected [dim, states] = {(dim, states)}."
            )
        if theta.shape != (dim,):
            raise ValueError(f"theta has shape {theta.shape}; expected [dim] = {(dim,)}.")
        check_distributions("features", features)
        check_distributions("measures", measures)
        self.exact = StaticArrays(features=features, measures=measures, theta=theta)
        self.mdp = TabularMDP(features @ measures, features @ theta, start)

    @property
    def features(self) -> np.ndarray:
        """phi: float64, [states, actions, dim], read-only."""
        return self.exact["features"]

    @property
    def measures(self) -> np.ndarray:
        """mu: float64, [dim, states], read-only."""
        return self.exact["measures"]

    @property
    def theta(self) -> np.ndarray:
        """The weights of the reward: float64, [dim], read-only."""
        return self.exact["theta"]


def _generator(seed: int | PRNGKeyArray) -> np.random.Generator:
    if isinstance(seed, jax.Array):
        return np.random.default_rng(np.asarray(jax.random.key_data(seed)).ravel())
    check_count("seed", seed, 0)
    return np.random.default_rng(seed)


def chain(length: int = 8, lure: float = 0.001) -> TabularMDP:
    """A deterministic row of `length` states in which only the far end is worth the walk.

    Action 0 goes left, action 1 right. Going right from the last state stays there and pays 1;
    going left from the first stays there and pays `lure`, the trap that dithering falls into.
    Starts in the first state and never ends.
    """
    check_count("length", length, 2)
    check_table(length, 2)
    states = np.arange(length)
    transition = np.zeros((length, 2, length))
    transition[states, LEFT, np.maximum(states - 1, 0)] = 1
    transition[states, RIGHT, np.minimum(states + 1, length - 1)] = 1
    reward = np.zeros((length, 2))
    reward[0, LEFT] = lure
    reward[-1, RIGHT] = 1
    return TabularMDP(transition, reward, np.eye(length)[0])


def river_swim(num_states: int = 6) -> TabularMDP:
    """RiverSwim (Strehl and Littman, 2008), its rewards 5 and 10,000 divided by 10,000.

    Action 0 drifts left, surely. Action 1 swims right against the current: in the middle it
    advances with probability 0.3, stays with 0.6 and falls back with 0.1; at the left bank it
    advances with 0.3; at the right bank it holds on with 0.3. Drifting at the left bank pays
    0.0005, swimming at the right bank 1. Starts in the second or third state; never ends.
    """
    check_count("num_states", num_states, 3)
    check_table(num_states, 2)
    last = num_states - 1
    transition = np.zeros((num_states, 2, num_states))
    transition[0, LEFT, 0] = 1
    transition[0, RIGHT, [0, 1]] = 0.7, 0.3
    for s in range(1, last):
        transition[s, LEFT, s - 1] = 1
        transition[s, RIGHT, [s - 1, s, s + 1]] = 0.1, 0.6, 0.3
    transition[last, LEFT, last - 1] = 1
    transition[last, RIGHT, [last - 1, last]] = 0.7, 0.3
    reward = np.zeros((num_states, 2))
    reward[0, LEFT] = 5 / 10_000
    reward[last, RIGHT] = 1
    start = np.zeros(num_states)
    start[[1, 2]] = 0.5
    return TabularMDP(transition, reward, start)


def random_mdp(
    seed: int | PRNGKeyArray = 0,
    num_states: int = 10,
    num_actions: int = 4,
    num_successors: int | None = None,
) -> TabularMDP:
    """An MDP drawn with `seed` (a number or a JAX key): the same seed, the same MDP.

    Each pair leads to `num_successors` random states (all of them if None), with probabilities
    uniform on the simplex; rewards are uniform in [0, 1], the start uniform on the simplex.
    """
    check_count("num_states", num_states, 1)
    check_count("num_actions", num_actions, 1)
    num_successors = num_states if num_successors is None else num_successors
    check_count("num_successors", num_successors, 1)
    check_table(num_states, num_actions)
    if num_successors > num_states:
        raise ValueError(
            f"num_successors is {num_successors}, more than the {num_states} states there are."
        )
    rng = _generator(seed)
    transition = np.zeros((num_states, num_actions, num_states))
    for row in transition.reshape(-1, num_states):
        support = rng.choice(num_states, num_successors, replace=False)
        row[support] = rng.dirichlet(np.ones(num_successors))
    reward = rng.uniform(size=(num_states, num_actions))
    return TabularMDP(transition, reward, rng.dirichlet(np.ones(num_states)))


def random_linear_mdp(
    seed: int | PRNGKeyArray = 0, num_states: int = 20, num_actions: int = 4, dim: int = 5
) -> LinearMDP:
    """A linear MDP drawn with `seed`: features, measures and start uniform on their simplices.

    Reward weights are uniform in [0, 1], and so are the rewards.
    """
    check_count("num_states", num_states, 1)
    check_count("num_actions", num_actions, 1)
    check_count("dim", dim, 1)
    check_table(num_states, num_actions)
    rows = num_states * (num_actions + 1)
    require_memory({"dim": rows * dim * 8}, "the features of a linear MDP")
    rng = _generator(seed)
    features = rng.dirichlet(np.ones(dim), size=(num_states, num_actions))
    measures = rng.dirichlet(np.ones(num_states), size=dim)
    return LinearMDP(features, measures, rng.uniform(size=dim), rng.dirichlet(np.ones(num_states)))
