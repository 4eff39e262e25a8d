"""What the rows of the table differ in: the unknown pairs, the cover's weights, reward units."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from eniac.errors import ConfigError
from eniac.functions.base import FunctionClass, tangent_features
from eniac.provable.resolved import ResolvedProvable, Rewards
from eniac.widths.exact import in_few_dimensions, linear_widths

Table = Float[np.ndarray, "states actions"]


class Exploration(NamedTuple):
    """How pairs are found unknown, and the features that this looks at.

    Features of no dimension stand for the widths of the class F itself.
    """

    kind: Literal["width", "ellipsoid", "none"]
    functions: FunctionClass
    features: Float[np.ndarray, "states actions dim"]
    epsilon: float
    beta: float
    norm_bound: float
    ridge: float

    @classmethod
    def of(cls, config: ResolvedProvable, functions: FunctionClass) -> Exploration:
        """The part of the settings that decides what is unknown."""
        features = np.zeros((*functions.shape, 0))
        tangent = config.update == "npg" and config.tangent != "class" and config.bonus == "width"
        if tangent or config.bonus == "ellipsoid" or config.cover == "log-det":
            features = functions.gradient(functions.zero())
            if tangent and config.tangent == "centred":
                uniform = np.full(functions.shape, 1 / functions.num_actions)
                features = tangent_features(features, uniform)
        norm_bound = config.norm_bound or np.sqrt(functions.dim) * functions.bound
        return cls(
            config.bonus,
            functions,
            features,
            config.epsilon,
            config.beta,
            float(norm_bound),
            config.ellipsoid_ridge,
        )


def find_unknown(
    exploration: Exploration, counts: Num[np.ndarray, "states actions"]
) -> Bool[np.ndarray, "states actions"]:
    """Which pairs are unknown given how often each is in Z^n (Equations 15 to 18).

    - 'width': those of width >= beta in the class F; for NPG F stands for its tangent class, which
      is exact for the tabular class (docs/npg.md), or the linear class of gradients at theta_0
      does, u . g(s, a) with |u| <= B.
    - 'ellipsoid', PC-PG: phi' (Sigma + ridge I)^-1 phi >= (beta / epsilon)^2.
    - 'none': no pair.
    """
    kind, functions, features = exploration.kind, exploration.functions, exploration.features
    if kind == "none":
        return np.zeros(functions.shape, bool)
    epsilon, beta = exploration.epsilon, exploration.beta
    if features.shape[-1] == 0:
        return functions.widths(counts, epsilon, beta) >= beta
    queries, _ = in_few_dimensions(features.reshape(-1, features.shape[-1]))
    gram = queries.T @ (queries * np.ravel(counts)[:, None])
    if kind == "width":
        widths = linear_widths(queries, gram, epsilon, exploration.norm_bound)
    else:
        regular = gram + exploration.ridge * np.eye(len(gram))
        norms = np.einsum("qd,dq->q", queries, np.linalg.solve(regular, queries.T))
        widths = epsilon * np.sqrt(np.maximum(norms, 0.0))
    return (widths >= beta).reshape(functions.shape)


def log_det_weights(
    visits: Int[np.ndarray, "n states actions"],
    features: Float[np.ndarray, "states actions dim"],
) -> Float[np.ndarray, " n"]:
    """PC-PG's weights of the n policies, from the covariances of their own samples."""
    shares = visits / visits.sum(axis=(1, 2), keepdims=True)
    rows, _ = in_few_dimensions(features.reshape(-1, features.shape[-1]))
    covariances = [rows.T @ (rows * share[:, None]) for share in shares.reshape(len(visits), -1)]
    return log_det(np.stack(covariances))


def log_det(
    covariances: Float[np.ndarray, "n dim dim"], num_steps: int = 200
) -> Float[np.ndarray, " n"]:
    """`eniac.cover.log_det` in float64 NumPy: here n differs from epoch to epoch, and JAX would
    compile each of them."""
    num, dim, _ = covariances.shape
    covariances = covariances / max(float(np.abs(covariances).max()), 1e-300)
    weights = np.full(num, 1 / num)
    for _ in range(num_steps):
        mixed = np.tensordot(weights, covariances, axes=1) + 1e-7 * np.eye(dim)
        precision = np.linalg.inv(mixed)
        weights = weights * np.tensordot(covariances, precision, axes=([1, 2], [1, 0])) / dim
        weights /= weights.sum()
    return weights


def rescale_rewards(reward: Table, how: Rewards) -> Table:
    """The rewards that are learned from.

    'refuse' takes rewards in [0, 1] only, as the theorems do. 'scale' divides by the largest
    absolute reward if that is above one, and leaves negative rewards negative: nothing is paid
    where nothing was. 'shift' maps the range onto [0, 1], and then dead and absorbing states pay
    for as long as an episode lasts: the theorems hold, and the noise of returns grows many times.
    """
    low, high = float(reward.min()), float(reward.max())
    if how == "shift" and high > low:
        return (reward - low) / (high - low)
    largest = float(np.abs(reward).max())
    if how == "scale" and largest > 1:
        return reward / largest
    if how != "scale" and (low < 0 or high > 1):
        raise ConfigError(
            f"its rewards lie in [{low:g}, {high:g}]; the theorems have them in [0, 1]. Choose "
            "--rewards scale, which divides by the largest and keeps zero zero, or --rewards "
            "shift, which maps the range onto [0, 1]. Values are reported in the original units."
        )
    return np.array(reward)
