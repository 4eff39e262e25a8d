"""Settings that work, environment by environment (docs/spi.md has the measurements)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eniac.envs.registry import find

if TYPE_CHECKING:
    from eniac.provable.settings import Provable


def preset(parts: Provable, env: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `parts` leaves open, for the environment `env`; None if eniac knows nothing of it.

    A pair that is barely known has about M m / (n K) samples in a fit: it should have a few, so M
    grows with N. gamma is about 1 - 1/H for a task that takes H steps, because returns that stop
    geometrically are as noisy as they are long.
    """
    try:
        entry, parameters = find(env, dict(options))
    except (ValueError, TypeError):
        return None
    size = parameters.get(entry.size or "", entry.parameters.get(entry.size or "", 0))
    compute = parts.version == "compute"
    if entry.id == "DeepSea-v0":
        chosen = deep_sea(int(size))
    elif entry.id == "CombinationLock-v0":
        chosen = lock(int(size))
    elif entry.id == "RiverSwim-v0":
        chosen = {"gamma": 0.95, "N": 6, "K": 1000, "T": 20, "M": 8000, "eta": 10.0}
    elif entry.id in ("Chain-v0", "RandomMDP-v0", "LinearMDP-v0"):
        chosen = {"gamma": 0.9, "N": 10, "K": 1000, "T": 20, "M": 4000, "eta": 10.0}
    else:
        return None
    chosen = {"m": 10.0, "alpha": 0.1, "rewards": "refuse"} | chosen
    if compute:
        chosen["K"] *= 4
    return chosen


def deep_sea(size: int) -> dict[str, Any]:
    """The sea deepens by a row an epoch at worst."""
    chosen = {"rewards": "scale", "eta": 100.0, "gamma": 1 - 1 / max(size, 2)}
    if size <= 10:
        return chosen | {"N": size + 2, "K": 1000, "T": 20, "M": 500}
    return chosen | {"N": size + 5, "K": 100 * size, "T": 30, "M": 100 * size}


def lock(length: int) -> dict[str, Any]:
    """Both locks are learned, a digit an epoch, and ten actions share the samples."""
    chosen = {"rewards": "scale", "eta": 100.0, "gamma": 0.9}
    if length <= 5:
        return chosen | {"N": 16, "K": 5000, "T": 20, "M": 10_000}
    return chosen | {"N": 25, "K": 1000 * length, "T": 30, "M": 2000 * length}
