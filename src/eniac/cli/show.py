"""What commands print: tables, and the summary of a run."""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from eniac.report.diagnose import Diagnosis
    from eniac.theory.certify import Certificate, Line


def report(console: Console, result: Any) -> int:
    """Says how a run ended. Returns the exit code: 0, or 128 and the signal that stopped it."""
    from eniac.runs.display import exploiting, show_returns
    from eniac.runs.proposals import in_shell, longer_command, resume_command
    from eniac.runs.terminal import duration

    path, epoch = result.path, result.progress.epoch
    if result.signal is not None:
        text = f"Stopped after epoch {epoch}, and saved. To go on:"
        if not result.steps:
            text = (
                f"Stopped before epoch {epoch + 1}: nothing was trained in this session. To go on:"
            )
        command = resume_command(path, result.config)
        with contextlib.suppress(OSError):  # of a terminal that was closed
            console.print(text, highlight=False)
            console.print(f"  {command}", highlight=False, soft_wrap=True, style="bold")
        return 128 + result.signal
    shown = show_returns(result.progress.returns)
    rows = Table.grid(padding=(0, 2))
    speed = result.steps / max(result.seconds, 1e-9)
    for name, value in (
        ("return", f"{shown}, {result.config.evaluation.episodes} episodes a seed"),
        *exploiting(result.progress),
        ("ended by", result.ended),
        ("steps", f"{int(result.progress.steps.sum()):,}"),
        ("time", f"{duration(result.seconds)}, {speed:,.0f} steps/s"),
    ):
        rows.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
    name = result.config.algorithm.name
    console.print(Panel(rows, title=f"{name} on {result.config.env}", expand=False))
    # Outside the panel, which would break long paths: these are there to be copied.
    run = in_shell(path)
    pictures = sorted((path / "figures").glob("*.png"))
    for what, text in (
        *(("picture ", picture) for picture in pictures),
        ("policy  ", path / "policy"),
        ("cover   ", f"eniac cover {run}" if result.config.algorithm.has_cover else None),
        ("watch it", f"eniac play {run}"),
        ("judge it", f"eniac evaluate {run}"),
        ("go on   ", longer_command(path, result.config, result.progress)),
    ):
        if text is None:
            continue
        line = Text.assemble("  ", (what, "dim"), f"  {text}")
        console.print(line, soft_wrap=True, highlight=False)
    return 0


def evaluation_table(result: dict[str, Any]) -> Table:
    """What `evaluate_run` returned."""
    limit = f"cut after {result['horizon']} steps" if result["horizon"] else "until they end"
    table = Table(
        title=f"{result['algorithm']} on {result['env']}",
        caption=f"{result['seeds'][0]['policy']}: {result['episodes']} episodes a seed, {limit}, "
        f"{_ways(result['seeds'])}",
    )
    columns = ("seed", "epoch", "steps", "return", "std", "min", "max", "length")
    for name in columns:
        table.add_column(name, justify="right")
    for row in result["seeds"]:
        table.add_row(
            str(row["seed"]),
            str(row["epoch"]),
            f"{row['env_steps']:,}",
            *(f"{row[f'return_{kind}']:.4g}" for kind in ("mean", "std", "min", "max")),
            f"{row['length_mean']:.4g}",
        )
    return table


def _ways(rows: Sequence[dict[str, Any]]) -> str:
    """How the policies of all seeds act: `sampled actions`, or which of them how."""
    seeds: dict[bool, list[str]] = {}
    for row in rows:
        seeds.setdefault(row["deterministic"], []).append(str(row["seed"]))
    if len(seeds) == 1:
        return f"{actions(*seeds)} actions"
    return ", ".join(f"{actions(way)} actions of {', '.join(s)}" for way, s in seeds.items())


def actions(deterministic: bool) -> str:
    """How a policy chooses its actions, in words."""
    return "most likely" if deterministic else "sampled"


