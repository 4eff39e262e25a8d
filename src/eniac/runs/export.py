"""A policy as files that other programs can read: safetensors for the numbers, JSON for the rest.

Loading executes nothing and builds no environment: the file beside it says which network it is, the
network says which arrays it needs, and a file with anything else is refused.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from gymnasium.spaces import Discrete

import eniac
from eniac.algorithm1 import Learner
from eniac.errors import CheckpointError, ConfigError, RunError, name_shown, require, shown
from eniac.incumbent import Acting
from eniac.networks import MOST_LAYERS
from eniac.policies import actor_critic
from eniac.provable.policies import TablePolicy
from eniac.runs.config import Config
from eniac.runs.dataclass_io import conform
from eniac.runs.files import json_bytes, write_atomically
from eniac.runs.load import choose_policy
from eniac.runs.program import take_seed
from eniac.runs.progress import Progress
from eniac.runs.reading import read_json, reason
from eniac.runs.tensors import flatten, read_header, read_tensors, tensor_bytes, unflatten
from eniac.spaces import Spaces, check_spaces, from_json

POLICY = "policy.safetensors"
CONFIG = "config.json"
FORMAT = 1
NOTED = ("seed", "epoch", "env_steps", "policy_name", "deterministic")
"""What both files say of a policy, so that two that do not belong together are noticed."""


class Exported(NamedTuple):
    """A policy as it is exported: how it acts, and what config.json says of it."""

    acting: Acting
    about: dict[str, Any]

    def files(self) -> dict[str, bytes]:
        """Its files, by their names."""
        arrays = flatten(self.acting.policy)
        note = {name: self.about[name] for name in ("format", *NOTED, "return_mean")}
        return {
            POLICY: tensor_bytes(arrays, note),
            CONFIG: json_bytes(self.about),
        }

    @property
    def spaces(self) -> Spaces:
        """What it sees and does; of a table, the numbers of states and actions."""
        form = self.about["policy"]
        if form["kind"] == "table":
            return Spaces(Discrete(form["num_states"]), Discrete(form["num_actions"]))
        return Spaces(from_json(form["observation"]), from_json(form["action"]))


def exported_policies(
    config: Config,
    learner: Learner[Any],
    states: Any,
    progress: Progress,
    policy: str | None = None,
) -> list[Exported]:
    """The policy of every seed: the one of that name, by default the one that the run is judged
    by."""
    found = [learner.policies(take_seed(states, k)) for k in range(config.seeds)]
    chosen = [choose_policy(policies, policy) for policies in found]
    returns = progress.to_dict()["returns"]
    exported = []
    for k, seed in enumerate(config.seed_numbers):
        name, acting = chosen[k]
        arrays = flatten(acting.policy)
        about = {
            "format": FORMAT,
            "seed": seed,
            "epoch": int(progress.epochs[k]),
            "env_steps": int(progress.steps[k]),
            "policy_name": name,
            "deterministic": bool(acting.greedy),
            # The others were not judged.
            "return_mean": returns[k] if name == next(iter(found[k])) else None,
            "policy": learner.policy_format(),
            "tensors": {name: [str(x.dtype), list(x.shape)] for name, x in sorted(arrays.items())},
            # Where the run lies is nobody's business.
            "config": replace(config, out=None).to_dict(),
        }
        exported.append(Exported(acting, about))
    return exported


def export_policies(
    folder: Path, config: Config, learner: Learner[Any], states: Any, progress: Progress
) -> None:
    """Writes the policy that each seed is judged by to `folder/seed-N`."""
    for exported in exported_policies(config, learner, states, progress):
        target = folder / f"seed-{exported.about['seed']}"
        target.mkdir(parents=True, exist_ok=True)
        for name, content in exported.files().items():
            write_atomically(target / name, content)


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
    return load_exported(folder).acting


def load_exported(folder: Path | str) -> Exported:
    """The same with what config.json says of it."""
    folder = Path(conform(Path, folder, "the folder"))
    try:
        folder = _seed_folder(folder)
        path = folder / CONFIG
        about = read_json(path)
    except FileNotFoundError:
        raise RunError(f"{folder} has no config.json, which every exported policy has.") from None
    except OSError as error:
        raise RunError(f"{name_shown(str(folder))} cannot be read: {reason(error)}.") from error
    if not isinstance(about, dict) or "format" not in about or "policy" not in about:
        raise RunError(f"{path} is not that of an exported policy.")
    if about["format"] != FORMAT:
        raise RunError(
            f"{path} is of format {shown(about['format'])}, and eniac {eniac.__version__} reads "
            f"format {FORMAT}: load it with the version that wrote it, or export it again."
        )
    numbers = sum(math.prod(spec.shape) for spec in read_header(folder / POLICY).specs.values())
    try:
        like = _policy_shapes(about["policy"], numbers)
        deterministic = about.get("deterministic")
        require(isinstance(deterministic, bool), "deterministic", deterministic, "true or false")
        for name in ("seed", "epoch", "env_steps"):
            conform(int, about.get(name), name)
        conform(str, about.get("policy_name"), "policy_name")
        conform(float | None, about.get("return_mean"), "return_mean")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    arrays, note = read_tensors(folder / POLICY, like)
    for name in NOTED:
        if note.get(name) != about.get(name):
            raise CheckpointError(
                f"{folder / POLICY} does not fit {path}: {name} is {shown(note.get(name))} in the "
                f"one and {shown(about.get(name))} in the other."
            )
    acting = Acting(unflatten(like, arrays, folder / POLICY), jnp.asarray(deterministic))
    return Exported(acting, about)


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


def holds_policy(folder: Path) -> bool:
    """Whether `folder` is one that a policy was exported to, and not that of a run."""
    return (folder / POLICY).is_file()


def _seed_folder(folder: Path) -> Path:
    if holds_policy(folder):
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
