"""What a run writes down: JSON lines and TensorBoard always, Weights & Biases by choice.

`metrics.jsonl` holds only what the seed decides, so that the same run always gives the same file,
byte for byte. What depends on the machine and the hour is in `timings.jsonl`.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from tensorboardX.proto.event_pb2 import (
    Event,  # pyright: ignore[reportAttributeAccessIssue]
    SessionLog,  # pyright: ignore[reportAttributeAccessIssue]
)
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import scalar

from eniac.errors import RunError, shown
from eniac.runs.config import Config, require_wandb
from eniac.runs.dataclass_io import conform
from eniac.runs.reading import METRICS, TIMINGS, read_json_lines, require_own

Record = dict[str, int | float | None]
HEAD = ("epoch", "round", "seed")
"""What says of a record whose it is."""


class Logs:
    """The open logs of a run. `offsets` of a checkpoint cut them back to where it was made."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        offsets: Mapping[str, int],
        steps: Sequence[int],
    ):
        self._metrics = _Lines(folder / METRICS, offsets.get(METRICS, 0))
        self._timings = _Lines(folder / TIMINGS, offsets.get(TIMINGS, 0))
        self._boards = {
            seed: TensorBoard(folder / "tensorboard" / f"seed-{seed}", steps[k])
            for k, seed in enumerate(config.seed_numbers)
        }
        self._wandb = None
        if config.wandb:
            self._wandb = WandB(name=folder.name, dir=str(folder), by_seed=True)
            self._wandb.begin(config)

    def write(self, records: Sequence[Record], timing: Record) -> None:
        """A record for each round of each active seed, and the timing of the epoch. TensorBoard
        has them by environment steps."""
        for record in records:
            self._metrics.append(record)
            self._boards[int(record["seed"] or 0)].write([record], timing)
        self._timings.append(timing)
        if self._wandb is not None:
            self._wandb.write(records, timing)

    def sync(self) -> dict[str, int]:
        """Brings all lines to the disk. Returns the length of each log in bytes."""
        return {METRICS: self._metrics.sync(), TIMINGS: self._timings.sync()}

    def close(self) -> None:
        for part in (self._metrics, self._timings, *self._boards.values()):
            part.close()
        if self._wandb is not None:
            self._wandb.close()


