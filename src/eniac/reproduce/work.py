"""Runs that are asked for, as jobs for `eniac.runs.work`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.console import Console

from eniac.reproduce.results import seeds_shown
from eniac.reproduce.theory_tasks import TheoryTask
from eniac.reproduce.wanted import Wanted
from eniac.runs.executors import Executor, Job
from eniac.runs.work import Outcome, execute


def jobs_of(runs: Iterable[Wanted]) -> list[Job]:
    """The jobs that make the files of `runs`, none of which is done. The seeds of a provable
    algorithm are one job: each takes about as long as a process does to start."""
    groups: dict[str, list[Wanted]] = {}
    for run in runs:
        together = isinstance(run.of, TheoryTask)
        groups.setdefault(f"{run.task} {run.variant if together else run.name}", []).append(run)
    return [_job(name, group) for name, group in groups.items()]


def _job(name: str, runs: Sequence[Wanted]) -> Job:
    # Where it runs another folder may be the current one.
    runs = [replace(r, results=r.results.absolute(), runs=r.runs.absolute()) for r in runs]
    several, last = len(runs) > 1, runs[-1]
    return Job(
        name=f"{name} ({seeds_shown(run.seed for run in runs)})" if several else name,
        call="eniac.reproduce.make:make",
        arguments={"runs": [run.to_dict() for run in runs]},
        product=last.file,  # they are made in this order
        run=None if several else last.folder,
        log=last.folder.with_name(f"{last.folder.name}.log"),
    )


def make_all(
    runs: Iterable[Wanted],
    executor: Executor | None = None,
    *,
    workers: int | None = None,
    console: Console | None = None,
) -> Outcome:
    """Makes all runs whose files do not say what was asked for; see `eniac.runs.work.execute`.

    A file that says less than was asked for, of a run with fewer steps, is put beside the run's
    folder first: a job is done when its file is there.
    """
    missing = [run for run in runs if not run.is_done()]
    for run in missing:
        if run.file.exists():
            run.folder.parent.mkdir(parents=True, exist_ok=True)
            run.file.replace(run.folder.with_name(f"{run.folder.name}.before.json"))
    return execute(jobs_of(missing), executor, workers=workers, console=console)
