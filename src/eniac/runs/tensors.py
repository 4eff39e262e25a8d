"""Named arrays and a little JSON in one safetensors file, with a checksum over all of it.

Loading such a file executes nothing, and asks for no more memory than the file itself has bytes:
its header is looked at first, whose offsets must cover the file exactly. The checksum is there
because a flipped bit in an array is otherwise a valid array, and training would go on from it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import equinox as eqx
import jax
import numpy as np
from safetensors.numpy import save

from eniac.errors import CheckpointError, RunError, name_shown, shown
from eniac.memory import require_memory
from eniac.runs.files import write_atomically
from eniac.runs.reading import open_file, parse_json, reason

MAX_HEADER = 16 * 2**20
"""Bytes of the largest header: some hundred of them an array, and a few a seed."""

TYPES: dict[str, str] = {
    "BOOL": "bool",
    **{
        f"{sign}{bits}": f"{kind}{bits}"
        for bits in (8, 16, 32, 64)
        for sign, kind in (("I", "int"), ("U", "uint"))
    },
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
"""The types of arrays that are written, by their names in the file. It knows others, which NumPy
does not."""


class Spec(NamedTuple):
    """The shape and type of an array."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype} of shape {shown(self.shape)}"


class Header(NamedTuple):
    """What a file says of itself before its arrays begin."""

    specs: dict[str, Spec]
    """of the arrays, in the order in which they stand in the file"""
    note: dict[str, Any]
    sha256: str


def write_tensors(path: Path, arrays: dict[str, np.ndarray], note: dict[str, Any]) -> None:
    """Writes `arrays` and the JSON-able `note` to `path`, atomically."""
    write_atomically(path, tensor_bytes(arrays, note))


def tensor_bytes(arrays: dict[str, np.ndarray], note: dict[str, Any]) -> bytes:
    """The file that `write_tensors` writes."""
    header = {"note": note, "sha256": _digest(arrays, note)}
    # One entry only: safetensors writes several in an order that changes from file to file.
    return save(arrays, metadata={"eniac": _text(header)})


def read_tensors(
    path: Path, like: Any = None, follow: bool = True
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `write_tensors` wrote. Raises `CheckpointError` if a single bit of it has changed, or if
    it has NaN or infinity, which is not written.

    `like` is a tree of arrays, or of their shapes: a file of other arrays is refused before they
    are read. A symbolic link is followed, unless `follow` is False.
    """
    with _open(path, follow) as file:
        header = _read_header(file, path)
        if like is not None:
            check_fits(like, header.specs, path)
        try:
            size = sum(spec.nbytes for spec in header.specs.values())
            require_memory({"its arrays": size}, "reading it")
            arrays = {
                name: np.fromfile(file, spec.dtype, math.prod(spec.shape)).reshape(spec.shape)
                for name, spec in header.specs.items()
            }
        except (OSError, ValueError, MemoryError) as error:
            raise CheckpointError(f"{path} cannot be read: {reason(error)}.") from error
    if _digest(arrays, header.note) != header.sha256:
        raise CheckpointError(f"{path} is damaged: its content does not match its checksum.")
    wrong = [name for name, x in arrays.items() if x.dtype.kind == "f" and not np.isfinite(x).all()]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise CheckpointError(
            f"{path} has NaN or infinity in {', '.join(map(name_shown, wrong[:3]))}{more}: nothing "
            "can be computed with it."
        )
    return arrays, header.note


def read_header(path: Path, follow: bool = True) -> Header:
    """What the file at `path` says of its arrays. None of them is read."""
    with _open(path, follow) as file:
        return _read_header(file, path)


def _open(path: Path, follow: bool) -> BinaryIO:
    try:
        return open_file(path, follow)
    except FileNotFoundError:
        raise CheckpointError(f"{path} does not exist.") from None
    except RunError as error:
        raise CheckpointError(str(error)) from error


def _read_header(file: BinaryIO, path: Path) -> Header:
    """The header of an open file, which then stands at the first array."""
    try:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER):
            raise ValueError(f"its header has {length:,} bytes, the whole file {size:,}")
        table = parse_json(file.read(length))
        about = table.pop("__metadata__", None) if isinstance(table, dict) else None
        if not isinstance(about, dict) or about.keys() != {"eniac"}:
            raise CheckpointError(f"{path} was not written by eniac, or its header is damaged.")
        if not isinstance(about["eniac"], str):
            raise ValueError("its note is no text")
        ours = parse_json(about["eniac"].encode())
        if not isinstance(ours, dict) or ours.keys() != {"note", "sha256"}:
            raise ValueError("its note has not what eniac writes")
        if not isinstance(ours["note"], dict):
            raise ValueError("its note is no table")
        return Header(_specs(table, size - 8 - length), ours["note"], ours["sha256"])
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {reason(error)}.") from error


def _specs(table: dict[str, Any], num_bytes: int) -> dict[str, Spec]:
    """The arrays of a header's table, which must lie one after another in `num_bytes` bytes."""
    found: list[tuple[int, str, Spec]] = []
    for name, entry in table.items():
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"the array {shown(name)} has not what describes one")
        dtype, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in TYPES:
            raise ValueError(f"the array {shown(name)} is of the type {shown(dtype)}")
        if not _is_sizes(shape) or len(shape) > 32 or not _is_sizes(place) or len(place) != 2:
            raise ValueError(f"the shape or place of the array {shown(name)} is no list of sizes")
        spec = Spec(tuple(shape), TYPES[dtype])
        if place[1] - place[0] != spec.nbytes:
            raise ValueError(f"the array {shown(name)} has not the size of its shape")
        found.append((place[0], name, spec))
    found.sort(key=lambda each: (each[0], each[2].nbytes))
    end = 0
    for start, name, spec in found:
        if start != end:
            raise ValueError(f"the array {shown(name)} does not begin where the last one ends")
        end += spec.nbytes
    if end != num_bytes:
        raise ValueError(f"its arrays have {end:,} bytes, and there are {num_bytes:,}")
    return {name: spec for _, name, spec in found}


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) is int and 0 <= x < 2**63 for x in value)


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
    found = {name: Spec(array.shape, str(array.dtype)) for name, array in arrays.items()}
    check_fits(like, found, path)
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


def check_fits(like: Any, found: dict[str, Spec], path: Path | None) -> None:
    """Refuses arrays other than those of `like`, with the differences in a `CheckpointError`."""
    expected = {name: _spec(leaf) for name, leaf in _named_leaves(like)}
    differences = [
        f"{name_shown(name)}: expected {expected.get(name, 'nothing')}, "
        f"found {found.get(name, 'nothing')}"
        for name in [*expected, *(name for name in found if name not in expected)]
        if expected.get(name) != found.get(name)
    ]
    if differences:
        more = f"; and {len(differences) - 8} more" if len(differences) > 8 else ""
        raise CheckpointError(
            f"{path or 'The state'} does not fit its configuration: "
            f"{'; '.join(differences[:8])}{more}."
        )


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


def _spec(leaf: Any) -> Spec:
    data = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    return Spec(tuple(data.shape), str(data.dtype))


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, allow_nan=False)


def _digest(arrays: dict[str, np.ndarray], note: dict[str, Any]) -> str:
    digest = hashlib.sha256(_text(note).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
