"""Folders that somebody made to do harm, or that an accident left: policies and runs.

`POLICIES` and `RUNS` have a function for each, by its name, which spoils a good folder. Whatever is
in it, loading it must execute nothing, wait for nothing, and end in one line. `NAMED` are policies
that name code where nothing looks: those load as if it were not there.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import unittest.mock
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np

from eniac import Config
from eniac.algorithms import ALGORITHMS
from eniac.policies import actor_critic
from eniac.runs.export import POLICY
from eniac.runs.tensors import flatten, write_tensors
from eniac.spaces import to_json

CANARY = "malicious_canary"
"""A module that must never be imported. `plant` puts it into a folder."""

Spoil = Callable[[Path], Any]
GIB = 2**30


def plant(folder: Path) -> Path:
    """Writes the canary, which leaves a file beside it when it is imported, or called."""
    mark = folder / "executed"
    (folder / f"{CANARY}.py").write_text(
        f"open({str(mark)!r}, 'w').close()\n"
        "def make(*values, **named):\n"
        f"    open({str(mark)!r}, 'w').close()\n"
        "Bonus = Cover = Update = Class = make\n"
    )
    return mark


@contextlib.contextmanager
def nothing_runs(folder: Path) -> Iterator[None]:
    """Requires that nothing is executed: the shell, a program, or what is below `folder`, a pickle
    or the canary."""
    called: list[str] = []
    places = ((os, "system"), (subprocess, "Popen"), (os, "execv"), (os, "posix_spawn"))
    with contextlib.ExitStack() as stack:
        for owner, name in places:
            note = functools.partial(_note, called, name)
            stack.enter_context(unittest.mock.patch.object(owner, name, note))
        yield
    assert called == []
    assert CANARY not in sys.modules
    assert list(folder.rglob("executed")) == []


def _note(called: list[str], name: str, *values: Any, **named: Any) -> None:
    called.append(name)


class Trap:
    """Pickled, it makes the file `executed` when it is unpickled."""

    def __init__(self, folder: Path):
        self.path = str(folder / "executed")

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


ABOUT: dict[str, Any] = {
    "format": 1,
    "seed": 0,
    "epoch": 1,
    "env_steps": 10,
    "policy_name": "incumbent",
    "deterministic": False,
}


def good_policy(folder: Path, kind: str = "actor-critic") -> Path:
    """A small exported policy."""
    folder.mkdir(parents=True)
    arrays: dict[str, np.ndarray]
    if kind == "table":
        form: dict[str, Any] = {"kind": "table", "num_states": 3, "num_actions": 2}
        arrays = {"probabilities": np.full((3, 2), 0.5, np.float32)}
    else:
        spaces = gymnasium.spaces.Box(-1.0, 1.0, (3,)), gymnasium.spaces.Discrete(2)
        form = {
            "kind": "actor-critic",
            "observation": to_json(spaces[0]),
            "action": to_json(spaces[1]),
            "hidden": [4],
            "normalise_observations": False,
        }
        arrays = _arrays(spaces)
    write_tensors(folder / POLICY, arrays, ABOUT)
    config = Config(ALGORITHMS["eniac"].default, env="DeepSea-4").to_dict()
    data = {**ABOUT, "policy": form, "tensors": {}, "config": config}
    (folder / "config.json").write_text(json.dumps(data))
    return folder


_made: dict[str, dict[str, np.ndarray]] = {}


def _arrays(spaces: Any) -> dict[str, np.ndarray]:
    # Once: to draw the weights, JAX compiles.
    if not _made:
        _made["one"] = flatten(actor_critic(jax.random.key(0), *spaces, (4,), False))
    return dict(_made["one"])


def good_run(folder: Path, **changes: Any) -> Path:
    """The folder of a run that has not begun."""
    for name in ("checkpoints", "figures"):
        (folder / name).mkdir(parents=True)
    data = Config(ALGORITHMS["eniac"].default, env="DeepSea-4").to_dict() | changes
    (folder / "config.json").write_text(json.dumps(data))
    return folder


# What can be done to a file


def content(name: str, what: bytes | str) -> Spoil:
    """Other content in the place of a file's."""
    data = what.encode("utf-8", "surrogatepass") if isinstance(what, str) else what
    return lambda folder: (folder / name).write_bytes(data)


