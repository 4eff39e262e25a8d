"""Whether a run's bonus tells what was visited from what was not.

In a finite environment this has an exact answer: every pair that can be reached is listed, the
buffer Z^n says how often each was visited, and the width of a table is 1 / sqrt(n + ridge). In any
other, states that the policies of the cover reach in fresh rollouts, which no fit has seen, are
held against states far from all that the buffer has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eniac.algorithms.parts import part_name
from eniac.buffer import Pairs, room
from eniac.deep import DeepLearner
from eniac.errors import RunError
from eniac.report.coverage import require_visits
from eniac.report.far import HeldOut, hold_out
from eniac.report.pictures import bonus_values
from eniac.report.states import count_visits, list_states
from eniac.runs.load import Run
from eniac.runs.program import take_seed

NUM_TIMED = 4096
"""Pairs on which the time of an evaluation is taken."""


class Judged(NamedTuple):
    """The pairs, or states, that a bonus is judged on: what it says, and what is true of them."""

    bonus: np.ndarray
    visited: np.ndarray
    exact: np.ndarray
    """the exact width, or the distance from the visits: what the bonus should rise with"""


def audit_bonus(
    run: Run,
    seed: int | None = None,
    pairs: int = 2000,
    threshold: float | None = None,
    ridge: float = 1.0,
) -> dict[str, Any]:
    """How well the bonus of one of the run's seeds tells visited from unvisited, as plain data.

    `correlation` is Spearman's, of the bonus and the exact width 1 / sqrt(n + `ridge`) (in an
    environment that is not finite: the distance from the visits). `auc` is the probability that an
    unvisited pair has a larger bonus than a visited one, both at random; ties count half. At
    `threshold`, by default half of the largest bonus, `visited_above` of the visited pairs would
    still be taken for unknown, and `unvisited_below` of the others for known. A bonus of states
    alone is judged on states. `fit_seconds` is the time of a fit on the run's buffer, made again
    and thrown away; `microseconds` that of the bonus of a pair, among many.

    `pairs` are drawn of each kind where the environment is not finite. What has no answer is None,
    and `notes` say why. Nothing of the run is changed. **Raises** RunError for an algorithm without
    a bonus.
    """
    index = run.index(seed)
    state = take_seed(run.states, index)
    learner, rule = run.learner, getattr(run.config.algorithm, "bonus", None)
    bonus = learner.bonus(state)
    if bonus is None or rule is None or not isinstance(learner, DeepLearner):
        raise RunError(
            f"{run.path} is a run of {run.config.algorithm.name}, which has no bonus that can be "
            "audited. Algorithms with one: eniac, pc-pg, ppo-rnd."
        )
    if state.cover is not None:
        require_visits(run, state)
    bonus = jax.tree.map(jnp.asarray, bonus)
    notes: list[str] = []
    listed = None if state.cover is None else list_states(run.env, notes)
    if listed is not None:
        num_actions = int(run.env.action_space.n)  # pyright: ignore[reportAttributeAccessIssue]
        judged, unit = judge_all(bonus, state.buffer, listed, num_actions, ridge)
    else:
        judged, unit = judge_held_out(bonus, hold_out(run, state, pairs, notes)), "pairs"
    if state.cover is not None and not rule.reads_buffer:
        notes.append("this bonus is not made of the buffer, in which visits are counted")
    if np.all(judged.bonus == judged.bonus[0]):
        notes.append("this bonus is the same everywhere, whatever was visited in the run")
    return {
        "run": str(run.path),
        "algorithm": run.config.algorithm.name,
        "env": run.config.env,
        "seed": run.config.seed_numbers[index],
        "epoch": int(run.progress.epochs[index]),
        "bonus": part_name(rule),
        "how": "finite" if listed is not None else "held-out",
        "unit": unit,
        **scores(judged, threshold),
        "fit_seconds": seconds_of_fit(rule, state, bonus),
        "microseconds": microseconds_of(state, bonus, learner.sampler.spaces),
        "notes": notes,
    }


def scores(judged: Judged, threshold: float | None = None) -> dict[str, Any]:
    """The numbers of an audit."""
    bonus, visited = judged.bonus.astype(np.float64), judged.visited
    if threshold is None:
        threshold = float(bonus.max(initial=0.0)) / 2
    old, new = bonus[visited], bonus[~visited]
    return {
        "visited": len(old),
        "unvisited": len(new),
        "correlation": rank_correlation(bonus, judged.exact),
        "auc": area_under_curve(new, old),
        "threshold": threshold,
        "visited_above": _mean(old >= threshold),
        "unvisited_below": _mean(new < threshold),
        "visited_mean": _mean(old),
        "unvisited_mean": _mean(new),
    }


def _mean(x: np.ndarray) -> float | None:
    return float(np.mean(x)) if len(x) else None


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float | None:
    """Spearman's rank correlation, with the mean rank for ties; None if one of them is constant."""
    from scipy.stats import rankdata

    ranks = rankdata(x), rankdata(y)
    if any(len(rank) < 2 or np.all(rank == rank[0]) for rank in ranks):
        return None
    return float(np.clip(np.corrcoef(*ranks)[0, 1], -1, 1))


