"""Sweeps: many runs in one folder, each a job of a list, and what they came to.

OUT/sweep.json           which runs there are
OUT/NAME/                each run, as `eniac train` makes it
OUT/results/NAME.json    what it came to; there when it has ended
OUT/logs/NAME.log        what it printed
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import eniac
from eniac.errors import ConfigError, RunError, require
from eniac.runs.config import Config
from eniac.runs.engine import resume, train
from eniac.runs.executors import Executor, ExecutorName, Job, open_executor
from eniac.runs.files import write_json
from eniac.runs.folder import has_begun
from eniac.runs.identity import flat_fields
from eniac.runs.manifest import ended_well, read_manifest
from eniac.runs.plan import Choice, Planned, plan
from eniac.runs.progress import EXPLOITING
from eniac.runs.reading import METRICS, TIMINGS, last_records, read_json, read_json_lines
from eniac.runs.work import Outcome, execute

DEFINITION = "sweep.json"


def sweep(
    algorithms: Choice | Sequence[Choice],
    envs: Choice | Sequence[Choice],
    *,
    settings: Mapping[str, Any] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seed: int = 0,
    seeds: int = 1,
    out: Path | str = "runs/sweep",
    workers: int | None = None,
    executor: ExecutorName = "processes",
    address: str | None = None,
    accelerator: str | None = None,
    console: Console | None = None,
) -> list[dict[str, Any]]:
    """Trains every algorithm in every environment with every setting and seed; what each run came
    to, as a list of rows.

        >>> rows = eniac.sweep(
        ...     ["eniac", {"name": "ppo", "depth": 4}],
        ...     ["DeepSea-10", "CombinationLock-5"],
        ...     settings={"steps": 1_000_000},
        ...     vary={"update.clip": [0.1, 0.2]},
        ...     seeds=5,
        ... )  # doctest: +SKIP

    An algorithm or an environment is a name, or a table of its `name` and settings of its own;
    `settings` are for all, and of `vary` each value is tried with each. They are called as the
    keywords of an agent are. All combinations are checked before any is run. Each run is one of
    its own, with one seed, in a folder in `out`; called again, a sweep goes on with what is
    missing. A definition that only adds runs to that of the folder is taken, another is refused.

    `workers` runs are made side by side (None: as many as there are cores), by processes on this
    machine or by Ray on the machines of the cluster at `address`, where each run gets a core, and
    an `accelerator` if that is given ("GPU").

    **Raises** `ConfigError` for what cannot be run, `RunError` if runs have failed: those that
    have not are made all the same. After an interrupt, which saves, raises KeyboardInterrupt.
    """
    runs = plan(algorithms, envs, settings, vary, seed, seeds)
    out = Path(out)
    with open_executor(executor, address, accelerator) as open_one:
        outcome = run_sweep(runs, out, open_one, workers=workers, console=console)
    if outcome.signal is not None:
        raise KeyboardInterrupt(f"Stopped, and saved. {len(outcome.left)} of {len(runs)} left.")
    if outcome.failed:
        failure = outcome.failed[0]
        raise RunError(
            f"{len(outcome.failed)} of {len(runs)} runs failed. {failure.job.name}: "
            f"{failure.text.rstrip('.')}. What it said is in {failure.job.log_file}."
        )
    return results(runs, out)


def run_sweep(
    runs: Sequence[Planned],
    out: Path,
    executor: Executor,
    *,
    workers: int | None = None,
    console: Console | None = None,
) -> Outcome:
    """Makes those of `runs` that are not made, in `out`."""
    require(workers is None or workers >= 1, "workers", workers, "1 or more")
    _define(runs, out)
    return execute([_job(run, out) for run in runs], executor, workers=workers, console=console)


def results(runs: Sequence[Planned], out: Path) -> list[dict[str, Any]]:
    """What those of `runs` came to that have ended."""
    found = []
    for run in runs:
        product = _job(run, out).product
        if product.exists():
            head = {"algorithm": run.algorithm, "env": run.env, "setting": run.setting}
            found.append({"run": str(out / run.name), **head, **read_json(product)})
    return found


def make_run(config: dict[str, Any], product: str) -> None:
    """What the job of a run does: it begins the run, or goes on with it, and says what it came to
    when it has ended."""
    wanted = Config.from_dict(config)
    folder = wanted.out
    assert folder is not None
    manifest = read_manifest(folder)
    interrupted = str(manifest.get("ended")).startswith("interrupted")
    if not has_begun(folder):
        if train(wanted).signal is not None:
            return
    elif (not ended_well(manifest) or interrupted) and resume(folder).signal is not None:
        return
    write_json(Path(product), summary(folder))


def summary(folder: Path) -> dict[str, Any]:
    """What a run with one seed came to, by its files."""
    config = read_json(folder / "config.json")
    last = last_records(folder / METRICS, 1)[0]
    limit, mean = config["return_above"], last["return_mean"]
    exploiting = [last[name] for name in EXPLOITING if name in last]
    timings = read_json_lines(folder / TIMINGS)
    return {
        "seed": last["seed"],
        "epochs": last["epoch"],
        "steps": last["env_steps"],
        "seconds": timings[-1]["seconds_so_far"],
        "return_mean": mean,
        "exploiting": exploiting[0] if exploiting else None,
        "solved": None if limit is None else mean is not None and mean > limit,
        "ended": read_manifest(folder)["ended"],
    }


def table(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`results`, a row for all seeds of a method in an environment, in the same order."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["env"], row["algorithm"], row["setting"]), []).append(row)
    found = []
    for (env, algorithm, setting), members in groups.items():
        returns = [row["return_mean"] for row in members if row["return_mean"] is not None]
        judged = [row["solved"] for row in members if row["solved"] is not None]
        found.append(
            {
                "env": env,
                "algorithm": algorithm,
                "setting": setting,
                "seeds": len(members),
                "returns": returns,
                "solved": sum(judged) if judged else None,
                "steps": float(np.median([row["steps"] for row in members])),
                "seconds": float(np.median([row["seconds"] for row in members])),
            }
        )
    return found


def _job(run: Planned, out: Path) -> Job:
    product = out / "results" / f"{run.name}.json"
    folder = out / run.name
    config = replace(run.config, out=folder.absolute()).to_dict()
    return Job(
        run.name,
        "eniac.runs.sweep:make_run",
        {"config": config, "product": str(product.absolute())},
        product,
        folder,
        out / "logs" / f"{run.name}.log",
    )


def _define(runs: Sequence[Planned], out: Path) -> None:
    """Writes which runs the sweep in `out` has. Refuses a folder with another sweep, unless these
    are its runs and more, or with anything else in it."""
    wanted = json.loads(json.dumps({run.name: run.config.to_dict() for run in runs}))
    path = out / DEFINITION
    if path.exists():
        known = _unpacked(path)
        if known == wanted:
            return
        _require_only_more(known, wanted, out)
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(
            f"{out} is there already, and holds no sweep. Choose another folder with --out."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(path, {"eniac": eniac.__version__, **_packed(wanted)})
    except OSError as error:
        raise RunError(f"Cannot write to {out}: {error.strerror or error}.") from error


def _packed(runs: dict[str, Any]) -> dict[str, Any]:
    """The same, with settings that only differ in the seed written once."""
    configs: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    names = {}
    for name, config in runs.items():
        common = {key: value for key, value in config.items() if key != "seed"}
        place = places.setdefault(json.dumps(common), len(configs))
        if place == len(configs):
            configs.append(common)
        names[name] = {"config": place, "seed": config["seed"]}
    return {"configs": configs, "runs": names}


def _unpacked(path: Path) -> dict[str, Any]:
    data = read_json(path)
    try:
        configs = data["configs"]
        return {
            name: configs[run["config"]] | {"seed": run["seed"]}
            for name, run in data["runs"].items()
        }
    except (TypeError, KeyError, IndexError, AttributeError):
        raise ConfigError(f"{path} is no sweep's. Choose another folder with --out.") from None


def _require_only_more(old: dict[str, Any], wanted: dict[str, Any], out: Path) -> None:
    gone = [name for name in old if name not in wanted]
    other = [name for name in old if name in wanted and old[name] != wanted[name]]
    if not gone and not other:
        return
    if gone:
        differs = f"{gone[0]} is not among them now"
    else:
        before, now = dict(flat_fields(old[other[0]])), dict(flat_fields(wanted[other[0]]))
        name = next(name for name in {**before, **now} if before.get(name) != now.get(name))
        differs = f"{other[0]} has {name} {before.get(name)}, and now it is {now.get(name)}"
    raise ConfigError(
        f"{out} holds another sweep: {differs}. To it runs can only be added. Choose another "
        "folder with --out."
    )
