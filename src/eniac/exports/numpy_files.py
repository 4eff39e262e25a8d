"""A policy as a Python file that needs NumPy alone, and a description of what it computes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces as gym

from eniac.exports import numpy_policy
from eniac.exports.comparison import Answers, require_same
from eniac.policies import ActorCritic, BoxActions
from eniac.runs.files import json_bytes
from eniac.spaces import Part, Space, Spaces, action_bounds, leaves


def numpy_files(
    policy: Any, spaces: Spaces, tensors: bytes, deterministic: bool
) -> dict[str, bytes]:
    """`policy.py` and `policy.json` for a policy whose safetensors file is `tensors`.

    **Raises** `RunError` if they do not act as the policy.
    """
    layout = {
        "format": numpy_policy.FORMAT,
        "sha256": hashlib.sha256(tensors).hexdigest(),
        "deterministic": deterministic,
        "parts": _parts(policy, spaces.observation),
        "layers": len(policy.body.layers) if isinstance(policy, ActorCritic) else 0,
        "action": _action(policy, spaces.action),
    }
    made = numpy_policy.Policy(numpy_policy.read_safetensors(tensors), layout)

    def answer(observations: Any) -> Answers:
        return {**made.distribution(observations), "action": made(observations)}

    require_same("policy.py", answer, policy, spaces)
    source = Path(numpy_policy.__file__).read_bytes()
    return {"policy.py": source, "policy.json": json_bytes(layout)}


def _parts(policy: Any, space: Space) -> list[dict[str, Any]]:
    """How each array of an observation is encoded."""
    shapes = {path: list(leaf.shape or ()) for path, leaf in leaves(space)}
    if not isinstance(policy, ActorCritic):
        return [{"path": [], "shape": []}]
    images = [part for part in policy.encoder.parts if part.kind == "image"]
    return [
        {"path": list(part.path), "shape": shapes[part.path], "kind": part.kind}
        | _part(policy, part, images)
        for part in policy.encoder.parts
    ]


def _part(policy: ActorCritic, part: Part, images: list[Part]) -> dict[str, Any]:
    if part.kind == "one-hot":
        return {"nvec": list(part.nvec), "lowest": list(part.lowest)}
    if part.kind == "image":
        torso = images.index(part)
        layers = policy.body.torsos[torso].layers
        return {
            "channels_first": part.channels_first,
            "largest": part.largest,
            "torso": torso,
            "convolutions": [[layer.stride, layer.padding] for layer in layers],
        }
    return {"start": part.start, "size": part.size}


def _action(policy: Any, space: Space) -> dict[str, Any]:
    """What the outputs of the network mean, and what the environment takes."""
    dtype = np.dtype(space.dtype)
    about = {"shape": list(space.shape or ()), "dtype": dtype.name}
    if isinstance(space, gym.Discrete):
        return about | {"kind": "Discrete", "start": [int(space.start)]}
    if isinstance(space, gym.MultiDiscrete):
        nvec, start = (x.ravel().tolist() for x in (space.nvec, space.start))
        return about | {"kind": "MultiDiscrete", "nvec": nvec, "start": start}
    if isinstance(space, gym.MultiBinary):
        return about | {"kind": "MultiBinary"}
    actions = policy.actions
    assert isinstance(space, gym.Box)
    assert isinstance(actions, BoxActions)
    low, high = (bound.ravel().tolist() for bound in action_bounds(space, dtype))
    scaled_low, scaled_high = (bound.tolist() for bound in actions.box)
    return about | {
        "kind": "Box",
        # Infinity is no number in JSON.
        "low": [x if np.isfinite(x) else str(x) for x in low],
        "high": [x if np.isfinite(x) else str(x) for x in high],
        "bounded": list(actions.bounded),
        "scaled_low": scaled_low,
        "scaled_high": scaled_high,
    }
