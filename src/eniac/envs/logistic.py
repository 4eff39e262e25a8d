"""A small MDP whose action values are generalised linear for every policy."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from eniac.envs.exact import StaticArrays, check_count, check_table
from eniac.envs.mdp import TableBacked, TabularMDP
from eniac.memory import require_memory


class LogisticMDP(TableBacked):
    """Choose a room, then an action in it; the room's reward is a logistic function of features.

    From the start each action leads to a room of its own, in one of `num_contexts` contexts drawn
    at random. There, action a pays `scale` logistic(theta . phi(s, a)), and the episode ends. The
    features are a 1 and `dim` random numbers of length at most 1 for pairs in a room, a coordinate
    each for the actions of the start, and one for the end. So Q^pi(s, a) is `scale` logistic(u .
    features) for some u, whatever the policy; rewards lie in (0, 1), and most of them are small.
    """

    mdp: TabularMDP
    exact: StaticArrays = eqx.field(static=True)

    def __init__(
        self,
        num_contexts: int = 5,
        num_actions: int = 4,
        dim: int = 3,
        seed: int = 0,
        scale: float = 25.0,
    ):
        check_count("num_contexts", num_contexts, 1)
        check_count("num_actions", num_actions, 2)
        check_count("dim", dim, 1)
        check_count("seed", seed, 0)
        if not scale >= 1:
            raise ValueError(f"scale is {scale!r}; expected a number of 1 or more.")
        check_table(num_actions * num_contexts + 2, num_actions)
        each = num_actions * (dim + num_actions + 2) * 8
        require_memory({"dim": num_actions * num_contexts * each}, "the features of a logistic MDP")
        rng = np.random.default_rng(seed)
        rooms = num_actions * num_contexts
        end = rooms + 1
        features = np.zeros((end + 1, num_actions, 1 + dim + num_actions + 1))
        drawn = rng.normal(size=(rooms, num_actions, dim))
        drawn /= np.maximum(1.0, np.linalg.norm(drawn, axis=2, keepdims=True))
        features[1:end, :, 0] = 1
        features[1:end, :, 1 : 1 + dim] = drawn
        features[0, :, 1 + dim : -1] = np.eye(num_actions)
        features[end, :, -1] = 1
        direction = rng.normal(size=dim)
        # theta . phi ends where the reward is 0.9, and begins 6 below: most rewards are tiny.
        index = drawn @ direction
        slope = 6.0 / (index.max() - index.min())
        top = -np.log(scale / 0.9 - 1)
        theta = np.concatenate([[top - slope * index.max()], slope * direction])
        reward = np.zeros((end + 1, num_actions))
        reward[1:end] = scale / (1 + np.exp(-features[1:end, :, : 1 + dim] @ theta))
        transition = np.zeros((end + 1, num_actions, end + 1))
        for action in range(num_actions):
            first = 1 + action * num_contexts
            transition[0, action, first : first + num_contexts] = 1 / num_contexts
        transition[1:, :, end] = 1
        start = np.eye(end + 1)[0]
        self.mdp = TabularMDP(transition, reward, start, np.arange(end + 1) == end)
        self.exact = StaticArrays(features=features, theta=theta)

    @property
    def features(self) -> np.ndarray:
        """phi: float64, [states, actions, 2 + dim + num_actions], read-only."""
        return self.exact["features"]

    @property
    def theta(self) -> np.ndarray:
        """The weights of the rewards: float64, [1 + dim], read-only."""
        return self.exact["theta"]
