"""Settings that work, environment by environment (docs/spi.md and docs/npg.md have the results)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eniac.envs.registry import find

if TYPE_CHECKING:
    from eniac.provable.config import Provable


def preset(parts: Provable, env: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `parts` leaves open, for the environment `env`; None if eniac knows nothing of it.

    Rules behind the numbers:

    - A pair that is barely known has about M m / (N K) samples in a fit of the last epoch. It
      should have a few, so M grows with N, and m with K.
    - gamma is about 1 - 1/H for a task of H steps: returns that stop geometrically are as noisy as
      they are long.
    - The compute versions try an unknown action with probability alpha / |A| only: K is larger.
    - NPG on a class that is not linear in its parameters takes small steps, and more of them.
    """
    try:
        entry, parameters = find(env, dict(options))
    except (ValueError, TypeError):
        return None
    size = int(parameters.get(entry.size or "", entry.parameters.get(entry.size or "", 0)) or 0)
    table = {
        "DeepSea-v0": deep_sea,
        "CombinationLock-v0": lock,
        "RiverSwim-v0": lambda parts, _: swim(),
        "Chain-v0": lambda parts, _: swim(),
        "RandomMDP-v0": lambda parts, _: small(),
        "LinearMDP-v0": lambda parts, _: small(),
        "LogisticMDP-v0": lambda parts, _: logistic(parts),
    }
    if entry.id not in table:
        return None
    usual = {"m": 10.0, "alpha": 0.1, "ridge": 0.01, "rewards": "refuse"}
    return usual | table[entry.id](parts, size)


def deep_sea(parts: Provable, size: int) -> dict[str, Any]:
    """The sea deepens by about a row an epoch."""
    chosen: dict[str, Any] = {"rewards": "scale", "eta": 100.0, "gamma": 1 - 1 / max(size, 2)}
    if size <= 10:
        chosen |= {"N": size + 4, "K": 1000, "T": 20, "M": 1000}
    else:
        chosen |= {"N": size + 8, "K": 100 * size, "T": 30, "M": 100 * size}
    if parts.version == "compute":
        chosen |= {"K": 4 * chosen["K"], "M": 4 * chosen["M"], "m": 20.0}
    if parts.update == "npg" and parts.function_class == "network":
        chosen |= {"T": 40, "M": 2 * chosen["M"], "eta": 1.0, "ridge": 1.0}
    return chosen


def lock(parts: Provable, length: int) -> dict[str, Any]:
    """Both locks are learned, a digit an epoch or two, and ten actions share the samples."""
    chosen: dict[str, Any] = {"rewards": "scale", "eta": 100.0, "gamma": 0.9}
    if length <= 5:
        chosen |= {"N": 16, "K": 5000, "T": 20, "M": 10_000}
    else:
        chosen |= {"N": 3 * length, "K": 1000 * length, "T": 20, "M": 1500 * length}
    if parts.version == "compute":
        chosen |= {"K": 4 * chosen["K"], "M": 2 * chosen["M"], "m": 20.0, "alpha": 0.3}
        if parts.update == "npg":
            # Advantages have the noise of two returns, and mixing in alpha leaves little to see.
            chosen |= {"M": 3 * chosen["M"] // 2, "alpha": 0.2}
    return chosen


def swim() -> dict[str, Any]:
    """A long way against the current, and few pairs."""
    return {"gamma": 0.95, "N": 6, "K": 1000, "T": 20, "M": 8000, "eta": 10.0}


def small() -> dict[str, Any]:
    """Everything is within reach; what counts is a critic with little noise."""
    return {"gamma": 0.9, "N": 6, "K": 1000, "T": 20, "M": 8000, "eta": 10.0}


def logistic(parts: Provable) -> dict[str, Any]:
    """Two steps, so a short horizon; gamma = 0.8 is that of its `scale` = 1/(1 - gamma)^2."""
    chosen: dict[str, Any] = {"gamma": 0.8, "N": 6, "K": 5000, "T": 20, "M": 5000, "eta": 20.0}
    if parts.update == "npg" and parts.function_class == "glm":
        # A softmax of logistic functions saturates: long steps end where all actions look alike.
        chosen |= {"N": 5, "T": 60, "eta": 1.0, "ridge": 10.0}
    return chosen