def cover_table(result: dict[str, Any]) -> Group:
    """What `cover_report` returned."""
    total = result["cells"]

    def share(count: int) -> str:
        return f"{count:,}" if total is None else f"{count / total:.1%}"

    limit = f"cut after {result['horizon']} steps" if result["horizon"] else "until they end"
    table = Table(
        title=f"{result['algorithm']} on {result['env']}, seed {result['seed']}, "
        f"epoch {result['epoch']}"
    )
    for name in ("policy", "weight", "return", "std", "length", "covered", "new"):
        table.add_column(name, justify="right")

    def add(name: str, row: dict[str, Any], weight: str, *coverage: str) -> None:
        numbers = (f"{row[key]:.4g}" for key in ("return_mean", "return_std", "length_mean"))
        table.add_row(name, weight, *numbers, *coverage)

    for row in result["policies"]:
        add(
            str(row["number"]),
            row,
            f"{row['weight']:.3f}",
            share(row["covered"]),
            share(row["new"]),
        )
    table.add_section()
    add("exploring", result["exploring"], "-", "-", "-")
    add("exploiting", result["exploiting"], "-", "-", "-")
    note = ""
    if result["incumbent"] is not None:
        add("incumbent", result["incumbent"], "-", "-", "-")
        note = f" (incumbent: {actions(result['incumbent']['deterministic'])})"
    what = "share of the cells" if total is not None else "number of cells"
    notes = Text(
        f"return: {result['episodes']} episodes, {limit}, sampled actions{note}\n"
        f"covered: {what} that the policy's visits in the buffer touch; new: those that no policy "
        f"before it touched ({result['cell']})\n"
        f"all policies together: {share(result['covered'])}",
        style="dim",
    )
    return Group(table, notes)


def audit_table(result: dict[str, Any]) -> Group:
    """What `audit_bonus` returned."""
    unit, finite = result["unit"], result["how"] == "finite"
    kinds = ("visited", "unvisited") if finite else ("held-out", "far")
    against = "1 / sqrt(visits + ridge)" if finite else "the distance from the visits"

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    table = Table(
        title=f"{result['bonus']} bonus of {result['algorithm']} on {result['env']}, seed "
        f"{result['seed']}, epoch {result['epoch']}"
    )
    for name, justify in (("what", "left"), ("value", "right"), ("meaning", "left")):
        table.add_column(name, justify=justify)  # pyright: ignore[reportArgumentType]
    for name, value, meaning in (
        (f"{kinds[0]} {unit}", f"{result['visited']:,}", "where the policies of the cover were"),
        (f"{kinds[1]} {unit}", f"{result['unvisited']:,}", "where none of them was"),
        ("correlation", number(result["correlation"], ".3f"), f"of ranks, with {against}; best 1"),
        ("auc", number(result["auc"], ".3f"), "larger where none was; best 1, chance 0.5"),
        (f"mean, {kinds[0]}", number(result["visited_mean"], ".3g"), "the bonus there"),
        (f"mean, {kinds[1]}", number(result["unvisited_mean"], ".3g"), "and there"),
        ("threshold", number(result["threshold"], ".3g"), "above it a pair counts as unknown"),
        (
            f"{kinds[0]} above",
            number(result["visited_above"], ".1%"),
            "known, and taken for unknown",
        ),
        (
            f"{kinds[1]} below",
            number(result["unvisited_below"], ".1%"),
            "unknown, and taken for known",
        ),
        ("a fit", number(result["fit_seconds"], ".3g") + " s", "made again on the buffer, now"),
        ("a bonus", number(result["microseconds"], ".3g") + " us", "of a pair, among many"),
    ):
        table.add_row(name, value, meaning)
    notes = Text("\n".join(result["notes"]), style="dim")
    return Group(table, notes)


def diagnosis_table(diagnosis: Diagnosis) -> Group:
    """What `diagnose_run` returned."""
    from eniac.report.diagnose import SHOWN

    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    for verdict, question, texts in diagnosis.lines():
        told = Text("\n").join([Text(question, style="bold"), *map(Text, texts), Text()])
        rows.add_row(Text(SHOWN[verdict], style=_VERDICTS[verdict]), told)
    left = [Text(f"left out: {name} ({why})", "dim") for name, why in diagnosis.left_out.items()]
    return Group(Text(diagnosis.title + "\n"), rows, *left)


_VERDICTS = {"good": "green", "look": "yellow", "bad": "bold red", "unknown": "dim"}


