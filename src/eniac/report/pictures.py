"""Pictures of a run, each drawn from its newest checkpoint.

Visits, as in the paper's Figure 2: where the policies of the cover went, and how the exploiting
policy moves. Bonus, as in its Figure 3: what was visited, and what the bonus makes of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from eniac.envs import Environment
from eniac.errors import EniacError, RunError
from eniac.report.coverage import has_cover, visits_of
from eniac.report.figures import learning_curves, short_number
from eniac.report.plot_style import save
from eniac.report.views import Episodes, View, view_of
from eniac.runs.load import Run, take_seed
from eniac.sampling.compiled import embark, select

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


class NoPicture(EniacError):
    """A picture that does not exist for this run, and why."""


def draw(run: Run, what: str, out: Path, seed: int | None = None) -> Path:
    """Draws one picture of one of the run's seeds, by default the first, to a PNG at `out`.

    Raises `NoPicture` if the algorithm or its environment has no such picture.
    """
    if what == "curve":
        return learning_curves([run.path], out)
    state = jax.device_get(take_seed(run.states, run.index(seed)))
    view = _view(run)
    figure = (draw_visits if what == "visits" else draw_bonus)(run, state, view)
    if run.config.seeds > 1:
        number = run.config.seed_numbers[run.index(seed)]
        figure.suptitle(f"{figure.get_suptitle()}, seed {number}")
    try:
        save(figure, out)
    except (OSError, ValueError) as error:
        raise RunError(f"Cannot draw to {out}: {error}.") from error
    return out


def draw_all(run: Run, folder: Path, seed: int | None = None) -> tuple[list[Path], list[str]]:
    """Draws every picture that there is of `run` into `folder`.

    Returns the files, and a warning for each picture that could not be drawn: none of them is
    worth a run, so nothing is raised.
    """
    drawn, warnings = [], []
    for what in get_args(Picture):
        path = folder / FILES[what]
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
    covered = has_cover(state)
    visits = visits_of(run, state) if covered else []
    policy = run.learner.policy(state)
    episodes = play(run.env, policy, jax.random.key(0), _steps(run))
    figure, axes = _panels(run, 1 + covered)
    if covered:
        view.draw_visits(figure, axes[0], visits)
        axes[0].set_title("visits of the cover's policies")
    view.draw_episodes(figure, axes[-1], episodes)
    name = "exploiting policy" if covered else "policy"
    mean = float(episodes.returns.mean())
    axes[-1].set_title(f"{name}: {NUM_EPISODES} episodes, mean return {mean:.3g}")
    return figure


def draw_bonus(run: Run, state: Any, view: View) -> Figure:
    """How often states were visited, and the bonus b(s, a) that was fitted last."""
    bonus = getattr(state, "bonus", None)
    name = run.config.algorithm.name
    if bonus is None:
        raise NoPicture(f"{run.path} is a run of {name}, which has no bonus to draw.")
    if bonus.coefficient == 0:
        raise NoPicture(f"The bonus of {name} is 0 everywhere: there is nothing to draw.")
    covered = has_cover(state)
    visits = visits_of(run, state) if covered else []
    actions = some_actions(run.env.action_space)
    values = bonus_values(bonus, view.observations, actions)
    figure, axes = _panels(run, 1 + covered)
    if covered:
        view.draw_counts(figure, axes[0], np.concatenate(visits))
        axes[0].set_title("visited states")
    view.draw_bonus(figure, axes[-1], values)
    same = bool(np.all(values == values[:, :1]))
    over = "" if same or view.shows_actions else f", largest over {values.shape[1]} actions"
    axes[-1].set_title("bonus b(s)" if same else f"bonus b(s, a){over}")
    return figure


def bonus_values(bonus: Any, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """b(s, a): [observations, actions]."""
    every = jax.vmap(jax.vmap(bonus, in_axes=(None, 0)), in_axes=(0, None))
    return np.asarray(jax.jit(every)(jnp.asarray(observations), jnp.asarray(actions)))


def some_actions(space: gymnasium.Space[Any]) -> np.ndarray:
    """All actions of a discrete space; of an interval `NUM_ACTIONS` at equal distances; of a box
    with more coordinates as many at random, and its middle. Without bounds, -1 and 1 are taken."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return np.arange(int(space.n))
    assert isinstance(space, gymnasium.spaces.Box)
    bounded = np.isfinite(space.low) & np.isfinite(space.high)
    low, high = np.where(bounded, space.low, -1), np.where(bounded, space.high, 1)
    share = np.linspace(0, 1, NUM_ACTIONS).reshape(-1, *[1] * low.ndim)
    if low.size > 1:
        share = np.random.default_rng(0).uniform(size=(NUM_ACTIONS, *low.shape))
        share[0] = 0.5
    return (low + share * (high - low)).astype(np.float32)


class _Under(NamedTuple):
    vessel: Any
    alive: jax.Array


def play(env: Environment, policy: Any, key: jax.Array, steps: int) -> Episodes:
    """`NUM_EPISODES` episodes with sampled actions, none longer than `steps`."""
    reset_key, play_key = jax.random.split(key)

    def advance(under: _Under, key: jax.Array):
        act_key, step_key = jax.random.split(key)
        split = jax.random.split(act_key, NUM_EPISODES), jax.random.split(step_key, NUM_EPISODES)
        vessel, alive = under
        action = jax.vmap(policy.sample)(split[0], vessel.observation)
        step = jax.vmap(env.step)(split[1], vessel.state, action)
        # After its end an episode stands still.
        following = select(alive, type(vessel)(step.state, step.observation), vessel)
        now = alive & ~(step.terminated | step.truncated)
        reward = jnp.where(alive, step.reward, 0.0)
        return _Under(following, now), (following.observation, reward, alive)

    @jax.jit
    def go():
        start = _Under(embark(env, reset_key, NUM_EPISODES), jnp.ones(NUM_EPISODES, bool))
        _, seen = jax.lax.scan(advance, start, jax.random.split(play_key, steps))
        return start.vessel.observation, *seen

    first, observations, rewards, alive = map(np.asarray, go())
    return Episodes(
        observations=np.concatenate([first[None], observations]),
        lengths=alive.sum(0),
        returns=rewards.sum(0),
    )


def _steps(run: Run) -> int:
    return min(run.config.evaluation_horizon or MAX_STEPS, MAX_STEPS)


def _view(run: Run) -> View:
    view = view_of(run.env)
    if view is None:
        raise NoPicture(
            f"{run.config.env} has the observation space {run.env.observation_space}; visits and "
            "bonus can be drawn for observations of two numbers with bounds, for discrete ones and "
            f"for deep sea. `eniac cover {run.path}` has the coverage in numbers."
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
