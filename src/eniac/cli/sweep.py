"""`eniac sweep`: command lines of `eniac train`, combined."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from eniac.cli.commands import Flag, parse
from eniac.cli.show import plan_table, sweep_table
from eniac.errors import ConfigError, shown
from eniac.runs.options import parse_config
from eniac.runs.proposals import in_shell

if TYPE_CHECKING:
    from eniac.runs.plan import Planned

SWEEP = """Train every algorithm in every environment, with every setting and seed.

What stands behind -- are options of `eniac train` for all runs. Options that only one algorithm or
environment is to have are written behind its name, in quotes. --vary takes the name of an option
and its values, and can be given several times.

All combinations are checked before any is run; --dry-run shows them. Each run has one seed and a
process of its own, on one core, and saves after every epoch. Ctrl-C saves; the same command goes
on, and repeats nothing. With more seeds, environments or values it adds runs to the folder.

In the place of --algorithms, --envs, --vary, --seed and --seeds a JSON or TOML FILE can say them:
  algorithms = ["eniac", {name = "ppo", depth = 4}]
  envs = ["DeepSea-10", "CombinationLock-5"]
  seeds = 5
  settings = {steps = 1_000_000}
  vary = {"update.clip" = [0.1, 0.2]}

--executor ray spreads runs over the machines of a Ray cluster; OUT must be a folder that all share.

Examples:
  eniac sweep --algorithms eniac ppo --envs DeepSea-10 --seeds 5 -- --steps 1000000
  eniac sweep --algorithms eniac "ppo --depth 4" --envs DeepSea-10 --vary update.clip 0.1 0.2
  eniac sweep sweep.toml --out runs/clips --dry-run
  eniac sweep sweep.toml --out /shared/clips --executor ray --address 10.0.0.1:6379
