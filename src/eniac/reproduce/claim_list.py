"""The claims of the paper that can be measured, each with the number that decides it.

Rules stand in `CLAIMS` as data, and were written before the runs: bounds, the numbers that are held
against them, the runs that they are taken from. The verdicts are those of `verdicts.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eniac.networks import DEPTHS
from eniac.reproduce import figure2, theory_numbers
from eniac.reproduce.choice import Choice
from eniac.reproduce.exploration import solved_at
from eniac.reproduce.figure1 import EPISODES, SETTINGS, flags
from eniac.reproduce.results import Row, read_results, rows_of
from eniac.reproduce.tasks import TASKS, Result, car, variant
from eniac.reproduce.theory_tasks import COMPUTE, SAMPLE, THEORY, WITHOUT
from eniac.reproduce.verdicts import (
    Evidence,
    Rule,
    comparison,
    measured,
    not_measured,
    share,
)

MOST = 0.7
"""A share of seeds above which it is "consistently": ten of ten are enough to say so, nine are not.
Below `FEW` of them it is "poorly": none of ten is enough."""
FEW = 0.3
NEARLY_ALL = 0.9
"""A share of seeds on which a guarantee is to hold; 40 of 40 are enough to say so."""
NEAR = 0.1
"""How near to the goal's position, 0.45, its neighbourhood begins. The slope is 0.55 long."""
GOAL = 0.45
FADED = 0.5
"""Share of the exploring policy's reward below which the bonus has faded: less than the other
half, which is reward."""

SOLVED = "share of seeds above 93"
LATER = "probability that a seed of the first needs more steps to 93 (never: infinitely many)"


@dataclass(frozen=True)
class Sources:
    """What claims are decided by: the rows of results, and the data of Figures 2 and 3."""

    rows: dict[tuple[str, str], Row]
    figures: dict[tuple[str, str], list[Result]]
    """by the figure's name and the settings"""

    @classmethod
    def read(cls, folder: Path) -> Sources:
        results = [*read_results(folder), *read_results(folder, "theory")]
        figures = {
            (name, settings): row.results
            for name in ("figure2", "figure3")
            for settings, row in figure2.rows(Choice(results=folder), name).items()
        }
        return cls(rows_of(results), figures)


@dataclass(frozen=True)
class Claim:
    """A claim, where the paper makes it, what decides it, and what it is taken from."""

    statement: str
    where: str
    rule: Rule
    evidence: Callable[[Sources, Rule], list[Evidence]]
    command: str
    """makes the runs that it is decided by"""
    setting: str = ""
    """with which settings and episodes, where there are several"""


# Figure 1


def _steps(sources: Sources, algorithm: str, settings: str, kind: str, depth: int) -> np.ndarray:
    """Steps to 93 of each seed, infinity for one that never was; empty if nothing was measured."""
    task = car(depth, kind == "episodic")
    row = sources.rows.get((task, variant(algorithm, flags(settings, depth))))
    return np.array([solved_at(TASKS[task], r)["steps"] for r in row.results] if row else [])


def _solved(algorithm: str, settings: str, kind: str, depths: Sequence[int]) -> Any:
    def evidence(sources: Sources, rule: Rule) -> list[Evidence]:
        found = []
        for depth in depths:
            steps = _steps(sources, algorithm, settings, kind, depth)
            where = f"depth {depth}"
            found.append(
                share(rule, np.isfinite(steps).tolist(), where)
                if len(steps)
                else not_measured(where)
            )
        return found

    return evidence


def _later(settings: str, kind: str, first: Any, second: Any) -> Any:
    """Of two lists of algorithm and depth, paired one by one."""

    def evidence(sources: Sources, rule: Rule) -> list[Evidence]:
        pairs = [
            tuple(_steps(sources, name, settings, kind, depth) for name, depth in both)
            for both in zip(first, second, strict=True)
        ]
        if any(len(steps) == 0 for pair in pairs for steps in pair):
            return [not_measured("")]
        return [comparison(rule, pairs)]  # pyright: ignore[reportArgumentType]

    return evidence


