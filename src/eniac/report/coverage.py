"""What the policies of a run's cover are worth, and how much of the state space they have seen."""

from __future__ import annotations

from typing import Any

import gymnasium
import jax
import numpy as np

from eniac.algorithms import Deep
from eniac.errors import RunError
from eniac.runs.load import Run, take_seed
from eniac.sampling.compiled import evaluate

PARTS_OF_A_PLANE = 50
"""Into how many parts each coordinate is cut if an observation has one or two of them."""
PARTS_OF_A_SPACE = 10
"""The same for three or more, of whose cells nobody visits all."""


def cover_report(
    run: Run, seed: int | None = None, episodes: int = 20, evaluation_seed: int = 0
) -> dict[str, Any]:
    """Each policy of the cover of one of the run's seeds: weight, mean return, coverage.

    Returns are of `episodes` episodes with sampled actions, cut at the evaluation's horizon.
    `covered` counts the cells of the observation space that the visits of a policy in the buffer
    touch, `new` those of them that no policy before it touched (`Cells` says what a cell is). The
    exploring and the exploiting policy come last; they have no visits in the buffer, nor a weight.
    """
    index = run.index(seed)
    state = jax.device_get(take_seed(run.states, index))
    visits = visits_of(run, state)
    cells = Cells(run.env.observation_space)
    key = jax.random.fold_in(jax.random.key(evaluation_seed), run.config.seed_numbers[index])
    judge = jax.jit(lambda policy: evaluate(run.env, policy, key, episodes))

    def row(policy: Any, **more: Any) -> dict[str, Any]:
        result = judge(policy)
        returns = np.asarray(result.returns, np.float64)
        return more | {
            "return_mean": float(returns.mean()),
            "return_std": float(returns.std()),
            "length_mean": float(np.asarray(result.lengths).mean()),
        }

    seen: set[tuple[float, ...]] = set()
    policies = []
    for place, observations in enumerate(visits):
        touched = cells.touched(observations)
        policies.append(
            row(
                jax.tree.map(lambda leaf, place=place: leaf[place], state.cover.policies),
                number=place + 1,
                weight=float(state.cover.weights[place]),
                visits=len(observations),
                covered=len(touched),
                new=len(touched - seen),
            )
        )
        seen |= touched
    return {
        "run": str(run.path),
        "algorithm": run.config.algorithm.name,
        "env": run.config.env,
        "seed": run.config.seed_numbers[index],
        "epoch": int(run.progress.epochs[index]),
        "env_steps": int(run.progress.steps[index]),
        "episodes": episodes,
        "horizon": run.config.evaluation_horizon,
        "cells": cells.total,
        "cell": cells.description,
        "covered": len(seen),
        "policies": policies,
        "exploring": row(state.explore.policy),
        "exploiting": row(state.exploit.policy),
    }


def visits_of(run: Run, state: Any) -> list[np.ndarray]:
    """The observations that each policy of the cover put into the buffer, in the cover's order.

    `state` is that of one seed. Raises `RunError` if the algorithm has no cover, or none yet.
    """
    if not has_cover(state):
        raise RunError(
            f"{run.path} is a run of {run.config.algorithm.name}, which has no cover of networks. "
            "Algorithms with one: eniac, pc-pg, zero."
        )
    assert isinstance(run.config.algorithm, Deep)
    count, visits = int(state.cover.count), run.config.algorithm.visits
    if count == 0:
        raise RunError(
            f"The cover of {run.path} is empty: no epoch was finished before its newest "
            f"checkpoint. Continue it with `eniac resume {run.path}`."
        )
    observations = np.asarray(state.buffer.pairs.observation)
    return [observations[n * visits : (n + 1) * visits] for n in range(count)]


def has_cover(state: Any) -> bool:
    """Whether the state of a seed is that of an algorithm with a cover."""
    return getattr(state, "cover", None) is not None


class Cells:
    """A division of an observation space into cells, to count what was visited.

    Each number of a discrete space is a cell. Of a box, each coordinate is cut into equal parts
    between its bounds, 50 for one or two coordinates and 10 for more; one that has no bound is cut
    into parts of length 0.1. `total` is the number of cells, where it is small enough to tell.
    """

    total: int | None
    description: str

    def __init__(self, space: gymnasium.Space[Any]):
        if isinstance(space, gymnasium.spaces.Discrete):
            self._low, self._step = np.zeros(1), np.ones(1)
            self._least, self._largest = np.full(1, -np.inf), np.full(1, np.inf)
            self.total, self.description = int(space.n), "a cell is a state"
            return
        assert isinstance(space, gymnasium.spaces.Box)
        low, high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
        size, bounded = low.size, np.isfinite(low) & np.isfinite(high)
        parts = PARTS_OF_A_PLANE if size <= 2 else PARTS_OF_A_SPACE
        self._low = np.where(bounded, low, 0.0)
        length = np.where(bounded, high, 0.0) - self._low
        # A coordinate whose bounds are equal never changes, and any length does.
        self._step = np.where(bounded, np.where(length > 0, length, 1.0) / parts, 0.1)
        self._least = np.where(bounded, 0, -np.inf)
        self._largest = np.where(bounded, parts - 1, np.inf)
        plane = size <= 2 and bool(bounded.all())
        self.total = parts**size if plane else None
        if plane:
            grid = " x ".join([str(parts)] * size)
            self.description = f"a cell is one of {grid} between the bounds of the observations"
        else:
            steps = "" if bounded.all() else ", or into steps of 0.1 where it has no bounds"
            self.description = f"a cell: each of {size} coordinates cut into {parts} parts{steps}"

    def touched(self, observations: np.ndarray) -> set[tuple[float, ...]]:
        """The cells, as places along each coordinate, that hold one of `observations` or more."""
        rows = observations.reshape(len(observations), -1).astype(np.float64)
        places = np.floor((rows - self._low) / self._step)
        # What lies on the upper bound belongs to the last part.
        places = np.clip(places, self._least, self._largest)
        return set(map(tuple, np.unique(places, axis=0).tolist()))
