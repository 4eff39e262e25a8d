"""Settings that work: measured ones for the environments of this package, rules for all others.

docs/spi.md and docs/npg.md have the results of the measured ones. The rules that they were found to
follow, and that settle everything for an MDP they do not know, are those of `by_rule`:

- `H`, the length of the task, is how long it takes to the state that is hardest to reach from a
  start, if a step to s' takes 1 / max_a P(s' | s, a) tries; no more than the time limit.
- gamma = 1 - 1/H, within [0.8, 0.99]: returns that stop geometrically are as noisy as they are
  long. From here on H is 1/(1 - gamma), also where gamma was given.
- N = depth (1 + log2(|A|) / 2), within [6, 50], where depth counts the steps to the farthest state:
  what is known deepens by about a step an epoch, and by less where few actions lead on.
- K = 50 |A| H, or more if N K would be below 70 |S| |A|; within [1000, 50000]. A state at the edge
  of what is known has about a share 1/(e H) of the samples, and each of its actions needs m = 10.
- M = K max(1, N/16), and twice that where transitions are random: a pair that is barely known has
  about M m / (N K) samples in a fit of the last epoch, and T fits are added up.
- T = 100 updates with eta = 100. A cost that is a hundredth of the largest reward counts as much as
  that, once all updates are added up; fewer do where rewards are of one size.
- The compute versions try an unknown action with probability alpha / |A| only: K and M are four
  times and twice as large, m = 20, and alpha is 0.1, or 0.2 for more than four actions.
- NPG on a class that is not linear in its parameters takes small steps, and more of them.
- Rewards outside [0, 1] are divided by the largest.

Where the way of the uniform policy is much dearer than that of a good one, as along the cliff of
CliffWalking-v1, T updates only just make up for the first of them: SPI is near the optimum there,
while NPG, whose advantages have the noise of two returns, takes a larger T.

What is given by hand stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from eniac.envs.mdp import TabularMDP
from eniac.envs.registry import find

if TYPE_CHECKING:
    from eniac.provable.config import ProvableConfig

_MOST_STARTS = 100  # start states that distances are measured from


def settings_for(
    config: ProvableConfig,
    mdp: TabularMDP,
    horizon: int | None,
    env_name: str,
    env_options: Mapping[str, Any],
) -> dict[str, Any]:
    """gamma, N, K, T, M, eta, m, alpha, ridge and rewards for `config` on this MDP: measured ones
    if the environment called `env_name` has them, else by rule."""
    measured = preset(config, env_name, env_options)
    return by_rule(config, mdp, horizon) if measured is None else measured


def by_rule(config: ProvableConfig, mdp: TabularMDP, horizon: int | None) -> dict[str, Any]:
    """Settings from the table itself, by the rules above."""
    steps, tries = distances(mdp)
    length = tries if horizon is None else min(tries, horizon)
    gamma = config.gamma or min(max(1 - 1 / max(length, 1.0), 0.8), 0.99)
    pairs, actions, length = mdp.reward.size, mdp.num_actions, 1 / (1 - gamma)
    N = config.N or min(max(math.ceil(steps * (1 + math.log2(actions) / 2)), 6), 50)
    K = min(max(50 * actions * length, 70 * pairs / N, 1000), 50_000)
    chosen: dict[str, Any] = {"gamma": gamma, "N": N, "T": 100, "eta": 100.0, "m": 10.0}
    chosen |= {"alpha": 0.1 if actions <= 4 else 0.2, "ridge": 0.01}
    if config.version == "compute":
        chosen |= {"m": 20.0}
        K *= 4
    K = config.K or round(K)
    M = K * max(1, N / 16) * (2 if _random(mdp) else 1) / (2 if config.version == "compute" else 1)
    chosen |= {"K": K, "M": math.ceil(M)}
    if config.update == "npg" and config.function_class == "network":
        chosen |= {"eta": 1.0, "ridge": 1.0}
    if config.update == "npg" and config.function_class == "glm":
        chosen |= {"eta": 1.0, "ridge": 10.0}
    inside = mdp.reward.min() >= 0 and mdp.reward.max() <= 1
    return chosen | {"rewards": "refuse" if inside else "scale"}


def _random(mdp: TabularMDP) -> bool:
    return bool(np.any(mdp.transition.max(axis=2) < 1))


def distances(mdp: TabularMDP) -> tuple[int, float]:
    """How far the farthest state is from a start from which it can be reached: in steps, and in
    tries, of which a step to s' takes 1 / max_a P(s' | s, a)."""
    likely = mdp.transition.max(axis=1)
    source, target = np.nonzero(likely)
    tries = coo_array((1 / likely[source, target], (source, target)), shape=likely.shape).tocsr()
    starts = np.flatnonzero(mdp.start)
    if len(starts) > _MOST_STARTS:
        starts = starts[np.linspace(0, len(starts) - 1, _MOST_STARTS).astype(int)]
    found = []
    for unweighted in (True, False):
        far = dijkstra(tries, indices=starts, unweighted=unweighted)
        found.append(float(far[np.isfinite(far)].max()))
    return int(found[0]), found[1]


def preset(config: ProvableConfig, env: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Settings measured on the environment called `env`; None if there are none."""
    try:
        entry, parameters = find(env, dict(options))
    except (ValueError, TypeError):
        return None
    size = int(parameters.get(entry.size or "", entry.parameters.get(entry.size or "", 0)) or 0)
    table = {
        "DeepSea-v0": deep_sea,
        "CombinationLock-v0": lock,
        "RiverSwim-v0": lambda config, _: swim(),
        "Chain-v0": lambda config, _: swim(),
        "RandomMDP-v0": lambda config, _: small(),
        "LinearMDP-v0": lambda config, _: small(),
        "LogisticMDP-v0": lambda config, _: logistic(config),
    }
    if entry.id not in table:
        return None
    usual = {"m": 10.0, "alpha": 0.1, "ridge": 0.01, "rewards": "refuse"}
    return usual | table[entry.id](config, size)