"""

_CHOSEN = {
    "env": "--envs",
    "seed": "--seed before the --",
    "seeds": "--seeds before the --",
    "out": "--out before the --",
}
"""Options of a run that a sweep chooses, and how."""


def sweep(rest: list[str]) -> int:
    """`eniac sweep`."""
    cut = rest.index("--") if "--" in rest else len(rest)
    options = rest[cut + 1 :]

    def command(
        file: tyro.conf.Positional[Path | None] = None,
        /,
        algorithms: tuple[str, ...] = (),
        envs: tuple[str, ...] = (),
        vary: Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction] = (),
        seed: int = 0,
        seeds: int = 1,
        out: Path | None = None,
        workers: int | None = None,
        executor: Literal["processes", "ray"] = "processes",
        address: str | None = None,
        accelerator: str | None = None,
        dry_run: Flag = False,
    ) -> int:
        """Makes the runs of a sweep.

        Args:
            file: JSON or TOML file that says what to run.
            algorithms: Names of algorithms, each in quotes with options of its own.
            envs: Environments, each in quotes with options of its own.
            vary: Name of an option and the values that it is to have, one after another.
            seed: The first of the seeds.
            seeds: How many seeds each combination has: seed, seed + 1, ...
            out: Folder of the sweep. None: runs/sweep, or runs/ and the name of the file.
            workers: Runs side by side. None: one a core, of this machine or of the cluster.
            executor: Where runs are made: processes of this machine, or a Ray cluster.
            address: HOST:PORT of the head of the Ray cluster. None: that of this machine.
            accelerator: What a run gets one of besides its core, as Ray calls it: GPU, TPU.
            dry_run: Show the runs and make none.
        """
        if file is None:
            runs = plan_words(algorithms, envs, vary, options, seed, seeds)
        else:
            if algorithms or envs or vary or options or (seed, seeds) != (0, 1):
                raise ConfigError(
                    f"{file} says which runs there are; leave out --algorithms, --envs, --vary, "
                    "--seed, --seeds and what stands behind --."
                )
            from eniac.runs.plan import plan, read_definition

            runs = plan(**read_definition(file))
        folder = out or Path("runs") / ("sweep" if file is None else file.stem)
        console = Console()
        if dry_run:
            console.print(plan_table(runs))
            num = f"{len(runs)} run{'s' * (len(runs) > 1)}"
            console.print(f"{num} in {folder}; nothing was run.", highlight=False, soft_wrap=True)
            return 0
        from eniac.runs.executors import open_executor
        from eniac.runs.sweep import results, run_sweep, table

        with open_executor(executor, address, accelerator) as open_one:
            outcome = run_sweep(runs, folder, open_one, workers=workers, console=console)
        rows = results(runs, folder)
        if rows:
            console.print(sweep_table(table(rows)))
        if outcome.code == 0:
            name = in_shell(folder)
            several = len({(run.algorithm, run.setting) for run in runs}) > 1
            for text, what in (
                *([("Which is better:", f"eniac compare {name}")] if several else []),
                ("Curves:", f"eniac plot {name}"),
                ("The runs:", f"eniac list runs {name}"),
            ):
                console.print(f"{text:17}{what}", highlight=False, soft_wrap=True)
        return outcome.code

    return parse(command, "sweep", SWEEP, rest[:cut])


def plan_words(
    algorithms: tuple[str, ...],
    envs: tuple[str, ...],
    vary: tuple[tuple[str, ...], ...],
    options: list[str],
    seed: int,
    seeds: int,
) -> list[Planned]:
    """The runs of a sweep that is given as words of command lines of `eniac train`."""
    from eniac.runs.plan import CHECKPOINTS, combine

    _refuse_chosen(options)
    varied = [_variants(words) for words in vary]
    often = [f"--{name.replace('_', '-')}={value}" for name, value in CHECKPOINTS.items()]

    def make(algorithm: list[str], env: list[str], variant: list[str]):
        own = [*algorithm[1:], *env[1:], *variant]
        _refuse_chosen(own)
        words = [algorithm[0], "--env", env[0], *often, *options, *own]
        return parse_config(words)

    return combine(
        [(_label(words), words) for words in map(_split, algorithms)],
        [(_label(words), words) for words in map(_split, envs)],
        [
            (" ".join(label for label, _ in each), [word for _, words in each for word in words])
            for each in itertools.product(*varied)
        ],
        make,
        seed,
        seeds,
    )


def _split(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{shown(text)} cannot be read: {error}.") from None
    if not words or words[0].startswith("-"):
        raise ConfigError(f"{shown(text)} has no name; it must begin with one.")
    return words


def _label(words: list[str]) -> str:
    """`ppo --depth 4` as it is shown: ppo depth=4."""
    parts = [words[0]]
    for before, word in itertools.pairwise(words):
        if word.startswith("--"):
            parts.append(word.removeprefix("--"))
        else:
            parts[-1] += f"{'=' if before.startswith('--') else ' '}{word}"
    return " ".join(parts)


def _variants(words: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Each value that an option is to have: what it is called, and as words of a command line."""
    if len(words) < 2:
        raise ConfigError(
            f"--vary {' '.join(words)} has no values; for instance `--vary update.clip 0.1 0.2`."
        )
    name = words[0].removeprefix("--")
    _refuse_chosen([f"--{name}"])
    return [(f"{name}={value}", _option(name, value)) for value in words[1:]]


def _option(name: str, value: str) -> list[str]:
    if value.lower() == "true":
        return [f"--{name}"]
    if value.lower() == "false":
        *path, last = name.split(".")
        return [f"--{'.'.join([*path, f'no-{last}'])}"]
    return [f"--{name}", *_values(value)]


def _values(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError as error:
        raise ConfigError(f"{shown(value)} cannot be read: {error}.") from None


def _refuse_chosen(words: list[str]) -> None:
    for word in words:
        name = word.removeprefix("--").partition("=")[0]
        if word.startswith("--") and name in _CHOSEN:
            raise ConfigError(f"--{name} is chosen by the sweep: give {_CHOSEN[name]}.")
