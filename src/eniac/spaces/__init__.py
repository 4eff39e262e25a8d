"""Gymnasium spaces as arrays: the one place that knows how an element of a space is stored, read
by a network, drawn, sent to an environment and written to a file.

An element of a space has three forms here. The environment's own, whatever its space says. The
stored one: arrays of JAX's 32-bit types, in plain dicts and tuples (`empty`, `canonical`). And the
encoded one: a single vector of floats (`Encoder`), which is what networks, kernels and bonuses
read. A policy emits an action as an element of `emitted(space)`, flat and counted from 0, and
`to_env` makes of it what `env.step` takes.
"""

from eniac.spaces.base import LARGEST, Path, Space, Spaces, leaves
from eniac.spaces.encoding import Encoder, Image, PairEncoder, Part, check_spaces
from eniac.spaces.files import from_json, to_json
from eniac.spaces.given import read
from eniac.spaces.stored import (
    action_bounds,
    canonical,
    element_bytes,
    emitted,
    empty,
    from_env,
    stored_dtype,
    to_env,
)

__all__ = [
    "LARGEST",
    "Encoder",
    "Image",
    "PairEncoder",
    "Part",
    "Path",
    "Space",
    "Spaces",
    "action_bounds",
    "canonical",
    "check_spaces",
    "element_bytes",
    "emitted",
    "empty",
    "from_env",
    "from_json",
    "leaves",
    "read",
    "stored_dtype",
    "to_env",
    "to_json",
]
