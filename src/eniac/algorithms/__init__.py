"""All algorithms, as rows of one table over one loop (`eniac.algorithm1`)."""

from __future__ import annotations

from eniac.algorithms.deep import DEEP, DeepSpec
from eniac.errors import ConfigError, shown, suggestion
from eniac.provable.table import PROVABLE, ProvableSpec

ALGORITHMS: dict[str, DeepSpec | ProvableSpec] = {row.name: row for row in DEEP} | PROVABLE


def find_algorithm(name: str) -> DeepSpec | ProvableSpec:
    """The row of the table with this name, or a `ConfigError` with the nearest."""
    if name not in ALGORITHMS:
        raise ConfigError(
            f"algorithm.name is {shown(name)}; no algorithm has that name."
            f"{suggestion(name, ALGORITHMS)} `eniac list algorithms` shows them all."
        )
    return ALGORITHMS[name]
