"""What the bounds of a box mean. NumPy only: processes that never load JAX ask too."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces as gym


def box_bounds(space: gym.Box) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of a box as 64-bit floats, infinite where they say nothing.

    C++ environments state an unbounded box with the numeric limits of its type: the largest number,
    and as the lowest often the smallest *positive* one (dm_control in EnvPool: 2.2e-308), though
    the observations are negative. Those are no bounds.
    """
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    if space.dtype.kind == "f":
        tiny = 1.2e-38 if space.dtype == np.float32 else 1e-300
        huge = min(1e30, float(np.finfo(space.dtype.name).max))
        no_low = (low > 0) & (low < tiny) | (low <= -huge)
        no_high = high >= huge
    else:
        no_low, no_high = ~space.bounded_below, ~space.bounded_above
    return np.where(no_low, -np.inf, low), np.where(no_high, np.inf, high)
