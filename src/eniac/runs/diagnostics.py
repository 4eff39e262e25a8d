"""What a run should tell its user while it goes on: a bonus that does not do its work, episodes
without an end, and what is to blame for NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eniac.sampling.base import LONGEST_EPISODE, NONFINITE

UNHEARD = 0.001
"""Share of steps at which the bonus exceeds the reward, below which it has no say."""


class Adviser:
    """Reads the records of a run and warns of each trouble once a fit of the bonus.

    A fit goes with a new policy of the cover; until the next one its records repeat what it was
    like, and so is the warning not repeated.
    """

    def __init__(self):
        self._told: dict[tuple[int, str], Any] = {}

    def advice(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """The warnings that the records of one epoch, a record for each seed, give reason to."""
        seeds: dict[str, list[int]] = {}
        for record in records:
            for trouble in self._troubles(record):
                fit = record.get("cover/count") if trouble != ENDLESS else 0
                if self._told.get((record["seed"], trouble), -1) != fit:
                    self._told[record["seed"], trouble] = fit
                    seeds.setdefault(trouble, []).append(record["seed"])
        epoch = max((record["epoch"] for record in records), default=0)
        return [
            f"epoch {epoch}, seed{'s' * (len(who) > 1)} {', '.join(map(str, who))}: {text}"
            for text, who in seeds.items()
        ]

    def _troubles(self, record: Mapping[str, Any]) -> list[str]:
        troubles = []
        if record.get("width/diverged"):
            troubles.append(DIVERGED)
        elif record.get("width/collapsed"):
            troubles.append(COLLAPSED)
        share = record.get("explore/bonus_decides")
        positive = (record.get("explore/bonus") or 0) > 0
        if positive and share is not None and share < UNHEARD:
            troubles.append(NO_SAY)
        if record.get("episodes_cut"):
            troubles.append(ENDLESS)
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
ENDLESS = (
    f"episodes of the evaluation did not end within {LONGEST_EPISODE:,} steps and were cut there, "
    "so that returns are those of so many steps. Give it a time limit with --evaluation.horizon, "
    "or with --horizon for training too."
)


DIVERGED = (
    "the width network diverged, so the bonus of the fit before stays in use. Try "
    "--bonus.training constrained, or a smaller --bonus.learning-rate."
)
COLLAPSED = (
    "the width is nearly the same everywhere, so the bonus tells no state from another and leads "
    "nowhere until the next fit. Try --bonus.training constrained, or more steps of it "
    "(--bonus.outer)."
)
NO_SAY = (
    "rewards exceed the bonus nearly everywhere, so under max(r, b) it has no say and nothing is "
    "explored for its sake. Try --combine add, a larger --bonus.coefficient, or smaller rewards."
)
