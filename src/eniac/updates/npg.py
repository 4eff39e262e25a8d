"""Natural policy gradient: Equations 12 to 14."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from eniac.functions.base import FunctionClass, tangent_features
from eniac.functions.tabular import Tabular
from eniac.sampling.tables import Alias, Returns, Sampler
from eniac.updates.spi import Actor, Means

Table = Float[np.ndarray, "states actions"]

_SECULAR_STEPS = 100


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

    def start(self) -> Actor:
        """theta_0, whose softmax is uniform."""
        theta = self.functions.zero()
        return Actor(theta, self.functions(theta))

    def sample(
        self,
        rng: np.random.Generator,
        sampler: Sampler,
        policy: Alias,
        pairs: Int[np.ndarray, " samples"],
        reward: Table,
    ) -> Returns:
        """A-hat(s_i, a_i, r + b), Equation 12."""
        return sampler.advantages(rng, policy, pairs, reward)

    def fit(
        self, actor: Actor, policy: Table, found: Means, bonus: Table
    ) -> tuple[Float[np.ndarray, " dim"], Table]:
        """Equation 13: u_t fits A-hat minus the centred bonus. u_t, and u_t . g_t as a table."""
        centred = bonus - np.sum(policy * bonus, axis=1, keepdims=True)
        target = found.mean - centred
        if isinstance(self.functions, Tabular):
            return tabular_fit(policy, target, found.weight, self.norm_bound, self.ridge)
        features = tangent_features(self.functions.gradient(actor.params), policy)
        return tangent_fit(features, target, found.weight, self.norm_bound, self.ridge)

    def advance(self, actor: Actor, params: Float[np.ndarray, " dim"], critic: Table) -> Actor:
        """Equation 14: theta_{t+1} = theta_t + eta u_t."""
        del critic
        theta = actor.params + self.eta * params
        return Actor(theta, self.functions(theta))


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
    num, dim = rows.shape
    if num == 0:
        return np.zeros(dim), np.zeros(target.shape)
    if num >= dim:
        spectrum, basis = np.linalg.eigh(rows.T @ rows)
        moment = basis.T @ (rows.T @ values)
    else:
        # More parameters than pairs: u lies in the span of the rows, so work in their space.
        spectrum, left = np.linalg.eigh(rows @ rows.T)
        root = np.sqrt(np.maximum(spectrum, 0.0))
        basis = rows.T @ (left / np.where(root > 0, root, 1.0))
        moment = root * (left.T @ values)
    u = basis @ ball_solution(spectrum, moment, norm_bound, ridge)
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


def ball_solution(
    spectrum: Float[np.ndarray, " dim"],
    moment: Float[np.ndarray, " dim"],
    norm_bound: float,
    ridge: float = 0.0,
) -> Float[np.ndarray, " dim"]:
    """argmin over |u| <= norm_bound of sum_i (s_i + ridge) u_i^2 - 2 u_i m_i.

    u_i = m_i / (s_i + ridge + lambda) with the smallest lambda >= 0 that keeps the ball. 1/|u| is
    concave and nearly linear in lambda, so that Newton's method on it from the left never
    overshoots (More and Sorensen 1983). Where the data leave a choice the shortest u is taken.
    """
    rounding = len(spectrum) * np.finfo(np.float64).eps * max(float(spectrum.max()), 0.0)
    kept = spectrum > rounding
    curved = np.where(kept, spectrum, 1.0) + ridge
    moment = np.where(kept, moment, 0.0)
    u = moment / curved
    shift = 0.0
    if np.linalg.norm(u) <= norm_bound:
        return u
    for _ in range(_SECULAR_STEPS):
        norm = np.linalg.norm(u)
        slope = np.sum(np.square(u) / (curved + shift))
        step = norm**2 / slope * (norm - norm_bound) / norm_bound
        if not step > np.finfo(np.float64).eps * shift:
            break
        shift += step
        u = moment / (curved + shift)
    return u * min(1.0, norm_bound / np.linalg.norm(u))
