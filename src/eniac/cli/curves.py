"""Commands that draw, compare and report runs. Heavy modules are imported when a command is run."""

from __future__ import annotations

from json import dumps as json_of
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console

from eniac.cli.commands import Flag, command, parse
from eniac.cli.reports import at_least, open_run, show_warnings
from eniac.cli.show import comparison_tables
from eniac.errors import ConfigError, require

Folders = tyro.conf.Positional[tuple[Path, ...]]

PLOT = """Draw pictures of a run: PNG, SVG or PDF, by the ending of --out or by --format.

--what curve: the learning curve. Several runs go in one figure, those that differ only in seeds in
one curve, and every environment has a panel of its own; a sweep's folder stands for its runs. The
line is the interquartile mean of the seeds, the band its 95 % bootstrap interval; dotted is the
return above which seeds were to stop.

--what visits: where each policy of the cover went, and episodes of the incumbent.

--what bonus: which states were visited, and the bonus that they get.

--what all: all of these that there are for the run.

Examples:
  eniac plot runs/sea
  eniac plot runs/car --what all
  eniac plot runs/sea runs/other --out both.svg
"""


@command(PLOT)
def plot(
    folders: Folders,
    /,
    what: Literal["curve", "visits", "bonus", "all"] = "curve",
    out: Path | None = None,
    metric: str = "return_mean",
    seed: int | None = None,
    format: Literal["png", "svg", "pdf"] | None = None,
) -> int:
    """Draws pictures of a run.

    Args:
        folders: Folders of runs; one, but for curves.
        what: What to draw.
        out: The picture, or for --what all the folder of the pictures. None: figures/ in the
            run's folder, or learning_curves.png here if there are several runs.
        metric: What a curve shows, any number that stands in metrics.jsonl.
        seed: Which of the run's seeds to draw visits and bonus of. None: the first.
        format: Kind of picture. None: as the ending of --out says, else PNG.
    """
    return _draw(list(folders), what, out, metric, seed, format)


def _draw(
    runs: list[Path],
    what: str,
    out: Path | None,
    metric: str,
    seed: int | None,
    format: str | None,
) -> int:
    if format is not None and what != "all" and out is not None:
        fits = out.suffix.lower() in ("", f".{format}")
        require(fits, "out", str(out), f"a name that ends in .{format}, as --format says")
        out = out.with_suffix(f".{format}")
    ending = f".{format or 'png'}"
    if not runs:
        raise ConfigError("Which run? For instance `eniac plot runs/sea`.")
    if seed is not None and what == "curve":
        raise ConfigError(f"seed is {seed}, but a curve is of all seeds; leave it out.")
    if metric != "return_mean" and what != "curve":
        raise ConfigError(f"metric is {metric!r}, but only curves have one; leave it out.")
    if what == "curve":
        from eniac.report.figures import learning_curves

        default = runs[0] / "figures" / "learning_curve.png"
        default = default if len(runs) == 1 else Path("learning_curves.png")
        path = out or default.with_suffix(ending)
        print(f"The figure is in {learning_curves(runs, path, metric)}")
        return 0
    if len(runs) > 1:
        raise ConfigError(
            f"--what {what} draws one run, and {len(runs)} were given. Curves of several runs "
            "go in one figure: --what curve."
        )
    run = open_run(runs[0])
    from eniac.report.pictures import FILES, draw, draw_all

    if what != "all":
        path = out or (run.path / "figures" / FILES[what]).with_suffix(ending)
        print(f"The figure is in {draw(run, what, path, seed)}")
        return 0
    run.index(seed)
    drawn, warnings = draw_all(run, out or run.path / "figures", seed, format or "png")
    for path in drawn:
        print(f"Drew {path}")
    show_warnings(warnings)
    return 1 if warnings else 0


COMPARE = """Say which method is better by its runs, how sure that is, and what more seeds would do.

Runs that differ only in their seeds are one method's; there must be two methods or more, all with
runs in the same environments. A sweep's folder stands for its runs. Only files are read.

IQM: the mean of the seeds' last returns without the lowest and the highest quarter. success: seeds
that were ever above the threshold. steps, seconds: medians until then; a seed that never got there
counts as infinite, and a median that is infinite is a dash. Behind each its interval: by resampling
seeds, Wilson's for success.

The verdict is by the probability that a seed of one method does better than one of the other. It is
"undecided" unless both the interval of that and a permutation test exclude chance. --by steps or
--by seconds judges by how soon seeds were above the threshold instead of by the last return.

Examples:
  eniac compare runs/eniac runs/ppo
  eniac compare runs/eniac-0 runs/eniac-1 runs/ppo-0 runs/ppo-1 --threshold 0.9 --by steps
  eniac compare runs/sweep
  eniac compare runs/eniac runs/ppo --steps 1000000 --out profile.pdf --json
"""


