"""A page of runs and results: one HTML file that needs nothing else, no server and no network.

What it shows comes from the same functions as what the commands print. The page itself is made of
`sections`, in HTML; `page.css` says how it looks, and `page.js` draws its pictures from the data
that stand in it as JSON. A browser runs that one script and nothing else, whatever a file that was
reported has in it: all text is escaped, and the page's own rule allows the script by its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import eniac
from eniac.errors import ConfigError, EniacError, RunError, require
from eniac.page import sections
from eniac.page.curves import panels
from eniac.page.details import details
from eniac.page.landscapes import shares, spans, sparse
from eniac.page.markup import Markup, script_json, tag
from eniac.page.sections import Section
from eniac.page.sources import Sources, all_curves, find_sources
from eniac.report.curves import RunCurves, merged
from eniac.report.figures import COLOURS
from eniac.reproduce.results import rows_of
from eniac.reproduce.tasks import variant
from eniac.runs.files import write_atomically
from eniac.runs.identity import flat_fields
from eniac.runs.load import load_asked, load_config
from eniac.runs.manifest import read_manifest
from eniac.runs.proposals import again_command, in_shell, resume_command

LARGEST = 3_000_000
"""Bytes of a page."""
IN_DETAIL = 4
"""Runs whose checkpoints are looked into, if nobody says otherwise."""
MOST_RUNS = 60
"""Runs whose settings are told one by one."""
MOST_DOTS = 400
"""Points of the trajectories in a picture."""


class Report(NamedTuple):
    """A page that was written."""

    path: Path
    problems: list[str]
    """what is not in it, and why"""


def write_report(
    paths: Sequence[Path | str],
    out: Path | str | None = None,
    *,
    seed: int | None = None,
    episodes: int = 20,
    in_detail: int = IN_DETAIL,
    metric: str = "return_mean",
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Writes a page about the runs and the results in `paths` to one HTML file.

        >>> eniac.write_report([folder / "run"], folder / "run.html").path
        PosixPath('...run.html')

    `paths` are folders of runs, folders that have some in them, and folders of results. `out`: by
    default report.html in the run's folder if there is one run alone, else here. Of `in_detail`
    runs, one a method and environment, the policies, bonus, certificate and checks are shown of one
    `seed`, by default the first; those of the cover play `episodes` each. `metric` is what the
    curves show. `say` is told what is going on.

    **Raises** `ConfigError` where there is nothing to report, `RunError` if the page cannot be
    written or would have more than 3 MB.
    """
    require(in_detail >= 0, "in_detail", in_detail, "0 or more")
    require(episodes >= 1, "episodes", episodes, "1 or more")
    given = [Path(path) for path in paths]
    found = find_sources(given)
    out = _default(found) if out is None else Path(out)
    require(out.suffix.lower() in (".html", ".htm"), "out", str(out), "a name that ends in .html")
    curves = all_curves(found, metric)
    if found.problems and not (curves or found.claims or found.figures2 or found.figures3):
        raise ConfigError(found.problems[0])
    versions = {run.config["made_with"] for run in curves if "made_with" in run.config}
    if len(versions) > 1:
        made = " and ".join(sorted(versions))
        found.problems.append(f"The runs were made by eniac {made}; their numbers are kept apart.")
    looked = []
    for folder in _chosen(found, curves, in_detail):
        say(f"looking at {folder}")
        each = details(folder, seed, episodes)
        found.problems += each["problems"]
        looked.append(each | {"name": f"{folder}, seed {each['seed']}", "number": len(looked)})
    say("writing the page")
    page = _page(found, panels(curves, metric), looked, _again(given, out, seed, in_detail))
    content = page.encode()
    if len(content) > LARGEST:
        raise RunError(
            f"the page would have {len(content) / 1e6:.1f} MB, and {LARGEST / 1e6:g} at most "
            "are read with pleasure: give fewer runs, or --in-detail 0."
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, content)
    except OSError as error:
        raise RunError(f"Cannot write to {out}: {error.strerror or error}.") from error
    return Report(out, found.problems)


def _default(found: Sources) -> Path:
    alone = len(found.runs) == 1 and not found.results
    return (found.runs[0] if alone else Path()) / "report.html"


