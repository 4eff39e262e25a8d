"""The sections of a page as HTML. Where a picture is drawn by page.js, what stands here is where,
and the same in words and numbers for those who cannot see it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eniac.page.curves import evenly
from eniac.page.markup import Child, Markup, badge, bullets, prose, table, tag
from eniac.report.certificate import SECTIONS
from eniac.report.compare import shown_row
from eniac.report.diagnose import SHOWN
from eniac.report.numbers import between, short_number, three_digits

ROWS = 9
"""Rows of the table beside a picture."""
FEW_RUNS = 6
"""Runs that have a column each."""
MOST_SENTENCES = 6
"""Of more the reader is asked to unfold them."""
VERDICTS = {
    "held": "good",
    "holds": "good",
    "good": "good",
    "undecided": "look",
    "vacuous": "look",
    "look": "look",
    "did not hold": "bad",
    "fails": "bad",
    "bad": "bad",
}


class Section(NamedTuple):
    """A part of the page, and the anchor of links to it."""

    id: str
    html: Markup


UNMEASURED = "not measured"
"""The verdict on a claim that there are no runs for."""


def section(name: str, title: str, *children: Child) -> Section:
    heading = tag("h2", title, id=f"{name}-title")
    return Section(
        name, tag("section", heading, *children, id=name, aria_labelledby=f"{name}-title")
    )


def results(panels: Sequence[Mapping[str, Any]]) -> Section | None:
    """The tables of `eniac compare`, all environments in one."""
    if not panels:
        return None
    rows = [
        {"task": panel["environment"], "above": _threshold(panel), **shown_row(row)}
        | {"method": row["method"]}
        for panel in panels
        for row in panel["rows"]
    ]
    columns = ("task", "method", "seeds", "IQM", "above", "success", "steps", "seconds")
    names = [name for name in columns if any(row.get(name, "-") != "-" for row in rows)]
    parts: list[Child] = [
        table(
            "At the end: " + " or ".join(dict.fromkeys(panel["label"] for panel in panels)),
            names,
            [[row.get(name, "-") for name in names] for row in rows],
            range(2, len(names)),
        )
    ]
    for panel in panels:
        said = [tag("li", prose(text)) for text in panel["pairs"]]
        said += [tag("li", tag("small", prose(text))) for text in panel["notes"]]
        if said:
            found = tag("ul", said)
            folded = len(panels) > 1 or len(said) > MOST_SENTENCES
            title = f"What can be said of {panel['environment']}"
            parts.append(_folded(title, found, closed=True) if folded else found)
    return section(
        "results",
        "Results",
        tag(
            "p",
            "IQM: the mean of the seeds without the lowest and the highest quarter. In brackets "
            "95 % intervals, by resampling seeds, Wilson's for success. Steps and seconds are "
            "medians until success; a dash is not known, or never by half of the seeds.",
        ),
        parts,
    )


def _threshold(panel: Mapping[str, Any]) -> str:
    return "-" if panel["threshold"] is None else f"{panel['threshold']:g}"


def claims(rows: Sequence[Mapping[str, Any]]) -> Section | None:
    """What `eniac reproduce claims` found."""
    if not rows:
        return None
    verdicts = [_word(row.get("verdict")) for row in rows]
    counts = ", ".join(f"{verdicts.count(x)} {x}" for x in dict.fromkeys(verdicts))
    return section(
        "claims",
        "Claims of the paper",
        tag("p", f"{counts}, of {len(rows)}."),
        table(
            "What was claimed, and what was found",
            ("claim", "where", "verdict", "what decides", "command"),
            [
                (
                    [_word(row.get("claim")), _small(row.get("rule"))],
                    [_word(row.get("where")), _small(row.get("setting"))],
                    badge(_word(row.get("verdict")), VERDICTS),
                    [tag("p", text) for text in _evidence(row)],
                    tag("code", _word(row.get("command"))),
                )
                for row in rows
            ],
        ),
    )


def _evidence(row: Mapping[str, Any]) -> list[str]:
    """The numbers that decide a claim, each with its interval and how many seeds it is of."""
    parts = row.get("evidence")
    found = []
    for part in parts if isinstance(parts, list) else [row]:
        if not isinstance(part, Mapping) or part.get("number") is None:
            continue
        if part.get("verdict") == UNMEASURED:
            continue
        text = f"{_word(part.get('of'))}: " if part.get("of") else ""
        text += _word(part["number"]) + _interval(part.get("interval"))
        if part.get("seeds_to_decide"):
            text += f"; about {_word(part['seeds_to_decide'])} seeds would decide"
        found.append(text)
    return found


def _small(value: Any) -> Markup | None:
    return tag("small", tag("br"), _word(value)) if value else None


def _word(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return three_digits(value)


def _interval(ends: Any) -> str:
    if isinstance(ends, Sequence) and not isinstance(ends, str) and len(ends) == 2:
        known = [x if isinstance(x, int | float) else None for x in ends]
        return between(known, three_digits)
    return f" {_word(ends)}" if ends is not None else ""


def curves(panels: Sequence[Mapping[str, Any]]) -> Section | None:
    if not panels:
        return None
    beside = any(method["exploiting"] for panel in panels for method in panel["methods"])
    controls = [
        _radio("statistic", "iqm", "interquartile mean, 95 % interval", checked=True),
        _radio("statistic", "mean", "mean, standard deviation"),
        _checkbox("seeds", "single seeds"),
        _checkbox("exploiting", "exploiting policy (dashed)") if beside else None,
    ]
    figures = [
        tag(
            "figure",
            tag("figcaption", tag("h3", panel["environment"])),
            tag("div", data_curves=number, class_="chart"),
            tag(
                "details",
                tag("summary", "The same as a table"),
                _curve_table(panel),
            ),
        )
        for number, panel in enumerate(panels)
    ]
    return section(
        "curves",
        "Learning curves",
        tag(
            "p",
            "Over the environment steps of a seed. A seed that has stopped keeps its last value. "
            "Point at a curve, or move the slider beneath it, to read it; the boxes switch methods "
            "and seeds on and off, and change no mean.",
        ),
        tag(
            "fieldset",
            tag("legend", "What the curves show"),
            controls,
            class_="controls",
            data_for="curves",
        ),
        tag("div", figures, class_="figures" if len(figures) > 2 else None),
    )


def _curve_table(panel: Mapping[str, Any]) -> Markup:
    longest = max(panel["methods"], key=lambda method: method["steps"][-1])
    steps = [longest["steps"][k] for k in evenly(len(longest["steps"]), ROWS)]

    def at(method: Mapping[str, Any], step: int) -> str:
        known = [k for k, x in enumerate(method["steps"]) if x <= step]
        if not known:
            return "-"
        place = known[-1]
        ends = [method[name] and method[name][place] for name in ("low", "high")]
        return three_digits(method["iqm"][place]) + between(ends, three_digits)

    return table(
        f"{panel['environment']}: interquartile mean and its interval, last evaluation by then",
        ("steps", *(method["name"] for method in panel["methods"])),
        [
            (short_number(step), *(at(method, step) for method in panel["methods"]))
            for step in steps
        ],
        range(1, 1 + len(panel["methods"])),
    )


def places(landscapes: Sequence[Mapping[str, Any]]) -> Section | None:
    """Visits and bonus, epoch by epoch."""
    if not landscapes:
        return None
    notes = [f"{each['name']}: {text}" for each in landscapes for text in each["missing"]]
    return section(
        "places",
        "Where the policies go, and what the bonus says",
        tag(
            "p",
            "Left, how often each cell was visited: by the policy that joined the cover in an "
            "epoch, by all that had joined until then, or by fresh episodes of the policy that is "
            "there for the reward. Right, the bonus after that epoch, the largest over actions "
            "where these do not have an axis. Arrow keys move the slider, and from cell to cell.",
        ),
        tag("div", data_places=True, class_="chart"),
        _missing(notes),
    )


def cover(details: Sequence[Mapping[str, Any]]) -> Section | None:
    """What `eniac cover` says."""
    parts: list[Child] = []
    for each in details:
        report = each["cover"]
        if report is None:
            continue
        limit = f"cut after {report['horizon']} steps" if report["horizon"] else "until they end"
        total = report["cells"]

        def share(count: int, total: int | None = total) -> str:
            return f"{count:,}" if total is None else f"{count / total:.1%}"

        def row(name: str, policy: Mapping[str, Any], *more: str) -> list[Child]:
            keys = ("return_mean", "return_std", "length_mean")
            numbers = [f"{policy[key]:.4g}" for key in keys]
            weight, *rest = more or ("-", "-", "-")
            return [name, weight, *numbers, *rest]

        rows = [
            row(
                str(policy["number"]),
                policy,
                f"{policy['weight']:.3f}",
                share(policy["covered"]),
                share(policy["new"]),
            )
            for policy in report["policies"]
        ]
        names = ("exploring", "exploiting", "incumbent")
        rows += [row(name, report[name]) for name in names if report[name] is not None]
        found = [
            table(
                f"{each['name']}, epoch {report['epoch']}",
                ("policy", "weight", "return", "std", "length", "covered", "new"),
                rows,
                range(1, 7),
            ),
            tag(
                "p",
                tag(
                    "small",
                    f"Return: {report['episodes']} episodes, {limit}. Covered: the cells that the "
                    "policy's visits in the buffer touch; new: those that no policy before it "
                    f"touched ({report['cell']}). All together: {share(report['covered'])}.",
                ),
            ),
        ]
        parts.append(_folded(each["name"], found, bool(parts)))
    return section("cover", "The policies of the cover", parts) if parts else None


def one_policy(figures: Sequence[Mapping[str, Any]]) -> Section | None:
    """The paper's Figure 3."""
    if not figures:
        return None
    return section(
        "one-policy",
        "Two bonuses on the visits of one policy",
        tag(
            "p",
            "The paper's Figure 3: the visits of a policy of the cover, and what ENIAC's bonus "
            "(the width) and PC-PG's (the kernel) make of them alone, each as a share of its "
            "largest value. Curvature is how much a bonus bends: 0 for a plane, and the smaller "
            "the smoother.",
        ),
        tag("div", data_figure3=True, class_="chart"),
        tag(
            "details",
            tag("summary", "The same in numbers"),
            table(
                "Curvature of the bonuses, and their largest values",
                ("run", "policy", "width", "kernel", "largest width", "largest kernel"),
                [
                    (
                        each["name"],
                        each["policy"],
                        *(
                            three_digits(each[key][bonus])
                            for key in ("smoothness", "largest")
                            for bonus in ("width", "kernel")
                        ),
                    )
                    for each in figures
                ],
                range(1, 6),
            ),
        ),
    )