@command(COMPARE)
def compare(
    folders: Folders,
    /,
    by: Literal["return", "steps", "seconds"] = "return",
    threshold: float | None = None,
    steps: int | None = None,
    metric: str = "return_mean",
    level: float = 0.95,
    out: Path | None = None,
    json: Flag = False,
) -> int:
    """Compares runs.

    Args:
        folders: Folders of runs, of two methods or more.
        by: What decides: the last return, or how soon it was above the threshold.
        threshold: Return that counts as success when it is exceeded. None: the return_above
            that the runs were trained with.
        steps: Compare what seeds came to after this many environment steps. None: at the end.
        metric: What is compared in the place of the return, any number that stands in
            metrics.jsonl; more is better.
        level: How often intervals should hold the truth.
        out: Picture of the performance profile, the share of seeds that end above each return:
            PNG, SVG or PDF. None: it is not drawn.
        json: Print the result as JSON.
    """
    at_least(1, steps=steps)
    from eniac.report.compare import compare_runs

    result = compare_runs(
        folders, metric=metric, by=by, threshold=threshold, steps=steps, level=level
    )
    if out is not None:
        from eniac.report.figures import performance_profiles

        performance_profiles(result, out)
    if json:
        print(json_of(result, indent=2))
        return 0
    console = Console()
    for table in comparison_tables(result):
        console.print(table)
    for pair in result["pairs"]:
        console.print(pair["sentence"], highlight=False, markup=False)
    for note in result["notes"]:
        console.print(f"Note: {note}", highlight=False, markup=False, style="dim")
    if out is not None:
        console.print(f"The figure is in {out}", highlight=False, markup=False, soft_wrap=True)
    return 0


REPORT = """Write a page about runs or results: one HTML file to open in any browser, to keep or to
send. It needs no network and no server, and runs no code but its own.

FOLDERS are runs, folders that have some in them (a sweep's), and folders of results.

On the page: curves to point at, and to switch on and off; how the methods compare; where the
policies go and what the bonus says, epoch by epoch; the policies of the cover; the claims of a
folder of results; the certificate of a provable run; what `eniac diagnose` says; every setting, and
the commands that run it again. All numbers are those of the commands. What could not be shown is
told at its end, and here.

The bonus and the exploiting policy of earlier epochs are known if their checkpoints were kept:
train with --checkpoint-every 1 --keep 100.

Examples:
  eniac report runs/sea
  eniac report runs/eniac runs/ppo --out both.html
  eniac report runs --in-detail 0
  eniac report results --out results.html
"""


def write_report(rest: list[str]) -> int:
    """`eniac report`."""

    def report(
        folders: Folders,
        /,
        out: Path | None = None,
        seed: int | None = None,
        episodes: int = 20,
        in_detail: int = 4,
        metric: str = "return_mean",
    ) -> int:
        """Writes a page.

        Args:
            folders: Folders of runs, or of results.
            out: The page, a name that ends in .html. None: report.html in the run's folder, or here
                if there are several.
            seed: Which of a run's seeds to look into. None: the first.
            episodes: Episodes of each policy of a cover.
            in_detail: Of how many runs to look into the checkpoints, one a method and environment:
                policies, bonus, certificate, checks. 0: none, which takes seconds.
            metric: What the curves show, any number that stands in metrics.jsonl.
        """
        from eniac.page.write import write_report

        console = Console(stderr=True)
        with console.status("") as status:
            made = write_report(
                folders,
                out,
                seed=seed,
                episodes=episodes,
                in_detail=in_detail,
                metric=metric,
                say=lambda text: status.update(f"{text} ..."),
            )
        show_warnings(made.problems)
        print(f"The page is in {made.path} ({made.path.stat().st_size / 1e6:.2g} MB)")
        return 0

    return parse(report, "report", REPORT, rest)
