"""Where the policies of a run went and what the bonus was, epoch by epoch, in grids that a page has
room for."""

from __future__ import annotations

import base64
from typing import Any

import jax
import numpy as np

from eniac.incumbent import Acting
from eniac.page.curves import evenly
from eniac.report.coverage import Visits, visits_of
from eniac.report.episodes import play
from eniac.report.numbers import spans
from eniac.report.pictures import (
    MAX_STEPS,
    NUM_EPISODES,
    bonus_values,
    require_view,
    some_actions,
)
from eniac.report.views import Plane, Sea, View
from eniac.runs.checkpoint import epoch_of, list_checkpoints
from eniac.runs.load import Run, kept_checkpoints
from eniac.runs.program import take_seed
from eniac.runs.proposals import again_command

MOST_FRAMES = 40
"""Epochs of a run that are shown; of a longer one some in between are left out."""
FINEST = 60
"""Cells along each side of a bonus: of a finer grid every second, third, ... is taken."""


def landscapes(run: Run, seed: int | None = None) -> dict[str, Any]:
    """The grids of one of the run's seeds, by default the first, as plain data.

    `epochs` are those that there is something to show of. `cover` has for each the visits of the
    policy that joined in it, by the buffer; `exploiting` what `NUM_EPISODES` fresh episodes of that
    policy visit, `bonus` the bonus b^n: both None for an epoch whose checkpoint was not kept.
    `missing` says so, and how to have them.

    **Raises** `NoPicture` where observations have no picture, `RunError` before the first epoch.
    """
    index, view = run.index(seed), require_view(run)
    state = jax.device_get(take_seed(run.states, index))
    visits = visits_of(run, state) if run.config.algorithm.has_cover else []
    last = int(run.progress.epochs[index])
    kept = {min(epoch_of(path), last) for path in list_checkpoints(run.path / "checkpoints")}
    known = sorted({*range(1, len(visits) + 1), *kept} - {0})
    epochs = [known[place] for place in evenly(len(known), MOST_FRAMES)]
    looked: dict[int, tuple[Any, Any]] = {}
    for each in kept_checkpoints(run):
        epoch = int(each.progress.epochs[index])
        if epoch in epochs and epoch not in looked:
            looked[epoch] = _look(each, view, index)
    lost = [n for n in range(1, last + 1) if n not in looked]
    joined = [visits[n - 1] if n <= len(visits) else None for n in epochs]
    exploiting, bonus = zip(*(looked.get(n, (None, None)) for n in epochs), strict=True)
    acting, _ = _acting(run, state)
    return {
        **axes_of(view),
        "epochs": epochs,
        "acting": acting,
        "cover": [None if seen is None else sparse(view.count([seen])) for seen in joined],
        "exploiting": list(exploiting),
        "bonus": list(bonus),
        "missing": _missing(run, acting, known, epochs, lost),
    }


def _look(run: Run, view: View, index: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Where the exploiting policy goes, and the bonus, in one checkpoint."""
    state = jax.device_get(take_seed(run.states, index))
    _, policy = _acting(run, state)
    cut = min(run.config.evaluation.horizon or MAX_STEPS, MAX_STEPS)
    episodes = play(run.env, policy, jax.random.key(0), NUM_EPISODES, max_steps=cut)
    seen = [Visits(x.observations[:-1], np.ones(x.length)) for x in episodes if x.length]
    bonus = run.learner.bonus(state)
    if bonus is not None:
        values = bonus_values(bonus, view.observations, some_actions(run.env.action_space))
        bonus = shares(view.bonus_grid(values))
    return sparse(view.count(seen)), bonus


def _acting(run: Run, state: Any) -> tuple[str, Acting]:
    """The policy that is shown beside those of the cover, and what it is called."""
    named = run.learner.policies(state)
    if "exploiting" in named:
        return "exploiting policy" if run.config.algorithm.has_cover else "policy", named[
            "exploiting"
        ]
    name, policy = next(iter(named.items()))
    return f"{name} policy", policy


def sparse(counts: np.ndarray) -> dict[str, list[int]]:
    """Counts on a grid as pairs: how many cells without any come before, and the count."""
    flat = np.asarray(counts).round().astype(int).ravel()
    places = np.flatnonzero(flat)
    gaps = np.diff(places, prepend=-1) - 1
    pairs = np.stack([gaps, flat[places]], axis=1).ravel()
    return {"shape": list(counts.shape), "pairs": pairs.tolist()}


def shares(grid: np.ndarray) -> dict[str, Any]:
    """A bonus on a grid, in 255ths of its `largest` value, as bytes in base64."""
    for axis, size in enumerate(grid.shape):
        grid = grid.take(range(0, size, -(-size // FINEST)), axis)
    largest = float(grid.max())
    parts = np.round(255 * np.clip(grid / (largest or 1.0), 0, 1)).astype(np.uint8)
    return {
        "shape": list(parts.shape),
        "largest": largest,
        "parts": base64.b64encode(parts.tobytes()).decode(),
    }


def axes_of(view: View) -> dict[str, Any]:
    """The two axes of a view's grids."""
    if isinstance(view, Plane):
        told = view.to_dict()
        axes = zip(told["axes"], told["low"], told["high"], strict=True)
        return {
            "axes": [{"name": name, "low": low, "high": high} for name, low, high in axes],
            "goal": told["goal"],
            "start": told["start"],
        }
    names = ("column", "row") if isinstance(view, Sea) else ("state", "action")
    return {"axes": [{"name": name, "whole": True} for name in names]}


def _missing(
    run: Run, acting: str, known: list[int], epochs: list[int], lost: list[int]
) -> list[str]:
    told = []
    if len(epochs) < len(known):
        told.append(f"{len(epochs)} of {len(known)} epochs are shown, evenly.")
    if lost:
        words = f"--checkpoint-every 1 --keep {run.progress.epoch + 1}"
        again = again_command(run.path, run.config, words, name="kept")
        told.append(
            f"Of epoch{'s' * (len(lost) > 1)} {spans(lost)} no checkpoint was kept, so that the "
            f"{acting} and the bonus of then are not known. A run keeps them with `{words}`"
            + ("." if again is None else f": `{again}` makes this one again.")
        )
    return told
