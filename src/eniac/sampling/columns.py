"""What a rollout on the host sees, step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from eniac.envs.stepping import HostStep


class Final(NamedTuple):
    """The last observations of truncated episodes, and when and where these were."""

    times: np.ndarray
    envs: np.ndarray
    observation: Any


class Columns:
    """What a rollout sees, as arrays that are filled step by step. `start` is the number of steps
    that the environments had taken before."""

    def __init__(self, num_steps: int, num_envs: int, observation: Any, start: int):
        def room(x: Any) -> np.ndarray:
            return np.empty((num_steps, *x.shape), x.dtype)

        shape, self.start = (num_steps, num_envs), start
        self.observation = jax.tree.map(room, observation)
        self.action: Any = None
        self.log_prob, self.value = (np.empty(shape, np.float32) for _ in range(2))
        self.reward = np.empty(shape, np.float32)
        self.terminated, self.truncated, self.on_policy, self.rolled_in, self.real = (
            np.empty(shape, bool) for _ in range(5)
        )
        self.finals: list[tuple[int, np.ndarray, Any]] = []

    def put_decision(self, t: int, observation: Any, decision: list[np.ndarray]) -> None:
        action, self.log_prob[t], self.value[t], self.on_policy[t] = decision
        self.rolled_in[t] = ~self.on_policy[t]
        if self.action is None:
            self.action = np.empty((len(self.reward), *action.shape), action.dtype)
        self.action[t] = action
        jax.tree.map(lambda room, x: room.__setitem__(t, x), self.observation, observation)

    def put_step(self, t: int, step: HostStep) -> None:
        self.reward[t], self.terminated[t], self.truncated[t], self.real[t] = (
            step.reward,
            step.terminated,
            step.truncated,
            step.real,
        )
        if len(step.final_index):
            # Copies: the memory may be the environments' own.
            final = jax.tree.map(np.array, step.final_observation)
            self.finals.append((t, np.array(step.final_index), final))
        for i in step.failed:
            # What is known of this episode is not to be trusted, and nothing follows it. That its
            # last step counts as truncated keeps the next one apart; its value is used nowhere.
            ends = np.flatnonzero(self.terminated[:t, i] | self.truncated[:t, i])
            episode = slice(ends[-1] + 1 if len(ends) else 0, t + 1)
            self.on_policy[episode, i] = self.rolled_in[episode, i] = False
            self.truncated[t, i] = True
