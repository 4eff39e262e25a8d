"""Named arrays and a little JSON in one safetensors file, with a checksum over all of it.

Loading such a file executes nothing. The checksum is there because a flipped bit in an array is
otherwise a valid array, and training would go on from it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from eniac.errors import CheckpointError
from eniac.runs.files import write_atomically


def write_tensors(path: Path, arrays: dict[str, np.ndarray], note: dict[str, Any]) -> None:
    """Writes `arrays` and the JSON-able `note` to `path`, atomically."""
    header = {"note": note, "sha256": _digest(arrays, note)}
    # One entry only: safetensors writes several in an order that changes from file to file.
    write_atomically(path, save(arrays, metadata={"eniac": _text(header)}))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `write_tensors` wrote. Raises `CheckpointError` if a single bit of it has changed."""
    try:
        with safe_open(path, framework="np") as file:
            header = json.loads((file.metadata() or {}).get("eniac", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    if not isinstance(header, dict) or header.keys() != {"note", "sha256"}:
        raise CheckpointError(f"{path} was not written by eniac, or its header is damaged.")
    if _digest(arrays, header["note"]) != header["sha256"]:
        raise CheckpointError(f"{path} is damaged: its content does not match its checksum.")
    return arrays, header["note"]


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of `tree` by the names of their paths; random keys as their raw data."""
    named = {}
    for name, leaf in _named_leaves(tree):
        data = jax.random.key_data(leaf) if _is_key(leaf) else leaf
        # Not ascontiguousarray, which would make scalars one-dimensional.
        named[name] = np.array(data, order="C")
    return named


def unflatten(like: Any, arrays: dict[str, np.ndarray], path: Path | None) -> Any:
    """`like`, a tree of arrays or of their shapes, with the values of `arrays`.

    Raises `CheckpointError` with the differences if names, shapes or types are not the same.
    """
    expected = {name: _shape_and_dtype(leaf) for name, leaf in _named_leaves(like)}
    found = {name: (array.shape, str(array.dtype)) for name, array in arrays.items()}
    differences = [
        f"  {name}: expected {_words(expected.get(name))}, found {_words(found.get(name))}"
        for name in [*expected, *(name for name in found if name not in expected)]
        if expected.get(name) != found.get(name)
    ]
    if differences:
        shown = differences[:8] + ["  ..."] * (len(differences) > 8)
        name = path or "The state"
        raise CheckpointError(f"{name} does not fit its configuration:\n" + "\n".join(shown))
    dynamic, static = eqx.partition(like, _is_array)
    names = [name for name, _ in _named_leaves(like)]
    leaves, structure = jax.tree.flatten(dynamic)
    values = [
        jax.random.wrap_key_data(jax.numpy.asarray(arrays[name]), impl=_key_impl(leaf))
        if _is_key(leaf)
        # A learner on the host has 64-bit numbers, which JAX would make 32 bits of.
        else arrays[name]
        if isinstance(leaf, np.ndarray)
        else jax.numpy.asarray(arrays[name])
        for name, leaf in zip(names, leaves, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(structure, values), static)


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, _is_array))
    return [
        (jax.tree_util.keystr(path, simple=True, separator=".") or "value", leaf)
        for path, leaf in leaves
    ]


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct | np.ndarray)


def _is_key(leaf: Any) -> bool:
    return jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _key_impl(leaf: Any) -> Any:
    return jax.random.key_impl(leaf) if isinstance(leaf, jax.Array) else leaf.dtype._impl


def _shape_and_dtype(leaf: Any) -> tuple[tuple[int, ...], str]:
    data = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    return tuple(data.shape), str(data.dtype)


def _words(spec: tuple[tuple[int, ...], str] | None) -> str:
    return "nothing" if spec is None else f"{spec[1]} of shape {spec[0]}"


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, allow_nan=False)


def _digest(arrays: dict[str, np.ndarray], note: dict[str, Any]) -> str:
    digest = hashlib.sha256(_text(note).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
