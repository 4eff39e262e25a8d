"""The certificate of a run: every term of the proof, measured, beside its bound.

    run = load_run("runs/sea")
    certificate = certify(run.learner.record(take_seed(run.states, 0)))

`theory.terms` measures, `theory.run_bounds` bounds; here the two stand side by side, with the
place in the paper. Lemmas and theorems are numbered as in docs/errata.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from eniac.errors import ConfigError
from eniac.theory.planning import optimal
from eniac.theory.record import RunRecord
from eniac.theory.run_bounds import RunBounds
from eniac.theory.terms import Epoch, measure

Verdict = Literal["holds", "vacuous", "fails", "no bound", "unmeasured", "empty"]

_ROUNDING = 1e-7  # policies and critics are kept in float32


class Line(NamedTuple):
    """A term: its mean over the epochs, or its total; its largest in an epoch; its bound.

    `trivial` is what holds whatever the run does: the largest gap there can be, for the gap and its
    parts; all samples, for a count of them. A bound that is no smaller says nothing. The bound is
    on `largest` if there is one, else on `measured`; None: there is no bound.
    """

    section: str
    term: str
    measured: float
    largest: float | None
    bound: float | None
    trivial: float
    where: str
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        judged = self.measured if self.largest is None else self.largest
        if judged == -math.inf:
            return "empty"  # a largest of nothing: of unknown states, when all are known
        if math.isnan(judged):
            return "unmeasured"
        if self.bound is None:
            return "no bound"
        if judged > self.bound + _ROUNDING * max(1.0, abs(self.bound)):
            return "fails"
        return "vacuous" if self.bound >= self.trivial else "holds"


@dataclass(frozen=True)
class Certificate:
    """All that was measured on one seed of a run. Values are in units of the learned reward."""

    algorithm: str
    optimum: float
    epochs: list[Epoch]
    lines: list[Line]
    bounds: RunBounds
    residual: float
    """by how much the parts miss the gap in the worst epoch: rounding, or a bug"""

    def line(self, term: str) -> Line:
        """The line called `term`."""
        return next(line for line in self.lines if line.term == term)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, None where nothing was measured, for JSON."""
        lines = [{**line._asdict(), "verdict": line.verdict} for line in self.lines]
        found = {
            "algorithm": self.algorithm,
            "settings": self.bounds.run.settings,
            "optimum": self.optimum,
            "residual": self.residual,
            "lines": lines,
            "epochs": [epoch._asdict() for epoch in self.epochs],
        }
        return _plain(found)


def certify(run: RunRecord, delta: float = 0.05) -> Certificate:
    """The certificate of the epochs that `run` has.

    **Arguments**: what one seed of a run recorded; the probability with which the bounds may fail,
    those that need luck.

    **Raises** `ConfigError` if no epoch is finished, or delta is no probability.
    """
    if run.num_epochs < 1:
        raise ConfigError("no epoch is finished yet; run one or more, then certify.")
    bounds = RunBounds(run, delta)
    epochs = measure(run)
    model = run.learned_model
    optimum = float(model.start @ optimal(model).values)
    misses = [optimum - e.inner - sum(e.parts.values()) for e in epochs]
    version = "sample" if run.alpha is None else "compute"
    if run.bonus == "width":
        name = f"eniac-{run.update}-{version}"
    else:
        name = f"{run.update}, bonus: {run.bonus}"
    most = bounds.horizon * float(run.reward.max() - run.reward.min())
    lines = [
        *_gaps(epochs, optimum, bounds, name, most),
        *_parts(epochs, bounds, name, most),
        *_grounds(epochs, bounds, name),
    ]
    return Certificate(name, optimum, epochs, lines, bounds, float(np.max(np.abs(misses))))


_PLACES = {
    "eniac-spi-sample": ("Thm C.1", "Lemma C.1", "Lemma C.2", "Lemma C.3", "Lemma C.4"),
    "eniac-spi-compute": ("Thm C.2", "Lemma C.5", "Lemma C.6", "Lemma C.3", "Lemma C.4"),
    "eniac-npg-sample": ("Thm D.1", "Lemma D.2", "Lemma D.3", "Lemma D.4", "Lemma D.5"),
    "eniac-npg-compute": ("cf. D.1", "cf. D.2", "cf. D.3", "cf. D.4", "Lemma D.5"),
}
_NO_PLACE = ("", "", "cf. C.2", "cf. C.3", "cf. C.4")


