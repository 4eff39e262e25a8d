"""The command `eniac`: what can be asked for. The work is done in `eniac.runs` and `eniac.report`.

Heavy modules are imported by the commands that need them, so that help comes at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

import eniac
from eniac.cli.commands import COVER, PLOT, at_least, cover, open_run, plot
from eniac.cli.show import (
    algorithm_table,
    complain,
    env_table,
    evaluation_table,
    overview,
    report,
    welcome,
)
from eniac.errors import ConfigError, EniacError, suggestion

Folder = tyro.conf.Positional[Path]

TRAIN = """Train ALGORITHM in an environment, for one seed or several side by side.

Everything goes to one folder: metrics, checkpoints, pictures, policy.

Ctrl-C finishes the epoch and saves; `eniac resume` goes on from there.

Networks of the deep algorithms: --depth 2 (the default), 4 or 6, as in the paper.

All settings as in the paper: --preset paper-depth2, paper-depth4 or paper-depth6.

In the place of ALGORITHM, the config.json of a run runs it again.

Examples:
  eniac train eniac --depth 6 --return-above 93
  eniac train ppo --env DeepSea-10 --seeds 4 --epochs 20 --out runs/sea
  eniac train eniac-spi-sample --env DeepSea-10 --function-class tabular --seeds 10
  eniac train ppo --env MountainCarContinuous-v0 --horizon 200 --steps 5000000 --ppo.clip 0.1
"""

RESUME = """Continue a run from its newest checkpoint, as if never interrupted.

A new stop rule replaces that of the run: so a finished run gets longer.

Examples:
  eniac resume runs/sea
  eniac resume runs/sea --epochs 200
"""

EVALUATE = """Play fresh episodes with the newest policies of a run and report returns.

Examples:
  eniac evaluate runs/sea
  eniac evaluate runs/sea --episodes 1000 --deterministic --json
"""

PLAY = """Play one episode with a run's newest policy and draw it as a GIF.

Examples:
  eniac play runs/sea
  eniac play runs/sea --deterministic --out sea.gif
"""

LIST = """Show the environments or the algorithms there are.

Examples:
  eniac list envs
  eniac list algorithms
"""

EXPORT = """Write the newest policies of a run as safetensors and config.json.

In Python, `eniac.load_policy(DIR)` loads them again.

Examples:
  eniac export runs/sea --out sea-policy
"""

GUARANTEE = """Print the hyper-parameters of a theorem, and what each term of its bound is worth.

Describe the class by --num-states, if it is tabular, or by --eluder and --log-cover.

NPG on another class also needs --B, --G, --Lambda and --d.

--constants printed takes the paper's constants as they stand; some terms are then too large.

Examples:
  eniac guarantee spi-sample --accuracy 0.1 --gamma 0.9 --num-actions 2 --num-states 10
  eniac guarantee spi-compute --accuracy 0.1 --gamma 0.9 --num-actions 10 --eluder 40 --log-cover 90
"""

CERTIFY = """Measure every term of the paper's proof on a run, exactly, beside its bound.

For runs of the provable algorithms. Draws the terms over the epochs to figures/certificate.png.

holds: within its bound; vacuous: so too, but the bound says nothing; fails: not within it.

