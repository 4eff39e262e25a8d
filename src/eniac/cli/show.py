"""What commands print: tables, the summary of a run, a welcome, a complaint."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import eniac


def report(console: Console, result: Any) -> int:
    """Says how a run ended. Returns the exit code: 0, or 128 and the signal that stopped it."""
    from eniac.runs.display import duration, show_returns

    path = result.path
    if result.signal is not None:
        text = f"Stopped after epoch {result.progress.epoch}, and saved. To go on:"
        console.print(text, highlight=False)
        console.print(f"  eniac resume {path}", highlight=False, soft_wrap=True, style="bold")
        return 128 + result.signal
    shown = show_returns(result.progress.returns)
    rows = Table.grid(padding=(0, 2))
    speed = result.steps / max(result.seconds, 1e-9)
    for name, value in (
        ("return", f"{shown}, {_judged_by(result.config)}"),
        ("ended by", result.ended),
        ("steps", f"{int(result.progress.steps.sum()):,}"),
        ("time", f"{duration(result.seconds)}, {speed:,.0f} steps/s"),
    ):
        rows.add_row(Text(name, style="dim"), Text(value, overflow="fold"))
    name = result.config.algorithm.name
    console.print(Panel(rows, title=f"{name} on {result.config.env}", expand=False))
    # Outside the panel, which would break long paths: these are there to be copied.
    pictures = sorted((path / "figures").glob("*.png"))
    for what, text in (
        *(("picture ", picture) for picture in pictures),
        ("policy  ", path / "policy"),
        ("cover   ", f"eniac cover {path}" if _has_cover(result.config.algorithm) else None),
        ("watch it", f"eniac play {path}"),
        ("judge it", f"eniac evaluate {path}"),
        ("go on   ", _longer(result)),
    ):
        if text is None:
            continue
        line = Text.assemble("  ", (what, "dim"), f"  {text}")
        console.print(line, soft_wrap=True, highlight=False)
    return 0


def _has_cover(algorithm: Any) -> bool:
    """Whether `eniac cover` has something to show."""
    from eniac.algorithms import Deep

    return isinstance(algorithm, Deep) and algorithm.cover != "none"


def _judged_by(config: Any) -> str:
    if getattr(config.algorithm, "exact", False):
        return "exact discounted values"
    return f"{config.evaluation.episodes} episodes a seed"


def _longer(result: Any) -> str | None:
    """The command that makes a run twice as long, if its cover has room for that."""
    epochs = 2 * result.progress.epoch
    room = getattr(result.config.algorithm, "max_epochs", None)
    if room is not None and epochs > room:
        return None
    return f"eniac resume {result.path} --epochs {epochs}"


def evaluation_table(result: dict[str, Any]) -> Table:
    """What `evaluate_run` returned."""
    limit = f"cut after {result['horizon']} steps" if result["horizon"] else "until they end"
    how = "most likely actions" if result["deterministic"] else "sampled actions"
    table = Table(
        title=f"{result['algorithm']} on {result['env']}",
        caption=f"{result['episodes']} episodes a seed, {limit}, {how}",
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
    what = "share of the cells" if total is not None else "number of cells"
    notes = Text(
        f"return: {result['episodes']} episodes, {limit}, sampled actions\n"
        f"covered: {what} that the policy's visits in the buffer touch; new: those that no policy "
        f"before it touched ({result['cell']})\n"
        f"all policies together: {share(result['covered'])}",
        style="dim",
    )
    return Group(table, notes)


def env_table() -> Table:
    """All environments there are."""
    from eniac.envs.registry import ENVS

    table = Table(caption="A number in the place of v0 sets the size: DeepSea-20.", show_lines=True)
    table.add_column("environment", no_wrap=True)
    table.add_column("what it is")
    table.add_column("parameters", overflow="fold")
    table.add_column("horizon", justify="right")
    for row in ENVS.values():
        parameters = "\n".join(f"{key}={value!r}" for key, value in row.parameters.items())
        table.add_row(row.id, row.description, parameters, str(row.horizon or "none"))
    return table


def algorithm_table() -> Table:
    """All algorithms there are."""
    from eniac.algorithms import ALGORITHMS

    table = Table(
        caption="`eniac train ALGORITHM --help` lists all settings. --preset paper-depth2, -depth4 "
        "or -depth6 takes the paper's.",
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


def welcome() -> None:
    """What a newcomer sees."""
    Console().print(
        f"[bold]eniac {eniac.__version__}[/]: exploration in reinforcement learning that you can "
        "trust.\n\nThree commands to begin with:\n"
        "  [bold cyan]eniac list envs[/]            what can be explored\n"
        "  [bold cyan]eniac train ppo[/]            train an agent; Ctrl-C stops it, and saves\n"
        "  [bold cyan]eniac --help[/]               all commands",
        highlight=False,
    )


def complain(text: str) -> None:
    """An error of the user's, on standard error."""
    Console(stderr=True).print(
        Text.assemble(("Error: ", "bold red"), text), soft_wrap=True, highlight=False
    )


def overview(commands: dict[str, str]) -> None:
    """All commands, with what they do."""
    console = Console()
    console.print("usage: eniac COMMAND ...\n", highlight=False, markup=False)
    rows = Table.grid(padding=(0, 3))
    for name, text in commands.items():
        rows.add_row(Text(f"  {name}", style="bold cyan"), text)
    console.print(rows)
    console.print(
        "\n`eniac COMMAND --help` explains a command and gives examples. `eniac --version` prints "
        "the version.",
        highlight=False,
    )
