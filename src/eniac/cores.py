"""How many cores there are to work with."""

from __future__ import annotations

import os


def num_cores() -> int:
    """Cores that this process may use: fewer than there are in a container or under taskset."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
