"""Pictures of a run, each drawn from its newest checkpoint.

Visits, as in the paper's Figure 2: where the policies of the cover went, and how the exploiting
policy moves. Bonus, as in its Figure 3: what was visited, and what the bonus makes of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from eniac.errors import RunError
from eniac.report.coverage import visits_of
from eniac.report.episodes import play
from eniac.report.figures import learning_curves
from eniac.report.numbers import short_number
from eniac.report.plot_style import save
from eniac.report.views import Plane, View, view_of
from eniac.runs.load import Run, choose_policy
from eniac.runs.program import take_seed
from eniac.spaces import emitted

Picture = Literal["curve", "visits", "bonus"]
FILES: dict[str, str] = {
    "curve": "learning_curve.png",
    "visits": "visits.png",
    "bonus": "bonus.png",
}

NUM_EPISODES = 10
"""Episodes of the exploiting policy in a picture."""
MAX_STEPS = 1000
"""Where these are cut, if nothing cuts them earlier."""
NUM_ACTIONS = 11
"""Actions of a continuous space over which the largest bonus is taken."""


class NoPicture(RunError):
    """A picture that does not exist for this run, and why."""


def draw(run: Run, what: str, out: Path, seed: int | None = None) -> Path:
    """Draws one picture of one of the run's seeds, by default the first, to a PNG, SVG or PDF at
    `out`.

    Raises `NoPicture` if the algorithm or its environment has no such picture.
    """
    if what == "curve":
        return learning_curves([run.path], out)
    figure = picture(run, what, seed)
    try:
        save(figure, out)
    except (OSError, ValueError) as error:
        raise RunError(f"Cannot draw to {out}: {error}.") from error
    return out


def picture(run: Run, what: str, seed: int | None = None) -> Figure:
    """Visits or bonus of one of the run's seeds, by default the first. Raises as `draw` does."""
    state = jax.device_get(take_seed(run.states, run.index(seed)))
    view = require_view(run)
    figure = (draw_visits if what == "visits" else draw_bonus)(run, state, view)
    if run.config.seeds > 1:
        number = run.config.seed_numbers[run.index(seed)]
        figure.suptitle(f"{figure.get_suptitle()}, seed {number}")
    return figure


def draw_all(
    run: Run, folder: Path, seed: int | None = None, format: str = "png"
) -> tuple[list[Path], list[str]]:
    """Draws every picture that there is of `run` into `folder`, as PNG, SVG or PDF.

    Returns the files, and a warning for each picture that could not be drawn: none of them is
    worth a run, so nothing is raised.
    """
    drawn, warnings = [], []
    for what in get_args(Picture):
        path = (folder / FILES[what]).with_suffix(f".{format}")
        try:
            drawn.append(draw(run, what, path, seed))
        except NoPicture:
            continue
        except Exception as error:  # whatever it is, the run itself is safe
            what_happened = str(error) or type(error).__name__
            warnings.append(f"{path.name} was not drawn: {what_happened}")
    return drawn, warnings


def draw_visits(run: Run, state: Any, view: View) -> Figure:
    """Where each policy of the cover went, by its visits in the buffer; and episodes of the policy
    that is judged, which is all there is without a cover."""
    covered = run.config.algorithm.has_cover
    visits = visits_of(run, state) if covered else []
    name, acting = choose_policy(run.learner.policies(state), None)
    episodes = play(run.env, acting, jax.random.key(0), NUM_EPISODES, max_steps=MAX_STEPS)
    figure, axes = _panels(run, 1 + covered)
    if covered:
        view.draw_visits(figure, axes[0], visits)
        axes[0].set_title("visits of the cover's policies")
    view.draw_episodes(figure, axes[-1], episodes)
    if name != "incumbent":
        name = f"{name} policy"
    mean = float(np.mean([episode.total_reward for episode in episodes]))
    axes[-1].set_title(f"{name}: {NUM_EPISODES} episodes, mean return {mean:.3g}")
    return figure