def _chosen(found: Sources, curves: Sequence[RunCurves], most: int) -> list[Path]:
    """The runs to be looked into: of each method in each environment the first."""
    runs = set(found.runs)
    first = [
        next((run.folder for run in group if run.folder in runs), None) for group in merged(curves)
    ]
    chosen = [folder for folder in first if folder is not None][:most]
    others = len(found.runs) - len(chosen)
    if others:
        names = ", ".join(map(str, chosen)) or "none of the runs"
        found.problems.append(
            f"Policies, bonus, certificate and checks are shown of {names}, not of the {others} "
            f"other{'s' * (others > 1)}. `eniac report RUN` shows those of one run, --in-detail of "
            "more."
        )
    return chosen


def _again(paths: Sequence[Path], out: Path, seed: int | None, in_detail: int) -> str:
    words = ["eniac report", *map(in_shell, paths), f"--out {in_shell(out)}"]
    words += [] if seed is None else [f"--seed {seed}"]
    words += [] if in_detail == IN_DETAIL else [f"--in-detail {in_detail}"]
    return " ".join(words)


# The page


def _page(
    found: Sources, panels: Sequence[dict[str, Any]], looked: Sequence[dict[str, Any]], again: str
) -> str:
    landscapes = [
        {"name": each["name"], **each["landscape"]}
        for each in looked
        if each["landscape"] is not None
    ]
    landscapes += _of_figures(found, found.figures2, _landscape)
    figures3 = _of_figures(found, found.figures3, _figure3)
    runs = [about(run, found.problems) for run in found.runs[:MOST_RUNS]]
    if len(found.runs) > MOST_RUNS:
        found.problems.append(f"Settings are told of {MOST_RUNS} of {len(found.runs)} runs.")
    parts = {
        "Claims": sections.claims(found.claims),
        "Results": sections.results(panels),
        "Curves": sections.curves(panels),
        "Places": sections.places(landscapes),
        "Two bonuses": sections.one_policy(figures3),
        "Cover": sections.cover(looked),
        "Certificate": sections.certificate(looked),
        "Checks": sections.checks(looked),
        "Settings": sections.settings([x for x in runs if x], _commands(found)),
        "Left out": sections.left_out(found.problems),
    }
    data = {
        "colours": COLOURS,
        "panels": [
            {key: panel[key] for key in ("environment", "label", "threshold", "methods")}
            for panel in panels
        ],
        "places": landscapes,
        "figures3": figures3,
        "certificates": {
            each["number"]: _values(each["certificate"]) for each in looked if each["certificate"]
        },
    }
    there = {name: part for name, part in parts.items() if part is not None}
    return _document(_title(panels, found), there, data, again)


def _title(panels: Sequence[Mapping[str, Any]], found: Sources) -> str:
    names = list(dict.fromkeys(x["name"] for panel in panels for x in panel["methods"]))
    places = [panel["environment"] for panel in panels]
    if not names:
        return "Claims of the paper" if found.claims else "Policies and bonuses"
    who = names[0] if len(names) == 1 else f"{len(names)} methods"
    return f"{who} on {places[0] if len(places) == 1 else f'{len(places)} tasks'}"


