"""Commands that show what is in a run. Heavy modules are imported when a command is run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from json import dumps as json_of
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from eniac.cli.commands import Flag, Folder, parse
from eniac.cli.show import (
    actions,
    audit_table,
    certificate_tables,
    comparison_tables,
    cover_table,
    evaluation_table,
)
from eniac.errors import ConfigError, require

WHICH = """\
--policy chooses another policy than the one that the run is judged by, its incumbent: exploiting,
exploring, or cover:K for the K-th of the cover."""

EVALUATE = f"""Play fresh episodes with the policies of a run and report returns.

Reads the newest checkpoint.

{WHICH}

Examples:
  eniac evaluate runs/sea
  eniac evaluate runs/sea --episodes 1000 --deterministic --json
  eniac evaluate runs/sea --policy cover:3
"""

PLAY = f"""Play one episode with a policy of a run and draw it as a GIF.

{WHICH}

An environment of gymnasium's draws itself: what makes it must take render_mode="rgb_array".

Examples:
  eniac play runs/sea
  eniac play runs/sea --policy exploring --deterministic --out sea.gif
"""

PLOT = """Draw pictures of a run: PNG, SVG or PDF, by the ending of --out or by --format.

--what curve: the learning curve. Several runs go in one figure, those that differ only in seeds in
one curve, and every environment has a panel of its own. The line is the interquartile mean of the
seeds, the band its 95 % bootstrap interval; dotted is the return above which seeds were to stop.

--what visits: where each policy of the cover went, and episodes of the incumbent.

--what bonus: which states were visited, and the bonus that they get.

--what all: all of these that there are for the run.

Examples:
  eniac plot runs/sea
  eniac plot runs/car --what all
  eniac plot runs/sea runs/other --out both.svg
"""

COMPARE = """Say which method is better by its runs, how sure that is, and what more seeds would do.

Runs that differ only in their seeds are one method's; there must be two methods or more, all with
runs in the same environments. Only the files of the runs are read.

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
  eniac compare runs/eniac runs/ppo --steps 1000000 --out profile.pdf --json
"""

COVER = """Show the policies of a run's cover: weight, return, how much of the states they reached.

Reads the newest checkpoint. The exploring and the exploiting policy and the incumbent come last.

Examples:
  eniac cover runs/car
  eniac cover runs/car --seed 3 --episodes 100 --json
"""

AUDIT_BONUS = """Report how well a run's bonus tells what was visited from what was not.

In a finite environment all pairs that can be reached are listed, and the buffer says how often each
was visited: the exact width is 1 / sqrt(visits + ridge). Elsewhere, pairs of fresh rollouts of the
cover's policies are held against pairs far from all visits.

correlation: rank correlation of bonus and exact width, 1 at best. auc: how often an unvisited pair
has a larger bonus than a visited one; 1 is always, 0.5 is chance. Nothing of the run is changed.

Examples:
  eniac audit-bonus runs/sea
  eniac audit-bonus runs/car --pairs 5000 --threshold 0.3 --json
"""

EXPORT = f"""Write the policies of a run for other programs, each with a model card (README.md).

{WHICH}

--format safetensors: the numbers, which `eniac.load(DIR)` loads; they are with every format.

--format onnx: a graph from observations to actions, for onnxruntime and others; needs
`pip install 'eniac[onnx]'`.

--format numpy: a Python file that needs NumPy alone.

What is written was compared with the policy before, over random and over extreme observations.

RUN may also be a folder that a policy was exported to, or a run whose environment is not here.

Examples:
  eniac export runs/sea --format onnx
  eniac export runs/sea --format numpy --out sea-policy
  eniac export runs/sea --policy cover:3 --out third
"""

CERTIFY = """Measure every term of the paper's proof on a run, exactly, beside its bound.

For runs of the provable algorithms. Draws the terms over the epochs to figures/certificate.png.

holds: within its bound; vacuous: so too, but the bound says nothing; fails: not within it.

Examples:
  eniac certify runs/sea
  eniac certify runs/sea --seed 3 --json
