"""What to type next: commands that work as they are printed."""

from __future__ import annotations

import shlex
from pathlib import Path

from eniac.runs.config import GIVEN, Config
from eniac.runs.progress import Progress


def in_shell(path: Path) -> str:
    """`path` as a shell takes it, and a command that could take it for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def resume_command(folder: Path, config: Config, epochs: int | None = None) -> str:
    """What continues the run in `folder`, until `epochs` if that is given."""
    if config.env.startswith(GIVEN):
        rule = "" if epochs is None else f", epochs={epochs}"
        return f"eniac.resume({str(folder)!r}, env{rule})"  # in Python, which has the object
    rule = "" if epochs is None else f" --epochs {epochs}"
    return f"eniac resume {in_shell(folder)}{rule}"


def longer_command(folder: Path, config: Config, progress: Progress) -> str | None:
    """What makes a run that has come to its end twice as long.

    As long as its cover has room, that is to resume it. A full cover cannot grow, since all arrays
    of a run have their sizes from its start: then it is a new run with twice the room, without the
    stop rules of the old one. None if there is no such command. `config` has nothing left open.
    """
    room, setting = config.algorithm.max_epochs, config.algorithm.room_setting
    if room is None or progress.epoch < room:
        twice = 2 * progress.epoch
        return resume_command(folder, config, twice if room is None else min(twice, room))
    if setting is None:
        return None
    epochs = 2 * progress.epoch
    words = [f"--{setting} {epochs}", f"--epochs {epochs}"]
    words += [
        f"--{name.replace('_', '-')} None"
        for name in ("steps", "seconds", "return_above")
        if getattr(config, name) is not None
    ]
    return again_command(folder, config, *words, name="longer")


def again_command(folder: Path, config: Config, *words: str, name: str = "again") -> str | None:
    """What makes the run in `folder` once more, with `words` added, in a folder beside it whose
    name says which. None for a run whose environment was given as an object."""
    if config.env.startswith(GIVEN):
        return None
    target = folder.with_name(f"{folder.name}-{name}")
    while target.exists():
        target = target.with_name(f"{target.name}-{name}")
    made = f"eniac train {in_shell(folder / 'config.json')}"
    return " ".join([made, *words, f"--out {in_shell(target)}"])
