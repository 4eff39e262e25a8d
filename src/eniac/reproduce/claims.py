"""What the paper claims, and what of it held: `claim_list.CLAIMS`, decided by files of results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

import eniac
from eniac.report.statistics import MOST_SEEDS
from eniac.reproduce.choice import Choice, Report
from eniac.reproduce.claim_list import CLAIMS, Sources
from eniac.reproduce.verdicts import Verdict, together


def decide(sources: Sources) -> list[dict[str, Any]]:
    """Every claim with its evidence and verdict, as plain data."""
    found = []
    for claim in CLAIMS:
        evidence = claim.evidence(sources, claim.rule)
        found.append(
            {
                "claim": claim.statement,
                "where": claim.where,
                "setting": claim.setting,
                "rule": str(claim.rule),
                "verdict": together(evidence),
                "command": claim.command,
                "evidence": [
                    {
                        "of": x.where,
                        "number": x.shown,
                        "interval": None if math.isnan(x.low) else [x.low, x.high],
                        "seeds": x.seeds,
                        "verdict": x.verdict,
                        "seeds_to_decide": x.more,
                    }
                    for x in evidence
                ],
            }
        )
    return found


def markdown(decided: Sequence[dict[str, Any]]) -> str:
    """A table for each group of claims that were looked at with the same settings, a line a claim,
    and below what decides each."""
    counts = [row["verdict"] for row in decided]
    told = ", ".join(f"{counts.count(name)} {name}" for name in VERDICTS if name in counts)
    text = f"\n{len(decided)} verdicts: {told}.\n"
    of_claim: dict[str, list[dict[str, Any]]] = {}
    for row in decided:
        of_claim.setdefault(row["claim"], []).append(row)
    tables: dict[tuple[str, ...], list[list[dict[str, Any]]]] = {}
    for rows in of_claim.values():
        tables.setdefault(tuple(row["setting"] for row in rows), []).append(rows)
    for settings, claims in tables.items():
        heads = [name or "here" for name in settings]
        text += f"\n| claim | where | {' | '.join(heads)} |\n"
        text += f"| --- | --- |{' --- |' * len(heads)}\n"
        for rows in claims:
            cells = [rows[0]["claim"], rows[0]["where"], *map(_cell, rows)]
            text += f"| {' | '.join(cell.replace('|', SLASH) for cell in cells)} |\n"
        missing = dict.fromkeys(
            f"`{row['command']}`"
            for rows in claims
            for row in rows
            if row["verdict"] == "not measured"
        )
        text += f"\nNot measured yet: {'; '.join(missing)}.\n" if missing else ""
    text += "\n### What decides\n\nA claim holds if the whole interval of its number is\n\n"
    return text + "".join(f"- {name}: {rows[0]['rule']}.\n" for name, rows in of_claim.items())


VERDICTS = get_args(Verdict)
SLASH = "\\|"
"""A bar within a cell of a table."""


def _cell(row: dict[str, Any]) -> str:
    """The verdict, what it rests on, and how many seeds would decide what is undecided."""
    verdict = row["verdict"]
    text = verdict if verdict == "not measured" else f"**{verdict}**"
    numbers = _told([x for x in row["evidence"] if x["verdict"] != "not measured"])
    text += f": {numbers}" if numbers else ""
    if verdict == "undecided":
        needed = [x["seeds_to_decide"] for x in row["evidence"] if x["verdict"] == verdict]
        few = None not in needed
        text += f"; about {max(needed)} seeds would decide" if few else f"; {_MANY}"
    return text


_MANY = f"more than {MOST_SEEDS} seeds would be needed"


def _told(evidence: Sequence[dict[str, Any]]) -> str:
    """Numbers and intervals; of those that are the same, the places together."""
    of_number: dict[str, list[str]] = {}
    for each in evidence:
        ends = each["interval"]
        interval = "" if ends is None else f" [{ends[0]:.2f}, {ends[1]:.2f}]"
        of_number.setdefault(f"{each['number']}{interval}", []).append(each["of"])
    return "; ".join(
        f"{_places(places)}: {number}" if any(places) else number
        for number, places in of_number.items()
    )


def _places(places: Sequence[str]) -> str:
    return ", ".join(places) if len(places) <= 4 else f"{len(places)} rows"


def report(choice: Choice) -> Report:
    """The table of claims, from what was measured."""
    decided = decide(Sources.read(choice.results))
    data = {"version": eniac.__version__, "quick": choice.quick, "claims": list(map(flat, decided))}
    return Report(f"{_quick(choice)}{markdown(decided)}", {}, data)


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """A claim as other programs show it: with its setting, and its evidence in words."""
    measured = [x for x in row["evidence"] if x["verdict"] != "not measured"]
    alone = measured[0] if len(measured) == 1 else None
    setting = f" ({row['setting']})" if row["setting"] else ""
    return row | {
        "claim": f"{row['claim']}{setting}",
        "number": alone["number"] if alone else _told(measured),
        "interval": alone["interval"] if alone else None,
    }


def _quick(choice: Choice) -> str:
    label = choice.label.rstrip(": ")
    return f"\n{label}.\n" if label else ""
