"""A run's policy at work, as a moving picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from PIL import Image

from eniac.errors import RunError
from eniac.runs.load import Run

MAX_FRAMES = 250
"""Frames of a GIF at most: of longer episodes every second, third, ... state is shown."""


@dataclass(frozen=True)
class Episode:
    """One episode that was played."""

    states: list[Any]
    total_reward: float
    terminated: bool

    @property
    def length(self) -> int:
        return len(self.states) - 1


def play_episode(
    run: Run,
    seed: int | None = None,
    episode: int = 0,
    deterministic: bool = False,
    max_steps: int = 10_000,
) -> Episode:
    """One episode of the policy of one of the run's seeds, in the evaluation's environment.

    `episode` decides its randomness. An episode that does not end is cut after `max_steps`.
    """
    policy, env = run.policy(seed), run.env

    @jax.jit
    def step(key: jax.Array, state: Any, observation: jax.Array):
        act_key, step_key = jax.random.split(key)
        action = policy.mode(observation) if deterministic else policy.sample(act_key, observation)
        return env.step(step_key, state, action)

    key = jax.random.key(episode)
    state, observation = jax.jit(env.reset)(jax.random.fold_in(key, 0))
    states, total = [state], 0.0
    terminated = False
    for t in range(max_steps):
        result = step(jax.random.fold_in(key, t + 1), state, observation)
        state, observation = result.state, result.observation
        states.append(state)
        total += float(result.reward)
        terminated = bool(result.terminated)
        if terminated or bool(result.truncated):
            break
    return Episode(states, total, terminated)


def save_gif(run: Run, episode: Episode, path: Path) -> int:
    """Draws `episode` to a GIF at `path` that ends on the last state. Returns the frame count."""
    # Negative strides from the end, so that the last state is always among those shown.
    every = -(-len(episode.states) // MAX_FRAMES)
    shown = episode.states[::-1][::every][::-1]
    try:
        frames = [Image.fromarray(np.asarray(run.env.render(jax.device_get(s)))) for s in shown]
    except NotImplementedError as error:
        raise RunError(str(error)) from error
    # GIF counts in hundredths of a second, and many viewers show less than two of them as ten.
    milliseconds = [max(20, 10 * round(100 / run.env.render_fps))] * len(frames)
    milliseconds[-1] = 1000  # a moment to see how it ended
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    except OSError as error:
        raise RunError(f"Cannot write to {path}: {error.strerror or error}.") from error
    return len(frames)
