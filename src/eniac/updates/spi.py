"""Soft policy iteration: Equations 7 to 10."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from eniac.functions.base import FunctionClass
from eniac.sampling.tables import Alias, Returns, TableSampler

Table = Float[np.ndarray, "states actions"]


class TableActor(NamedTuple):
    """The parameters of a policy, and the logits that its softmax is made of."""

    params: Float[np.ndarray, " dim"]
    logits: Table


class PairMeans(NamedTuple):
    """Samples on a finite domain: how many each pair has, and their mean (0 without any).

    Least squares on the samples is least squares on the means, weighted by the numbers.
    """

    mean: Table
    weight: Table


def pair_means(
    pairs: Int[np.ndarray, " samples"],
    values: Float[np.ndarray, " samples"],
    shape: tuple[int, int],
) -> PairMeans:
    """The samples `values` at `pairs` (numbered s |A| + a), gathered pair by pair."""
    size = shape[0] * shape[1]
    weight = np.bincount(pairs, minlength=size).astype(np.float64)
    total = np.bincount(pairs, values, minlength=size)
    return PairMeans((total / np.maximum(weight, 1)).reshape(shape), weight.reshape(shape))


class SPI:
    """Fits Q-values in F and adds them up: pi_{t+1} proportional to pi_t exp(eta f_t).

    The known-set rule (SAMPLE) and the mixing with the uniform policy (COMPUTE) are made from the
    logits by `provable.policies`.
    """

    def __init__(self, functions: FunctionClass, eta: float):
        self.functions = functions
        self.eta = eta

    def start(self) -> TableActor:
        """pi'_0, uniform everywhere."""
        return TableActor(self.functions.zero(), np.zeros(self.functions.shape))

    def sample(
        self,
        rng: np.random.Generator,
        sampler: TableSampler,
        policy: Alias,
        pairs: Int[np.ndarray, " samples"],
        reward: Table,
    ) -> Returns:
        """Q-hat(s_i, a_i, r + b), Equation 7."""
        return sampler.action_returns(rng, policy, pairs, reward)

    def fit(
        self, actor: TableActor, policy: Table, found: PairMeans, bonus: Table
    ) -> tuple[Float[np.ndarray, " dim"], Table]:
        """Equation 8: f_t fits Q-hat - b, the initial bonus taken off. Parameters and table."""
        del policy
        params = self.functions.fit(found.mean - bonus, found.weight, start=actor.params)
        return params, self.functions(params)

    def advance(
        self, actor: TableActor, params: Float[np.ndarray, " dim"], critic: Table
    ) -> TableActor:
        """Equations 9 and 10, in logits. The fit is where the next one may start from."""
        return TableActor(params, actor.logits + self.eta * critic)