def _document(title: str, parts: Mapping[str, Section], data: Any, again: str) -> str:
    style, script = (_own(name) for name in ("page.css", "page.js"))
    rule = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    links = [tag("li", tag("a", name, href=f"#{part.id}")) for name, part in parts.items()]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=rule),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", f"{title} - eniac"),
        tag("style", Markup(style)),
    ]
    body = [
        tag("a", "To the contents", href="#main", class_="skip"),
        tag(
            "header",
            tag("p", "eniac report", class_="kind"),
            tag("h1", title),
            tag("button", "Dark", type="button", id="theme", hidden=True),
        ),
        tag("nav", tag("ul", links), aria_label="Contents"),
        tag("noscript", tag("p", "The pictures need JavaScript; the tables do not.")),
        tag("main", [part.html for part in parts.values()], id="main"),
        tag("footer", tag("p", f"Made by eniac {eniac.__version__}: ", tag("code", again))),
        tag("script", script_json(data), type="application/json", id="data"),
        tag("script", Markup(script)),
    ]
    whole = tag("html", tag("head", head), tag("body", body), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _own(name: str) -> str:
    return files("eniac.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# What is on it


def about(folder: Path, problems: list[str]) -> dict[str, Any] | None:
    """What the files of a run say of how it was made, and the commands that make it again."""
    try:
        asked = load_asked(folder)
    except EniacError as error:
        problems.append(str(error))
        return None
    manifest = read_manifest(folder)
    last = manifest["sessions"][-1] if manifest.get("sessions") else {}
    last = last if isinstance(last, dict) else {}
    versions, machine = (
        x if isinstance(x, dict) else {} for x in (last.get("versions"), last.get("machine"))
    )
    facts = {
        "started": manifest.get("start"),
        "ended": manifest.get("end"),
        "ended by": manifest.get("ended"),
        "epochs": manifest.get("epoch"),
        "commit": last.get("commit"),
        "versions": ", ".join(f"{name} {x}" for name, x in versions.items()),
        "machine": ", ".join(f"{name} {x}" for name, x in machine.items()),
    }
    try:
        config = load_config(folder)
        commands = [again_command(folder, config), resume_command(folder, config)]
    except ConfigError as error:
        problems.append(str(error))
        commands = []
    return {
        "run": str(folder),
        "config": asked,
        "settings": {key: x for key, x in flat_fields(asked) if key != "out"},
        "facts": {name: str(x) for name, x in facts.items() if x is not None},
        "commands": [command for command in commands if command],
    }


def _commands(found: Sources) -> list[dict[str, str]]:
    return [
        {
            "task": row.task,
            "method": row.variant,
            "seeds": spans(row.seeds),
            "command": str(row.results[0].get("command", "")),
        }
        for row in rows_of(found.results).values()
    ]


def _of_figures(
    found: Sources, figures: Sequence[dict[str, Any]], make: Callable[[dict[str, Any]], Any]
) -> list[dict[str, Any]]:
    made = []
    for data in figures:
        try:
            made.append(make(data))
        except (KeyError, TypeError, ValueError) as error:
            found.problems.append(f"The data of a figure cannot be read: {error!r}.")
    return made


def _axes(data: Mapping[str, Any]) -> dict[str, Any]:
    axes = zip(data["axes"], data["low"], data["high"], strict=True)
    who = variant(data["algorithm"], data.get("flags", []))
    return {
        "name": ", ".join(
            [
                f"{who} on {data['env']}, seed {data['seed']}",
                *([data["preset"]] if data.get("preset") else []),
            ]
        ),
        "axes": [{"name": str(name), "low": float(a), "high": float(b)} for name, a, b in axes],
        "goal": data["goal"],
        "start": data["start"],
    }


def _landscape(data: Mapping[str, Any]) -> dict[str, Any]:
    """The landscape of what `figure2_data` returned."""
    rows = {(row["kind"], int(row["epoch"])): np.array(row["visits"]) for row in data["policies"]}
    epochs = sorted({epoch for _, epoch in rows})

    def seen(kind: str) -> list[dict[str, Any] | None]:
        return [sparse(rows[kind, n]) if (kind, n) in rows else None for n in epochs]

    return _axes(data) | {
        "epochs": epochs,
        "acting": "exploiting policy",
        "cover": seen("cover"),
        "exploiting": seen("exploiting"),
        "bonus": [None] * len(epochs),
        "missing": [],
    }


def _figure3(data: Mapping[str, Any]) -> dict[str, Any]:
    points = np.concatenate([np.array(path, float) for path in data["trajectories"]])
    points = points[:: -(-len(points) // MOST_DOTS)]
    return _axes(data) | {
        "policy": int(data["policy"]),
        "dots": [[float(f"{x:.4g}") for x in point] for point in points],
        "smoothness": data["smoothness"],
        "largest": data["largest"],
        "bonuses": {name: shares(np.array(grid)) for name, grid in data["bonuses"].items()},
    }


def _values(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the policies of each epoch, as in the figure of `eniac certify`."""
    inner = np.array([epoch["inner"] for epoch in certificate["epochs"]], float)
    outer = np.cumsum(inner) / np.arange(1, len(inner) + 1)
    return {
        "epochs": [epoch["epoch"] for epoch in certificate["epochs"]],
        "optimum": certificate["optimum"],
        "lines": {
            "last iterate": [epoch["last"] for epoch in certificate["epochs"]],
            "inner mixture": inner.tolist(),
            "outer mixture": outer.tolist(),
        },
    }
