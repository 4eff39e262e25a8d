"""What the policies of a run's cover are worth, and how much of the state space they have seen."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np

from eniac.actors import take
from eniac.boxes import box_bounds
from eniac.errors import RunError
from eniac.incumbent import Acting
from eniac.report.evaluate import judge
from eniac.runs.load import Run
from eniac.runs.program import take_seed
from eniac.sampling.base import Evaluation
from eniac.spaces import Encoder

PARTS_OF_A_PLANE = 50
"""Into how many parts each coordinate is cut if an observation has one or two of them."""
PARTS_OF_A_SPACE = 10
"""The same for three or more, of whose cells nobody visits all."""


def cover_report(
    run: Run, seed: int | None = None, episodes: int = 20, evaluation_seed: int = 0
) -> dict[str, Any]:
    """Each policy of the cover of one of the run's seeds: weight, mean return, coverage.

    Returns are of `episodes` episodes, with sampled actions, cut at the evaluation's horizon.
    `covered` counts the cells of the observation space that the visits of a policy in the buffer
    touch, `new` those of them that no policy before it touched (`Cells` says what a cell is). The
    exploring and the exploiting policy come last, and the incumbent, which acts as it was judged
    best (None if the run has none); they have no visits in the buffer, nor a weight.
    """
    index = run.index(seed)
    state = jax.device_get(take_seed(run.states, index))
    visits = visits_of(run, state)
    cells = Cells(run.env.observation_space)
    key = jax.random.fold_in(jax.random.key(evaluation_seed), run.config.seed_numbers[index])
    horizon = run.config.evaluation.horizon
    kinds = ("return_mean", "return_std", "length_mean")
    seen: set[tuple[Any, ...]] = set()
    policies = []
    with judge(run.env, Evaluation(episodes, horizon)) as judged:

        def row(policy: Any, **more: Any) -> dict[str, Any]:
            found = judged(key, policy)
            return more | {name: found[name] for name in kinds}

        for place, visited in enumerate(visits):
            touched = cells.touched(visited.observations)
            policies.append(
                row(
                    Acting(take(state.cover.policies, place), np.asarray(False)),
                    number=place + 1,
                    weight=float(state.cover.weights[place]),
                    visits=round(float(visited.weights.sum())),
                    covered=len(touched),
                    new=len(touched - seen),
                )
            )
            seen |= touched
        named = run.learner.policies(state)
        exploring, exploiting = (row(named[name]) for name in ("exploring", "exploiting"))
        incumbent = named.get("incumbent")
        if incumbent is not None:
            incumbent = row(incumbent, deterministic=bool(incumbent.greedy))
    return {
        "run": str(run.path),
        "algorithm": run.config.algorithm.name,
        "env": run.config.env,
        "seed": run.config.seed_numbers[index],
        "epoch": int(run.progress.epochs[index]),
        "env_steps": int(run.progress.steps[index]),
        "episodes": episodes,
        "horizon": horizon,
        "cells": cells.total,
        "cell": cells.description,
        "covered": len(seen),
        "policies": policies,
        "exploring": exploring,
        "exploiting": exploiting,
        "incumbent": incumbent,
    }


class Visits(NamedTuple):
    """What the buffer has of the visits of one policy: rows, and how many visits each is for."""

    observations: Any
    weights: np.ndarray


def visits_of(run: Run, state: Any) -> list[Visits]:
    """The visits of each policy of the cover that the buffer has, in the cover's order.

    `state` is that of one seed. Raises `RunError` if the algorithm has no cover, or none yet.
    """
    require_visits(run, state)
    buffer = state.buffer
    source, weight = np.asarray(buffer.source), np.asarray(buffer.weight)
    used = np.arange(len(source)) < int(buffer.count)
    found = []
    for place in range(int(state.cover.count)):
        rows = np.flatnonzero(used & (source == place))
        # Numpy's rows: those of large observations are many, and stay on the host.
        observations = jax.tree.map(lambda x, i=rows: np.asarray(x)[i], buffer.pairs.observation)
        found.append(Visits(observations, weight[rows]))
    return found


def require_visits(run: Run, state: Any) -> None:
    """Raises `RunError` if the algorithm has no cover, or no policy has joined it yet."""
    if not run.config.algorithm.has_cover:
        raise RunError(
            f"{run.config.algorithm.name} has no cover of networks. Algorithms with one: eniac, "
            "pc-pg, zero."
        )
    if int(state.cover.count) == 0:
        raise RunError(
            f"The cover of {run.path} is empty: no epoch was finished before its newest "
            f"checkpoint. Continue it with `eniac resume {run.path}`."
        )


class Cells:
    """A division of an observation space into cells, to count what was visited.

    Each number of a discrete space is a cell. Of a box, each coordinate is cut into equal parts
    between its bounds, 50 for one or two coordinates and 10 for more; one that has no bound is cut
    into parts of length 0.1. Each picture is a cell. Of a Dict or Tuple, a cell is one of each of
    its parts. `total` is the number of cells, where it is small enough to tell.
    """

    total: int | None = None
    description: str

    def __init__(self, space: gymnasium.Space[Any]):
        self._leaves = list(_leaves_of(space))
        self._plane = (
            len(self._leaves) == 1
            and isinstance(space, gymnasium.spaces.Box)
            and int(np.prod(space.shape)) <= 2
        )
        parts = PARTS_OF_A_PLANE if self._plane else PARTS_OF_A_SPACE
        self._grids = [_Grid(leaf, parts) for _, leaf in self._leaves]
        sizes = sum(grid.size for grid in self._grids)
        if isinstance(space, gymnasium.spaces.Discrete):
            self.total, self.description = int(space.n), "a cell is a state"
        elif all(grid.is_image for grid in self._grids):
            self.description = "a cell is a picture"
        elif all(grid.is_discrete for grid in self._grids):
            self.description = f"a cell is one value of each of {sizes} numbers"
        elif self._plane and self._grids[0].bounded:
            self.total = parts**sizes
            grid = " x ".join([str(parts)] * sizes)
            self.description = f"a cell is one of {grid} between the bounds of the observations"
        else:
            bounded = all(grid.bounded for grid in self._grids)
            steps = "" if bounded else ", or into steps of 0.1 where it has no bounds"
            image = ", each picture its own" * any(grid.is_image for grid in self._grids)
            self.description = (
                f"a cell: each of {sizes} coordinates cut into {parts} parts{steps}{image}"
            )

    def touched(self, observations: Any) -> set[tuple[Any, ...]]:
        """The cells that hold one of `observations` or more."""
        return set(self.of_each(observations))

    def of_each(self, observations: Any) -> list[tuple[Any, ...]]:
        """For each of `observations` its cell, as places along each coordinate."""
        columns = []
        for (path, _), grid in zip(self._leaves, self._grids, strict=True):
            rows = observations
            for key in path:
                rows = rows[key]
            columns.append(grid.places(np.asarray(rows)))
        return list(map(tuple, np.concatenate(columns, axis=1).tolist()))


class _Grid:
    """The places along each coordinate of one array of an observation."""

    def __init__(self, space: Any, parts: int):
        spaces = gymnasium.spaces
        self.is_image = bool(Encoder(space).images)
        self.is_discrete = not isinstance(space, spaces.Box)
        self.bounded = True
        self.size = 1 if self.is_image else int(np.prod(space.shape or ()))
        if self.is_image:
            return
        if isinstance(space, spaces.Box):
            low, high = (np.ravel(bound) for bound in box_bounds(space))
            bounded = np.isfinite(low) & np.isfinite(high)
            self.bounded = bool(bounded.all())
            self._low = np.where(bounded, low, 0.0)
            length = np.where(bounded, high, 0.0) - self._low
            # A coordinate whose bounds are equal never changes, and any length does.
            self._step = np.where(bounded, np.where(length > 0, length, 1.0) / parts, 0.1)
            self._least = np.where(bounded, 0, -np.inf)
            self._largest = np.where(bounded, parts - 1, np.inf)
        else:  # Discrete, MultiDiscrete, MultiBinary: each number is a place
            self._low, self._step = np.zeros(self.size), np.ones(self.size)
            self._least, self._largest = np.full(1, -np.inf), np.full(1, np.inf)

    def places(self, rows: np.ndarray) -> np.ndarray:
        if self.is_image:
            marks = [hashlib.blake2b(row.tobytes(), digest_size=6) for row in rows]
            # 48 bits: exact as a float, and pictures that share a mark are rarer than that.
            return np.array([[int.from_bytes(mark.digest(), "big")] for mark in marks], np.float64)
        rows = rows.reshape(len(rows), -1).astype(np.float64)
        places = np.floor((rows - self._low) / self._step)
        # What lies on the upper bound belongs to the last part.
        return np.clip(places, self._least, self._largest)


def _leaves_of(space: Any, path: tuple[Any, ...] = ()) -> Any:
    """The spaces of single arrays, each with the keys that lead to it."""
    if isinstance(space, gymnasium.spaces.Dict):
        for key in sorted(space.spaces):
            yield from _leaves_of(space.spaces[key], (*path, key))
    elif isinstance(space, gymnasium.spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _leaves_of(part, (*path, i))
    else:
        yield path, space