def _gaps(
    epochs: list[Epoch], optimum: float, bounds: RunBounds, name: str, most: float
) -> list[Line]:
    """What the theorem is about, and two values it says nothing of."""
    theorem = _PLACES.get(name, _NO_PLACE)[0]
    outer = float(np.mean([e.inner for e in epochs]))
    bound = bounds.gap(_largest(epochs, "known_bias"))
    section = "gap"
    return [
        Line(section, "gap, last iterate", optimum - epochs[-1].last, None, None, most, ""),
        Line(section, "gap, inner mixture", optimum - epochs[-1].inner, None, None, most, ""),
        Line(section, "gap, outer mixture", optimum - outer, None, bound, most, theorem),
    ]


def _parts(epochs: list[Epoch], bounds: RunBounds, name: str, most: float) -> list[Line]:
    """Means over the epochs, whose sum is the gap of the outer mixture."""
    _, lemma_bonus, lemma_regret, lemma_fit, _ = _PLACES.get(name, _NO_PLACE)
    bias = _largest(epochs, "known_bias")
    bonus = None if bounds.bonus is None else bounds.bonus / bounds.N
    rows = [
        ("bonus", bonus, lemma_bonus, "with the 1/(1 - gamma) that the lemma lost"),
        ("pessimism", 0.0, "Lemma B.2", "V* minus the comparator's value in M^n"),
        ("optimisation", bounds.optimisation, lemma_regret, "at the run's own eta"),
    ]
    if math.isnan(bias):
        why = "not split: no best fit of this class is known to be exact"
        rows.append(("approximation", None, lemma_fit, why))
    else:
        rows.append(("transfer", bounds.transfer(bias), lemma_fit, "4 sqrt(|A| bias)/(1 - gamma)"))
        rows.append(("statistical", bounds.statistical, lemma_fit, "2 beta/(1 - gamma)"))
    rows.append(("dagger", 0.0, lemma_regret, "the comparator off the known set"))
    lines = []
    for term, bound, where, note in rows:
        values = [getattr(e, term) for e in epochs]
        # The bonus lemma is about all epochs together, the others about each of them.
        largest = None if term == "bonus" else float(np.max(values))
        mean = float(np.mean(values))
        lines.append(Line("parts", term, mean, largest, bound, most, where, note))
    return lines


def _grounds(epochs: list[Epoch], bounds: RunBounds, name: str) -> list[Line]:
    """What the bounds rest on: counts, losses, assumptions."""
    _, lemma_bonus, lemma_regret, lemma_fit, lemma_loss = _PLACES.get(name, _NO_PLACE)
    run, spi = bounds.run, bounds.spi
    counted = [e.large_widths for e in epochs[:-1]]
    total = float(np.sum(counted)) if counted else math.nan
    sampled = float(len(counted) * run.K)
    critic = bounds.critic
    radius = run.epsilon if run.bonus == "width" else None
    outside = float(max(0.0, -run.reward.min(), run.reward.max() - 1))
    loss = bounds.excess_loss
    most_loss = math.inf if critic is None else 4 * critic**2

    def largest(field: str) -> float:
        return _largest(epochs, field)

    target = "sup |Q_b - b|" if spi else "sup |A_b - centred b|"
    closed, regular, moved = ("4.1", "4.2", "C.1") if spi else ("4.4", "4.5", "D.1")
    closed, regular, moved = (f"Ass. {number}" for number in (closed, regular, moved))
    reach = "W" if spi else "2BG"
    rows: list[tuple[str, float, float | None, float, str, str]] = [
        ("samples of large width", total, bounds.large_widths, sampled, lemma_bonus, "by dim_E"),
        ("epsilon_bias", largest("bias"), None, math.inf, moved, "0 if realisable"),
        ("epsilon_bias on K", largest("known_bias"), None, math.inf, moved, "all the proof reads"),
        ("epsilon_stat", largest("excess_loss"), loss, most_loss, lemma_loss, "L(f) - L(f*)"),
        ("|f* - f| on Z^n", largest("distance"), radius, math.inf, lemma_fit, "epsilon"),
        (target, largest("target"), critic, math.inf, closed, f"{reach}: realisable or not"),
        ("sup |f|", largest("critic"), critic, math.inf, regular, reach),
        ("eta sup |A-hat|", largest("step"), 1.0, math.inf, lemma_regret, "not needed: see docs"),
        ("d-tilde - d on K", largest("dominance"), 0.0, 1.0, "Lemma B.1", ""),
        ("sup A(s, a-dagger)", largest("worst_dagger"), 0.0, 1.0, lemma_regret, "off K"),
        ("rewards outside [0, 1]", outside, 0.0, math.inf, "Sec. 2", "by how much"),
    ]
    if run.bonus != "width":
        rows = rows[1:]
    return [Line("grounds", t, m, None, b, most, w, n) for t, m, b, most, w, n in rows]


def _largest(epochs: list[Epoch], field: str) -> float:
    return float(np.max([getattr(epoch, field) for epoch in epochs]))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