def _figure1_claims(settings: str, kind: str) -> list[Claim]:
    depths = tuple(DEPTHS)
    text, caption = "Section 5.3, Figure 1", f"{settings}, {kind}"
    command = f"eniac reproduce figure1 --settings {settings} --episodes {kind}"
    found = [
        Claim(
            "ENIAC robustly achieves high performance at every depth",
            *(text, Rule(SOLVED, MOST), _solved("eniac", settings, kind, depths), command, caption),
        )
    ]
    for name in ("pc-pg", "zero"):
        found += [
            Claim(
                f"{name.upper()} performs well for depth 2",
                *(text, Rule(SOLVED, MOST), _solved(name, settings, kind, (2,)), command, caption),
            ),
            Claim(
                f"{name.upper()} gets slower and less reliable with depth: 6 against 2",
                *(text, Rule(LATER, 0.5)),
                _later(settings, kind, [(name, 6)], [(name, 2)]),
                *(command, caption),
            ),
        ]
    for name in ("ppo", "ppo-rnd"):
        rule = Rule(SOLVED, FEW, above=False)
        found.append(
            Claim(
                f"{name.upper()} performs poorly",
                *(text, rule, _solved(name, settings, kind, depths), command, caption),
            )
        )
    found.append(
        Claim(
            "With deeper networks the width suits better than PC-PG's bonus: PC-PG against ENIAC, "
            "depths 4 and 6",
            *(text, Rule(LATER, 0.5)),
            _later(
                *(settings, kind),
                [("pc-pg", 4), ("pc-pg", 6)],
                [("eniac", 4), ("eniac", 6)],
            ),
            *(command, caption),
        )
    )
    return found


# Figures 2 and 3


def _reaches_goal(settings: str) -> Any:
    def evidence(sources: Sources, rule: Rule) -> list[Evidence]:
        furthest = [
            max(
                (p["furthest"] for p in data["policies"] if p["kind"] == "cover"), default=-math.inf
            )
            for data in sources.figures.get(("figure2", settings), [])
        ]
        near = [position >= GOAL - NEAR for position in furthest]
        return [share(rule, near)] if near else [not_measured("")]

    return evidence


def _fades(sources: Sources, rule: Rule) -> list[Evidence]:
    faded = []
    for data in sources.figures.get(("figure2", "paper"), []):
        known = [x for x in data["bonus_share"] if x["share"] is not None]
        if known and known[-1]["ends"]:
            faded.append(known[-1]["share"] < FADED)
    return [share(rule, faded)] if faded else [not_measured("")]


def _smoother(settings: str) -> Any:
    def evidence(sources: Sources, rule: Rule) -> list[Evidence]:
        found = [x["smoothness"] for x in sources.figures.get(("figure3", settings), [])]
        smoother = [x["width"] < x["kernel"] for x in found]
        return [share(rule, smoother)] if smoother else [not_measured("")]

    return evidence


def _figure_claims() -> list[Claim]:
    found = []
    for settings in SETTINGS:
        found.append(
            Claim(
                "Exploration reaches the vicinity of the goal by the third policy of the cover",
                "Section 5.3, Figure 2",
                Rule(f"share of seeds whose policies come within {NEAR:g} of the goal", MOST),
                *(_reaches_goal(settings), "eniac reproduce figure2", settings),
            )
        )
    found.append(
        Claim(
            "The effect of the bonus dissipates once the goal is reached",
            "Section 5.3, Figure 2",
            Rule(
                "share of seeds, of those whose last exploring policy comes to the goal, in which "
                f"less than {FADED:g} of its reward is bonus",
                MOST,
            ),
            *(_fades, "eniac reproduce figure2", "paper"),
        )
    )
    for settings in SETTINGS:
        found.append(
            Claim(
                "ENIAC's bonus changes in a smoother way than PC-PG's",
                "Section 5.3, Figure 3",
                Rule("share of seeds in which its curvature is the smaller", 0.5),
                *(_smoother(settings), "eniac reproduce figure3", settings),
            )
        )
    return found