def certificate(details: Sequence[Mapping[str, Any]]) -> Section | None:
    """What `eniac certify` says."""
    parts: list[Child] = []
    for each in details:
        found = each["certificate"]
        if found is None:
            continue
        parts += [
            tag("h3", each["name"]),
            tag(
                "p",
                f"{found['algorithm']} after {len(found['epochs'])} epochs; V* = "
                f"{found['optimum']:.4g} in units of the reward that is learned from. The parts "
                f"add up to the gap within {found['residual']:.1e} in every epoch.",
            ),
            tag("div", data_certificate=each["number"], class_="chart"),
        ]
        for kind, (title, headings) in SECTIONS.items():
            lines = [line for line in found["lines"] if line["section"] == kind]
            both = bool(headings[1])
            parts.append(
                table(
                    title,
                    ["term", headings[0], *headings[1:] * both, "bound", "verdict", "paper"],
                    [
                        [
                            line["term"],
                            _measured(line["measured"]),
                            *[_measured(line["largest"])] * both,
                            _measured(line["bound"]),
                            badge(line["verdict"], VERDICTS),
                            line["where"],
                        ]
                        for line in lines
                    ],
                    range(1, 3 + both),
                )
            )
    if not parts:
        return None
    return section(
        "certificate",
        "The certificate",
        tag(
            "p",
            "Every term of the proof, measured on the run, beside its bound. Holds: within it; "
            "vacuous: so too, but the bound says nothing; fails: not within it.",
        ),
        parts,
    )


