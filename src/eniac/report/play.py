"""A run's policy at work, as a moving picture."""

from __future__ import annotations

from pathlib import Path

import jax
from PIL import Image

from eniac.errors import RunError
from eniac.report.episodes import Episode, play
from eniac.runs.load import Run
from eniac.sampling.base import LONGEST_EPISODE


def play_episode(
    run: Run,
    seed: int | None = None,
    episode: int = 0,
    deterministic: bool | None = None,
    max_steps: int = LONGEST_EPISODE,
    draw: bool = False,
    policy: str | None = None,
) -> Episode:
    """One episode of the policy of one of the run's seeds, in the evaluation's environment.

    `policy` and `deterministic` are as in `evaluate_run`: the policy's name, and how it acts.
    `episode` decides its randomness. An episode that does not end is cut after `max_steps`. With
    `draw` it has the pictures that `save_gif` makes a film of; `RunError` if there are none.
    """
    key = jax.random.key(episode)
    acting = run.policy(seed, policy).acts(deterministic)
    return play(run.env, acting, key, max_steps=max_steps, draw=draw)[0]


def save_gif(episode: Episode, path: Path) -> int:
    """Writes the pictures of `episode` to a GIF at `path` that ends on the last. Returns how many.

    **Raises** `RunError` if the episode was not drawn, or the file cannot be written.
    """
    if not episode.frames:
        raise RunError("This episode was not drawn: play it with play_episode(..., draw=True).")
    frames = [Image.fromarray(frame) for frame in episode.frames]
    # GIF counts in hundredths of a second, and many viewers show less than two of them as ten.
    milliseconds = [max(20, 10 * round(100 / episode.fps))] * len(frames)
    milliseconds[-1] = 1000  # a moment to see how it ended
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    except (OSError, ValueError) as error:  # ValueError: a name that Pillow knows no format for
        reason = getattr(error, "strerror", None) or error
        raise RunError(f"Cannot write to {path}: {reason}.") from error
    return len(frames)