def draw_bonus(run: Run, state: Any, view: View) -> Figure:
    """How often states were visited, and the bonus b(s, a) that was fitted last."""
    bonus = run.learner.bonus(state)
    if bonus is None:
        name = run.config.algorithm.name
        raise NoPicture(f"{name} has no bonus that can be drawn.")
    covered = run.config.algorithm.has_cover
    visits = visits_of(run, state) if covered else []
    values = bonus_values(bonus, view.observations, some_actions(run.env.action_space))
    figure, axes = _panels(run, 1 + covered)
    if covered:
        view.draw_counts(figure, axes[0], visits)
        axes[0].set_title("visited states")
    view.draw_bonus(figure, axes[-1], values)
    same = bool(np.all(values == values[:, :1]))
    over = "" if same or view.shows_actions else f", largest over {values.shape[1]} actions"
    axes[-1].set_title("bonus b(s)" if same else f"bonus b(s, a){over}")
    return figure


def bonus_values(bonus: Any, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """b(s, a): [observations, actions]."""
    return np.asarray(_of_every_pair(bonus, jnp.asarray(observations), jnp.asarray(actions)))


# The bonus as an argument: the arrays of a run that was loaded are numpy's, and JAX's in here.
@eqx.filter_jit
def _of_every_pair(bonus: Any, observations: jax.Array, actions: jax.Array) -> jax.Array:
    return jax.vmap(jax.vmap(bonus, in_axes=(None, 0)), in_axes=(0, None))(observations, actions)


def some_actions(space: gymnasium.Space[Any]) -> np.ndarray:
    """Actions of a space, as a policy emits them, over which the largest bonus is taken.

    All of a discrete space; of an interval `NUM_ACTIONS` at equal distances; of a box with more
    coordinates as many at random, and its middle, and so of several choices. Without bounds, -1
    and 1 are taken.
    """
    flat, rng = emitted(space), np.random.default_rng(0)
    if isinstance(flat, gymnasium.spaces.Discrete):
        return np.arange(int(flat.n), dtype=np.int32)
    if isinstance(flat, gymnasium.spaces.MultiDiscrete | gymnasium.spaces.MultiBinary):
        most = getattr(flat, "nvec", 2)
        drawn = rng.integers(0, most, size=(NUM_ACTIONS, *flat.shape))
        return drawn.astype(np.int32)
    assert isinstance(flat, gymnasium.spaces.Box)
    bounded = np.isfinite(flat.low) & np.isfinite(flat.high)
    low, high = np.where(bounded, flat.low, -1), np.where(bounded, flat.high, 1)
    share = np.linspace(0, 1, NUM_ACTIONS).reshape(-1, 1)
    if low.size > 1:
        share = rng.uniform(size=(NUM_ACTIONS, *low.shape))
        share[0] = 0.5
    return (low + share * (high - low)).astype(np.float32)


def require_view(run: Run) -> View:
    """How the observations of a run are drawn. Raises `NoPicture` if they are not."""
    view = view_of(run.env)
    if view is None:
        space = str(run.env.observation_space)
        space = space if len(space) <= 100 else f"{space[:97]}..."
        also = ""
        if run.config.algorithm.has_cover:
            also = " `eniac cover` has the coverage in numbers."
        raise NoPicture(
            f"{run.config.env} has the observation space {space}; visits and bonus can be drawn "
            "for observations of two numbers with bounds, for discrete ones and for deep sea."
            f"{also}"
        )
    return view


def require_plane(run: Run) -> Plane:
    """The plane of a run's observations. Raises `NoPicture` if they are not two numbers."""
    view = require_view(run)
    if not isinstance(view, Plane):
        raise NoPicture(
            f"{run.config.env} has the observation space {run.env.observation_space}; the paper's "
            "Figures 2 and 3 are of observations of two numbers with bounds, as mountain car has."
        )
    return view


def _panels(run: Run, count: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(1.5 + 4.7 * count, 4.4), dpi=150, layout="constrained")
    epochs = f"{run.progress.epoch} epoch{'s' * (run.progress.epoch != 1)}"
    steps = short_number(int(run.progress.steps.max()))
    figure.suptitle(
        f"{run.config.algorithm.name} on {run.config.env}, after {epochs} ({steps} steps)"
    )
    return figure, figure.subplots(1, count, squeeze=False)[0]