def area_under_curve(larger: np.ndarray, smaller: np.ndarray) -> float | None:
    """The probability that one of `larger` exceeds one of `smaller`, ties counted half: the area
    under the receiver operating characteristic. None if there are none of a kind."""
    from scipy.stats import rankdata

    if not len(larger) or not len(smaller):
        return None
    ranks = rankdata(np.concatenate([larger, smaller]))[: len(larger)]
    wins = ranks.sum() - len(larger) * (len(larger) + 1) / 2
    return float(wins / (len(larger) * len(smaller)))


def judge_all(
    bonus: Any, buffer: Any, observations: np.ndarray, num_actions: int, ridge: float
) -> tuple[Judged, str]:
    """Every pair of these observations and all actions, or every state if actions do not matter."""
    values = bonus_values(bonus, observations, np.arange(num_actions, dtype=np.int32))
    visits = count_visits(buffer, observations, num_actions)
    unit = "pairs"
    if np.all(values == values[:, :1]):
        values, visits, unit = values[:, :1], visits.sum(axis=1, keepdims=True), "states"
    judged = Judged(values.ravel(), visits.ravel() > 0, 1 / np.sqrt(visits.ravel() + ridge))
    return judged, unit


def judge_held_out(bonus: Any, held: HeldOut) -> Judged:
    """Held-out visited pairs, and far ones."""
    both = jax.tree.map(lambda *x: jnp.concatenate(x), held.near, held.far)
    num = len(held.near_distance)
    return Judged(
        bonus=np.asarray(_of_pairs(bonus, both)),
        visited=np.arange(num + len(held.far_distance)) < num,
        exact=np.concatenate([held.near_distance, held.far_distance]),
    )


# The bonus as an argument: compiled once for all that have its shapes.
@eqx.filter_jit
def _of_pairs(bonus: Any, pairs: Pairs) -> jax.Array:
    return jax.vmap(bonus)(*pairs)


# What it costs


def seconds_of_fit(rule: Any, state: Any, bonus: Any) -> float | None:
    """The time of a fit on the run's buffer, without compiling; None if it is not fitted."""
    if not rule.reads_buffer:
        return None
    fit = jax.jit(rule.fit)
    given = jax.tree.map(jnp.asarray, (bonus, state.buffer, state.queries))
    return _seconds(lambda: fit(jax.random.key(0), *given))


def microseconds_of(state: Any, bonus: Any, space: Any) -> float:
    """The time that the bonus of a pair takes, among `NUM_TIMED` of them."""
    one = jax.tree.map(lambda x: x[:1], room(space, 1))
    if state.buffer is not None:
        one = jax.tree.map(lambda x: jnp.asarray(x[:1]), state.buffer.pairs)
    many = jax.tree.map(lambda x: jnp.repeat(x, NUM_TIMED, axis=0), one)
    return 1e6 * _seconds(lambda: _of_pairs(bonus, many)) / NUM_TIMED


def _seconds(compute: Callable[[], Any]) -> float:
    """The time of the second call: the first compiles."""
    jax.block_until_ready(compute())
    start = time.perf_counter()
    jax.block_until_ready(compute())
    return time.perf_counter() - start