Examples:
  eniac certify runs/sea
  eniac certify runs/sea --seed 3 --json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv`, by default that of the process; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except EniacError as error:
        complain(str(error))
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt as error:
        complain(str(error) or "Aborted.")
        sys.stdout.flush()
        sys.stderr.flush()
        if argv is None:
            # The epoch that was aborted still computes in a thread; leave without waiting for it.
            os._exit(130)
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone, `head` for instance; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        welcome()
        return 0
    name, rest = arguments[0], arguments[1:]
    if name in ("-h", "--help", "help"):
        overview({name: text for name, (_, text) in COMMANDS.items()})
        return 0
    if name in ("-V", "--version", "version"):
        print(f"eniac {eniac.__version__}")
        return 0
    if name not in COMMANDS:
        raise ConfigError(
            f"{name!r} is not a command.{suggestion(name, COMMANDS)} "
            f"Commands: {', '.join(COMMANDS)}. `eniac --help` says what they do."
        )
    return COMMANDS[name][0](rest)


def _parse(function: Any, name: str, description: str, rest: list[str], **more: Any) -> Any:
    return tyro.cli(function, prog=f"eniac {name}", description=description, args=rest, **more)


def _train(rest: list[str]) -> int:
    from eniac.cli.options import parse_config
    from eniac.runs.cache import use_all_cores
    from eniac.runs.config import Config, find_algorithm
    from eniac.runs.load import load_config

    use_all_cores()
    asks_for_help = any(word in ("-h", "--help") for word in rest)
    if rest and not rest[0].startswith("-"):
        name, rest = rest[0], rest[1:]
        prog = f"train {name}"
    elif asks_for_help:
        name, prog = "ppo", "train ALGORITHM"
    else:
        raise ConfigError(
            "Which algorithm? For instance `eniac train ppo`; `eniac list algorithms` shows them."
        )
    if name.endswith("config.json"):
        default = replace(load_config(Path(name).parent), out=None)
    else:
        settings, rest = _settings(find_algorithm(name), rest)
        default = Config(algorithm=settings)
    config = parse_config(default, f"eniac {prog}", TRAIN, rest)
    from eniac.runs.engine import train

    console = Console()
    return report(console, train(config, console=console))


def _settings(row: Any, rest: list[str]) -> tuple[Any, list[str]]:
    """The settings that --depth, --preset and --episodes ask for, and the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--preset")
    parser.add_argument("--episodes", choices=("continuing", "episodic"))
    try:
        chosen, rest = parser.parse_known_args(rest)
        if chosen.depth is not None and chosen.preset is not None:
            raise ConfigError(
                f"--depth {chosen.depth} and --preset {chosen.preset} are both given; a preset has "
                "its own depth, so give one of the two."
            )
        episodes = {} if chosen.episodes is None else {"episodes": chosen.episodes}
        return row.settings(chosen.depth or 2, chosen.preset, **episodes), rest
    except (argparse.ArgumentError, ValueError) as error:
        raise ConfigError(str(error)) from error


def _resume(rest: list[str]) -> int:
    def resume(
        run: Folder,
        /,
        epochs: int | None = None,
        steps: int | None = None,
        seconds: float | None = None,
        return_above: float | None = None,
    ) -> int:
        """Continues a run.

        Args:
            run: Folder of the run.
            epochs: Stop after this many epochs, those already done included.
            steps: Stop after this many environment steps of a seed.
            seconds: Stop after this much wall-clock time, that already spent included.
            return_above: Stop a seed when its evaluation's mean return is above this.
        """
        from eniac.runs.cache import use_all_cores
        from eniac.runs.engine import resume as go_on

        use_all_cores()
        console = Console()
        result = go_on(
            run,
            epochs=epochs,
            steps=steps,
            seconds=seconds,
            return_above=return_above,
            console=console,
        )
        return report(console, result)

    return _parse(resume, "resume", RESUME, rest)


def _evaluate(rest: list[str]) -> int:
    def evaluate(
        run: Folder,
        /,
        episodes: int = 100,
        horizon: int | None = None,
        deterministic: tyro.conf.FlagCreatePairsOff[bool] = False,
        seed: int = 0,
        json: tyro.conf.FlagCreatePairsOff[bool] = False,
    ) -> int:
        """Judges a run's policies.

        Args:
            run: Folder of the run.
            episodes: Number of episodes for each seed of the run.
            horizon: Steps after which an episode is cut. None: as in the run's own evaluation.
            deterministic: Take the most likely action instead of sampling one.
            seed: Seed of the episodes. The same one gives the same episodes.
            json: Print the result as JSON.
        """
        return _evaluate_run(run, episodes, horizon, deterministic, seed, json)

    return _parse(evaluate, "evaluate", EVALUATE, rest)


def _evaluate_run(
    folder: Path,
    episodes: int,
    horizon: int | None,
    deterministic: bool,
    seed: int,
    as_json: bool,
) -> int:
    at_least(1, episodes=episodes, horizon=horizon)
    at_least(0, seed=seed)
    run = open_run(folder)
    from eniac.report.evaluate import evaluate_run

    result = evaluate_run(run, episodes, seed, deterministic, horizon)
    if as_json:
        print(json.dumps(result, indent=2))
        return 0
    Console().print(evaluation_table(result))
    return 0


def _play(rest: list[str]) -> int:
    def play(
        run: Folder,
        /,
        seed: int | None = None,
        episode: int = 0,
        deterministic: tyro.conf.FlagCreatePairsOff[bool] = False,
        out: Path | None = None,
    ) -> int:
        """Plays an episode.

        Args:
            run: Folder of the run.
            seed: Which of the run's seeds to play. None: the first.
            episode: Decides the randomness of the episode; another number, another episode.
            deterministic: Take the most likely action instead of sampling one.
            out: The GIF. None: figures/play.gif in the run's folder.
        """
        at_least(0, episode=episode)
        loaded = open_run(run)
        from eniac.report.play import play_episode, save_gif

        played = play_episode(loaded, seed, episode, deterministic)
        path = out or run / "figures" / "play.gif"
        frames = save_gif(loaded, played, path)
        end = "reached its end" if played.terminated else "was cut by the time limit"
        print(
            f"The episode {end} after {played.length} steps with return "
            f"{played.total_reward:.4g}.\n{frames} frames are in {path}"
        )
        return 0

    return _parse(play, "play", PLAY, rest)


def _plot(rest: list[str]) -> int:
    return _parse(plot, "plot", PLOT, rest)


def _cover(rest: list[str]) -> int:
    return _parse(cover, "cover", COVER, rest)


def _list(rest: list[str]) -> int:
    if rest and not rest[0].startswith("-") and rest[0] not in ("envs", "algorithms"):
        hint = suggestion(rest[0], ("envs", "algorithms"))
        raise ConfigError(f"{rest[0]!r} cannot be listed, only envs and algorithms.{hint}")

    def show(what: tyro.conf.Positional[Literal["envs", "algorithms"]], /) -> int:
        """Shows a table.

        Args:
            what: What to show.
        """
        Console().print(env_table() if what == "envs" else algorithm_table())
        return 0

    return _parse(show, "list", LIST, rest)


def _export(rest: list[str]) -> int:
    def export(run: Folder, /, out: Annotated[Path, tyro.conf.arg(metavar="DIR")]) -> int:
        """Writes policies.

        Args:
            run: Folder of the run.
            out: Folder to write to; each seed gets a folder in it.
        """
        from eniac.runs.export import export_run

        for folder in export_run(open_run(run), out):
            print(f"Wrote {folder}")
        return 0

    return _parse(export, "export", EXPORT, rest)


def _guarantee(rest: list[str]) -> int:
    from eniac.cli.guarantee import guarantee_command

    try:
        _parse(guarantee_command, "guarantee", GUARANTEE, rest)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return 0


def _certify(rest: list[str]) -> int:
    from eniac.report.certificate import certify_command

    return _parse(certify_command, "certify", CERTIFY, rest)


COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "train": (_train, "Train an algorithm in an environment"),
    "resume": (_resume, "Continue a run that was interrupted, or make it longer"),
    "evaluate": (_evaluate, "Play episodes with a run's policies and report returns"),
    "play": (_play, "Draw an episode of a run's policy as a GIF"),
    "plot": (_plot, "Draw learning curves, visited states or the bonus of runs"),
    "cover": (_cover, "Show the policies of a run's cover: weight, return, coverage"),
    "list": (_list, "Show the environments or the algorithms"),
    "export": (_export, "Write a run's policies as safetensors"),
    "guarantee": (_guarantee, "Print what a theorem of the paper asks for and promises"),
    "certify": (_certify, "Measure the terms of the proof on a run, beside their bounds"),
}


if __name__ == "__main__":
    sys.exit(main())
