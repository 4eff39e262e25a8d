"""Work as a list of jobs: what is done is not done again, what fails does not stop the rest.

A job is done when its product is there, and nothing else says so: whatever ends this process, or
one that makes a job, the same list given again goes on with what is missing. What a job has saved
so far, such as the checkpoints of a run, is up to the function that it calls.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console

from eniac.errors import ConfigError, EniacError, RunError, require
from eniac.runs.board import Board
from eniac.runs.executors import Ended, Executor, Job, Processes, Working
from eniac.runs.job import ELSEWHERE, REFUSED, UNFIT, lock_of
from eniac.runs.lock import is_claimed
from eniac.runs.signals import Signals

MOST_LOSSES = 100
"""Times that a job may lose its machine before it counts as failed."""
_TICK = 0.1
"""Seconds between two looks at what runs."""
_ELSEWHERE = 1.0
"""Seconds between two looks at what other processes make."""


@dataclass(frozen=True)
class Failure:
    """A job that failed in every try."""

    job: Job
    text: str
    """what it said last"""


@dataclass(frozen=True)
class Outcome:
    """What became of a list of jobs."""

    done: tuple[Job, ...]
    """those whose product is there, also from before"""
    failed: tuple[Failure, ...]
    left: tuple[Job, ...]
    """those that an interrupt has kept from being done"""
    signal: int | None
    """the signal that interrupted the work, None if it came to its end"""

    @property
    def code(self) -> int:
        """The exit code of a command that does this work: 0, 1 if something failed, 128 and the
        signal that stopped it."""
        if self.signal is not None:
            return 128 + self.signal
        return 1 if self.failed else 0


def execute(
    jobs: Iterable[Job],
    executor: Executor | None = None,
    *,
    workers: int | None = None,
    retries: int = 1,
    console: Console | None = None,
) -> Outcome:
    """Does all jobs whose product is not there, `workers` at a time (None: as many as the executor
    has room for, by default one a core of this machine).

    A job that fails is tried again when the others are done, `retries` times, unless it says that
    it cannot be done at all (`ConfigError`). A signal asks what runs to save and to end, and is
    waited for; a second Ctrl-C ends it at once, and raises KeyboardInterrupt. Jobs that another
    process makes meanwhile are waited for as well. What happens is told on `console`.
    """
    jobs = list(jobs)
    _check(jobs)
    require(workers is None or workers >= 1, "workers", workers, "1 or more")
    executor = Processes() if executor is None else executor
    console = Console() if console is None else console
    with Board(console, len(jobs)) as board, Signals(board.stopping) as signals:
        work = _Work(jobs, executor, workers, retries, board)
        try:
            while work.goes_on(signals.caught is not None):
                board.look()
                time.sleep(_TICK)
            if work.broken is not None:
                raise work.broken
        except OSError as error:
            what = error.strerror or str(error)
            raise RunError(
                f"Cannot write to {error.filename or 'a folder'}: {what}. When that is mended, the "
                "same command goes on."
            ) from error
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "Ended at once. The same command goes on from what was saved."
            ) from None
        finally:
            work.kill()
    _tell(work, signals.caught, board)
    return work.outcome(signals.caught)


def _check(jobs: Sequence[Job]) -> None:
    for what, values in (
        ("name", [job.name for job in jobs]),
        ("product", [str(job.product) for job in jobs]),
    ):
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise ConfigError(f"two jobs have the {what} {twice[0]!r}; each needs one of its own.")


class _Work:
    """A list of jobs, and what was done of it so far."""

    def __init__(
        self,
        jobs: Sequence[Job],
        executor: Executor,
        workers: int | None,
        retries: int,
        board: Board,
    ):
        self._executor, self._workers, self._retries = executor, workers, retries
        self._board = board
        self.done = [job for job in jobs if job.product.exists()]
        self._waiting = deque(job for job in jobs if job not in self.done)
        self._running: dict[Job, Working] = {}
        self._elsewhere: list[Job] = []
        self._looked = 0.0
        self._failures: Counter[Job] = Counter()
        self._losses: Counter[Job] = Counter()
        self.failed: list[Failure] = []
        self.left: list[Job] = []
        self.broken: EniacError | None = None
        """why no job can be begun any more"""
        self._count()

    def goes_on(self, stop: bool) -> bool:
        """Notes what has ended and begins what can be begun; with `stop` only the former. Whether
        there is something left to wait for."""
        for job, working in list(self._running.items()):
            ended = self._ask(working)
            if ended is not None:
                del self._running[job]
                done = self._note(job, ended, stop or self.broken is not None)
                self._count()
                self._board.end(job, done)
        if stop or self.broken:
            self.left += [*self._waiting, *self._elsewhere]
            self._waiting.clear()
            self._elsewhere.clear()
            for working in self._running.values():
                working.stop()
        self._look_elsewhere()
        room = 0
        if self._waiting:
            room = self._workers or max(self._executor.capacity(), 1)
        while self._waiting and len(self._running) < room:
            self._begin(self._waiting.popleft())
        self._count()
        return bool(self._running or self._waiting or self._elsewhere)

    def _ask(self, working: Working) -> Ended | None:
        try:
            ended = working.poll()
        except EniacError as error:
            self.broken = self.broken or error
            return Ended(None, str(error))
        if ended is not None and ended.code == UNFIT:
            self.broken = self.broken or RunError(ended.text)
        return ended

    def kill(self) -> None:
        """Ends all that runs, at once."""
        for working in self._running.values():
            working.kill()

    def outcome(self, caught: int | None) -> Outcome:
        interrupted = caught if self.left else None
        return Outcome(tuple(self.done), tuple(self.failed), tuple(self.left), interrupted)

    def _begin(self, job: Job) -> None:
        if job.product.exists():
            self.done.append(job)
            return
        job.product.parent.mkdir(parents=True, exist_ok=True)
        if is_claimed(lock_of(job.product)):
            self._elsewhere.append(job)
            return
        self._running[job] = self._executor.start(job)
        self._count()
        self._board.begin(job)

    def _note(self, job: Job, ended: Ended, stopped: bool) -> bool:
        """Where a job belongs that has ended. Whether it is done."""
        if job.product.exists():
            self.done.append(job)
            return True
        if stopped:
            self.left.append(job)
        elif ended.code == ELSEWHERE:
            self._elsewhere.append(job)
        elif ended.code is None and self._losses[job] < MOST_LOSSES:
            self._losses[job] += 1
            self._waiting.appendleft(job)
            self._board.say(f"{job.name} goes on elsewhere: {ended.text}", "yellow")
        else:
            text = _reason(ended)
            self._failures[job] += 1
            if ended.code != REFUSED and self._failures[job] <= self._retries:
                self._waiting.append(job)
                self._board.say(f"{job.name} failed and is tried again later: {text}", "yellow")
            else:
                self.failed.append(Failure(job, text))
                self._board.say(f"{job.name} failed: {text}", "red")
        return False

    def _look_elsewhere(self) -> None:
        """What others were making is done, or they have given up and it is ours to do."""
        if time.monotonic() - self._looked < _ELSEWHERE:
            return
        self._looked = time.monotonic()
        for job in list(self._elsewhere):
            if job.product.exists() or not is_claimed(lock_of(job.product)):
                self._elsewhere.remove(job)
                self._waiting.append(job)

    def _count(self) -> None:
        counts = self._board.counts
        counts.done, counts.failed = len(self.done), len(self.failed)
        counts.running, counts.elsewhere = len(self._running), len(self._elsewhere)


def _reason(ended: Ended) -> str:
    """Why a job that has ended is not done."""
    if ended.code is not None and ended.code < 0:
        return f"killed by {signal.Signals(-ended.code).name}"
    return ended.text.removeprefix("Error: ") or f"exit code {ended.code}, without a word"


def _tell(work: _Work, caught: int | None, board: Board) -> None:
    """What a user has to know at the end."""
    if work.failed:
        board.say(f"Failed: {len(work.failed)}. What each said last, and all that it said:")
        for failure in work.failed:
            board.say(f"  {failure.job.name}: {failure.text}", "red")
            board.say(f"    {failure.job.log_file}")
    if caught is not None and work.left:
        name = signal.Signals(caught).name
        board.say(f"Stopped by {name}, and saved; {len(work.left)} left. The same command goes on.")