"""


def evaluate(rest: list[str]) -> int:
    """`eniac evaluate`."""

    def show(
        run: Folder,
        /,
        policy: str | None = None,
        episodes: int = 100,
        horizon: int | None = None,
        deterministic: Flag = False,
        no_deterministic: Flag = False,
        seed: int = 0,
        json: Flag = False,
    ) -> int:
        """Judges a run's policies.

        Args:
            run: Folder of the run.
            policy: Which policy. None: the incumbent, or the one that the run is judged by.
            episodes: Number of episodes for each seed of the run.
            horizon: Steps after which an episode is cut. None: as in the run's own evaluation.
            deterministic: Take the most likely action. Neither: as the policy was judged best.
            no_deterministic: Sample an action.
            seed: Seed of the episodes. The same one gives the same episodes.
            json: Print the result as JSON.
        """
        at_least(1, episodes=episodes, horizon=horizon)
        at_least(0, seed=seed)
        how = one_way(deterministic, no_deterministic)
        loaded = open_run(run)
        from eniac.report.evaluate import evaluate_run

        result = evaluate_run(loaded, episodes, seed, how, horizon, policy)
        return told(result, evaluation_table, json)

    return parse(show, "evaluate", EVALUATE, rest)


def play(rest: list[str]) -> int:
    """`eniac play`."""

    def show(
        run: Folder,
        /,
        policy: str | None = None,
        seed: int | None = None,
        episode: int = 0,
        deterministic: Flag = False,
        no_deterministic: Flag = False,
        out: Path | None = None,
    ) -> int:
        """Plays an episode.

        Args:
            run: Folder of the run.
            policy: Which policy. None: the incumbent, or the one that the run is judged by.
            seed: Which of the run's seeds to play. None: the first.
            episode: Decides the randomness of the episode; another number, another episode.
            deterministic: Take the most likely action. Neither: as the policy was judged best.
            no_deterministic: Sample an action.
            out: The GIF. None: figures/play.gif in the run's folder.
        """
        at_least(0, episode=episode)
        how = one_way(deterministic, no_deterministic)
        loaded = open_run(run)
        from eniac.report.play import play_episode, save_gif
        from eniac.runs.load import choose_policy

        name, acting = choose_policy(loaded.policies(seed), policy)
        greedy = bool(acting.acts(how).greedy)
        played = play_episode(loaded, seed, episode, greedy, draw=True, policy=name)
        path = out or run / "figures" / "play.gif"
        frames = save_gif(played, path)
        end = "reached its end" if played.terminated else "was cut by the time limit"
        print(
            f"The episode {end} after {played.length} steps with return "
            f"{played.total_reward:.4g} ({name}, {actions(greedy)} actions).\n"
            f"{frames} frames are in {path}"
        )
        return 0

    return parse(show, "play", PLAY, rest)


def plot(rest: list[str]) -> int:
    """`eniac plot`."""

    def draw(
        folders: tyro.conf.Positional[tuple[Path, ...]],
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

    return parse(draw, "plot", PLOT, rest)


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
    for warning in warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    return 1 if warnings else 0


def compare(rest: list[str]) -> int:
    """`eniac compare`."""

    def show(
        folders: tyro.conf.Positional[tuple[Path, ...]],
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
        from eniac.report.compare import Asked, compare_runs

        result = compare_runs(folders, Asked(metric, by, threshold, steps, level))
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

    return parse(show, "compare", COMPARE, rest)


def cover(rest: list[str]) -> int:
    """`eniac cover`."""

    def show(
        run: Folder,
        /,
        seed: int | None = None,
        episodes: int = 20,
        json: Flag = False,
    ) -> int:
        """Shows the cover of a run.

        Args:
            run: Folder of the run.
            seed: Which of the run's seeds to show. None: the first.
            episodes: Number of episodes for each policy.
            json: Print the result as JSON.
        """
        at_least(1, episodes=episodes)
        loaded = open_run(run)
        from eniac.report.coverage import cover_report

        result = cover_report(loaded, seed, episodes)
        return told(result, cover_table, json)

    return parse(show, "cover", COVER, rest)


def audit_bonus(rest: list[str]) -> int:
    """`eniac audit-bonus`."""

    def show(
        run: Folder,
        /,
        seed: int | None = None,
        pairs: int = 2000,
        threshold: float | None = None,
        ridge: float = 1.0,
        json: Flag = False,
    ) -> int:
        """Audits the bonus of a run.

        Args:
            run: Folder of the run.
            seed: Which of the run's seeds to audit. None: the first.
            pairs: Pairs of each kind to draw where the environment is not finite.
            threshold: A bonus from which on a pair counts as unknown. None: half of the largest.
            ridge: What is added to the visits in the exact width.
            json: Print the result as JSON.
        """
        at_least(2, pairs=pairs)
        require(ridge > 0, "ridge", ridge, "above 0")
        fits = threshold is None or threshold > 0
        require(fits, "threshold", threshold, "above 0, or left out")
        loaded = open_run(run)
        from eniac.report.audit import audit_bonus

        result = audit_bonus(loaded, seed, pairs, threshold, ridge)
        return told(result, audit_table, json)

    return parse(show, "audit-bonus", AUDIT_BONUS, rest)


def export(rest: list[str]) -> int:
    """`eniac export`."""

    def write(
        run: Folder,
        /,
        out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
        policy: str | None = None,
        format: Literal["safetensors", "onnx", "numpy"] = "safetensors",
    ) -> int:
        """Writes policies.

        Args:
            run: Folder of the run.
            out: Folder to write to; each seed gets a folder in it. None: RUN/export/FORMAT.
            policy: Which policy. None: the incumbent, or the one that the run is judged by.
            format: What to write.
        """
        from eniac.exports.write import check_format, export_run

        check_format(format)
        out = out or run / "export" / format
        try:
            loaded = open_run(run)
        except ConfigError:
            # Without its environment there are still the policies that it ended with.
            agents = [] if policy is not None else _stateless(run)
            if not agents:
                raise
            for agent in agents:
                print(f"Wrote {agent.export(out / f'seed-{agent.config.seed}', format)}")
            return 0
        for folder in export_run(loaded, out, policy, format):
            print(f"Wrote {folder}")
        return 0

    return parse(write, "export", EXPORT, rest)


def _stateless(folder: Path) -> list[Any]:
    """The agents of the policies in a folder, or in that of a run whose environment is not here."""
    from eniac.agent import load
    from eniac.runs.export import holds_policy
    from eniac.runs.load import load_config

    if holds_policy(folder):
        return [load(folder)]
    if not (folder / "policy").is_dir():
        return []
    return [load(folder, seed=seed) for seed in load_config(folder).seed_numbers]


def certify(rest: list[str]) -> int:
    """`eniac certify`."""

    def show(run: Folder, /, seed: int | None = None, json: Flag = False) -> int:
        """Certifies a run.

        Args:
            run: Folder of the run.
            seed: Which of the run's seeds to certify. None: the first.
            json: Print everything that was measured as JSON.
        """
        loaded = open_run(run)
        from eniac.report.certificate import certify_run, draw

        certificate = certify_run(loaded, seed)
        path = draw(certificate, run / "figures" / "certificate.png")
        if json:
            print(json_of(certificate.to_dict(), indent=2))
            return 0
        console = Console()
        console.print(
            f"{certificate.algorithm} on {loaded.config.env} after "
            f"{len(certificate.epochs)} epochs; V* = {certificate.optimum:.4g} in units "
            "of the reward that is learned from.\n",
            highlight=False,
        )
        for table in certificate_tables(certificate):
            console.print(table)
        console.print(
            f"The parts add up to the gap within {certificate.residual:.1e} in every epoch. "
            "docs/certify.md says what each line means.",
            highlight=False,
        )
        console.print(f"The figure is in {path}", highlight=False, soft_wrap=True)
        return 0

    return parse(show, "certify", CERTIFY, rest)


def told(result: Any, table: Callable[[Any], Any], json: bool) -> int:
    """Prints `result` as JSON, or the table that `table` makes of it."""
    if json:
        print(json_of(result, indent=2))
    else:
        Console().print(table(result))
    return 0


def open_run(folder: Path) -> Any:
    """The run in `folder`; what was wrong with its checkpoints goes to standard error."""
    from eniac.runs.load import load_run

    run = load_run(folder)
    for warning in run.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    return run


def one_way(deterministic: bool, no_deterministic: bool) -> bool | None:
    """What --deterministic and --no-deterministic come to: None if neither was given."""
    if deterministic and no_deterministic:
        raise ConfigError("--deterministic and --no-deterministic are both given; give one.")
    return deterministic if deterministic or no_deterministic else None


def at_least(bound: int, **values: int | None) -> None:
    """Refuses options below `bound`, and those that 32 bits cannot hold."""
    for name, value in values.items():
        fits = value is None or bound <= value < 2**31
        require(fits, name, value, f"{bound} or more, and below 2**31")
