"""The paper's Figure 2 of a run: where the first policies of the cover go, and where the exploiting
policy goes after the same epochs. Data, small and plain, and a picture of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from eniac.actors import take
from eniac.deep import DeepLearner
from eniac.incumbent import Acting
from eniac.report.coverage import Visits, require_visits
from eniac.report.episodes import Episode, play
from eniac.report.pictures import MAX_STEPS, NUM_EPISODES, require_plane
from eniac.report.plot_style import legend, save
from eniac.report.views import Plane
from eniac.runs.identity import fingerprint
from eniac.runs.load import Run, kept_checkpoints, load_asked
from eniac.runs.log import METRICS, read_records
from eniac.runs.manifest import read_manifest, version_of
from eniac.runs.program import take_seed

EPOCHS = (1, 2, 3)
"""Epochs whose policies are shown."""
COLOURS = ("#E69F00", "#000000", "#009E73")
"""Orange, black and green, as in the paper, for the policies of these epochs."""
LAST = "#0072B2"
"""That of the last epoch."""
CELLS = (45, 28)
"""Into how many parts the two axes are cut: 0.04 of position, 0.005 of velocity."""
NUM_STEPS = 1000
"""Steps of a rollout, in each of `NUM_EPISODES` environments, on which the bonus is weighed."""


def figure2_data(run: Run, seed: int | None = None) -> dict[str, Any]:
    """The data of Figure 2 for one of the run's seeds, by default the first, as plain data.

    A policy's `visits` count the observations of `episodes` fresh episodes in the cells of a grid,
    [first axis][second axis]; `furthest` is the largest first coordinate among them, `reached` the
    share of episodes that came to their end before `cut` steps. Policies of the cover are those
    that joined it in `EPOCHS`; the exploiting policy is that after these epochs and after the last.
    `missing` are the epochs whose checkpoint was not kept, so that nothing is known of it.

    `bonus_share` is of every epoch: `share` is the part of the exploring policy's reward that is
    bonus in fresh rollouts, in which so many episodes came to their end (`ends`; both are None
    without a checkpoint). `decides` is the share of its steps in training at which the bonus was
    larger than the reward (None where they are not compared), `bonus` and `reward` are the means of
    both over these steps.

    **Raises** `RunError` for a run without a cover, `NoPicture` where observations are not two
    numbers with bounds.
    """
    index, plane = run.index(seed), require_plane(run)
    now = jax.device_get(take_seed(run.states, index))
    require_visits(run, now)
    cut = run.config.evaluation.first or run.config.evaluation.horizon or MAX_STEPS

    def of(kind: str, epoch: int, policy: Any) -> dict[str, Any]:
        sampled = Acting(policy, np.asarray(False))
        key = jax.random.fold_in(jax.random.key(run.config.seed_numbers[index]), epoch)
        episodes = play(run.env, sampled, key, NUM_EPISODES, max_steps=cut)
        return {"epoch": epoch, "kind": kind, **_numbers(plane, episodes)}

    joined = [epoch for epoch in EPOCHS if epoch <= int(now.cover.count)]
    policies = [of("cover", epoch, take(now.cover.policies, epoch - 1)) for epoch in joined]
    last = int(run.progress.epochs[index])
    shares: dict[int, dict[str, float | None]] = {}
    weigh = _weigher(run)
    for kept in kept_checkpoints(run):
        epoch = int(kept.progress.epochs[index])
        if epoch < 1 or epoch in shares:
            continue  # before the first, or a seed that had stopped
        state = jax.device_get(take_seed(kept.states, index))
        if epoch in (*EPOCHS, last):
            policies.append(of("exploiting", epoch, take(state.actors, -1).policy))
        shares[epoch] = weigh(state)
    return {
        **said_of(run, index),
        "episodes": NUM_EPISODES,
        "cut": cut,
        **plane.to_dict(),
        "policies": policies,
        "missing": [x for x in sorted({*EPOCHS, last}) if x <= last and x not in shares],
        "bonus_share": [
            {"epoch": epoch, **shares.get(epoch, {"share": None, "ends": None}), **told}
            for epoch, told in _in_training(run, index).items()
        ],
    }


def said_of(run: Run, index: int) -> dict[str, Any]:
    """What the data of a figure say of the run that they are of."""
    return {
        "algorithm": run.config.algorithm.name,
        "env": run.config.env,
        "seed": run.config.seed_numbers[index],
        "epochs": int(run.progress.epochs[index]),
        "env_steps": int(run.progress.steps[index]),
        "version": version_of(read_manifest(run.path)),
        "fingerprint": fingerprint(load_asked(run.path)),
    }


def _numbers(plane: Plane, episodes: list[Episode]) -> dict[str, Any]:
    observations = np.concatenate([episode.observations for episode in episodes])
    counts = plane.count([Visits(observations, np.ones(len(observations)))], CELLS)
    return {
        "visits": counts.astype(int).tolist(),
        "furthest": float(observations[:, 0].max()),
        "reached": float(np.mean([episode.terminated for episode in episodes])),
        "return_mean": float(np.mean([episode.total_reward for episode in episodes])),
    }


def _weigher(run: Run) -> Callable[[Any], dict[str, float | None]]:
    """A function of a state: the part of the exploring policy's reward that is bonus, None if there
    is no bonus, and how many episodes ended meanwhile."""
    learner = run.learner
    assert isinstance(learner, DeepLearner)
    sampler, config = learner.sampler, learner.config

    def parts(actor: Any, bonus: Any) -> tuple[Array, Array, Array]:
        begin_key, rollout_key = jax.random.split(jax.random.key(0))
        envs = sampler.begin(begin_key, NUM_EPISODES)
        _, seen = sampler.rollout(rollout_key, actor.policy, envs, NUM_STEPS)
        reward = actor.scale(seen.reward) if config.normalise_rewards else seen.reward
        earned = bonus.along(seen)
        counts = {"max": earned > reward, "bonus": True}.get(config.combine)
        if counts is not None:
            earned, reward = jnp.where(counts, earned, 0.0), jnp.where(counts, 0.0, reward)
        return jnp.sum(earned), jnp.sum(jnp.abs(reward)), jnp.sum(seen.terminated)

    parts = jax.jit(parts) if sampler.compiled else parts

    def weigh(state: Any) -> dict[str, float | None]:
        bonus = learner.bonus(state)
        if bonus is None:
            return {"share": None, "ends": None}
        given = jax.tree.map(jnp.asarray, (take(state.actors, 0), bonus))
        earned, reward, ends = map(float, parts(*given))
        total = earned + reward
        return {"share": earned / total if total else None, "ends": int(ends)}

    return weigh


def _in_training(run: Run, index: int) -> dict[int, dict[str, float | None]]:
    """What the exploring policy's metrics say of each epoch, by its last round."""
    found: dict[int, dict[str, float | None]] = {}
    for record in read_records(run.path / METRICS):
        if record.get("seed") == run.config.seed_numbers[index]:
            found[int(record["epoch"])] = {
                "decides": record.get("explore/bonus_decides"),
                "bonus": record.get("explore/bonus"),
                "reward": record.get("explore/reward"),
            }
    return found


