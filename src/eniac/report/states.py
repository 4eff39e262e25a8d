"""The states of a finite environment as an agent sees them, and how often each was visited."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np

from eniac.envs.base import Environment
from eniac.envs.mdp import TabularMDP
from eniac.envs.registry import unwrap
from eniac.envs.sources import HostEnv
from eniac.errors import ConfigError
from eniac.provable.config import table_of

NUM_TRIES = 16
"""Times that an action is tried in a state to find the states that it can lead to."""
NUM_BATCH = 64
"""States that are walked on from at once."""
NUM_ROUNDS = 8
"""Rounds of tries after which a state that is hardly ever reached is given up."""


def list_states(env: Environment | HostEnv, notes: list[str]) -> np.ndarray | None:
    """The observations of all states in which an agent can come to act, a row each, as stored.

    None if the environment is not finite. Whatever was left out is said in `notes`.
    """
    space = env.observation_space
    try:
        table = table_of(env)
    except ConfigError:
        table = None
    if isinstance(space, gymnasium.spaces.Discrete):
        every = np.arange(space.start, space.start + space.n).astype(np.int32)
        if table is not None:
            return every[acted_in(table)[: len(every)]]
        if isinstance(env.action_space, gymnasium.spaces.Discrete):
            notes.append(f"all {len(every)} states of the space count, reachable or not")
            return every
        return None
    if table is None or isinstance(env, HostEnv):
        return None
    wanted = set(np.flatnonzero(acted_in(table)).tolist())
    found = walk(unwrap(env), wanted, table.num_actions)
    if len(found) < len(wanted):
        notes.append(f"{len(wanted) - len(found)} states that are hardly ever reached are left out")
    return np.unique(np.stack([found[i] for i in sorted(found)]), axis=0)


def acted_in(table: TabularMDP) -> np.ndarray:
    """Which states can be reached from the start, and are no end."""
    leads_to = np.any(table.transition > 0, axis=1)
    reached = table.start > 0
    while True:
        further = reached | np.any(leads_to[reached], axis=0)
        if np.array_equal(further, reached):
            # The tables of gymnasium's have an end of their own, from which nothing leads away.
            stays = table.transition[np.arange(len(reached)), :, np.arange(len(reached))] == 1
            unpaid = np.all(table.reward == 0, axis=1)
            return reached & ~(np.all(stays, axis=1) & unpaid) & ~table.terminal
        reached = further


def walk(env: Environment, wanted: set[int], num_actions: int) -> dict[int, np.ndarray]:
    """The observations of the `wanted` states, by their numbers: found by trying all actions in
    all states that are known, from the start on."""
    actions = np.tile(np.arange(num_actions, dtype=np.int32), NUM_TRIES)

    @jax.jit
    def begin(key: Any) -> Any:
        state, observation = jax.vmap(env.reset)(jax.random.split(key, NUM_BATCH))
        return jax.vmap(env.index)(state), state, observation

    @jax.jit
    def go_on(key: Any, states: Any) -> Any:
        def of_state(key: Any, state: Any) -> Any:
            keys = jax.random.split(key, len(actions))
            step = jax.vmap(lambda k, a: env.step(k, state, a))(keys, actions)
            return jax.vmap(env.index)(step.state), step.state, step.observation

        found = jax.vmap(of_state)(jax.random.split(key, NUM_BATCH), states)
        return jax.tree.map(lambda x: x.reshape((-1, *x.shape[2:])), found)

    known: dict[int, tuple[Any, np.ndarray]] = {}

    def learn(found: Any) -> list[int]:
        numbers, states, observations = jax.device_get(found)
        new = []
        for row, number in enumerate(numbers.tolist()):
            if number in wanted and number not in known:
                state = jax.tree.map(lambda x, row=row: x[row], states)
                known[number] = state, observations[row]
                new.append(number)
        return new

    key = jax.random.key(0)
    for again in range(NUM_ROUNDS):
        round_key = jax.random.fold_in(key, again)
        fresh = learn(begin(round_key))
        # In later rounds all are tried again, for what chance has hidden.
        fresh = list(known) if again else fresh
        step = 0
        while fresh:
            step += 1
            batch, fresh = fresh[:NUM_BATCH], fresh[NUM_BATCH:]
            filled = batch + batch[:1] * (NUM_BATCH - len(batch))
            states = jax.tree.map(lambda *x: np.stack(x), *(known[i][0] for i in filled))
            fresh += learn(go_on(jax.random.fold_in(round_key, step), states))
        if len(known) == len(wanted):
            break
    return {number: observation for number, (_, observation) in known.items()}


def count_visits(buffer: Any, observations: np.ndarray, num_actions: int) -> np.ndarray:
    """n(s, a): how often each of `observations` was visited with each action, [states, actions].

    Visits of anything else are left out.
    """
    used = slice(int(buffer.count))
    seen = _as_bytes(np.asarray(buffer.pairs.observation)[used])
    kinds, which = np.unique(seen, return_inverse=True)
    place = {row.tobytes(): i for i, row in enumerate(_as_bytes(observations))}
    row = np.array([place.get(kind.tobytes(), -1) for kind in kinds], int)[which.ravel()]
    known = row >= 0
    visits = np.zeros((len(observations), num_actions))
    actions = np.asarray(buffer.pairs.action)[used]
    np.add.at(visits, (row[known], actions[known]), np.asarray(buffer.weight)[used][known])
    return visits


def _as_bytes(rows: np.ndarray) -> np.ndarray:
    """Each row as one thing that can be compared; minus zero is zero."""
    flat = np.ascontiguousarray(rows.reshape(len(rows), -1) + np.zeros((), rows.dtype))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1])))[:, 0]
