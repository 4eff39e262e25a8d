"""The paper's Figure 3 of a run: what ENIAC's bonus and PC-PG's make of the visits of one policy,
and how smooth each of them is. Data, small and plain, and a picture of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from eniac.actors import take
from eniac.algorithms import ALGORITHMS
from eniac.bonuses.base import BonusRule
from eniac.buffer import Buffer, Pairs
from eniac.deep import DeepLearner, pairs_of
from eniac.errors import require
from eniac.report.coverage import require_visits
from eniac.report.figure2 import said_of
from eniac.report.pictures import bonus_values, require_plane, some_actions
from eniac.report.plot_style import BONUS, INK, PAPER, colour_bar, save
from eniac.report.views import Plane
from eniac.runs.load import Run
from eniac.runs.program import take_seed
from eniac.runs.settings import choose
from eniac.sampling.base import Trajectory

KEPT = 2
"""Every so many points of the grid, along each side, are in the data."""
EVERY = 10
"""Every so many steps of a trajectory are in the data."""
NAMES = {"width": "ENIAC's bonus (width)", "kernel": "PC-PG's bonus (kernel)"}


def figure3_data(
    run: Run, seed: int | None = None, policy: int | None = None, preset: str | None = None
) -> dict[str, Any]:
    """The data of Figure 3 for one of the run's seeds, by default the first, as plain data.

    `policy` is the number of a policy of the run's cover, by default the last, but not beyond the
    third. It visits states as in Algorithm 1, line 6, twice: of the first visits both bonuses are
    made, as those of ENIAC and PC-PG with our settings or with those of a `preset` of the paper;
    the second are the query pairs of the width.

    `bonuses` has for each the largest bonus over actions, [first axis][second axis], as a share of
    its `largest` on the plane. `smoothness` is smaller for a smoother bonus, see `curvature`;
    `variation` is another number for the same, see there. Both are taken on a grid that is twice as
    fine as that of the data.

    **Raises** `ConfigError` for a policy or preset that there is not, `RunError` for a run without
    a cover, `NoPicture` where observations are not two numbers with bounds.
    """
    index, plane = run.index(seed), require_plane(run)
    state = jax.device_get(take_seed(run.states, index))
    require_visits(run, state)
    count = int(state.cover.count)
    number = min(count, 3) if policy is None else policy
    rules = bonus_rules(preset)
    require(1 <= number <= count, "policy", policy, f"the number of one of the cover's {count}")
    chosen = jax.tree.map(jnp.asarray, take(state.cover.policies, number - 1))
    seen, queried = visits_twice(run, chosen)
    actions = some_actions(run.env.action_space)
    grids = {}
    for name, rule in rules.items():
        bonus = fit_alone(run, rule, chosen, seen, queried)
        grids[name] = plane.bonus_grid(bonus_values(bonus, plane.observations, actions))
    return {
        **said_of(run, index),
        "policy": number,
        "preset": preset,
        **plane.to_dict(),
        "trajectories": _thinned(np.asarray(seen.observation)),
        "bonuses": {name: _shares(grid) for name, grid in grids.items()},
        "largest": {name: float(grid.max()) for name, grid in grids.items()},
        "smoothness": {name: curvature(grid) for name, grid in grids.items()},
        "variation": {name: variation(grid) for name, grid in grids.items()},
    }


def bonus_rules(preset: str | None) -> dict[str, BonusRule]:
    """The bonuses of ENIAC and of PC-PG, with our settings or those of a `preset`."""
    choices = {} if preset is None else {"preset": preset}
    rows = {"width": "eniac", "kernel": "pc-pg"}
    return {name: choose(ALGORITHMS[row], choices).bonus for name, row in rows.items()}


def visits_twice(run: Run, policy: Any) -> tuple[Trajectory, Trajectory]:
    """Two rollouts of a policy of the cover, each as it would visit states when it joins."""
    learner = run.learner
    assert isinstance(learner, DeepLearner)
    sampler, config = learner.sampler, learner.config

    def go(key: Any, policy: Any) -> Trajectory:
        begin_key, rollout_key = jax.random.split(key)
        envs = sampler.begin(begin_key, config.visit_envs)
        steps = config.visit_rows // envs.size
        return sampler.rollout(rollout_key, policy, envs, steps)[1]

    go = jax.jit(go) if sampler.compiled else go
    first, second = (go(jax.random.key(k), policy) for k in range(2))
    return first, second


def fit_alone(run: Run, rule: BonusRule, policy: Any, seen: Trajectory, queried: Trajectory) -> Any:
    """The bonus that `rule` makes of the visits in one rollout, with query pairs from another."""
    learner = run.learner
    assert isinstance(learner, DeepLearner)
    spaces, config = learner.sampler.spaces, learner.config

    @jax.jit
    def fit(policy: Any, seen: Trajectory, queried: Trajectory) -> Any:
        init_key, add_key, query_key, fit_key = jax.random.split(jax.random.key(0), 4)
        pairs, num = pairs_of(seen)
        buffer = Buffer.empty(spaces, config.visit_rows).add(add_key, pairs, num, 0)
        others, found = pairs_of(queried)
        rows = jax.random.randint(query_key, (rule.query_size,), 0, found)
        queries: Pairs = jax.tree.map(lambda x: x[rows], others)
        bonus = rule.with_critic(rule.init(init_key, spaces, config.hidden), policy)
        return rule.fit(fit_key, bonus, buffer, queries)

    return fit(policy, *jax.tree.map(jnp.asarray, (seen, queried)))


def curvature(grid: np.ndarray) -> float:
    """How much a function on the unit square bends: the mean of |d^2 b / du^2| over both axes and
    the inner points of a grid, with b divided by its range.

    It depends neither on the size of b nor on that of the square, and where b is smooth not on that
    of the grid. Along one axis, constant along the other: a straight ramp has 0, a parabola that
    falls to its middle and rises again 4, half a wave of a sine pi, k half waves k^2 pi.
    """
    scaled = _scaled(grid)
    bends = [
        np.abs(np.diff(scaled, 2, axis=axis)).mean() * scaled.shape[axis] ** 2 for axis in (0, 1)
    ]
    return float(np.mean(bends))


def variation(grid: np.ndarray) -> float:
    """How often a function goes up or down by its whole range along a line from side to side: the
    mean of the total variation of b over its range, over all lines of both axes."""
    scaled = _scaled(grid)
    return float(np.mean([np.abs(np.diff(scaled, axis=a)).sum(axis=a).mean() for a in (0, 1)]))


def _scaled(grid: np.ndarray) -> np.ndarray:
    wide = grid.astype(np.float64)
    return (wide - wide.min()) / (np.ptp(wide) or 1.0)


def _shares(grid: np.ndarray) -> list[list[float]]:
    largest = float(grid.max()) or 1.0
    return np.round(grid[::KEPT, ::KEPT].astype(float) / largest, 3).tolist()


def _thinned(observations: np.ndarray) -> list[list[list[float]]]:
    """For each environment of a rollout the points that it came through, to four digits."""
    paths = np.asarray(observations, np.float64)[::EVERY].swapaxes(0, 1)
    return [[[float(f"{x:.4g}") for x in point] for point in path] for path in paths]


def draw_figure3(data: Mapping[str, Any], out: Path) -> Path:
    """Draws Figure 3 from its data to a PNG, SVG or PDF at `out`: trajectories, and both bonuses by
    one colour scale, each as a share of its largest value."""
    figure = Figure(figsize=(14, 4.4), dpi=150, layout="constrained")
    left, *others = figure.subplots(1, 3, sharey=True)
    plane = Plane.from_dict(data)
    plane.frame(left)
    for path in data["trajectories"]:
        left.plot(*np.array(path).T, ".", color=INK, markersize=2, alpha=0.5)
    plane.landmarks(left)
    left.set_title(f"policy {data['policy']} of the cover")
    drawn: Any = None
    for axes, (name, grid) in zip(others, data["bonuses"].items(), strict=True):
        plane.frame(axes)
        axes.set_ylabel("")
        shares = np.array(grid).T
        drawn = axes.imshow(
            shares,
            origin="lower",
            aspect="auto",
            extent=(plane.low[0], plane.high[0], plane.low[1], plane.high[1]),
            cmap=BONUS,
            vmin=0,
            vmax=1,
        )
        plane.landmarks(axes, PAPER)
        smooth, largest = data["smoothness"][name], data["largest"][name]
        axes.set_title(f"{NAMES[name]}: curvature {smooth:.3g}, largest {largest:.3g}", fontsize=10)
    colour_bar(figure, others[-1], drawn, "share of its largest value")
    preset = data["preset"] or "our settings"
    figure.suptitle(f"{data['algorithm']} on {data['env']}, seed {data['seed']}, {preset}")
    save(figure, out)
    return out
