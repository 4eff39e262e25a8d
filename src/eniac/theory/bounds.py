"""What a theorem of the paper promises: its hyper-parameters and every term of its bound."""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from typing import Literal

Algorithm = Literal["spi-sample", "spi-compute", "npg-sample", "npg-compute"]
Constants = Literal["corrected", "printed"]


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """Hyper-parameters of one theorem, in the paper's names, with the inputs they came from.

    `varepsilon` is the accuracy of each term (the accuracy asked, over nine if rescaled), `epsilon`
    the radius of the width's constraint, `class_bound` what stands for W in the statistics (W for
    SPI, 2D for NPG). `epsilon`^2 is N K `fit_error` + sqrt(N K) `concentration`, the two parts of
    its equation in Lemma C.3. Integers are exact Python integers, however large.
    """

    algorithm: Algorithm
    constants: Constants
    accuracy: float
    varepsilon: float
    gamma: float
    delta: float
    num_actions: int
    eluder_dimension: float
    class_bound: float
    regret_scale: float
    C: float
    epsilon_0: float
    beta: float
    T: int
    N: int
    K: int
    M: int
    eta: float
    alpha: float | None
    epsilon_1: float
    epsilon_2: float
    epsilon: float
    log_cover_1: float
    log_cover_2: float
    fit_error: float
    concentration: float

    def radius(self, epoch: int) -> float:
        """The width's radius after n epochs, from the n K samples there are: epsilon with n for N.

        Lemma C.3 proves its inequality for n and only then writes N; and the count of large widths
        needs no more than radius(n) <= epsilon. So it may replace `epsilon`, and should: with
        `epsilon` itself no pair can be known in the first epochs, whatever the data.
        """
        if not 1 <= epoch <= self.N:
            raise ValueError(f"epoch is {epoch}; expected one of 1 to N = {format_number(self.N)}.")
        root = math.sqrt(epoch) * math.sqrt(self.K)
        return math.sqrt(self.fit_error + self.concentration / root) * root

    @property
    def bonus(self) -> float:
        """The bonus of an unknown pair (Section 3.3)."""
        return self._scale / (1 - self.gamma)

    @property
    def critic_bound(self) -> float:
        """sup |Q_b - b| over MDPs with rewards in [0, 1]: what a realisable class must reach.

        1/(1 - gamma)^2 for SAMPLE. For COMPUTE it grows with |A|/alpha, that is with the square
        root of T, which grows with the square of the bound on the class: no finite bound reaches it
        (unless gamma is tiny), and realisability, hence epsilon_bias = 0, is not to be had.
        """
        return 1 + self.gamma * (1 + self.bonus) / (1 - self.gamma)

    @property
    def realisable(self) -> bool:
        """Whether a class with this bound can contain every Q_b - b."""
        return self.class_bound >= self.critic_bound * (1 - 1e-12)

    @property
    def total_samples(self) -> int:
        """N (K + T M)."""
        return self.N * (self.K + self.T * self.M)

    @property
    def expected_steps(self) -> int:
        """Expected environment steps behind the samples (see `theory.guarantees`)."""
        gamma = Fraction(self.gamma)
        returns = 2 if self.algorithm.startswith("npg") else 1
        critic = self.T * self.M * (gamma + returns)
        return math.ceil(self.N * (self.K + critic) / (1 - gamma))

    @property
    def _scale(self) -> float:
        return 1.0 if self.alpha is None else self.num_actions / self.alpha

    def terms(self) -> dict[str, float]:
        """Each error term of the proved bound on V^{comparator} - V^{output}, with these constants.

        The bound of Theorem C.1's proof with the mended bonus lemma, whichever constants are used.
        All nine are at most `varepsilon` for the corrected constants. What a misspecified class
        adds is apart: `misspecification(epsilon_bias)`.
        """
        horizon = 1 / (1 - self.gamma)
        bonus = self._scale * horizon**2
        count = bonus * self.eluder_dimension / self.beta**2
        bound, root_nk = self.class_bound, math.sqrt(self.N) * math.sqrt(self.K)
        log_1, log_2 = (self._log_union + c for c in (self.log_cover_1, self.log_cover_2))
        regret = self.regret_scale / math.sqrt(self.T)
        if self.alpha is not None:
            regret += self._mixing_bound * self.alpha / (1 - self.alpha)
        return {
            "critic, samples M": count * 1000 * self.C**2 * bound**4 * log_2 / self.M,
            "critic, cover epsilon_2": count * 26 * self.C * bound**2 * self.epsilon_2,
            "width, cover epsilon_1": count * 32 * bound * self.epsilon_1,
            "width, concentration": count * 16 * bound**2 * log_1 / root_nk,
            "width, large ones": count * 8 * bound**2 / self.N,
            "width, first ones": bonus * self.eluder_dimension / root_nk / root_nk,
            "bonus, samples K": bonus * math.sqrt((self._log_union + math.log(2)) / 2 / self.K),
            "optimisation, T steps": horizon * regret,
            "threshold beta": horizon * 2 * self.beta,
        }

    def misspecification(self, epsilon_bias: float = 0.0) -> float:
        """What epsilon_bias and epsilon_0 add to the gap (Assumptions C.1 and C.2)."""
        horizon = 1 / (1 - self.gamma)
        count = self._scale * horizon**2 * self.eluder_dimension / self.beta**2
        transfer = 4 * horizon * math.sqrt(self.num_actions * epsilon_bias)
        return transfer + count * 2 * (self.C + 1) * self.epsilon_0

    @property
    def gap(self) -> float:
        """The sum of the terms: the proved gap of a realisable class."""
        return sum(self.terms().values())

    @property
    def holds(self) -> bool:
        """Whether every term is within `varepsilon`."""
        return all(term <= self.varepsilon * (1 + 1e-9) for term in self.terms().values())

    @property
    def _log_union(self) -> float:
        """log(1/delta_1), delta_1 = delta / (3 N T)."""
        return math.log(3 / self.delta) + math.log(self.N) + math.log(self.T)

    @property
    def _mixing_bound(self) -> float:
        """A bound on |A-hat| on known states: 2W, or 2D. (The proof of Lemma C.6 uses 4W.)"""
        return 2 * self.class_bound if self.algorithm.startswith("spi") else self.class_bound


def format_number(number: float | int) -> str:
    """Short, and right for integers beyond the range of floats."""
    if isinstance(number, int):
        return f"{number:,}" if abs(number) < 10**7 else f"{Decimal(number):.3e}"
    return f"{number:.4g}"
