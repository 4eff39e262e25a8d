"""Runs that are asked for, as jobs for `eniac.runs.work`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rich.console import Console

from eniac.reproduce.wanted import Wanted
from eniac.runs.executors import Executor, Job
from eniac.runs.work import Outcome, execute


def job_of(run: Wanted) -> Job:
    """The job that makes the file of a run."""
    # Where it runs another folder may be the current one.
    run = replace(run, results=run.results.absolute(), runs=run.runs.absolute())
    return Job(
        name=f"{run.task} {run.name}",
        call="eniac.reproduce.make:make",
        arguments={"run": run.to_dict()},
        product=run.file,
        run=run.folder,
        log=run.folder.with_name(f"{run.folder.name}.log"),
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
    return execute(map(job_of, missing), executor, workers=workers, console=console)
