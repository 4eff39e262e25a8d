"""What a run was made with: versions, commit, machine, and how each session of it ended."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

import eniac
from eniac.errors import RunError
from eniac.runs.config import Config
from eniac.runs.files import write_json
from eniac.runs.identity import Owner, fingerprint
from eniac.runs.reading import read_json

_PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium", "safetensors")


class Manifest:
    """`manifest.json` of a run. Each start or resumption adds a session."""

    def __init__(
        self,
        folder: Path,
        run: str,
        asked: dict[str, Any],
        config: Config,
        epoch: int,
        warnings: list[str],
    ):
        """`asked` is what config.json says, `config` what it comes to, with nothing left open."""
        self._path = folder / "manifest.json"
        previous = read_manifest(folder)
        session = {
            "start": _now(),
            "end": None,
            "ended": None,
            "from_epoch": epoch,
            "config": fingerprint(asked),
            "warnings": list(warnings),
            "versions": versions(),
            "commit": commit(),
            "machine": _machine(),
        }
        self._data: dict[str, Any] = {
            "run": run,
            "algorithm": config.algorithm.name,
            "env": config.env,
            "seeds": list(config.seed_numbers),
            "config": asked,
            "resolved": config.to_dict(),
            "start": previous.get("start", session["start"]),
            "end": None,
            "ended": None,
            "epoch": epoch,
            "sessions": [*previous.get("sessions", []), session],
        }
        write_json(self._path, self._data)

    def warn(self, text: str) -> None:
        """Adds a warning to those of the session."""
        self._data["sessions"][-1]["warnings"].append(text)
        write_json(self._path, self._data)

    def end(self, ended: str, epoch: int, **more: Any) -> None:
        """Says how the session ended, after how many epochs."""
        self._data |= {"end": _now(), "ended": ended, "epoch": epoch, **more}
        self._data["sessions"][-1] |= {"end": _now(), "ended": ended}
        write_json(self._path, self._data)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run, empty if it has none that can be read."""
    try:
        found = read_json(folder / "manifest.json")
    except (FileNotFoundError, RunError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("sessions"), list) else {}


def last_session(folder: Path) -> dict[str, Any]:
    """What the manifest of a run says of its last session, empty if it cannot be read."""
    sessions = read_manifest(folder).get("sessions", [])
    return sessions[-1] if sessions and isinstance(sessions[-1], dict) else {}


def version_of(manifest: dict[str, Any]) -> str | None:
    """The version of eniac that the last session of a run was made with, if it is known."""
    last = (manifest.get("sessions") or [None])[-1]
    versions = last.get("versions") if isinstance(last, dict) else None
    made = versions.get("eniac") if isinstance(versions, dict) else None
    return made[:20] if isinstance(made, str) and made.isprintable() else None


def ended_well(manifest: dict[str, Any]) -> bool:
    """Whether the last session ended in order: not killed, aborted or with an error."""
    ended = manifest.get("ended")
    return isinstance(ended, str) and not ended.startswith(("aborted", "failed"))


def owner_of(manifest: dict[str, Any]) -> Owner:
    """The run that a manifest is of, as far as it says."""
    run, sessions = manifest.get("run"), manifest.get("sessions", [])
    found = [session.get("config") for session in sessions if isinstance(session, dict)]
    configs = frozenset(each for each in found if isinstance(each, str))
    return Owner(run if isinstance(run, str) else None, configs or None)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Those of Python and of the packages that decide what is computed."""
    found = {"eniac": eniac.__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "devices": len(jax.devices()),
    }


def commit() -> str | None:
    """The commit of the source that runs, with a mark if it has changes; None if installed."""
    folder = Path(eniac.__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "--no-optional-locks", "-C", str(folder), *arguments],
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # An installed copy can lie inside somebody else's repository, whose commit says nothing.
    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    head = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".")
    return f"{head} with changes" if head and changed else head