def text(change: Callable[[bytes], bytes]) -> Spoil:
    """config.json, its bytes changed."""

    def spoil(folder: Path) -> None:
        path = folder / "config.json"
        path.write_bytes(change(path.read_bytes()))

    return spoil


def setting(*path: Any, to: Any) -> Spoil:
    """config.json with another value at a place of it."""

    def spoil(folder: Path) -> None:
        file = folder / "config.json"
        data = table = json.loads(file.read_text())
        for name in path[:-1]:
            table = table[name]
        table[path[-1]] = to
        file.write_text(json.dumps(data))

    return spoil


def raw(value: str) -> Spoil:
    """config.json with this text in the place of the seed."""
    return text(lambda data: data.replace(b'"seed": 0', b'"seed": ' + value.encode(), 1))


def pipe(name: str) -> Spoil:
    return _instead(name, os.mkfifo)


def subfolder(name: str) -> Spoil:
    return _instead(name, lambda path: path.mkdir())


def link(name: str, to: str) -> Spoil:
    return _instead(name, lambda path: path.symlink_to(to))


def sparse(name: str, size: int) -> Spoil:
    """As many zeros, of which the disk has none."""
    return lambda folder: os.truncate(folder / name, size)


def _instead(name: str, make: Callable[[Path], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        make(folder / name)

    return spoil


def pickled(name: str) -> Spoil:
    return lambda folder: (folder / name).write_bytes(pickle.dumps(Trap(folder)))


def zipped(name: str) -> Spoil:
    """A file of PyTorch's: a zip with a pickle in it."""

    def spoil(folder: Path) -> None:
        with zipfile.ZipFile(folder / name, "w") as file:
            file.writestr("archive/data.pkl", pickle.dumps(Trap(folder)))

    return spoil


def bomb(name: str) -> Spoil:
    """A gigabyte of zeros, in a megabyte."""
    return lambda folder: (folder / name).write_bytes(gzip.compress(bytes(2**24)) * 64)


def numpy_objects(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        file = io.BytesIO()
        np.save(file, np.array([Trap(folder)], object), allow_pickle=True)
        (folder / name).write_bytes(file.getvalue())

    return spoil


# What can be done to a file of tensors


def header(change: Callable[[dict[str, Any]], Any]) -> Spoil:
    """The header of the tensors, changed; `change` may return another."""

    def spoil(folder: Path) -> None:
        path = folder / POLICY
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        table = json.loads(data[8 : 8 + length])
        changed = change(table)
        new = table if changed is None else changed
        new = new if isinstance(new, bytes) else json.dumps(new).encode()
        path.write_bytes(struct.pack("<Q", len(new)) + new + data[8 + length :])

    return spoil


def array(name: str, **entries: Any) -> Spoil:
    """What the header says of an array, changed."""
    return header(lambda table: table[name].update(entries))


def length(number: int) -> Spoil:
    """Another length of the header."""

    def spoil(folder: Path) -> None:
        path = folder / POLICY
        path.write_bytes(struct.pack("<Q", number) + path.read_bytes()[8:])

    return spoil


def written(change: Callable[[dict[str, np.ndarray]], Any], **note: Any) -> Spoil:
    """Other arrays, or another note, written as we write them: the checksum is right."""

    def spoil(folder: Path) -> None:
        arrays = {name: x.copy() for name, x in _made["one"].items()}
        change(arrays)
        write_tensors(folder / POLICY, arrays, ABOUT | note)

    return spoil


def _noted(note: Any) -> Spoil:
    told = json.dumps({"note": note, "sha256": "0"})
    return header(lambda table: table["__metadata__"].update(eniac=told))


def _shift(table: dict[str, Any]) -> None:
    """Moves all arrays four bytes on."""
    for name, entry in table.items():
        if name != "__metadata__":
            entry["data_offsets"] = [place + 4 for place in entry["data_offsets"]]


WEIGHT = "body.layers.0.weight"
CONFIG = "config.json"
BOX = {"type": "Box", "dtype": "float32", "low": 0, "high": 1}
DEEP = b"[" * 10_000 + b"]" * 10_000


def _space(**entries: Any) -> Spoil:
    return setting("policy", "observation", to=entries)


def _tuples(depth: int) -> Any:
    data: Any = {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"}
    for _ in range(depth):
        data = {"type": "Tuple", "spaces": [data]}
    return data


POLICIES: dict[str, Spoil] = {
    # config.json is no JSON, or no JSON that two readers understand alike
    "empty": content(CONFIG, b""),
    "white": content(CONFIG, b" \n\t\n"),
    "prose": content(CONFIG, "This is not JSON."),
    "cut": text(lambda data: data[: len(data) // 2]),
    "two tables": text(lambda data: data + data),
    "byte order mark": text(lambda data: b"\xef\xbb\xbf" + data),
    "utf-16": text(lambda data: data.decode().encode("utf-16")),
    "latin-1": text(lambda data: data.replace(b"DeepSea", "DeepSéa".encode("latin-1"))),
    "zeros": content(CONFIG, bytes(1000)),
    "half a character": setting("config", "env", to="\ud800"),
    "not a number": raw("NaN"),
    "infinity": raw("-Infinity"),
    "1e400": raw("1e400"),
    "400 digits": raw("9" * 400),
    "5000 digits": raw("9" * 5000),
    "a list": content(CONFIG, "[]"),
    "a text": content(CONFIG, '"policy"'),
    "a number": content(CONFIG, "3"),
    "null": content(CONFIG, "null"),
    "lists in lists": raw(DEEP.decode()),
    "tables in tables": raw('{"a":' * 10_000 + "1" + "}" * 10_000),
    "300 deep": raw("[" * 300 + "]" * 300),
    "the same name twice": text(lambda data: data.replace(b"{", b'{"seed": 1, ', 1)),
    "17 MiB of lists": raw("[" + "[]," * (6 * 2**20) + "[]]"),
    "1 GiB": sparse(CONFIG, GIB),
    "pickle for json": pickled(CONFIG),
    "zip for json": zipped(CONFIG),
    "gzip bomb for json": bomb(CONFIG),
    "yaml": content(CONFIG, "!!python/object/apply:os.system ['touch executed']"),
    # config.json is not that of a policy
    "no format": setting("format", to=None),
    "a later format": setting("format", to=99),
    "deterministic in words": setting("deterministic", to="no"),
    "deterministic is a number": setting("deterministic", to=0),
    "deterministic is a list": setting("deterministic", to=[True]),
    "deterministic unlike the tensors": setting("deterministic", to=True),
    "another name than the tensors": setting("policy_name", to="cover:1"),
    "no policy": text(lambda data: data.replace(b'"policy"', b'"polizy"', 1)),
    "policy is a list": setting("policy", to=[]),
    "policy is a table of nothing": setting("policy", to={}),
    "kind is a list": setting("policy", "kind", to=[]),
    "kind is code": setting("policy", to={"kind": "os:system"}),
    "kind alone": setting("policy", to={"kind": "actor-critic"}),
    "one field more": setting("policy", "__reduce__", to="os:system"),
    "hidden is text": setting("policy", "hidden", to="64"),
    "hidden of 1e9": setting("policy", "hidden", to=[10**9]),
    "hidden is negative": setting("policy", "hidden", to=[-4]),
    "hidden is true": setting("policy", "hidden", to=[True]),
    "a thousand layers": setting("policy", "hidden", to=[4] * 1000),
    "normalise is text": setting("policy", "normalise_observations", to="no"),
    "a table of 1e12 states": setting(
        "policy", to={"kind": "table", "num_states": 10**12, "num_actions": 2}
    ),
    "another seed": setting("seed", to=7),
    # spaces
    "space of 1e12": _space(**BOX, shape=[10**12]),
    "space of 9e7": _space(**BOX, shape=[9 * 10**7]),
    "space of 1e6 x 1e6": _space(**BOX, shape=[10**6, 10**6]),
    "negative side": _space(**BOX, shape=[-3]),
    "sides are text": _space(**BOX, shape="3"),
    "33 sides": _space(**BOX, shape=[1] * 33),
    "objects": _space(**(BOX | {"dtype": "object"}), shape=[3]),
    "bounds of 40 digits": _space(**(BOX | {"low": -(10**39)}), shape=[3]),
    "bounds upside down": _space(**(BOX | {"low": "inf", "high": "-inf"}), shape=[3]),
    "a space by name": _space(type="os:system", command="touch executed"),
    "a space of nothing": _space(**BOX, shape=[0]),
    "tuples in tuples": setting("policy", "observation", to=_tuples(40)),
    "discrete of 1e12": _space(type="Discrete", n=10**12, start=0, dtype="int64"),
    "discrete of -1": _space(type="Discrete", n=-1, start=0, dtype="int64"),
    "binary of 1e12": _space(type="MultiBinary", n=10**12),
    "a key with a NUL": _space(type="Dict", spaces={"a\0b": BOX | {"shape": [3]}}),
    "a key of 300": _space(type="Dict", spaces={"a" * 300: BOX | {"shape": [3]}}),
    "actions in a tuple": setting("policy", "action", to=_tuples(1)),
    # what stands in the place of a file
    "config is a pipe": pipe(CONFIG),
    "config is a folder": subfolder(CONFIG),
    "config is /etc/passwd": link(CONFIG, "/etc/passwd"),
    "config is /dev/zero": link(CONFIG, "/dev/zero"),
    "config is outside": link(CONFIG, "../../../../../../etc/hosts"),
    "config leads nowhere": link(CONFIG, "nowhere"),
    "config leads to itself": link(CONFIG, CONFIG),
    "tensors are a pipe": pipe(POLICY),
    "tensors are a folder": subfolder(POLICY),
    "tensors are /etc/passwd": link(POLICY, "/etc/passwd"),
    "tensors are /dev/zero": link(POLICY, "/dev/zero"),
    "tensors lead nowhere": link(POLICY, "nowhere"),
    # tensors
    "no byte": content(POLICY, b""),
    "seven bytes": content(POLICY, b"\x02\0\0\0\0\0\0"),
    "pickle for tensors": pickled(POLICY),
    "zip for tensors": zipped(POLICY),
    "numpy's objects for tensors": numpy_objects(POLICY),
    "gzip bomb for tensors": bomb(POLICY),
    "header of 2^60": length(2**60),
    "header of 2^64 - 1": length(2**64 - 1),
    "header of nothing": length(0),
    "header of half": length(100),
    "header is a list": header(lambda table: [table]),
    "header in lists": header(lambda table: DEEP),
    "header has a name twice": header(
        lambda table: json.dumps(table).replace("{", '{"__metadata__": {}, ', 1).encode()
    ),
    "no note": header(lambda table: {k: x for k, x in table.items() if k != "__metadata__"}),
    "note is a list": _noted([]),
    "note is text": _noted("progress"),
    "note is no json": header(lambda table: table["__metadata__"].update(eniac="{")),
    "note is a number": header(lambda table: table["__metadata__"].update(eniac=3)),
    "one note more": header(lambda table: table["__metadata__"].update(more="x")),
    "arrays overlap": array("body.layers.0.bias", data_offsets=[0, 16]),
    "a hole between arrays": header(_shift),
    "negative offset": array(WEIGHT, data_offsets=[-48, 0]),
    "offset beyond the end": array(WEIGHT, data_offsets=[10**9, 10**9 + 48]),
    "offsets upside down": array(WEIGHT, data_offsets=[48, 0]),
    "offsets of 30 digits": array(WEIGHT, data_offsets=[10**30, 10**30 + 48]),
    "negative shape": array(WEIGHT, shape=[-3, -4]),
    "shape of 2^62 x 4": array(WEIGHT, shape=[2**62, 4]),
    "shape is text": array(WEIGHT, shape="34"),
    "shape is true": array(WEIGHT, shape=[True, 12]),
    "type bf16": array(WEIGHT, dtype="BF16", shape=[3, 8]),
    "type of objects": array(WEIGHT, dtype="O"),
    "type is a list": array(WEIGHT, dtype=["F32"]),
    "64 GiB of zeros behind": sparse(POLICY, 64 * GIB),
    "float64": written(lambda arrays: arrays.update({WEIGHT: arrays[WEIGHT].astype(np.float64)})),
    "integers": written(lambda arrays: arrays.update({WEIGHT: arrays[WEIGHT].astype(np.int32)})),
    "turned": written(lambda arrays: arrays.update({WEIGHT: arrays[WEIGHT].T.copy()})),
    "one array less": written(lambda arrays: arrays.pop(WEIGHT)),
    "one array more": written(lambda arrays: arrays.update(more=np.zeros(3))),
    "a name that climbs": written(
        lambda arrays: arrays.update({"../../../etc/passwd": arrays.pop(WEIGHT)})
    ),
    "a name that paints": written(
        lambda arrays: arrays.update({"\x1b[2J\n\u202e": arrays.pop(WEIGHT)})
    ),
    "NaN": written(lambda arrays: arrays[WEIGHT].fill(np.nan)),
    "infinite": written(lambda arrays: arrays[WEIGHT].fill(-np.inf)),
    "another epoch": written(lambda arrays: None, epoch=2),
    "an epoch of lists": written(lambda arrays: None, epoch=[[1]]),
}


def _flip(folder: Path) -> None:
    path = folder / POLICY
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


POLICIES["other bytes"] = _flip

NAMED: dict[str, Spoil] = {
    f"{name} is {what}": setting("config", *path, to=what)
    for what in ("os:system", f"{CANARY}:make", "../../x:make")
    for name, path in {
        "env": ("env",),
        "bonus": ("algorithm", "bonus", "type"),
        "cover": ("algorithm", "cover", "type"),
        "update": ("algorithm", "update", "type"),
        "algorithm": ("algorithm", "name"),
        "size": ("env_options", "size"),
    }.items()
}
NAMED |= {
    "env is a huge one": setting("config", "env", to="DeepSea-200000"),
    "out climbs": setting("config", "out", to="../../../../etc"),
    "config is a list": setting("config", to=[1]),
    "tensors are told otherwise": setting("tensors", to={WEIGHT: ["object", [10**12]]}),
}


def _run(**changes: Any) -> Callable[[Path], Path]:
    return lambda folder: good_run(folder, **changes)


def _algorithm(row: str, **changes: Any) -> dict[str, Any]:
    return Config(ALGORITHMS[row].default, env="DeepSea-4").to_dict()["algorithm"] | changes


def _spoiled(*spoils: Spoil) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        good_run(folder)
        for spoil in spoils:
            spoil(folder)
        return folder

    return make


FIRST = "checkpoints/epoch-000001.safetensors"

RUNS: dict[str, Callable[[Path], Path]] = {
    "env calls the shell": _run(env="os:system", env_options={"command": "touch executed"}),
    "env calls a program": _run(env="subprocess:run", env_options={"args": "touch executed"}),
    "env runs a file": _run(env="runpy:run_path", env_options={"path_name": f"{CANARY}.py"}),
    "env unpickles": _run(env="numpy:load", env_options={"file": "x", "allow_pickle": True}),
    "env imports": _run(env="importlib:import_module", env_options={"name": CANARY}),
    "env deletes": _run(env="shutil:rmtree", env_options={"path": "."}),
    "env comes with the run": _run(env=f"{CANARY}:make"),
    "env registers itself": _run(env=f"{CANARY}:Evil-v0"),
    "gymnasium's env registers itself": _run(env=f"gymnasium:{CANARY}:Evil-v0"),
    "env lies in a package": _run(env=f"run.{CANARY}:make"),
    "env climbs": _run(env="../../evil:make"),
    "bonus comes with the run": _run(
        algorithm=_algorithm("eniac", bonus={"type": f"{CANARY}:Bonus"})
    ),
    "cover comes with the run": _run(
        algorithm=_algorithm("eniac", cover={"type": f"{CANARY}:Cover"})
    ),
    "update comes with the run": _run(
        algorithm=_algorithm("eniac", update={"type": f"{CANARY}:Update"})
    ),
    "bonus is the shell": _run(algorithm=_algorithm("eniac", bonus={"type": "os:system"})),
    "class comes with the run": _run(algorithm=_algorithm("spi", function_class=f"{CANARY}:Class")),
    "class is the shell": _run(algorithm=_algorithm("spi", function_class="os:system")),
    "config is a pipe": _spoiled(pipe(CONFIG)),
    "config is /etc/passwd": _spoiled(link(CONFIG, "/etc/passwd")),
    "config of 1 GiB": _spoiled(sparse(CONFIG, GIB)),
    "config is pickled": _spoiled(pickled(CONFIG)),
    "config in lists": _spoiled(raw(DEEP.decode())),
    "checkpoint is a pipe": _spoiled(pipe(FIRST)),
    "checkpoint is a folder": _spoiled(subfolder(FIRST)),
    "checkpoint is a link": _spoiled(link(FIRST, "/etc/passwd")),
    "checkpoint is a device": _spoiled(link(FIRST, "/dev/zero")),
    "checkpoint is pickled": _spoiled(pickled(FIRST)),
    "checkpoint is zipped": _spoiled(zipped(FIRST)),
    "a policy is no checkpoint": _spoiled(
        lambda folder: (folder / FIRST).write_bytes(
            (good_policy(folder / "policy" / "seed-0") / POLICY).read_bytes()
        )
    ),
    "no checkpoint": _spoiled(),
}
