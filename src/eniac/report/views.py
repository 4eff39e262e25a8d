"""How the observations of an environment are laid out on paper."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import gymnasium
import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from eniac.envs import DeepSea, Environment, MountainCarContinuous, unwrap
from eniac.envs.mountain_car import GOAL_POSITION
from eniac.report.coverage import PARTS_OF_A_PLANE
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


class Episodes(NamedTuple):
    """Episodes of a policy, time first; after its end an episode repeats its last observation."""

    observations: np.ndarray
    lengths: np.ndarray
    returns: np.ndarray


class View(Protocol):
    """A way to draw what happens in one kind of observation space."""

    shows_actions: bool
    """Whether the bonus of every action is drawn, rather than the largest of them."""

    @property
    def observations(self) -> np.ndarray:
        """Where the bonus is to be computed: [places, ...]."""
        ...

    def draw_visits(self, figure: Figure, axes: Axes, visits: list[np.ndarray]) -> None:
        """The observations that each policy of a cover visited."""
        ...

    def draw_episodes(self, figure: Figure, axes: Axes, episodes: Episodes) -> None: ...

    def draw_counts(self, figure: Figure, axes: Axes, observations: np.ndarray) -> None:
        """How often each place was visited."""
        ...

    def draw_bonus(self, figure: Figure, axes: Axes, values: np.ndarray) -> None:
        """The bonus at `observations`: [places, actions]."""
        ...


def view_of(env: Environment) -> View | None:
    """The view of `env`, None if its observations do not fit on paper."""
    inner, space = unwrap(env), env.observation_space
    if isinstance(inner, DeepSea):
        return Sea(inner.size)
    if isinstance(space, gymnasium.spaces.Discrete):
        return Row(int(space.n))
    bounded = isinstance(space, gymnasium.spaces.Box) and space.is_bounded()
    return Plane(env) if bounded and space.shape == (2,) else None


class Plane:
    """Observations of two numbers: the first to the right, the second upwards."""

    shows_actions = False

    def __init__(self, env: Environment):
        space = env.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        self.low, self.high = space.low.astype(float), space.high.astype(float)
        car = isinstance(unwrap(env), MountainCarContinuous)
        self.names = ("position", "velocity") if car else ("observation 1", "observation 2")
        self.goal = GOAL_POSITION if car else None
        keys = jax.random.split(jax.random.key(0), 500)
        starts = np.asarray(jax.jit(jax.vmap(lambda key: env.reset(key)[1]))(keys))
        self.start = starts.min(0), starts.max(0)

    @property
    def observations(self) -> np.ndarray:
        return np.stack(np.meshgrid(*self._middles(FINE)), -1).reshape(-1, 2).astype(np.float32)

    def draw_visits(self, figure: Figure, axes: Axes, visits: list[np.ndarray]) -> None:
        self._frame(axes)
        colours = policy_colours(len(visits))
        points = np.concatenate(visits)
        owner = np.repeat(np.arange(len(visits)), [len(rows) for rows in visits])
        # In random order, so that no policy lies on top of the others.
        order = np.random.default_rng(0).permutation(len(points))[:MAX_POINTS]
        axes.scatter(
            *points[order].T,
            c=[colours[k] for k in owner[order]],
            s=3 if len(order) > 5000 else 12,
            alpha=0.6,
            linewidths=0,
        )
        self._landmarks(axes)
        label_policies(figure, axes, colours)

    def draw_episodes(self, figure: Figure, axes: Axes, episodes: Episodes) -> None:
        self._frame(axes)
        for k, length in enumerate(episodes.lengths):
            path = episodes.observations[: length + 1, k]
            axes.plot(*path.T, color=COLOURS[0], linewidth=1.0, alpha=0.6)
            axes.plot(*path[-1], "o", color=COLOURS[1], markersize=4, markeredgewidth=0)
        self._landmarks(axes)
        handles = [
            Line2D([], [], color=COLOURS[0], label="episode"),
            Line2D([], [], color=COLOURS[1], marker="o", linewidth=0, label="its end"),
        ]
        legend(axes, handles)

    def draw_counts(self, figure: Figure, axes: Axes, observations: np.ndarray) -> None:
        self._frame(axes)
        edges = [
            np.linspace(*ends, PARTS_OF_A_PLANE + 1)
            for ends in zip(self.low, self.high, strict=True)
        ]
        counts, *_ = np.histogram2d(*observations.T.astype(float), bins=edges)
        colour_bar(figure, axes, axes.pcolormesh(*edges, masked(counts.T), **counted(counts)))
        self._landmarks(axes)

    def draw_bonus(self, figure: Figure, axes: Axes, values: np.ndarray) -> None:
        self._frame(axes)
        grid = values.max(1).reshape(FINE, FINE)
        mesh = axes.pcolormesh(
            *self._middles(FINE), grid, **bonus_colours(values), shading="nearest"
        )
        colour_bar(figure, axes, mesh, "bonus")
        self._landmarks(axes, PAPER)

    def _middles(self, parts: int) -> list[np.ndarray]:
        share = (np.arange(parts) + 0.5) / parts
        return [a + share * (b - a) for a, b in zip(self.low, self.high, strict=True)]

    def _frame(self, axes: Axes) -> None:
        axes.set_xlim(self.low[0], self.high[0])
        axes.set_ylim(self.low[1], self.high[1])
        axes.set_xlabel(self.names[0])
        axes.set_ylabel(self.names[1])

    def _landmarks(self, axes: Axes, colour: str = INK) -> None:
        """The start states, and the goal where there is a line of it."""
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


class Sea:
    """Deep sea: the cells of the grid, from the top left."""

    shows_actions = False

    def __init__(self, size: int):
        self.size = size

    @property
    def observations(self) -> np.ndarray:
        return np.eye(self.size**2, dtype=np.float32)

    def draw_visits(self, figure: Figure, axes: Axes, visits: list[np.ndarray]) -> None:
        """The colour of a cell is that of the first policy that came there."""
        first = np.full(self.size**2, np.nan)
        for k, rows in enumerate(visits):
            cells = np.flatnonzero(rows.sum(0))
            first[cells] = np.where(np.isnan(first[cells]), k, first[cells])
        colours = policy_colours(len(visits))
        mapped = ListedColormap(colours)
        self._show(axes, first, cmap=mapped, vmin=-0.5, vmax=len(visits) - 0.5)
        label_policies(figure, axes, colours, "first reached by")

    def draw_episodes(self, figure: Figure, axes: Axes, episodes: Episodes) -> None:
        counts = sum(
            episodes.observations[:length, k].sum(0) for k, length in enumerate(episodes.lengths)
        )
        self._counts(figure, axes, np.asarray(counts))

    def draw_counts(self, figure: Figure, axes: Axes, observations: np.ndarray) -> None:
        self._counts(figure, axes, observations.sum(0))

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

    def __init__(self, num_states: int):
        self.num_states = num_states

    @property
    def observations(self) -> np.ndarray:
        return np.arange(self.num_states)

    def draw_visits(self, figure: Figure, axes: Axes, visits: list[np.ndarray]) -> None:
        table = np.stack([self._count(rows) for rows in visits])
        self._table(figure, axes, table, "policy of the cover", first=1)

    def draw_episodes(self, figure: Figure, axes: Axes, episodes: Episodes) -> None:
        table = np.stack(
            [
                self._count(episodes.observations[:length, k])
                for k, length in enumerate(episodes.lengths)
            ]
        )
        self._table(figure, axes, table, "episode", first=1)

    def draw_counts(self, figure: Figure, axes: Axes, observations: np.ndarray) -> None:
        axes.bar(np.arange(self.num_states), self._count(observations), color=COLOURS[0])
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

    def _count(self, observations: np.ndarray) -> np.ndarray:
        return np.bincount(observations.astype(int), minlength=self.num_states)

    def _table(self, figure: Figure, axes: Axes, table: np.ndarray, name: str, first: int) -> None:
        mesh = self._show(axes, masked(table), name, first, **counted(table))
        colour_bar(figure, axes, mesh)

    def _show(self, axes: Axes, table: np.ndarray, name: str, first: int, **style: Any) -> Any:
        axes.set_xlabel("state")
        axes.set_ylabel(name)
        whole(axes)
        low, high = first - 0.5, first - 0.5 + len(table)
        extent = (-0.5, self.num_states - 0.5, high, low)
        return axes.imshow(table, aspect="auto", extent=extent, interpolation="nearest", **style)
