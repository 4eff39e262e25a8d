"""Policies leave the library: as safetensors, as an ONNX graph or as a file of NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from eniac.errors import ConfigError, RunError, shown, suggestion
from eniac.exports.card import CARD, History, SeedResult, model_card
from eniac.runs.dataclass_io import conform
from eniac.runs.export import CONFIG, POLICY, Exported, exported_policies
from eniac.runs.files import write_atomically
from eniac.runs.load import Run
from eniac.runs.log import METRICS, read_records
from eniac.runs.manifest import last_session
from eniac.runs.progress import Progress

GRAPH = "policy.onnx"
FORMATS: dict[str, tuple[str, ...]] = {
    "safetensors": (),
    "onnx": (GRAPH,),
    "numpy": ("policy.py", "policy.json"),
}
"""The formats, and the files that each has beside those of all: the numbers as safetensors, with
their description and the card."""

OURS = {POLICY, CONFIG, CARD, *(name for names in FORMATS.values() for name in names)}


def export_run(
    run: Run, folder: Path | str, policy: str | None = None, format: str = "safetensors"
) -> list[Path]:
    """Writes the policies of a run's newest checkpoint to `folder`, one folder a seed, each with a
    model card: those called `policy`, by default those that the run is judged by.

    `format` is "safetensors", "onnx" or "numpy". An export that is there already is replaced.
    **Raises** `ConfigError` if the format or the policy is unknown, or something else is in the
    folder, before anything is written; `RunError` if it cannot be written, or if what was made does
    not act as the policy.
    """
    folder = Path(conform(Path, folder, "the folder"))
    if folder.resolve() == (run.path / "policy").resolve():
        raise ConfigError(f"{folder} is where the run itself has its policy; give another folder.")
    check_format(format)
    parts = (run.config, run.learner, run.states, run.progress)
    targets = {
        folder / f"seed-{exported.about['seed']}": exported
        for exported in exported_policies(*parts, policy)
    }
    history = History(
        read_records(run.path / METRICS),
        last_session(run.path),
        seed_results(run.config.seed_numbers, run.progress),
    )
    return export(targets, format, history)


def export(targets: dict[Path, Exported], format: str, history: History) -> list[Path]:
    """Writes each policy to its folder. All are made before the first is written."""
    check_format(format)
    for target in targets:
        check_target(target)
    made = {target: _files(exported, format, history) for target, exported in targets.items()}
    for target, files in made.items():
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name in OURS - files.keys():  # of another format, and perhaps another policy
                (target / name).unlink(missing_ok=True)
            for name, content in files.items():
                write_atomically(target / name, content)
        except OSError as error:
            what = error.strerror or error
            raise RunError(f"Cannot write to {target}: {what}.") from error
    return [*made]


def seed_results(seeds: range, progress: Progress) -> list[SeedResult]:
    """What each seed of a run has come to."""
    told = progress.to_dict()
    return [
        SeedResult(seed, steps, mean)
        for seed, steps, mean in zip(seeds, told["steps"], told["returns"], strict=True)
    ]


def check_format(format: Any) -> None:
    """Refuses a format that there is not, or whose packages are not installed."""
    if not isinstance(format, str) or format not in FORMATS:
        hint = suggestion(format, FORMATS) if isinstance(format, str) else ""
        allowed = ", ".join(FORMATS)
        raise ConfigError(f"format is {shown(format)}; it must be one of {allowed}.{hint}")
    if format == "onnx":
        from eniac.exports.onnx_graph import require_packages

        require_packages()


def check_target(folder: Path) -> None:
    """Refuses a folder with anything in it but an earlier export."""
    if folder == Path("."):
        raise ConfigError("the folder is the one that you are in; give the policy one of its own.")
    for place in (folder, *folder.parents):
        if place.exists() and not place.is_dir():
            raise ConfigError(f"{place} is a file; a policy is exported to a folder.")
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise RunError(f"{folder} cannot be read: {error.strerror or error}.") from error
    # Python makes __pycache__ where policy.py is imported. A README.md alone is somebody else's.
    foreign = sorted(names - OURS - {"__pycache__"} if POLICY in names else names)
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise ConfigError(
            f"{folder} is not empty: it has {', '.join(foreign[:3])}{more}. Export to another "
            "folder."
        )


def _files(exported: Exported, format: str, history: History) -> dict[str, bytes]:
    """The files of an export, by their names."""
    files = exported.files()
    spaces, about = exported.spaces, exported.about
    policy = jax.tree.map(jnp.asarray, exported.acting.policy)  # some come as NumPy's arrays
    if format == "onnx":
        from eniac.exports.onnx_graph import onnx_file

        told = {name: about[name] for name in ("seed", "epoch", "env_steps", "deterministic")}
        config = about["config"]
        told |= {"algorithm": config["algorithm"]["name"], "env": config["env"]}
        files[GRAPH] = onnx_file(policy, spaces, told)
    elif format == "numpy":
        from eniac.exports.numpy_files import numpy_files

        files |= numpy_files(policy, spaces, files[POLICY], about["deterministic"])
    return {**files, CARD: model_card(exported, format, history)}
