"""A policy as files that other programs can read: safetensors for the numbers, JSON for the rest.

Loading executes nothing: the configuration says which network it is, the network says which arrays
it needs, and a file with anything else is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from eniac.deep import Learner
from eniac.errors import CheckpointError, ConfigError, RunError
from eniac.runs.checkpoint import FORMAT
from eniac.runs.config import Config
from eniac.runs.files import write_json
from eniac.runs.load import Run, take_seed
from eniac.runs.progress import Progress
from eniac.runs.tensors import flatten, read_tensors, unflatten, write_tensors

POLICY = "policy.safetensors"


def export_policies(
    folder: Path, config: Config, learner: Learner, states: Any, progress: Progress
) -> list[Path]:
    """Writes the policy of every seed to `folder/seed-N`. Returns those folders."""
    written = []
    for k, seed in enumerate(config.seed_numbers):
        target = folder / f"seed-{seed}"
        target.mkdir(parents=True, exist_ok=True)
        arrays = flatten(learner.policy(take_seed(states, k)))
        about = {
            "seed": seed,
            "epoch": int(progress.epochs[k]),
            "env_steps": int(progress.steps[k]),
            "return_mean": progress.to_dict()["returns"][k],
        }
        write_tensors(target / POLICY, arrays, {"format": FORMAT, **about})
        tensors = {name: [str(x.dtype), list(x.shape)] for name, x in sorted(arrays.items())}
        write_json(
            target / "config.json",
            {"format": FORMAT, **about, "tensors": tensors, "config": config.to_dict()},
        )
        written.append(target)
    return written


def export_run(run: Run, folder: Path) -> list[Path]:
    """Writes the policies of a run's newest checkpoint to `folder`, one folder a seed."""
    try:
        return export_policies(folder, run.config, run.learner, run.states, run.progress)
    except OSError as error:
        raise RunError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def load_policy(folder: Path | str) -> Any:
    """The policy that was exported to `folder`.

    `folder` is that of one seed, or the one above it if there is only one. Raises
    `CheckpointError` if the file is damaged or does not fit the configuration beside it, with the
    difference.
    """
    folder = _seed_folder(Path(folder))
    path = folder / "config.json"
    try:
        about = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or "config" not in about:
        raise RunError(f"{path} is not that of an exported policy of format {FORMAT}.")
    try:
        learner, _ = Config.from_dict(about["config"]).build()
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    like = _policy_shapes(learner)
    arrays, note = read_tensors(folder / POLICY)
    for name in ("seed", "epoch", "env_steps"):
        if note.get(name) != about.get(name):
            raise CheckpointError(
                f"{folder / POLICY} does not fit {path}: {name} is {note.get(name)} in the one and "
                f"{about.get(name)} in the other."
            )
    return unflatten(like, arrays, folder / POLICY)


def _policy_shapes(learner: Any) -> Any:
    """A policy of `learner`, or the shapes of its arrays."""
    if not getattr(learner, "compiled", True):
        return learner.policy(learner.init(0))
    return eqx.filter_eval_shape(lambda: learner.policy(learner.init(jax.random.key(0))))


def _seed_folder(folder: Path) -> Path:
    if (folder / POLICY).exists():
        return folder
    seeds = sorted(path.parent for path in folder.glob(f"seed-*/{POLICY}"))
    if len(seeds) == 1:
        return seeds[0]
    if seeds:
        names = ", ".join(path.name for path in seeds)
        raise RunError(f"{folder} holds several policies; give one of its folders: {names}.")
    raise RunError(
        f"{folder} holds no exported policy. `eniac export RUN --out {folder}` makes one."
    )