def comparison_tables(result: dict[str, Any]) -> Iterator[Table]:
    """What `compare_runs` returned: a table for each environment, and its performance profile."""
    from eniac.report.compare import shown_row

    for place in result["environments"]:
        limit = place["threshold"]
        after = "" if result["steps"] is None else f" after {result['steps']:,} steps"
        what = "return" if result["metric"] == "return_mean" else result["metric"]
        above = "" if limit is None else f"; success: above {limit:g}"
        table = Table(
            title=Text(f"{place['environment']}: last {what}{after}{above}", style="bold"),
            title_justify="left",
            caption=Text(
                f"[low, high]: {100 * result['level']:.4g} % intervals; -: not known, or by half "
                "of the seeds never",
                style="dim",
            ),
            caption_justify="left",
            **_PLAIN,
        )
        table.add_column("method", overflow="fold")
        names = ("seeds", "IQM") if limit is None else ("IQM", "success", "steps", "seconds")
        for name in names:
            table.add_column(name, justify="right")
        for row in place["methods"]:
            cells = shown_row(row)
            # As text: brackets would be read as markup.
            table.add_row(*map(Text, (row["method"], *(cells[name] for name in names))))
        yield table
        profile = Table(title="share of seeds that end above", title_justify="left", **_PLAIN)
        profile.add_column("", overflow="fold")
        chosen = range(0, len(place["levels"]), len(place["levels"]) // 4)
        for k in chosen:
            profile.add_column(f"{place['levels'][k]:.3g}", justify="right")
        for row in place["methods"]:
            shares = (f"{row['profile'][k]:.2f}" for k in chosen)
            profile.add_row(*map(Text, (row["method"], *shares)))
        yield profile


_PLAIN: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}


def markdown_parts(text: str) -> Iterator[Table | Text]:
    """The tables and lines of Markdown, with tables drawn and all else as it is, without marks."""
    rows: list[list[str]] = []
    for line in [*text.strip().splitlines(), ""]:
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip("|"))
            rows.append([re.sub(r"[*`\\]", "", cell).strip() for cell in cells])
            continue
        if rows:
            yield _drawn(rows)
            rows = []
        yield Text(re.sub(r"^#+ |[*`]", "", line), style="bold" if line.startswith("#") else "")


def _drawn(rows: list[list[str]]) -> Table:
    """A table of its heads, the line below them, and its rows."""
    table = Table(**_PLAIN)
    for place, head in enumerate(rows[0]):
        words = [word for row in rows[2:] for word in row[place].split()]
        longest = max(map(len, [*words, *head.split()]), default=1)
        table.add_column(head, overflow="fold", min_width=min(longest, 16))
    for row in rows[2:]:
        table.add_row(*map(Text, row))
    return table


def env_table() -> Group:
    """Our environments, and what else can be named."""
    from eniac.envs.registry import ENVS

    table = Table(
        title="compiled: --env NAME",
        caption="A number in the place of v0 sets the size: DeepSea-20. Parameters: --env-options "
        "NAME VALUE ...",
        show_lines=True,
    )
    table.add_column("environment", no_wrap=True)
    table.add_column("what it is")
    table.add_column("parameters", overflow="fold")
    table.add_column("horizon", justify="right")
    for row in ENVS.values():
        parameters = "\n".join(f"{key}={value!r}" for key, value in row.parameters.items())
        table.add_row(row.id, row.description, parameters, str(row.horizon or "none"))
    others = Table.grid(padding=(0, 2))
    for name, text in (
        ("CartPole-v1", "any id of gymnasium's, and what other packages register there"),
        ("gymnasium:ID", "gymnasium's own, where we have one of the same name"),
        ("package:ID", "gymnasium's, after importing the package that registers it"),
        ("envpool:ID", "EnvPool's; pip install 'eniac[envpool]'"),
        ("module:function", "what your own function makes, from the folder you are in"),
    ):
        others.add_row(Text(f"  {name}", style="bold"), text)
    return Group(table, Text("\nAlso, stepped on the host:"), others)


def algorithm_table() -> Table:
    """All algorithms there are."""
    from eniac.algorithms import ALGORITHMS

    table = Table(
        caption="`eniac train ALGORITHM --help` lists all settings. Of those with networks, "
        "--preset paper-depth2, -depth4 or -depth6 takes the paper's, and --cover, --bonus and "
        "--update other parts.",
        show_lines=True,
    )
    table.add_column("algorithm", style="bold")
    table.add_column("what it is made of")
    for row in ALGORITHMS.values():
        made_of = Table.grid(padding=(0, 2))
        settings = ", ".join(f"{key} {value}" for key, value in row.default.summary().items())
        for part, text in (
            ("cover", row.cover),
            ("bonus", row.bonus),
            ("update", row.update),
            ("settings", settings),
            ("source", row.source),
        ):
            made_of.add_row(Text(part, style="cyan"), text)
        table.add_row(row.name, Group(row.description, made_of))
    return table


