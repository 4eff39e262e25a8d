"""Commands that show what is in a run. Heavy modules are imported when a command is run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from json import dumps as json_of
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from eniac.cli.commands import Flag, Folder, command
from eniac.cli.show import (
    actions,
    audit_table,
    certificate_tables,
    cover_table,
    diagnosis_table,
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


@command(EVALUATE)
def evaluate(
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


PLAY = f"""Play one episode with a policy of a run and draw it as a GIF.

{WHICH}

An environment of gymnasium's draws itself: what makes it must take render_mode="rgb_array".

Examples:
  eniac play runs/sea
  eniac play runs/sea --policy exploring --deterministic --out sea.gif
"""


@command(PLAY)
def play(
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


COVER = """Show the policies of a run's cover: weight, return, how much of the states they reached.

Reads the newest checkpoint. The exploring and the exploiting policy and the incumbent come last.

Examples:
  eniac cover runs/car
  eniac cover runs/car --seed 3 --episodes 100 --json
"""


@command(COVER)
def cover(
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


@command(AUDIT_BONUS)
def audit_bonus(
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


DIAGNOSE = """Ask a run what is the matter with it: verdicts, the numbers they rest on, what to try.

good; look: perhaps a trouble; bad; ?: cannot be told, and why. Checks that are none for the run's
algorithm are left out by name. Of several seeds the worst is told, and which others are like it.

Reads metrics.jsonl and the newest checkpoint, and takes some thousand steps in the environment. The
run may go on meanwhile; it warns of what is bad by the same checks.

Examples:
  eniac diagnose runs/sea
  eniac diagnose runs/sea --json
"""


@command(DIAGNOSE)
def diagnose(run: Folder, /, json: Flag = False) -> int:
    """Diagnoses a run.

    Args:
        run: Folder of the run.
        json: Print the result as JSON, seed by seed.
    """
    from eniac.report.diagnose import diagnose_run

    diagnosis = diagnose_run(run)
    show_warnings(diagnosis.about["warnings"])
    return told(diagnosis.to_dict() if json else diagnosis, diagnosis_table, json)


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


@command(EXPORT)
def export(
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


def _stateless(folder: Path) -> list[Any]:
    """The agents of the policies in a folder, or in that of a run whose environment is not here."""
    from eniac.agents import load
    from eniac.runs.export import holds_policy
    from eniac.runs.load import load_config

    if holds_policy(folder):
        return [load(folder)]
    if not (folder / "policy").is_dir():
        return []
    return [load(folder, seed=seed) for seed in load_config(folder).seed_numbers]


CERTIFY = """Measure every term of the paper's proof on a run, exactly, beside its bound.

For runs of the provable algorithms. Draws the terms over the epochs to figures/certificate.png.

holds: within its bound; vacuous: so too, but the bound says nothing; fails: not within it.

Examples:
  eniac certify runs/sea
  eniac certify runs/sea --seed 3 --json
"""


@command(CERTIFY)
def certify(run: Folder, /, seed: int | None = None, json: Flag = False) -> int:
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
    show_warnings(run.warnings)
    return run


def show_warnings(warnings: Sequence[str]) -> None:
    """Prints `warnings` to standard error."""
    for warning in warnings:
        print(f"Warning: {warning}", file=sys.stderr)


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
