"""The bounds of the lemmas with a run's own numbers: its N, K, T, M, eta, beta, epsilon and alpha.

The theorems choose these numbers so that every bound is small; a run that is to finish chooses
others, and the bounds still hold, mostly without saying anything (docs/certify.md). Where the
paper's lemma has a slip the bound here is the mended one of docs/errata.md. Bounds on values carry
their 1/(1 - gamma). None means that the paper has no such bound for this run.
"""

from __future__ import annotations

import math

import numpy as np

from eniac.errors import require
from eniac.functions.linear import Linear
from eniac.functions.tabular import Tabular
from eniac.theory.eluder import linear_eluder_bound, tabular_eluder_dimension
from eniac.theory.record import RunRecord

_RADII = np.logspace(-12, 0, 121)


class RunBounds:
    """Bounds for the epochs of a run, jointly with probability 1 - delta.

    **Arguments**: what the run recorded; delta, of which every event of the proof gets
    delta / (3 N T), as in Theorem C.1.
    """

    def __init__(self, run: RunRecord, delta: float = 0.05):
        require(0 < delta < 1, "delta", delta, "a probability strictly between 0 and 1")
        self.run = run
        self.N = run.num_epochs
        self.num_actions = run.functions.num_actions
        self.horizon = 1 / (1 - run.gamma)
        self.log_union = math.log(3 * self.N * run.T / delta)
        self.spi = run.update == "spi"
        self.scale = 1.0 if run.alpha is None else self.num_actions / run.alpha
        self.slope = None
        if not self.spi and run.functions.additive:
            gradient = run.functions.gradient(run.functions.zero())
            self.slope = float(np.linalg.norm(gradient, axis=-1).max())

    @property
    def norm_product(self) -> float | None:
        """B G of NPG, for classes linear in their parameters."""
        return None if self.slope is None else self.run.norm_bound * self.slope

    @property
    def critic(self) -> float | None:
        """A bound on |f|: W; for NPG 2 B G on |u . g|."""
        if self.spi:
            return self.run.functions.bound
        return None if self.norm_product is None else 2 * self.norm_product

    @property
    def statistics_class(self) -> float | None:
        """What stands for W in the statistics: W, or 2 D with D = max(B G, 1/(1 - gamma))."""
        if self.spi:
            return self.run.functions.bound
        return None if self.norm_product is None else 2 * max(self.norm_product, self.horizon)

    def width_class(self) -> tuple[float, float] | None:
        """Bound and eluder dimension at beta of the class whose widths are measured.

        The dimension is exact for the tabular class, at most the bound of Russo and Van Roy for
        linear ones, and for any class at most the number of pairs: a pair depends on itself.
        """
        run, beta = self.run, self.run.beta
        if self.run.bonus != "width":
            return None
        functions = self.run.functions
        pairs = functions.num_states * functions.num_actions
        if run.features.shape[-1] > 0:
            features, norm_bound = run.features, run.norm_bound
        elif isinstance(functions, Linear):
            features, norm_bound = functions.features, functions.norm_bound
        elif isinstance(functions, Tabular):
            return functions.bound, tabular_eluder_dimension(pairs, beta, functions.bound)
        else:
            return functions.bound, pairs
        size = float(np.linalg.norm(features, axis=-1).max())
        known = linear_eluder_bound(features.shape[-1], beta, norm_bound, size)
        return norm_bound * size, min(known, pairs)

    @property
    def large_widths(self) -> float | None:
        """(2 epsilon^2/beta^2 + 8 W^2 K/beta^2 + 1) dim_E: samples of width above beta (C.1)."""
        found = self.width_class()
        if found is None:
            return None
        bound, dimension = found
        ratio = (2 * self.run.epsilon**2 + 8 * bound**2 * self.run.K) / self.run.beta**2
        return (ratio + 1) * dimension

    @property
    def bonus(self) -> float | None:
        """Lemmas C.1, C.5 and D.2, mended by 1/(1 - gamma), on the *sum* over the epochs."""
        count = self.large_widths
        if count is None:
            return 0.0 if self.run.bonus == "none" else None
        chance = math.sqrt((self.log_union + math.log(2)) / (2 * self.run.K))
        return self.scale * self.horizon**2 * (count / self.run.K + self.N * chance)

    @property
    def optimisation(self) -> float | None:
        """Lemmas C.2, C.6, D.3 before their choice of eta, and of alpha: in each epoch.

        log|A|/(eta T) + 16 eta W^2 (NPG: D for W), and 4 W alpha/(1 - alpha) in COMPUTE (NPG: 2 D).
        The proofs ask eta |A-hat| <= 1. By Hoeffding's lemma log E exp(eta A-hat) is at most
        eta^2 W^2/2 for every eta, so these bounds hold for every eta.
        """
        eta, alpha = self.run.eta, self.run.alpha
        if self.spi:
            scale, mixing = self.run.functions.bound, 4.0
        elif self.norm_product is not None:
            scale, mixing = max(self.norm_product, self.horizon), 2.0
        else:
            return None
        regret = math.log(self.num_actions) / (eta * self.run.T) + 16 * eta * scale**2
        if alpha is not None:
            regret += mixing * scale * alpha / (1 - alpha)
        return self.horizon * regret

    def transfer(self, bias: float) -> float:
        """4 sqrt(|A| epsilon_bias) / (1 - gamma), Lemmas C.3 and D.4."""
        return 4 * self.horizon * math.sqrt(self.num_actions * bias)

    @property
    def statistical(self) -> float | None:
        """2 beta / (1 - gamma), Lemmas C.3 and D.4."""
        return 2 * self.run.beta * self.horizon if self.run.bonus == "width" else None

    @property
    def excess_loss(self) -> float | None:
        """Lemmas C.4 and D.5 with C = 1 and epsilon_0 = 0, at the best radius epsilon_2."""
        bound, functions = self.statistics_class, self.run.functions
        if bound is None or not functions.convex:
            return None
        if not self.spi:
            log_cover = functions.dim * (np.log(3 / _RADII) + self.log_union)
        elif isinstance(functions, Tabular):
            log_cover = functions.dim * np.log(np.ceil(1 / _RADII)) + self.log_union
        else:
            log_cover = functions.dim * np.log(1 + 2 / _RADII) + self.log_union
        terms = 500 * bound**4 * log_cover / self.run.M + 13 * bound**3 * _RADII
        return float(terms.min())

    def gap(self, bias: float) -> float | None:
        """The last display in the proof of Theorem C.1, for the outer mixture."""
        terms = (self.bonus, self.optimisation, self.statistical)
        if any(term is None for term in terms) or math.isnan(bias):
            return None
        bonus, optimisation, statistical = (term for term in terms if term is not None)
        return bonus / self.N + optimisation + self.transfer(bias) + statistical
