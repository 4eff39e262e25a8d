"""How the observations of an environment are laid out on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium
import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from eniac.envs.base import Environment
from eniac.envs.deep_sea import DeepSea
from eniac.envs.mountain_car import GOAL_POSITION, MountainCarContinuous
from eniac.envs.registry import unwrap
from eniac.envs.sources import HostEnv
from eniac.errors import RunError
from eniac.report.coverage import PARTS_OF_A_PLANE, Visits
from eniac.report.episodes import Episode, single
from eniac.report.figures import COLOURS
from eniac.report.plot_style import (
    BOX,
    INK,
    PAPER,
    START,
    bonus_colours,
    colour_bar,
    counted,
    label_policies,
    legend,
    masked,
    policy_colours,
    whole,
)

MAX_POINTS = 20_000
"""Points in a picture; more are drawn at random down to this."""
FINE = 120
"""Points along each side of a plane at which the bonus is computed."""


@runtime_checkable
class View(Protocol):
    """A way to draw what happens in one kind of observation space."""

    shows_actions: bool
    """Whether the bonus of every action is drawn, rather than the largest of them."""

    @property
    def observations(self) -> np.ndarray:
        """Where the bonus is to be computed: [places, ...]."""
        ...

    def count(self, visits: Sequence[Visits]) -> np.ndarray:
        """How often each cell of a grid was visited: [first axis, second axis]."""
        ...

    def bonus_grid(self, values: np.ndarray) -> np.ndarray:
        """The bonus at `observations`, [places, actions], on a grid: [first axis, second axis]."""
        ...

    def draw_visits(self, figure: Figure, axes: Axes, visits: Sequence[Visits]) -> None:
        """The observations that each policy of a cover visited."""
        ...

    def draw_episodes(self, figure: Figure, axes: Axes, episodes: Sequence[Episode]) -> None: ...

    def draw_counts(self, figure: Figure, axes: Axes, visits: Sequence[Visits]) -> None:
        """How often each place was visited."""
        ...

    def draw_bonus(self, figure: Figure, axes: Axes, values: np.ndarray) -> None:
        """The bonus at `observations`: [places, actions]."""
        ...


def view_of(env: Environment | HostEnv) -> View | None:
    """The view of `env`, None if its observations do not fit on paper."""
    space = env.observation_space
    inner = None if isinstance(env, HostEnv) else unwrap(env)
    if isinstance(inner, DeepSea):
        return Sea(inner.size)
    if isinstance(space, gymnasium.spaces.Discrete):
        return Row(int(space.n), int(space.start))
    if not (isinstance(space, gymnasium.spaces.Box) and space.shape == (2,)):
        return None
    if not space.is_bounded():
        return None
    car = isinstance(inner, MountainCarContinuous) or (
        isinstance(env, HostEnv) and "MountainCar" in env.name
    )
    if car:
        return Plane(space, _starts(env), ("position", "velocity"), GOAL_POSITION)
    return Plane(space, _starts(env))


def _starts(env: Environment | HostEnv) -> np.ndarray | None:
    """Observations of start states, None where there are none to be had."""
    if isinstance(env, HostEnv):
        try:
            with single(env) as inner:
                return np.stack([inner.reset(seed) for seed in range(50)])
        except RunError:
            return None
    keys = jax.random.split(jax.random.key(0), 500)
    return np.asarray(jax.jit(jax.vmap(lambda key: env.reset(key)[1]))(keys))


class Plane:
    """Observations of two numbers: the first to the right, the second upwards."""

    shows_actions = False

    def __init__(
        self,
        space: gymnasium.spaces.Box,
        starts: np.ndarray | None = None,
        names: tuple[str, str] = ("observation 1", "observation 2"),
        goal: float | None = None,
    ):
        self.low, self.high = space.low.astype(float), space.high.astype(float)
        self.names, self.goal = names, goal
        self.start = None if starts is None else (starts.min(0), starts.max(0))

    def to_dict(self) -> dict[str, Any]:
        """Plain data. `from_dict` is its inverse."""
        return {
            "axes": list(self.names),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "goal": self.goal,
            "start": None if self.start is None else [x.tolist() for x in self.start],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plane:
        """The plane that was written by `to_dict`, alone or among other data."""
        space = gymnasium.spaces.Box(
            np.array(data["low"]), np.array(data["high"]), dtype=np.float64
        )
        starts = None if data["start"] is None else np.array(data["start"])
        return cls(space, starts, tuple(data["axes"]), data["goal"])

    @property
    def observations(self) -> np.ndarray:
        return np.stack(np.meshgrid(*self._middles(FINE)), -1).reshape(-1, 2).astype(np.float32)

    def count(
        self,
        visits: Sequence[Visits],
        parts: tuple[int, int] = (PARTS_OF_A_PLANE, PARTS_OF_A_PLANE),
    ) -> np.ndarray:
        observations = np.concatenate([visited.observations for visited in visits]).astype(float)
        weights = np.concatenate([visited.weights for visited in visits])
        ends = list(zip(self.low, self.high, strict=True))
        return np.histogram2d(*observations.T, bins=parts, range=ends, weights=weights)[0]

    def bonus_grid(self, values: np.ndarray) -> np.ndarray:
        return values.max(1).reshape(FINE, FINE).T

    def draw_visits(self, figure: Figure, axes: Axes, visits: Sequence[Visits]) -> None:
        self.frame(axes)
        colours = policy_colours(len(visits))
        points = np.concatenate([visited.observations for visited in visits])
        owner = np.repeat(np.arange(len(visits)), [len(visited.weights) for visited in visits])
        # In random order, so that no policy lies on top of the others.
        order = np.random.default_rng(0).permutation(len(points))[:MAX_POINTS]
        axes.scatter(
            *points[order].T,
            c=[colours[k] for k in owner[order]],
            s=3 if len(order) > 5000 else 12,
            alpha=0.6,
            linewidths=0,
        )
        self.landmarks(axes)
        label_policies(figure, axes, colours)

    def draw_episodes(self, figure: Figure, axes: Axes, episodes: Sequence[Episode]) -> None:
        self.frame(axes)
        for episode in episodes:
            path = episode.observations
            axes.plot(*path.T, color=COLOURS[0], linewidth=1.0, alpha=0.6)
            axes.plot(*path[-1], "o", color=COLOURS[1], markersize=4, markeredgewidth=0)
        self.landmarks(axes)
        handles = [
            Line2D([], [], color=COLOURS[0], label="episode"),
            Line2D([], [], color=COLOURS[1], marker="o", linewidth=0, label="its end"),
        ]
        legend(axes, handles)

    def draw_counts(self, figure: Figure, axes: Axes, visits: Sequence[Visits]) -> None:
        self.frame(axes)
        counts = self.count(visits)
        edges = [
            np.linspace(low, high, parts + 1)
            for low, high, parts in zip(self.low, self.high, counts.shape, strict=True)
        ]
        colour_bar(figure, axes, axes.pcolormesh(*edges, masked(counts.T), **counted(counts)))
        self.landmarks(axes)

    def draw_bonus(self, figure: Figure, axes: Axes, values: np.ndarray) -> None:
        self.frame(axes)
        mesh = axes.pcolormesh(
            *self._middles(FINE),
            self.bonus_grid(values).T,
            **bonus_colours(values),
            shading="nearest",
        )
        colour_bar(figure, axes, mesh, "bonus")
        self.landmarks(axes, PAPER)

    def _middles(self, parts: int) -> list[np.ndarray]:
        share = (np.arange(parts) + 0.5) / parts
        return [a + share * (b - a) for a, b in zip(self.low, self.high, strict=True)]

    def frame(self, axes: Axes) -> None:
        """The axes from bound to bound, with their names."""
        axes.set_xlim(self.low[0], self.high[0])
        axes.set_ylim(self.low[1], self.high[1])
        axes.set_xlabel(self.names[0])
        axes.set_ylabel(self.names[1])

    def landmarks(self, axes: Axes, colour: str = INK) -> None:
        """The start states, and the goal where there is a line of it."""
        if self.goal is not None:
            axes.axvline(self.goal, color=colour, linewidth=1.8, linestyle="--")
            axes.annotate(
                "goal",
                (self.goal, self.low[1]),
                (-5, 6),
                textcoords="offset points",
                ha="right",
                color=INK,
                bbox=BOX,
            )
        if self.start is None:
            return
        least = 0.025 * (self.high - self.low)
        middle = (self.start[0] + self.start[1]) / 2
        sides = np.maximum(self.start[1] - self.start[0], least)
        axes.add_patch(
            Rectangle(
                tuple(middle - sides / 2),
                *sides,
                facecolor=START,
                edgecolor=colour,
                linewidth=1.2,
                zorder=3,
            )
        )
        axes.annotate(
            "start",
            (middle[0], middle[1] + sides[1] / 2),
            (0, 4),
            textcoords="offset points",
            ha="center",
            color=INK,
            bbox=BOX,
        )


class Sea:
    """Deep sea: the cells of the grid, from the top left."""

    shows_actions = False

    def __init__(self, size: int):
        self.size = size

    @property
    def observations(self) -> np.ndarray:
        return np.eye(self.size**2, dtype=np.float32)

    def count(self, visits: Sequence[Visits]) -> np.ndarray:
        """Columns, and rows from the top."""
        counts = [np.tensordot(v.weights, v.observations, axes=1) for v in visits]
        return np.sum(counts, axis=0).reshape(self.size, self.size).T

    def bonus_grid(self, values: np.ndarray) -> np.ndarray:
        return values.max(1).reshape(self.size, self.size).T

    def draw_visits(self, figure: Figure, axes: Axes, visits: Sequence[Visits]) -> None:
        """The colour of a cell is that of the first policy that came there."""
        first = np.full(self.size**2, np.nan)
        for k, visited in enumerate(visits):
            cells = np.flatnonzero(visited.observations.sum(0))
            first[cells] = np.where(np.isnan(first[cells]), k, first[cells])
        colours = policy_colours(len(visits))
        mapped = ListedColormap(colours)
        self._show(axes, first, cmap=mapped, vmin=-0.5, vmax=len(visits) - 0.5)
        label_policies(figure, axes, colours, "first reached by")

    def draw_episodes(self, figure: Figure, axes: Axes, episodes: Sequence[Episode]) -> None:
        counts = np.sum([episode.observations[:-1].sum(0) for episode in episodes], axis=0)
        self._counts(figure, axes, counts)

    def draw_counts(self, figure: Figure, axes: Axes, visits: Sequence[Visits]) -> None:
        self._counts(figure, axes, self.count(visits).T)

    def draw_bonus(self, figure: Figure, axes: Axes, values: np.ndarray) -> None:
        colour_bar(figure, axes, self._show(axes, values.max(1), **bonus_colours(values)), "bonus")

    def _counts(self, figure: Figure, axes: Axes, counts: np.ndarray) -> None:
        colour_bar(figure, axes, self._show(axes, masked(counts), **counted(counts)))

    def _show(self, axes: Axes, values: np.ndarray, **style: Any) -> Any:
        shape = (self.size, self.size)
        row, column = np.indices(shape)
        # Grey: right of the diagonal, where no dive comes. White: cells without a value.
        axes.imshow(column > row, cmap=ListedColormap([PAPER, "#dddddd"]), vmin=0, vmax=1)
        shown = np.ma.masked_where(column > row, np.ma.masked_invalid(values).reshape(shape))
        axes.set_xlabel("column")
        axes.set_ylabel("row")
        whole(axes)
        return axes.imshow(shown, **style)


class Row:
    """States that are just numbered: a column for each, and a row for each policy or action."""

    shows_actions = True

    def __init__(self, num_states: int, first: int = 0):
        self.num_states, self.first = num_states, first

    @property
    def observations(self) -> np.ndarray:
        return np.arange(self.first, self.first + self.num_states, dtype=np.int32)

    def count(self, visits: Sequence[Visits]) -> np.ndarray:
        """All states, in a single row."""
        return np.sum([self._count(*visited) for visited in visits], axis=0)[:, None]

    def bonus_grid(self, values: np.ndarray) -> np.ndarray:
        """States and actions."""
        return values

    def draw_visits(self, figure: Figure, axes: Axes, visits: Sequence[Visits]) -> None:
        table = np.stack([self._count(*visited) for visited in visits])
        self._table(figure, axes, table, "policy of the cover", first=1)

    def draw_episodes(self, figure: Figure, axes: Axes, episodes: Sequence[Episode]) -> None:
        table = np.stack([self._count(episode.observations[:-1]) for episode in episodes])
        self._table(figure, axes, table, "episode", first=1)

    def draw_counts(self, figure: Figure, axes: Axes, visits: Sequence[Visits]) -> None:
        axes.bar(self.observations, self.count(visits)[:, 0], color=COLOURS[0])
        axes.set_xlabel("state")
        axes.set_ylabel("visits")
        axes.set_yscale("symlog", linthresh=1)
        axes.margins(x=0.01)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(9, integer=True))

    def draw_bonus(self, figure: Figure, axes: Axes, values: np.ndarray) -> None:
        mesh = self._show(axes, values.T, "action", 0, **bonus_colours(values))
        colour_bar(figure, axes, mesh, "bonus")

    def _count(self, observations: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        places = observations.astype(int) - self.first
        return np.bincount(places, weights, minlength=self.num_states)

    def _table(self, figure: Figure, axes: Axes, table: np.ndarray, name: str, first: int) -> None:
        mesh = self._show(axes, masked(table), name, first, **counted(table))
        colour_bar(figure, axes, mesh)

    def _show(self, axes: Axes, table: np.ndarray, name: str, first: int, **style: Any) -> Any:
        axes.set_xlabel("state")
        axes.set_ylabel(name)
        whole(axes)
        low, high = first - 0.5, first - 0.5 + len(table)
        extent = (self.first - 0.5, self.first + self.num_states - 0.5, high, low)
        return axes.imshow(table, aspect="auto", extent=extent, interpolation="nearest", **style)