def _measured(value: float | None) -> str:
    return "" if value is None else f"{0.0 if abs(value) < 1e-12 else value:.3g}"


def checks(details: Sequence[Mapping[str, Any]]) -> Section | None:
    """What `eniac diagnose` says."""
    parts = []
    for each in details:
        if each["checks"] is None:
            continue
        rows = [
            (question, badge(SHOWN[verdict], VERDICTS), [tag("p", prose(text)) for text in texts])
            for verdict, question, texts in each["checks"]["lines"]
        ]
        found = table(f"Checks of {each['run']}", ("question", "verdict", "seen"), rows)
        parts.append(_folded(each["run"], found, bool(parts)))
    return section("checks", "What is the matter?", parts) if parts else None


def settings(runs: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]]) -> Section:
    """Configuration, and how to run it again."""
    parts: list[Child] = []
    keys = sorted({key for run in runs for key in run["settings"]})
    differing = [
        key
        for key in keys
        if any(run["settings"].get(key) != runs[0]["settings"].get(key) for run in runs)
    ]
    if differing:
        parts.append(_differences(runs, differing))
    for run in runs:
        facts = [(name, text) for name, text in run["facts"].items() if text]
        parts.append(
            tag(
                "details",
                tag("summary", run["run"]),
                table("About the run", ("", ""), facts),
                tag("p", "Run it again:"),
                [tag("pre", tag("code", command)) for command in run["commands"]],
                tag("p", "Its config.json, which is all it takes:"),
                tag("pre", tag("code", json.dumps(run["config"], indent=2)), tabindex=0),
                open=len(runs) == 1,
            )
        )
    if results:
        made = table(
            "How the results were made",
            ("task", "method", "seeds", "command, of the first seed"),
            [
                (row["task"], row["method"], row["seeds"], tag("code", row["command"]))
                for row in results
            ],
        )
        parts.append(_folded("How the results were made", made, closed=bool(runs)))
    return section("settings", "Settings, and how to run it again", parts)


