"""Judging the policies of a finished or interrupted run."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from eniac.runs.load import Run
from eniac.sampling.compiled import evaluate


def evaluate_run(
    run: Run, episodes: int, seed: int = 0, deterministic: bool = False, horizon: int | None = None
) -> dict[str, Any]:
    """Plays `episodes` fresh episodes with the policy of every seed of `run`.

    Returns plain data: what was evaluated and how, a row for each seed, and the mean over seeds.
    The same `seed` gives the same episodes.
    """
    config = run.config
    horizon = horizon or config.evaluation_horizon
    env = config.make_env(horizon)

    @jax.jit
    def judge(state: Any, key: jax.Array):
        return evaluate(env, run.learner.policy(state), key, episodes, deterministic)

    rows = []
    for k, number in enumerate(config.seed_numbers):
        state = jax.tree.map(lambda leaf, k=k: leaf[k], run.states)
        result = judge(state, jax.random.fold_in(jax.random.key(seed), number))
        returns = np.asarray(result.returns, np.float64)
        rows.append(
            {
                "seed": number,
                "epoch": int(run.progress.epochs[k]),
                "env_steps": int(run.progress.steps[k]),
                "return_mean": float(returns.mean()),
                "return_std": float(returns.std()),
                "return_min": float(returns.min()),
                "return_max": float(returns.max()),
                "length_mean": float(np.asarray(result.lengths).mean()),
            }
        )
    return {
        "run": str(run.path),
        "algorithm": config.algorithm.name,
        "env": config.env,
        "env_options": dict(config.env_options),
        "episodes": episodes,
        "horizon": horizon,
        "deterministic": deterministic,
        "evaluation_seed": seed,
        "return_mean": float(np.mean([row["return_mean"] for row in rows])),
        "seeds": rows,
    }