def draw_figure2(data: Mapping[str, Any], out: Path) -> Path:
    """Draws Figure 2 from its data to a PNG, SVG or PDF at `out`: left the policies of the cover,
    right the exploiting policy."""
    figure = Figure(figsize=(12, 5.2), dpi=150, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    titles = {"cover": "policies of the cover", "exploiting": "exploiting policy"}
    for axes, (kind, title) in zip(panels, titles.items(), strict=True):
        policies = [row for row in data["policies"] if row["kind"] == kind]
        _draw_visits(axes, data, policies)
        axes.set_title(title)
    figure.suptitle(f"{data['algorithm']} on {data['env']}, seed {data['seed']}")
    save(figure, out)
    return out


def _draw_visits(axes: Axes, data: Mapping[str, Any], policies: list[Mapping[str, Any]]) -> None:
    """A dot for each cell that a policy was in, larger where it was more often. The dots of
    different policies lie beside each other in the cell."""
    plane = Plane.from_dict(data)
    plane.frame(axes)
    handles = []
    for place, row in enumerate(policies):
        counts = np.array(row["visits"])
        side = (plane.high - plane.low) / counts.shape
        cells = np.argwhere(counts > 0)
        shift = _SHIFTS[place % len(_SHIFTS)]
        points = plane.low + (cells + 0.5 + shift) * side
        size = 7.0 + 3.0 * np.log10(counts[counts > 0])
        colour = dict(zip(EPOCHS, COLOURS, strict=True)).get(row["epoch"], LAST)
        axes.scatter(*points.T, s=size, color=colour, linewidths=0)
        name = f"epoch {row['epoch']}: return {row['return_mean']:.3g}"
        handles.append(Line2D([], [], color=colour, marker="o", linewidth=0, label=name))
    plane.landmarks(axes)
    legend(axes, handles, ncols=2)


_SHIFTS = np.array([(-0.25, -0.2), (0.25, -0.2), (0.0, 0.25), (0.5, 0.25)])
"""Where in a cell the dots of the policies lie, in shares of its sides."""
