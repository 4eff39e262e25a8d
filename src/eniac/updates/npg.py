"""Natural policy gradient: Equations 12 to 14."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from eniac.functions.ball import ball_solution, least_squares_in_ball
from eniac.functions.base import FunctionClass, tangent_features
from eniac.functions.tabular import Tabular
from eniac.sampling.tables import Alias, Returns, TableSampler
from eniac.updates.spi import PairMeans, TableActor
from eniac.widths.exact import in_few_dimensions

Table = Float[np.ndarray, "states actions"]


class NPG:
    """Fits advantages in the tangent class and moves the parameters: theta += eta u.

    The features are centred under the policy *executed* (docs/npg.md): on known states of SAMPLE
    that is pi_{f_theta} itself, as in the paper; elsewhere, and under the mixing of COMPUTE, only
    so have the features the zero mean under the policy that the advantages have.
    """

    def __init__(self, functions: FunctionClass, eta: float, norm_bound: float, ridge: float):
        functions.gradient(functions.zero())  # refuses a class that has none
        self.functions = functions
        self.eta = eta
        self.norm_bound = norm_bound
        self.ridge = ridge

    def start(self) -> TableActor:
        """theta_0, whose softmax is uniform."""
        theta = self.functions.zero()
        return TableActor(theta, self.functions(theta))

    def sample(
        self,
        rng: np.random.Generator,
        sampler: TableSampler,
        policy: Alias,
        pairs: Int[np.ndarray, " samples"],
        reward: Table,
    ) -> Returns:
        """A-hat(s_i, a_i, r + b), Equation 12."""
        return sampler.advantages(rng, policy, pairs, reward)

    def fit(
        self, actor: TableActor, policy: Table, found: PairMeans, bonus: Table
    ) -> tuple[Float[np.ndarray, " dim"], Table]:
        """Equation 13: u_t fits A-hat minus the centred bonus. u_t, and u_t . g_t as a table."""
        centred = bonus - np.sum(policy * bonus, axis=1, keepdims=True)
        target = found.mean - centred
        if isinstance(self.functions, Tabular):
            return tabular_fit(policy, target, found.weight, self.norm_bound, self.ridge)
        features = tangent_features(self.functions.gradient(actor.params), policy)
        return tangent_fit(features, target, found.weight, self.norm_bound, self.ridge)

    def advance(
        self, actor: TableActor, params: Float[np.ndarray, " dim"], critic: Table
    ) -> TableActor:
        """Equation 14: theta_{t+1} = theta_t + eta u_t."""
        del critic
        theta = actor.params + self.eta * params
        return TableActor(theta, self.functions(theta))


def tangent_fit(
    features: Float[np.ndarray, "states actions dim"],
    target: Table,
    weight: Table,
    norm_bound: float,
    ridge: float,
) -> tuple[Float[np.ndarray, " dim"], Table]:
    """min over |u| <= norm_bound of sum weight (target - u . g)^2 + ridge |u|^2, exactly."""
    seen = weight > 0
    rows = features[seen] * np.sqrt(weight[seen])[:, None]
    values = np.sqrt(weight[seen]) * target[seen]
    if len(rows) == 0:
        return np.zeros(features.shape[-1]), np.zeros(target.shape)
    # With more parameters than pairs u lies in the span of the rows: look for it there.
    rows, basis = in_few_dimensions(rows)
    u = basis @ least_squares_in_ball(rows.T @ rows, rows.T @ values, norm_bound, ridge)
    return u, features @ u


def tabular_fit(
    policy: Table, target: Table, weight: Table, norm_bound: float, ridge: float
) -> tuple[Float[np.ndarray, " dim"], Table]:
    """`tangent_fit` for the tabular class, whose problem falls apart into one for each state.

    g(s, a) = e_{s,a} - sum_a' pi(a'|s) e_{s,a'}, so the Gram matrix has a block for each state;
    only the ball joins them, through its one multiplier.
    """
    num_states, num_actions = policy.shape
    features = np.eye(num_actions) - policy[:, None, :]
    weighted = features * weight[:, :, None]
    spectrum, basis = np.linalg.eigh(np.einsum("sai,saj->sij", features, weighted))
    moment = np.einsum("sij,sai,sa->sj", basis, weighted, target)
    found = ball_solution(spectrum.ravel(), moment.ravel(), norm_bound, ridge)
    u = np.einsum("sij,sj->si", basis, found.reshape(num_states, num_actions))
    return u.ravel(), u - np.sum(policy * u, axis=1, keepdims=True)
