"""Commands that make runs, and those that need none. Heavy modules are imported when they run."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps as json_of
from pathlib import Path
from typing import Any, Literal

import tyro
from rich.console import Console

from eniac.cli.show import algorithm_table, env_table, report, runs_table
from eniac.errors import ConfigError, one_line, suggestion

TRAIN = """Train ALGORITHM in an environment, for one seed or several side by side.

Everything goes to one folder: metrics, checkpoints, pictures, policy.

Ctrl-C, SIGTERM or a closed terminal finish the epoch and save; `eniac resume` goes on from there.

--env takes one of `eniac list envs`, any id of gymnasium's (Acrobot-v1), gymnasium:ID where we have
one of that name too, envpool:ID, or module:function that makes one of your own.

Chosen by name, for the deep algorithms (eniac, ppo, ppo-rnd, pc-pg, zero):
  --depth     2 (the default), 4 or 6 hidden layers, as in the paper
  --preset    paper-depth2, paper-depth4 or paper-depth6: all settings as in the paper
  --episodes  continuing (the default) or episodic
  --cover     none, uniform, log-det, or module:Class of your own
  --bonus     width, last-layer, ensemble, kernel, counts, rnd, episodic, episodic-width, zero, or
              module:Class of your own
  --update    ppo, or module:Class of your own

With another part come its own settings: --bonus rnd --bonus.coefficient 10.

In the place of ALGORITHM, the config.json of a run runs it again.

Examples:
  eniac train eniac --depth 6 --return-above 93
  eniac train eniac --env Acrobot-v1
  eniac train eniac --env mymodule:make_env --env-options size 10 windy false
  eniac train ppo --env DeepSea-10 --seeds 4 --epochs 20 --out runs/sea
  eniac train eniac --env DeepSea-10 --bonus kernel --rounds 1 --updates-per-round 20
  eniac train ppo --horizon 200 --steps 5000000 --rollout-length 50 --update.clip 0.1
  eniac train eniac-spi-sample --env DeepSea-10 --function-class tabular --seeds 10
  eniac train runs/sea/config.json --seed 4 --out runs/sea-4
"""

RESUME = """Continue a run from its newest checkpoint, as if never interrupted.

A new stop rule replaces that of the run, and those that a finished run has met: so it gets longer.

One process at a time may write to a run; a second is refused, and told who does.

Examples:
  eniac resume runs/sea
  eniac resume runs/sea --epochs 200
"""

LIST = """Show the environments, the algorithms, or the runs in a folder.

Examples:
  eniac list envs
  eniac list algorithms
  eniac list runs
  eniac list runs experiments/monday --json
"""

GUARANTEE = """Print the hyper-parameters of a theorem, and what each term of its bound is worth.

Describe the class by --num-states, if it is tabular, or by --eluder and --log-cover.

NPG on another class also needs --B, --G, --Lambda and --d.

--constants printed takes the paper's constants as they stand; some terms are then too large.

Examples:
  eniac guarantee spi-sample --accuracy 0.1 --gamma 0.9 --num-actions 2 --num-states 10
  eniac guarantee spi-compute --accuracy 0.1 --gamma 0.9 --num-actions 10 --eluder 40 --log-cover 90
"""

Folder = tyro.conf.Positional[Path]
Flag = tyro.conf.FlagCreatePairsOff[bool]


def parse(function: Any, name: str, description: str, rest: list[str]) -> Any:
    """`function`, called with what `rest` says of its arguments."""
    return tyro.cli(function, prog=f"eniac {name}", description=description, args=rest)


def command(description: str) -> Callable[[Callable[..., int]], Callable[[list[str]], int]]:
    """Makes a command of a function: called with the words of a command line, it is called with
    what they say. The command has the function's name, and its help this description."""

    def make(function: Callable[..., int]) -> Callable[[list[str]], int]:
        name = function.__name__.replace("_", "-")
        return lambda rest: parse(function, name, description, rest)

    return make


def train(rest: list[str]) -> int:
    """`eniac train`."""
    from eniac.runs.options import parse_config

    config = parse_config(rest, TRAIN)
    from eniac.training import train

    console = Console()
    return report(console, train(config, console=console))


@command(RESUME)
def resume(
    run: Folder,
    /,
    epochs: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    return_above: float | None = None,
    accept_edited_config: Flag = False,
) -> int:
    """Continues a run.

    Args:
        run: Folder of the run.
        epochs: Stop after this many epochs, those already done included.
        steps: Stop after this many environment steps of a seed.
        seconds: Stop after this much wall-clock time, that already spent included.
        return_above: Stop a seed when its evaluation's mean return is above this.
        accept_edited_config: Go on though config.json was edited since, with what it says now.
    """
    from eniac.training import resume as go_on

    console = Console()
    result = go_on(
        run,
        epochs=epochs,
        steps=steps,
        seconds=seconds,
        return_above=return_above,
        accept_edited_config=accept_edited_config,
        console=console,
    )
    return report(console, result)


def show_list(rest: list[str]) -> int:
    """`eniac list`."""
    kinds = ("envs", "algorithms", "runs")
    if rest and not rest[0].startswith("-") and rest[0] not in kinds:
        hint = suggestion(rest[0], kinds)
        raise ConfigError(f"{rest[0]!r} cannot be listed, only {', '.join(kinds)}.{hint}")

    def show(
        what: tyro.conf.Positional[Literal["envs", "algorithms", "runs"]],
        folder: tyro.conf.Positional[Path | None] = None,
        /,
        json: Flag = False,
    ) -> int:
        """Shows a table.

        Args:
            what: What to show.
            folder: For runs, the folder to look in, and in the folders inside. None: runs/.
            json: Print runs as JSON.
        """
        if what != "runs":
            if json or folder is not None:
                given = "--json" if json else str(folder)
                raise ConfigError(f"{given} is only for `eniac list runs`; leave it out.")
            Console().print(env_table() if what == "envs" else algorithm_table())
            return 0
        from eniac.report.run_list import find_runs

        found = find_runs(folder or Path("runs"))
        if json:
            print(json_of(found, indent=2))
        elif found:
            Console().print(runs_table(found))
        else:
            print(f"There are no runs in {folder or 'runs'}/. `eniac train ppo` makes one.")
        return 0

    return parse(show, "list", LIST, rest)


def guarantee(rest: list[str]) -> int:
    """`eniac guarantee`."""
    from eniac.cli.guarantee import guarantee_command

    try:
        parse(guarantee_command, "guarantee", GUARANTEE, rest)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except ArithmeticError as error:
        raise ConfigError(
            f"these numbers are too small or too large to compute with ({one_line(error)})."
        ) from error
    return 0
