"""A policy that was exported by eniac, in NumPy alone: it needs neither eniac nor JAX.

    from policy import load

    policy = load()  # from the files beside this one; or load(folder)
    action = policy(observation)  # what env.step takes; for a batch of observations, a batch

It reads `policy.safetensors`, the numbers, and `policy.json`, what is done with them. Nothing that
is in them is executed.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1


class Policy:
    """What an observation is answered with. `rng` draws the actions that are not deterministic."""

    def __init__(self, tensors: dict[str, np.ndarray], layout: dict[str, Any]):
        self.tensors, self.layout = tensors, layout
        self.rng = np.random.default_rng()

    def __call__(self, observations: Any, deterministic: bool | None = True) -> Any:
        """The action for an observation, or the actions for a batch of them.

        An observation is an array, a number, a list, or a dict or tuple of these; a batch has one
        more axis in front. The action is the most likely one if `deterministic`, a random one if
        not, and with None whichever way the policy was judged best.
        """
        parts, one = self._read(observations)
        found = self._distribution(parts)
        likeliest = self.layout["deterministic"] if deterministic is None else deterministic
        actions = self._to_env(self._choose(found, likeliest))
        if not one:
            return actions
        # Of a Box without axes NumPy would make a scalar, which is no element of it.
        return actions[0, ...] if self.layout["action"]["kind"] == "Box" else actions[0]

    def distribution(self, observations: Any) -> dict[str, np.ndarray]:
        """What the actions are drawn from: `mean` and `std`, `logits`, or `probabilities`."""
        parts, one = self._read(observations)
        return {name: x[0, ...] if one else x for name, x in self._distribution(parts).items()}

    def _read(self, observations: Any) -> tuple[list[np.ndarray], bool]:
        """The arrays of a batch of observations, and whether it was one and no batch."""
        arrays, sizes = [], set()
        for part in self.layout["parts"]:
            x, named = observations, "/".join(map(str, part["path"])) or "the observation"
            for key in part["path"]:
                try:
                    x = x[key]
                except (KeyError, IndexError, TypeError):
                    raise ValueError(f"the observation has no {named!r}.") from None
            x, shape = np.asarray(x), tuple(part["shape"])
            if x.dtype.kind not in "biuf" or shape not in (x.shape, x.shape[1:]):
                raise ValueError(
                    f"{named} is {x.dtype} of shape {x.shape}; it must be numbers of shape {shape},"
                    " or a batch of such."
                )
            if x.dtype.kind == "f" and np.isnan(x).any():
                raise ValueError(f"{named} has NaN in it.")
            sizes.add(None if x.shape == shape else len(x))
            arrays.append(x[None] if x.shape == shape else x)
        if len(sizes) > 1:
            raise ValueError("the observation is one in some parts and a batch in others.")
        return arrays, sizes == {None}

    def _distribution(self, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        if "probabilities" in self.tensors:
            numbers, table = arrays[0].astype(np.int64), self.tensors["probabilities"]
            if not np.all((numbers >= 0) & (numbers < len(table))):
                raise ValueError(f"the number of a state is not in 0..{len(table) - 1}.")
            return {"probabilities": table[numbers]}
        with np.errstate(over="ignore", invalid="ignore"):
            pairs = zip(self.layout["parts"], arrays, strict=True)
            x = np.concatenate([self._encode(part, array) for part, array in pairs], axis=1)
            for i in range(self.layout["layers"]):
                x = np.maximum(self._linear(f"body.layers.{i}", x), 0)
            return self._law(self._linear("action_head", x))

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def _encode(self, part: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """The numbers that the first layer reads of one array."""
        if part["kind"] == "one-hot":
            return _one_hot(part, x.reshape((len(x), -1)))
        if part["kind"] == "image":
            x = np.moveaxis(x, 1, -1) if part["channels_first"] else x
            x = x.astype(np.float32) / np.float32(part["largest"])
            for i, (stride, padding) in enumerate(part["convolutions"]):
                name = f"body.torsos.{part['torso']}.layers.{i}"
                weight, bias = (self.tensors[f"{name}.{y}"] for y in ("weight", "bias"))
                x = np.maximum(_convolve(x, weight, stride, padding) + bias, 0)
            return x.reshape((len(x), -1))
        x = x.astype(np.float32).reshape((len(x), -1))
        if part["kind"] == "box" and self.tensors.get("normaliser.count", 0) > 0:
            place = slice(part["start"], part["start"] + part["size"])
            mean, variance = (self.tensors[f"normaliser.{y}"][place] for y in ("mean", "variance"))
            x = np.clip((x - mean) / np.sqrt(variance + np.float32(1e-8)), -10, 10)
        return x

    def _law(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """What the outputs of the last layer mean."""
        action = self.layout["action"]
        if action["kind"] in ("Discrete", "MultiDiscrete"):
            return {"logits": outputs}
        shape = (len(outputs), *action["shape"])
        if action["kind"] == "MultiBinary":
            return {"logits": outputs.reshape(shape)}
        low, high = (np.asarray(action[x], np.float32) for x in ("scaled_low", "scaled_high"))
        half = (high - low) / 2
        mean = np.where(action["bounded"], (low + high) / 2 + half * np.tanh(outputs), outputs)
        std = half * np.logaddexp(self.tensors["std_parameter"], np.float32(0))
        return {"mean": mean.reshape(shape), "std": np.broadcast_to(std, mean.shape).reshape(shape)}

    def _choose(self, found: dict[str, np.ndarray], deterministic: bool) -> np.ndarray:
        """Actions as the policy counts them: choices from 0, and a Box without bounds."""
        kind = self.layout["action"]["kind"]
        if kind == "Box":
            mean, std = found["mean"], found["std"]
            return mean if deterministic else self.rng.normal(mean, std).astype(np.float32)
        with np.errstate(divide="ignore"):  # log(0) is never drawn
            logits = found["logits"] if "logits" in found else np.log(found["probabilities"])
        if kind == "MultiBinary":
            noise = 0 if deterministic else self.rng.logistic(size=logits.shape)
            return logits + noise > 0
        noise = 0 if deterministic else self.rng.gumbel(size=logits.shape)
        if kind == "Discrete":
            return np.argmax(logits + noise, axis=1)
        ends = np.cumsum(self.layout["action"]["nvec"])[:-1]
        return np.stack([np.argmax(x, axis=1) for x in np.split(logits + noise, ends, axis=1)], 1)

    def _to_env(self, x: np.ndarray) -> np.ndarray:
        """What the environment takes: in its type, counted from its start, inside of its box."""
        action = self.layout["action"]
        dtype, shape = np.dtype(action["dtype"]), (len(x), *action["shape"])
        if action["kind"] == "Box":
            number = dtype if dtype.kind == "f" else np.float64
            low, high = (np.asarray(action[y], number).reshape(shape[1:]) for y in ("low", "high"))
            x = np.clip(x.astype(number), low, high)
            x = x if dtype.kind == "f" else np.rint(x)
        elif action["kind"] != "MultiBinary":
            x = x + np.asarray(action["start"])  # one, or one for each choice
        return np.asarray(x, dtype).reshape(shape)


def _one_hot(part: dict[str, Any], x: np.ndarray) -> np.ndarray:
    nvec, x = np.asarray(part["nvec"]), x - np.asarray(part["lowest"])
    if not np.all((x >= 0) & (x < nvec) & (x == np.rint(x))):
        raise ValueError(
            f"{'/'.join(map(str, part['path'])) or 'the observation'} is no element of its space, "
            f"which has {part['nvec']} whole numbers from {part['lowest']} on."
        )
    codes = np.zeros((len(x), int(nvec.sum())), np.float32)
    places = x.astype(np.int64) + np.cumsum(nvec) - nvec
    np.put_along_axis(codes, places, np.float32(1), axis=1)
    return codes


def _convolve(x: np.ndarray, weight: np.ndarray, stride: int, padding: str) -> np.ndarray:
    """Pictures [batch, height, width, channels] through filters [side, side, channels, outputs]."""
    side = weight.shape[0]
    if padding == "SAME":
        missing = [max((math.ceil(n / stride) - 1) * stride + side - n, 0) for n in x.shape[1:3]]
        x = np.pad(x, [(0, 0), *((n // 2, n - n // 2) for n in missing), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), (1, 2))
    windows = windows[:, ::stride, ::stride]  # [batch, height, width, channels, side, side]
    return np.tensordot(windows, weight, axes=((3, 4, 5), (2, 0, 1)))


def load(folder: str | Path | None = None) -> Policy:
    """The policy that was exported to `folder`, by default the one that this file is in.

    **Raises** ValueError if a file of it is damaged, of another policy or of another version.
    """
    folder = Path(__file__).parent if folder is None else Path(folder)
    layout = json.loads((folder / "policy.json").read_text("utf-8"))
    if layout.get("format") != FORMAT:
        raise ValueError(
            f"{folder / 'policy.json'} is of format {layout.get('format')!r}, and this policy.py "
            f"reads {FORMAT}: take the one that was exported with it."
        )
    content = (folder / "policy.safetensors").read_bytes()
    if hashlib.sha256(content).hexdigest() != layout["sha256"]:
        raise ValueError(
            f"{folder / 'policy.safetensors'} is damaged, or is not the one that policy.json was "
            "exported with."
        )
    return Policy(read_safetensors(content), layout)


def read_safetensors(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file of 32-bit floats: the length of a header, the header in
    JSON, and the numbers, little end first."""
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] != "F32":
            raise ValueError(f"the tensor {name!r} is of the type {entry['dtype']}, and not F32.")
        first, last = entry["data_offsets"]
        tensors[name] = np.frombuffer(content[start + first : start + last], "<f4").reshape(
            entry["shape"]
        )
    return tensors
