"""`eniac reproduce`: the experiments of the paper and of this library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import tyro
from rich.console import Console

from eniac.cli.commands import Flag, parse
from eniac.cli.show import markdown_parts
from eniac.errors import ConfigError, require

if TYPE_CHECKING:
    from eniac.reproduce.choice import Choice
    from eniac.reproduce.figures import Reproduction

REPRODUCE = """Repeat an experiment: make the runs that are missing, draw them, say what they say.

{what}
  all          all of these, one after another

Every run is one small file in the folder of results; everything that is drawn or said comes from
these files. A run that is done is never made again, one that was interrupted goes on, and a failed
one is tried again and does not stop the rest. Ctrl-C saves; the same command goes on. Each run has
a process of its own, on one core; --executor ray spreads them over the machines of a Ray cluster,
whose folder of results and of runs must be one that all share.

--quick makes a small version in minutes, in a folder of its own, and says so everywhere.

--dry-run says how many runs there are, how many are done, and about how long the rest takes.

--episodes, --settings, --depths, --algorithms, --tasks, --seeds and --first-seed make fewer runs.
What is drawn is always all that there is, with a word on what is missing.

Examples:
  eniac reproduce figure1 --quick
  eniac reproduce figure1 --episodes continuing --settings paper --workers 2
  eniac reproduce exploration --tasks lock-5 --algorithms eniac pc-pg --seeds 5
  eniac reproduce claims
  eniac reproduce all --dry-run
"""


def reproduce(rest: list[str]) -> int:
    """`eniac reproduce`."""
    from eniac.reproduce.figures import FIGURES, find

    if not rest:
        raise ConfigError(f"Reproduce what? There are {', '.join(FIGURES)}, and all.")
    if not rest[0].startswith("-"):
        find(rest[0])  # an unknown one is told before all options
    what = "\n".join(f"  {row.name:12} {row.what}" for row in FIGURES.values())
    return parse(_reproduce, "reproduce", REPRODUCE.format(what=what), rest)


def _reproduce(
    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT")],
    /,
    episodes: tuple[str, ...] = (),
    settings: tuple[str, ...] = (),
    depths: tuple[int, ...] = (),
    algorithms: tuple[str, ...] = (),
    tasks: tuple[str, ...] = (),
    seeds: int | None = None,
    first_seed: int | None = None,
    quick: Flag = False,
    dry_run: Flag = False,
    from_results: Flag = False,
    mix_versions: Flag = False,
    workers: int | None = None,
    executor: Literal["processes", "ray"] = "processes",
    address: str | None = None,
    results: Path | None = None,
    runs: Path | None = None,
    out: Path | None = None,
    format: Literal["png", "svg", "pdf"] = "png",
) -> int:
    """Reproduces an experiment.

    Args:
        what: Which one.
        episodes: continuing (the paper's program), episodic (its text).
        settings: paper, ours.
        depths: Depths of the networks: 2, 4, 6.
        algorithms: Names of algorithms.
        tasks: Names of tasks.
        seeds: How many seeds of each.
        first_seed: The first of them.
        quick: A small version, kept apart.
        dry_run: Say what there is to do, and do nothing.
        from_results: Make no runs; only draw what there is.
        mix_versions: Add to rows of results that another version of eniac has begun.
        workers: Runs side by side. None: one a core, of this machine or of the cluster.
        executor: Where runs are made: processes of this machine, or a Ray cluster.
        address: HOST:PORT of the head of the Ray cluster. None: that of this machine.
        results: Folder of the files. None: results, or for a quick version results-quick.
        runs: Folder of the runs while they are made. None: runs/reproduce, or runs/reproduce-quick.
        out: Folder of the pictures. None: figures in the folder of results.
        format: Kind of picture.
    """
    from eniac.reproduce.choice import QUICK_RESULTS, Choice
    from eniac.reproduce.figures import check_choice, find
    from eniac.reproduce.wanted import RESULTS, RUNS

    require(workers is None or workers >= 1, "workers", workers, "1 or more")
    rows = find(what)
    choice = Choice(
        episodes or None,
        settings or None,
        depths or None,
        algorithms or None,
        tasks or None,
        seeds,
        first_seed,
        quick,
        results or (QUICK_RESULTS if quick else RESULTS),
        runs or (RUNS.with_name(f"{RUNS.name}-quick") if quick else RUNS),
    )
    if from_results and dry_run:
        raise ConfigError("--from-results and --dry-run are both given; give one.")
    check_choice(rows, choice)
    console, code = Console(), 0
    how = How(workers, executor, address, dry_run, mix_versions)
    for row in rows:
        if not from_results:
            made = _make(row, choice, how, console)
            if made > 128:
                return made
            code = code or made
        if not dry_run:
            _show(row, choice, out or choice.results / "figures", format, console)
    return code


class How(NamedTuple):
    """How runs are made."""

    workers: int | None
    executor: Literal["processes", "ray"]
    address: str | None
    dry_run: bool
    mix_versions: bool


def _make(row: Reproduction, choice: Choice, how: How, console: Console) -> int:
    """Makes what is missing of a row, after saying what that is. Returns the exit code."""
    wanted = row.runs(choice)
    if not wanted:
        return 0
    from eniac.cores import num_cores
    from eniac.reproduce.plan import Plan
    from eniac.reproduce.work import make_all
    from eniac.runs.executors import open_executor
    from eniac.runs.terminal import duration

    def tell(plan: Plan, side_by_side: int) -> None:
        text = f"{row.name}: {len(wanted)} runs in {choice.results}, {len(plan.done)} done"
        if plan.missing:
            left = duration(plan.seconds() / side_by_side)
            text += f"; {len(plan.missing)} to make, about {left} with {side_by_side} at a time"
        console.print(f"{text}.", highlight=False, soft_wrap=True)

    plan = Plan.of(wanted)
    if how.dry_run or not plan.missing:
        tell(plan, how.workers or num_cores())
        plan.check(how.mix_versions)
        return 0
    with open_executor(how.executor, how.address) as executor:
        tell(plan, how.workers or max(executor.capacity(), 1))
        plan.check(how.mix_versions)
        return make_all(plan.missing, executor, workers=how.workers, console=console).code


def _show(row: Reproduction, choice: Choice, out: Path, format: str, console: Console) -> None:
    """Writes and prints what is there of a row."""
    from eniac.reproduce.figures import write_report

    report = row.report(choice)
    for part in markdown_parts(report.text):
        console.print(part, highlight=False)
    for path in write_report(row, report, choice, out, format):
        console.print(f"Wrote {path}", highlight=False, markup=False, soft_wrap=True)
