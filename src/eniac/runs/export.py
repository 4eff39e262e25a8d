"""A policy as files that other programs can read: safetensors for the numbers, JSON for the rest.

Loading executes nothing and builds no environment: the file beside it says which network it is, the
network says which arrays it needs, and a file with anything else is refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from gymnasium.spaces import Discrete

from eniac.algorithm1 import Learner
from eniac.errors import CheckpointError, ConfigError, RunError, name_shown, require, shown
from eniac.incumbent import Acting
from eniac.networks import MOST_LAYERS
from eniac.policies import actor_critic
from eniac.provable.policies import TablePolicy
from eniac.runs.config import Config
from eniac.runs.dataclass_io import conform
from eniac.runs.files import write_json
from eniac.runs.load import Run, choose_policy
from eniac.runs.program import take_seed
from eniac.runs.progress import Progress
from eniac.runs.reading import read_json, reason
from eniac.runs.tensors import flatten, read_header, read_tensors, unflatten, write_tensors
from eniac.spaces import Spaces, check_spaces, from_json

POLICY = "policy.safetensors"
FORMAT = 1


def export_policies(
    folder: Path,
    config: Config,
    learner: Learner[Any],
    states: Any,
    progress: Progress,
    policy: str | None = None,
) -> list[Path]:
    """Writes the policy of every seed to `folder/seed-N`: the one of that name, by default the one
    that the run is judged by. Returns those folders."""
    written = []
    returns = progress.to_dict()["returns"]
    found = [learner.policies(take_seed(states, k)) for k in range(config.seeds)]
    chosen = [choose_policy(policies, policy) for policies in found]  # before anything is written
    for k, seed in enumerate(config.seed_numbers):
        target = folder / f"seed-{seed}"
        target.mkdir(parents=True, exist_ok=True)
        name, acting = chosen[k]
        arrays = flatten(acting.policy)
        about = {
            "seed": seed,
            "epoch": int(progress.epochs[k]),
            "env_steps": int(progress.steps[k]),
            "policy_name": name,
            "deterministic": bool(acting.greedy),
            # The others were not judged.
            "return_mean": returns[k] if name == next(iter(found[k])) else None,
        }
        write_tensors(target / POLICY, arrays, {"format": FORMAT, **about})
        tensors = {name: [str(x.dtype), list(x.shape)] for name, x in sorted(arrays.items())}
        write_json(
            target / "config.json",
            {
                "format": FORMAT,
                **about,
                "policy": learner.policy_format(),
                "tensors": tensors,
                "config": config.to_dict(),
            },
        )
        written.append(target)
    return written


def export_run(run: Run, folder: Path, policy: str | None = None) -> list[Path]:
    """Writes the policies of a run's newest checkpoint to `folder`, one folder a seed: those called
    `policy`, by default those that the run is judged by."""
    try:
        return export_policies(folder, run.config, run.learner, run.states, run.progress, policy)
    except OSError as error:
        raise RunError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def load_policy(folder: Path | str) -> Acting:
    """The policy that was exported to `folder`, with how it acts.

        >>> acting = eniac.load_policy(folder / "run" / "policy")
        >>> action = acting.mode(observation)

    `action(noise, observation)` acts as it was judged best, by its most likely action if it is
    `greedy`; `policy` is the network, or the table, itself.

    `folder` is that of one seed, or the one above it if there is only one. Its files may be
    symbolic links to files, as in the folders of a hub's cache. Raises `CheckpointError` if a file
    is damaged, has NaN, or does not fit the configuration beside it, with the difference.

    Whoever made the folder, loading it executes nothing, imports nothing that it names, builds no
    environment, and takes about as much memory as its files have bytes.
    """
    folder = Path(conform(Path, folder, "the folder"))
    try:
        folder = _seed_folder(folder)
        path = folder / "config.json"
        about = read_json(path)
    except FileNotFoundError:
        raise RunError(f"{folder} has no config.json, which every exported policy has.") from None
    except OSError as error:
        raise RunError(f"{name_shown(str(folder))} cannot be read: {reason(error)}.") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or "policy" not in about:
        raise RunError(f"{path} is not that of an exported policy of format {FORMAT}.")
    numbers = sum(math.prod(spec.shape) for spec in read_header(folder / POLICY).specs.values())
    try:
        like = _policy_shapes(about["policy"], numbers)
        deterministic = about.get("deterministic")
        require(isinstance(deterministic, bool), "deterministic", deterministic, "true or false")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    arrays, note = read_tensors(folder / POLICY, like)
    for name in ("seed", "epoch", "env_steps", "policy_name", "deterministic"):
        if note.get(name) != about.get(name):
            raise CheckpointError(
                f"{folder / POLICY} does not fit {path}: {name} is {shown(note.get(name))} in the "
                f"one and {shown(about.get(name))} in the other."
            )
    return Acting(unflatten(like, arrays, folder / POLICY), jnp.asarray(deterministic))


def policy_spaces(folder: Path | str) -> Spaces:
    """What the policy that was exported to `folder` sees and does; of a table, which `load_policy`
    has accepted already, the numbers of states and actions."""
    form = read_json(_seed_folder(Path(folder)) / "config.json")["policy"]
    if form["kind"] == "table":
        return Spaces(Discrete(form["num_states"]), Discrete(form["num_actions"]))
    return Spaces(from_json(form["observation"]), from_json(form["action"]))


SHARE = 256
"""A network has at least one weight for so many of the numbers it reads: a first layer has one or
more for each; the filters for pictures have the least, one for each of their many channels."""


def _policy_shapes(form: Any, num_weights: int) -> Any:
    """The shapes of a policy from its format, as `Learner.policy_format` gave it.

    A space that is far larger than a policy of `num_weights` numbers could read is refused before
    its bounds are written out.
    """
    kind = form.get("kind") if isinstance(form, dict) else None
    known = {
        "actor-critic": {"observation", "action", "hidden", "normalise_observations"},
        "table": {"num_states", "num_actions"},
    }
    if kind not in [*known] or form.keys() != known[kind] | {"kind"}:
        raise ConfigError(
            f"policy is {shown(form)}; it must be a table with a kind, {' or '.join(known)}, and "
            "what belongs to it."
        )
    if kind == "table":
        sizes = [form["num_states"], form["num_actions"]]
        _check_sizes(sizes)
        return eqx.filter_eval_shape(lambda: TablePolicy(jnp.zeros(sizes)))
    hidden = form["hidden"]
    _check_sizes(hidden)
    normalise = form["normalise_observations"]
    if not isinstance(normalise, bool):
        raise ConfigError(
            f"normalise_observations is {shown(normalise)}; it must be true or false."
        )
    most = SHARE * num_weights
    spaces = from_json(form["observation"], most), from_json(form["action"], most)
    check_spaces(*spaces)
    return eqx.filter_eval_shape(
        lambda: actor_critic(jax.random.key(0), *spaces, tuple(hidden), normalise)
    )


def _check_sizes(sizes: Any) -> None:
    whole = isinstance(sizes, list) and all(type(size) is int for size in sizes)
    if (
        not whole
        or not sizes
        or len(sizes) > MOST_LAYERS
        or not all(1 <= n <= 10**6 for n in sizes)
    ):
        raise ConfigError(
            f"the sizes of a policy are {shown(sizes)}; they must be whole numbers, 1 up."
        )


def _seed_folder(folder: Path) -> Path:
    if (folder / POLICY).exists():
        return folder
    if (folder / "policy").is_dir():  # that of a run, or of an agent
        return _seed_folder(folder / "policy")
    seeds = sorted(path.parent for path in folder.glob(f"seed-*/{POLICY}"))
    if len(seeds) == 1:
        return seeds[0]
    if seeds:
        names = ", ".join(path.name for path in seeds)
        raise RunError(f"{folder} holds several policies; give one of its folders: {names}.")
    raise RunError(
        f"{folder} holds no exported policy. `eniac export RUN --out {folder}` makes one."
    )