def _differences(runs: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Markup:
    """The settings in which runs differ: a column for each run, or for each setting if there are
    more runs."""
    names = [run["run"] for run in runs]
    cells = [[_setting(run["settings"], key) for run in runs] for key in keys]
    if len(runs) > max(len(keys), FEW_RUNS):
        head, first, cells = keys, names, list(zip(*cells, strict=True))
    else:
        head, first = names, keys
    rows = [[name, *row] for name, row in zip(first, cells, strict=True)]
    found = table(
        "Settings in which the runs differ; -: not a setting of this one", ["", *head], rows
    )
    return tag("details", tag("summary", "Settings in which the runs differ"), found)


def _setting(settings: Mapping[str, Any], key: str) -> str:
    return json.dumps(settings[key]).strip('"') if key in settings else "-"


def left_out(problems: Sequence[str]) -> Section | None:
    return (
        section("left-out", "What is not here", bullets([prose(text) for text in problems]))
        if problems
        else None
    )


def _folded(title: str, content: Child, closed: bool) -> Markup:
    return tag("details", tag("summary", title), content, open=not closed)


def _missing(notes: Sequence[str]) -> Markup | None:
    return tag("div", bullets([tag("small", prose(note)) for note in notes])) if notes else None


def _radio(name: str, value: str, text: str, checked: bool = False) -> Markup:
    box = tag("input", type="radio", name=name, value=value, checked=checked)
    return tag("label", box, f" {text}")


def _checkbox(name: str, text: str) -> Markup:
    return tag("label", tag("input", type="checkbox", name=name), f" {text}")