# Theory


def _ends(sources: Sources, task: str, algorithm: str) -> list[bool]:
    row = sources.rows.get((task, algorithm))
    found = row.results if row else []
    return [r["by_epoch"]["share/last"][-1] >= theory_numbers.ENOUGH for r in found]


def _learns(tasks: Sequence[str], algorithms: Sequence[str]) -> Any:
    def evidence(sources: Sources, rule: Rule) -> list[Evidence]:
        found = []
        for task in tasks:
            for name in algorithms:
                if (name, ()) in THEORY[task].variants:
                    ends, where = _ends(sources, task, name), f"{_plain(task)}, {name}"
                    found.append(share(rule, ends, where) if ends else not_measured(where))
        return found

    return evidence


def _plain(task: str) -> str:
    return task.removeprefix("provable-")


def _compute_needs_more(sources: Sources, rule: Rule) -> list[Evidence]:
    found = theory_numbers.versions(sources.rows)
    if not found:
        return [not_measured("")]
    return [comparison(rule, [(compute, sample) for sample, compute in found.values()])]


def _survives(sources: Sources, rule: Rule) -> list[Evidence]:
    found = theory_numbers.misspecified(sources.rows)
    seeds = sorted({seed for each in found.values() for seed in each})
    within = [all(each[seed].within for each in found.values() if seed in each) for seed in seeds]
    return [share(rule, within)] if within else [not_measured("")]


def _exponents(kind: str) -> Any:
    def evidence(sources: Sources, rule: Rule) -> list[Evidence]:
        found = theory_numbers.exponents(theory_numbers.growth(sources.rows))
        told = {name: x for name, x in found.items() if name.startswith(kind)}
        return [
            measured(rule, x.value, x.low, x.high, x.seeds, name.removeprefix(f"{kind}, "))
            for name, x in told.items()
        ] or [not_measured("")]

    return evidence


LEARNING = tuple(name for name, task in THEORY.items() if task.question == "learning")
HARD = ("provable-deep-sea-20", "provable-lock-5", "provable-lock-10")
"""Where luck does not find the reward."""


def _theory_claims() -> list[Claim]:
    command = "eniac reproduce theory"
    at_95 = "share of seeds whose last iterate is at 95 % of the optimum"
    return [
        Claim(
            "The provable variants reach a near-optimal policy",
            "Theorems 4.1, 4.2, C.2",
            *(Rule(at_95, MOST), _learns(LEARNING, (*SAMPLE, *COMPUTE)), command),
        ),
        Claim(
            "Hard exploration needs the bonus: without it they do not",
            "Sections 1 and 5",
            *(Rule(at_95, FEW, above=False), _learns(HARD, WITHOUT), command),
        ),
        Claim(
            "COMPUTE needs more samples than SAMPLE",
            "Section 4.1",
            Rule(
                "probability that a seed of COMPUTE needs more steps to 95 % than one of SAMPLE",
                0.5,
            ),
            *(_compute_needs_more, command),
        ),
        Claim(
            "The guarantee survives misspecification up to its term",
            "Section 4.1, Theorem D.1",
            Rule(
                "share of seeds on which no class adds more to the gap than "
                "4 sqrt(|A| epsilon_bias) / (1 - gamma)",
                NEARLY_ALL,
            ),
            *(_survives, command),
        ),
        Claim(
            "Samples grow with accuracy no faster than (1/epsilon)^8",
            "Theorem 4.1",
            Rule("exponent of 1/epsilon", 8, above=False),
            *(_exponents("accuracy"), command),
        ),
        Claim(
            "Samples grow with the dimension no faster than its fourth power",
            "Theorem 4.1, for tables: dim_E^2 log(N)^2",
            Rule("exponent of the number of pairs", 4, above=False),
            *(_exponents("dimension"), command),
        ),
    ]


CLAIMS: tuple[Claim, ...] = (
    *(c for s in SETTINGS for e in EPISODES for c in _figure1_claims(s, e)),
    *_figure_claims(),
    *_theory_claims(),
)