def make_record(
    seed: int, epoch: int, round: int, env_steps: int, metrics: Mapping[str, Any]
) -> Record:
    """One line of `metrics.jsonl`, of one round of an epoch.

    NaN and infinity, which JSON does not know, become null.
    """
    head: Record = {"epoch": epoch, "round": round, "seed": seed, "env_steps": env_steps}
    clashing = head.keys() & metrics.keys()
    if clashing:
        raise ValueError(f"A learner may not call a metric {', '.join(sorted(clashing))}.")
    # `steps` counts this epoch alone; the sum over all of them is in the head.
    names = [name for name in metrics if name not in ("steps", "ran")]
    # What is judged stands before what explains it.
    names.sort(key=lambda name: (not name.startswith(("return_", "length_")), name))
    return head | {name: _number(metrics[name]) for name in names}


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a log, none if there is no log. A last line that is still being written is
    left out. **Raises** `RunError` for a line that is no table of numbers."""
    try:
        records = read_json_lines(path)
    except FileNotFoundError:
        return []
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict) or not all(map(_is_number, record.values())):
            raise RunError(
                f"line {number:,} of {path} is {shown(record)}; it must be a table of numbers."
            )
    return records


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: Any) -> int | float | None:
    value = np.asarray(value)
    if np.issubdtype(value.dtype, np.integer) or value.dtype == bool:
        return int(value)
    # The shortest decimal that reads back as the same float32.
    return float(str(value)) if math.isfinite(value) else None


def _prefixed(prefix: str, record: Mapping[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in record.items() if name not in HEAD}


class _Lines:
    """A file of JSON lines that is only ever appended to."""

    def __init__(self, path: Path, offset: int):
        require_own(path)
        self._file = open(path, "ab")  # noqa: SIM115, closed by close()
        self._file.truncate(offset)
        self._file.seek(0, os.SEEK_END)

    def append(self, record: Record) -> None:
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()

    def sync(self) -> int:
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class Writer(ABC):
    """A log elsewhere than in the folder of a run. It is a callback of `Agent.learn` too, which
    gives it every round of an epoch, and the time that took."""

    def begin(self, config: Config) -> None:
        """Called before the first epoch, and again whenever learning goes on."""
        del config

    @abstractmethod
    def write(self, records: Sequence[Record], timing: Record) -> None:
        """The records of an epoch, a record a round, and its timing."""

    @abstractmethod
    def close(self) -> None: ...

    def __call__(self, record: Record) -> None:
        self.write([record], {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class TensorBoard(Writer):
    """Writes records for TensorBoard, by environment steps, to a new file in `folder`.

        >>> with eniac.TensorBoard(folder / "board") as board:
        ...     agent = agent.learn(epochs=1, callback=board)

    Show it with `tensorboard --logdir FOLDER`. `steps` are those after which the log goes on:
    TensorBoard forgets what an earlier file has beyond them.
    """

    # In the caller's thread: tensorboardX's own writer uses a thread and a queue; when the disk is
    # full, the thread dies and the run waits for it forever. Its record format is used directly.

    def __init__(self, folder: Path | str, steps: int = 0):
        folder = Path(conform(Path, folder, "the folder"))
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._writer = RecordWriter(str(folder / name))
        except OSError as error:
            what = error.strerror or error
            raise RunError(f"Cannot write to {error.filename or folder}: {what}.") from error
        self._put(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if steps:
            start = SessionLog(status=SessionLog.START)
            self._put(Event(wall_time=time.time(), step=steps + 1, session_log=start))
        self._writer.flush()

    def write(self, records: Sequence[Record], timing: Record) -> None:
        for record in records:
            scalars = {name: value for name, value in record.items() if name not in HEAD}
            for name, value in (scalars | _prefixed("time/", timing)).items():
                if value is not None:
                    summary, steps = scalar(name, value), int(record["env_steps"] or 0)
                    self._put(Event(wall_time=time.time(), step=steps, summary=summary))
        self._writer.flush()

    def _put(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())

    def close(self) -> None:
        self._writer.close()


class WandB(Writer):
    """Logs records to Weights & Biases, offline unless `mode` says otherwise; `options` are those
    of `wandb.init`. Needs: pip install 'eniac[wandb]'.

        >>> agent.learn(callback=eniac.WandB(project="sea"))  # doctest: +SKIP

    The settings of the agent are those of its run there. `close` ends that; Python's end does so
    too. With `by_seed` names begin with the seed, for several in one run.
    """

    def __init__(
        self,
        project: str = "eniac",
        *,
        mode: str = "offline",
        by_seed: bool = False,
        **options: Any,
    ):
        require_wandb("eniac.WandB is asked for")
        self._options = {"project": project, "mode": mode, **options}
        self._by_seed = by_seed
        self._run: Any = None

    def begin(self, config: Config) -> None:
        if self._run is None:
            import wandb  # pyright: ignore[reportMissingImports]

            self._run = wandb.init(**{"config": config.to_dict(), **self._options})

    def write(self, records: Sequence[Record], timing: Record) -> None:
        if self._run is None:
            raise RunError("this log has not begun: give it to learn(callback=...).")
        rounds: dict[Any, dict[str, Any]] = {}
        for record in records:
            prefix = f"seed-{record['seed']}/" if self._by_seed else ""
            rounds.setdefault(record.get("round"), {}).update(_prefixed(prefix, record))
        for row in rounds.values():
            self._run.log(row | _prefixed("time/", timing))

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
        self._run = None
