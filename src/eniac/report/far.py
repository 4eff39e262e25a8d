"""Pairs that a run has all but visited, and pairs far from all that it has visited."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from eniac.actors import take
from eniac.boxes import box_bounds
from eniac.buffer import Pairs
from eniac.deep import DeepLearner, pairs_of
from eniac.features import map_rows
from eniac.runs.load import Run
from eniac.spaces import Encoder, canonical

FAR_QUANTILE = 0.95
"""A state is far if it is farther from the visits than this share of the held-out ones."""
NUM_NEAR = 5000
"""Visits between which the nearest is looked for."""
MAX_STEPS = 1000
"""Steps of a rollout at most."""


class HeldOut(NamedTuple):
    """Held-out visited pairs and far ones, each with its distance from the visits."""

    near: Pairs
    far: Pairs
    near_distance: np.ndarray
    far_distance: np.ndarray


def hold_out(run: Run, state: Any, num: int, notes: list[str]) -> HeldOut:
    """About `num` pairs of each kind. Visited: of fresh rollouts of the policies of the cover, all
    alike, or of the only policy there is."""
    learner = run.learner
    assert isinstance(learner, DeepLearner)
    rollout_key, action_key = jax.random.split(jax.random.key(run.config.seed_numbers[0]))
    near, policy = fresh_visits(learner, state, rollout_key)
    if state.cover is None:
        near, before = halves(near)
        notes.append("there is no buffer: visited is where the policy goes now")
    else:
        before = buffered(state.buffer)
    return apart(run.env.observation_space, near, before, policy, action_key, num, notes)


def buffered(buffer: Any) -> Pairs:
    """The pairs that are in a buffer."""
    rows = slice(int(buffer.count))
    return jax.tree.map(lambda x: np.asarray(x)[rows], buffer.pairs)


def halves(pairs: Pairs) -> tuple[Pairs, Pairs]:
    """Every second pair, and those between, to which they should be near."""
    return tuple(jax.tree.map(lambda x, i=i: x[i::2], pairs) for i in (1, 0))


def apart(
    space: gymnasium.Space[Any],
    near: Pairs,
    before: Pairs,
    policy: Any,
    key: PRNGKeyArray,
    num: int,
    notes: list[str],
) -> HeldOut:
    """`num` of the pairs `near` to those of `before`, and as many that are far from them.

    Far: states uniform between the bounds of the space (where it has none, in a box twice as wide
    as what was visited), with uniform actions; of these, the states that are farther from the
    nearest of `before` than `FAR_QUANTILE` of the near ones.
    """
    rng = np.random.default_rng(0)
    near, before = _some(near, num, rng), _some(before, NUM_NEAR, rng)
    bounded = all(_is_bounded(leaf) for leaf in _leaves(space))
    where = (
        "uniform between the bounds of the space"
        if bounded
        else "uniform in a box twice as wide as what was visited, or within bounds"
    )
    notes.append(f"far states are {where}, and farther from all visits than 95 % of the held-out")
    observations = draw(space, before.observation, 4 * num, rng)
    actions = jax.device_get(policy.uniform(key, (4 * num,)))
    distance = Distance(space, before.observation)
    near_distance, far_distance = distance(near.observation), distance(observations)
    rows = np.flatnonzero(far_distance > np.quantile(near_distance, FAR_QUANTILE))[:num]
    if not len(rows):
        notes.append("no state of the space is far from what was visited")
    far = jax.tree.map(lambda x: x[rows], Pairs(observations, actions))
    return HeldOut(near, far, near_distance, far_distance[rows])


def fresh_visits(learner: DeepLearner, state: Any, key: PRNGKeyArray) -> tuple[Pairs, Any]:
    """Pairs of rollouts that no fit has seen, and the last policy that made some."""
    config, sampler = learner.config, learner.sampler
    if state.cover is None:
        # As it is now, which is where the bonus was last fitted: the incumbent may be older.
        policies, steps = [take(state.actors, -1).policy], config.rollout_length
    else:
        policies = [take(state.cover.policies, i) for i in range(int(state.cover.count))]
        steps = config.visit_rows // config.visit_envs
    steps = min(steps, MAX_STEPS)

    def go(key: PRNGKeyArray, policy: Any) -> Any:
        begin_key, rollout_key = jax.random.split(key)
        envs = sampler.begin(begin_key, min(config.visit_envs, 100))
        return sampler.rollout(rollout_key, policy, envs, steps)[1]

    go = jax.jit(go) if sampler.compiled else go
    found = []
    try:
        for i, policy in enumerate(policies):
            policy = jax.tree.map(jnp.asarray, policy)
            pairs, num = pairs_of(jax.tree.map(jnp.asarray, go(jax.random.fold_in(key, i), policy)))
            found.append(jax.tree.map(lambda x, n=int(num): np.asarray(x)[:n], pairs))
    finally:
        sampler.close()
    return jax.tree.map(lambda *x: np.concatenate(x), *found), policies[-1]


class Distance:
    """The distance of states from the nearest of some: in units of the way between bounds, or of
    the spread of these where a coordinate has no bounds."""

    def __init__(self, space: gymnasium.Space[Any], some: Any):
        self._encoder = Encoder(space)
        low, high = (np.asarray(x, np.float64) for x in self._encoder.bounds)
        points = self._encode(some)
        unit = np.where(np.isfinite(high - low), high - low, points.std(axis=0))
        self._unit = np.where(unit > 0, unit, 1.0).astype(np.float32)
        self._points = points / self._unit

    def __call__(self, observations: Any) -> np.ndarray:
        nearest = []
        squares = np.sum(self._points**2, axis=1)
        for chunk in np.array_split(self._encode(observations) / self._unit, 20):
            apart = squares - 2 * chunk @ self._points.T + np.sum(chunk**2, axis=1, keepdims=True)
            nearest.append(np.sqrt(np.maximum(apart.min(axis=1, initial=np.inf), 0)))
        return np.concatenate(nearest)

    def _encode(self, observations: Any) -> np.ndarray:
        rows = jax.tree.map(jnp.asarray, observations)
        return np.asarray(map_rows(self._encoder, (rows,), self._encoder.size))


def draw(space: gymnasium.Space[Any], seen: Any, num: int, rng: np.random.Generator) -> Any:
    """Elements of a space, as stored: uniform between bounds, or around what was `seen`."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict):
        return {key: draw(space[key], seen[key], num, rng) for key in sorted(space.spaces)}
    if isinstance(space, spaces.Tuple):
        return tuple(draw(part, seen[i], num, rng) for i, part in enumerate(space.spaces))
    if isinstance(space, spaces.Box):
        low, high = box_bounds(space)
        least, most = seen.min(axis=0).astype(np.float64), seen.max(axis=0).astype(np.float64)
        side = np.where(most > least, most - least, 1.0)
        low = np.where(np.isfinite(low), low, least - side / 2)
        high = np.where(np.isfinite(high), high, most + side / 2)
        whole = space.dtype.kind != "f"
        drawn = rng.uniform(low, high + whole, (num, *space.shape))
        return canonical(space, np.minimum(np.floor(drawn), high) if whole else drawn)
    own = copy.deepcopy(space)
    own.seed(int(rng.integers(2**31)))
    return canonical(space, np.stack([own.sample() for _ in range(num)]))


def _some(pairs: Pairs, num: int, rng: np.random.Generator) -> Pairs:
    total = len(jax.tree.leaves(pairs)[0])
    rows = rng.permutation(total)[:num]
    return jax.tree.map(lambda x: x[rows], pairs)


def _leaves(space: gymnasium.Space[Any]) -> list[gymnasium.Space[Any]]:
    if isinstance(space, gymnasium.spaces.Dict):
        return [leaf for part in space.spaces.values() for leaf in _leaves(part)]
    if isinstance(space, gymnasium.spaces.Tuple):
        return [leaf for part in space.spaces for leaf in _leaves(part)]
    return [space]


def _is_bounded(space: gymnasium.Space[Any]) -> bool:
    if not isinstance(space, gymnasium.spaces.Box):
        return True
    return bool(np.all(np.isfinite(box_bounds(space))))