def runs_table(runs: Sequence[dict[str, Any]]) -> Table:
    """What `find_runs` returned."""
    table = Table(
        caption="return: of the last evaluation, mean over seeds; steps: of all seeds",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("run", overflow="fold")
    table.add_column("algorithm", overflow="fold", min_width=9)
    table.add_column("env", overflow="fold")
    for name in ("seeds", "epochs", "steps", "return"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("ended by", overflow="fold")
    table.add_column("started", no_wrap=True, min_width=13)
    for run in runs:
        mean = run["return_mean"]
        ended = Text(run["problem"], style="red") if run["problem"] else Text(run["ended"] or "")
        table.add_row(
            Text(run["folder"]),
            Text(str(run["algorithm"] or "?")),
            Text(str(run["env"] or "?")),
            *(_count(run[name]) for name in ("seeds", "epochs", "steps")),
            "-" if mean is None else f"{mean:.4g}",
            ended,
            _local_time(run["start"]),
        )
    return table


def plan_table(runs: Sequence[Any]) -> Table:
    """The runs that a sweep would make, a row for all seeds of a combination."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run.config.seed)
    varied = any(setting for _, _, setting in groups)
    table = _sweep_columns(varied)
    table.add_column("seeds", overflow="fold")
    for (algorithm, env, setting), seeds in groups.items():
        told = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
        table.add_row(*map(Text, (env, algorithm, *([setting] if varied else []))), told)
    return table


def sweep_table(rows: Sequence[dict[str, Any]]) -> Table:
    """What the runs of a sweep came to, a row for all seeds of a combination."""
    import numpy as np

    from eniac.runs.display import show_returns
    from eniac.runs.terminal import duration

    varied, judged = any(r["setting"] for r in rows), any(r["solved"] is not None for r in rows)
    table = _sweep_columns(varied)
    for name in ("seeds", "return", *(["solved"] if judged else []), "steps", "time"):
        table.add_column(name, justify="right", overflow="fold")
    table.caption = "return: mean of the last (and range); steps, time: medians"
    for row in rows:
        table.add_row(
            *map(Text, (row["env"], row["algorithm"], *([row["setting"]] if varied else []))),
            str(row["seeds"]),
            show_returns(np.array(row["returns"], float)),
            *(["-" if row["solved"] is None else str(row["solved"])] if judged else []),
            f"{row['steps']:,.0f}",
            duration(row["seconds"]),
        )
    return table


def _sweep_columns(varied: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("env", "algorithm", *(["setting"] if varied else [])):
        table.add_column(name, overflow="fold")
    return table


def _count(number: Any) -> str:
    return f"{number:,}" if isinstance(number, int) else "?"


def _local_time(start: str | None) -> str:
    try:
        return datetime.datetime.fromisoformat(start or "").astimezone().strftime("%d %b %H:%M")
    except ValueError:
        return start or ""


_STYLE = {"holds": "green", "fails": "red", "vacuous": "yellow"}


def certificate_tables(certificate: Certificate) -> Iterator[Table]:
    """Term, measured, bound, verdict, where in the paper; a table for each section."""
    from eniac.report.certificate import SECTIONS

    for section, (title, headings) in SECTIONS.items():
        table = Table(title=title, title_justify="left", title_style="bold")
        table.box, table.pad_edge, table.padding = SIMPLE_HEAD, False, (0, 0, 0, 1)
        table.add_column("term", min_width=22)
        for heading in (*headings, "bound"):
            table.add_column(heading, justify="right", min_width=8)
        table.add_column("verdict", min_width=10)
        table.add_column("paper", min_width=9)
        for line in certificate.lines:
            if line.section == section:
                table.add_row(*_certified(line))
        yield table


def _certified(line: Line) -> list[str | Text]:
    largest = "" if line.largest is None else _number(line.largest)
    bound = "" if line.bound is None else _number(line.bound)
    verdict = Text(line.verdict, style=_STYLE.get(line.verdict, ""))
    # As text: brackets in names would be read as markup.
    return [Text(line.term), _number(line.measured), largest, bound, verdict, line.where]


def _number(value: float) -> str:
    return "" if not math.isfinite(value) else f"{0.0 if abs(value) < 1e-12 else value:.3g}"