def deep_sea(config: ProvableConfig, size: int) -> dict[str, Any]:
    """The sea deepens by about a row an epoch."""
    chosen: dict[str, Any] = {"rewards": "scale", "eta": 100.0, "gamma": 1 - 1 / max(size, 2)}
    if size <= 10:
        chosen |= {"N": size + 4, "K": 1000, "T": 20, "M": 1000}
    else:
        chosen |= {"N": size + 8, "K": 100 * size, "T": 30, "M": 100 * size}
    if config.version == "compute":
        chosen |= {"K": 4 * chosen["K"], "M": 4 * chosen["M"], "m": 20.0}
    if config.update == "npg" and config.function_class == "network":
        chosen |= {"T": 40, "M": 2 * chosen["M"], "eta": 1.0, "ridge": 1.0}
    return chosen


def lock(config: ProvableConfig, length: int) -> dict[str, Any]:
    """Both locks are learned, a digit an epoch or two, and ten actions share the samples."""
    chosen: dict[str, Any] = {"rewards": "scale", "eta": 100.0, "gamma": 0.9}
    if length <= 5:
        chosen |= {"N": 16, "K": 5000, "T": 20, "M": 10_000}
    else:
        chosen |= {"N": 3 * length, "K": 1000 * length, "T": 20, "M": 1500 * length}
    if config.version == "compute":
        chosen |= {"K": 4 * chosen["K"], "M": 2 * chosen["M"], "m": 20.0, "alpha": 0.3}
        if config.update == "npg":
            # Advantages have the noise of two returns, and mixing in alpha leaves little to see.
            chosen |= {"M": 3 * chosen["M"] // 2, "alpha": 0.2}
    return chosen


def swim() -> dict[str, Any]:
    """A long way against the current, and few pairs."""
    return {"gamma": 0.95, "N": 6, "K": 1000, "T": 20, "M": 8000, "eta": 10.0}


def small() -> dict[str, Any]:
    """Everything is within reach; what counts is a critic with little noise."""
    return {"gamma": 0.9, "N": 6, "K": 1000, "T": 20, "M": 8000, "eta": 10.0}


def logistic(config: ProvableConfig) -> dict[str, Any]:
    """Two steps, so a short horizon; gamma = 0.8 is that of its `scale` = 1/(1 - gamma)^2."""
    chosen: dict[str, Any] = {"gamma": 0.8, "N": 6, "K": 5000, "T": 20, "M": 5000, "eta": 20.0}
    if config.update == "npg" and config.function_class == "glm":
        # A softmax of logistic functions saturates: long steps end where all actions look alike.
        chosen |= {"N": 5, "T": 60, "eta": 1.0, "ridge": 10.0}
    return chosen
