"""What a run should tell its user while it goes on: whatever a check finds bad, and what is to
blame for NaN."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eniac.runs.checks import CHECKS, Evidence, find
from eniac.runs.config import Config
from eniac.sampling.base import NONFINITE

REMEMBERED = 50
"""Records of a seed that are remembered, and the first: more would only say what was long ago."""


class Adviser:
    """Asks the checks after every epoch, and warns of what is bad.

    Each seed is warned of a trouble once; of the bonus once a fit, which goes with a new policy of
    the cover: until the next one its records repeat what it was like. `records` are those of
    before, if the run has begun already.
    """

    def __init__(self, config: Config, records: Sequence[Mapping[str, Any]] = ()):
        self._config = config
        self._first: dict[int, Mapping[str, Any]] = {}
        self._recent: dict[int, deque[Mapping[str, Any]]] = {}
        self._told: dict[tuple[int, str], Any] = {}
        self._remember(records)

    def advice(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """The warnings that the records of one epoch, a record for each seed and round, give
        reason to."""
        self._remember(records)
        seeds: dict[str, list[int]] = {}
        for seed in dict.fromkeys(record["seed"] for record in records):
            for text in self._troubles(seed):
                seeds.setdefault(text, []).append(seed)
        epoch = max((record["epoch"] for record in records), default=0)
        return [
            f"epoch {epoch}, seed{'s' * (len(who) > 1)} {', '.join(map(str, who))}: {text}"
            for text, who in seeds.items()
        ]

    def _remember(self, records: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            seed = record.get("seed")
            if seed is None:
                continue
            if seed not in self._first:
                self._first[seed], self._recent[seed] = record, deque(maxlen=REMEMBERED)
            else:
                self._recent[seed].append(record)

    def _troubles(self, seed: int) -> list[str]:
        evidence = Evidence(self._config, [self._first[seed], *self._recent[seed]], {})
        last, troubles = evidence.last, []
        for check in CHECKS:
            if check.applies(self._config.algorithm, last):
                continue
            found = find(check, evidence)
            fit = last.get("cover/count") if check.each_fit else 0
            if found.verdict == "bad" and self._told.get((seed, found.trouble), -1) != fit:
                self._told[seed, found.trouble] = fit
                troubles.append(f"{found.trouble}. Try {found.advice}.")
        return troubles


def blame(
    metrics: Mapping[str, np.ndarray], leaves: Sequence[str], env: str
) -> tuple[str, str] | None:
    """What produced NaN or infinity in an epoch of one seed, and what to do; None if nothing did.

    `metrics` have one number for each round, `leaves` are the parts of the state at the end of the
    epoch that have NaN or infinity in them.
    """
    for now in range(len(metrics["ran"])):
        kind = NONFINITE[int(metrics["nonfinite"][now]) if "nonfinite" in metrics else 0]
        if kind == "actions":
            return (
                "The policy gave actions, or values and probabilities of them, that are NaN or "
                "infinite, though all that it had seen was finite,",
                f" An update has spoilt its weights.{SMALLER}",
            )
        if kind != "nothing":
            return (
                f"The environment {env} gave {kind} that are NaN or infinite",
                " Find out where it makes them.",
            )
    if leaves:
        more = f" and {len(leaves) - 3} more" if len(leaves) > 3 else ""
        return f"NaN or infinity in {', '.join(leaves[:3])}{more}", SMALLER
    if not np.isfinite(metrics["return_mean"][metrics["ran"]]).all():
        return (
            f"The environment {env} gave rewards that are NaN or infinite to an evaluation",
            " Find out where it makes them.",
        )
    return None


SMALLER = " Often a smaller learning rate helps."
