"""Judging the policies of a finished or interrupted run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from eniac.envs.base import Environment
from eniac.envs.sources import HostEnv
from eniac.memory import require_memory
from eniac.runs.load import Run, choose_policy
from eniac.sampling import make_sampler
from eniac.sampling.base import Evaluation, summary
from eniac.spaces import Spaces

MAX_ENVS = 10
"""Environments of gymnasium's that are opened for an evaluation, where their number is free."""

Judge = Callable[[PRNGKeyArray, Any], dict[str, float]]
"""The mean, spread and range of the returns of a policy, and its mean length."""


@contextmanager
def judge(env: Environment | HostEnv, evaluation: Evaluation) -> Iterator[Judge]:
    """Judges policies in `env`, in as many episodes as `evaluation` asks for."""
    spaces = Spaces(env.observation_space, env.action_space)
    require_memory(evaluation.memory(spaces), f"{evaluation.episodes:,} episodes side by side")
    host = isinstance(env, HostEnv)
    num_envs = (host and env.num_envs) or min(evaluation.episodes, MAX_ENVS)
    sampler = make_sampler(env, env, num_envs)

    def play(key: PRNGKeyArray, policy: Any) -> Any:
        return sampler.evaluate(key, policy, evaluation)

    if sampler.compiled:
        play = jax.jit(play)

    def numbers(key: PRNGKeyArray, policy: Any) -> dict[str, float]:
        return {name: float(x) for name, x in summary(play(key, policy)).items()}

    try:
        yield numbers
    finally:
        sampler.close()


def evaluate_run(
    run: Run,
    episodes: int,
    seed: int = 0,
    deterministic: bool | None = None,
    horizon: int | None = None,
    policy: str | None = None,
) -> dict[str, Any]:
    """Plays `episodes` fresh episodes with the policy of every seed of `run`: the one called
    `policy`, by default the one that the run is judged by.

    It takes its most likely actions if `deterministic`, random ones if not; None is as it was
    judged best, which may differ from seed to seed.

        >>> eniac.evaluate_run(eniac.load_run(folder / "run"), episodes=5)
        {'run': ..., 'algorithm': 'eniac', 'env': 'DeepSea-4', ... 'seeds': [{'seed': 0, ...}]}

    Returns plain data: what was evaluated and how,
    a row for each seed, and the mean over seeds. The same `seed` gives the same episodes.
    """
    config, env = run.config, run.env
    if horizon is not None and horizon != config.evaluation.horizon:
        env = config.algorithm.adapt(config.make_env(horizon, run.built.given))
    horizon = horizon or config.evaluation.horizon
    evaluation = Evaluation(episodes, horizon)
    found = [choose_policy(run.policies(number), policy) for number in config.seed_numbers]
    rows = []
    with judge(env, evaluation) as judged:
        for k, number in enumerate(config.seed_numbers):
            key = jax.random.fold_in(jax.random.key(seed), number)
            name, acting = found[k][0], found[k][1].acts(deterministic)
            rows.append(
                {
                    "seed": number,
                    "epoch": int(run.progress.epochs[k]),
                    "env_steps": int(run.progress.steps[k]),
                    "policy": name,
                    "deterministic": bool(acting.greedy),
                    **judged(key, acting),
                }
            )
    return {
        "run": str(run.path),
        "algorithm": config.algorithm.name,
        "env": config.env,
        "env_options": dict(config.env_options),
        "episodes": episodes,
        "horizon": horizon,
        "evaluation_seed": seed,
        "return_mean": float(np.mean([row["return_mean"] for row in rows])),
        "seeds": rows,
    }
