"""What came of a run of a provable algorithm: exact values by epoch, terms of its certificate."""

from __future__ import annotations

import math
from typing import Any

from eniac.errors import RunError
from eniac.report.certificate import certify_run
from eniac.runs.load import Run
from eniac.runs.log import METRICS, TIMINGS, read_records

SHARES = ("last", "executed", "inner_mixture", "outer_mixture")
"""Policies whose exact value is known, as a share of the optimum's."""
COLUMNS = ("env_steps", *(f"share/{name}" for name in SHARES), "known/pairs")
"""What a curve has, epoch by epoch."""
TERMS = (
    *("gap, last iterate", "gap, outer mixture", "bonus", "pessimism", "optimisation"),
    *("transfer", "statistical", "approximation", "dagger", "epsilon_bias on K"),
)
"""Terms of the certificate that a file has: measured, the largest of an epoch, its bound."""


def outcome(run: Run) -> dict[str, Any]:
    """What the file of a run says of how it went."""
    records = read_records(run.path / METRICS)
    timings = read_records(run.path / TIMINGS)
    if not records or any(record.get("share/last") is None for record in records):
        raise RunError(f"{run.path} has no exact values, or its optimum is not above 0.")
    certificate = certify_run(run)
    found = {line.term: line for line in certificate.lines}
    return {
        "steps": records[-1]["env_steps"],
        "seconds": round(sum(row["processor_seconds"] for row in timings), 2),
        "optimum": _short(certificate.optimum),
        "ceiling": _short(records[-1].get("share/mixed_optimum", 1.0)),
        "largest_gap": _short(found["gap, last iterate"].trivial),
        "by_epoch": {name: [_short(record[name]) for record in records] for name in COLUMNS},
        "terms": {
            name: [
                _short(x) for x in (found[name].measured, found[name].largest, found[name].bound)
            ]
            for name in TERMS
            if name in found
        },
    }


def _short(value: float | int | None) -> float | int | None:
    """With the digits that matter; None for what is not known."""
    if value is None or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.5g}")
