import errno
import json
import os
import pickle
import shutil
from dataclasses import asdict, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from eniac import CheckpointError
from eniac.runs.checkpoint import (
    FORMAT,
    Checkpoint,
    checkpoint_path,
    list_checkpoints,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
)
from eniac.runs.identity import Origin, Owner
from eniac.runs.progress import Progress
from eniac.runs.tensors import flatten, read_header, read_tensors, write_tensors


def _state(seed=0):
    key = jax.random.key(seed)
    return {
        "key": key,
        "keys": jax.random.split(key, 3),
        "weights": (jax.random.normal(key, (4, 3)), jnp.arange(3)),
        "count": jnp.asarray(5, jnp.uint32),
        "flag": jnp.asarray(True),
    }


SHAPES = jax.eval_shape(_state)
ORIGIN = Origin("this-run", "these-settings", {"jax": "0.1", "devices": 2})


def _checkpoint(epoch, seed=0):
    progress = Progress(
        np.array([epoch, 1]),
        np.array([7 * epoch, 7]),
        np.array([0.5, np.nan]),
        np.array([np.nan, 0.25]),
        2.5,
    )
    return Checkpoint(_state(seed), progress, {"metrics.jsonl": 10 * epoch}, ORIGIN)


def _same(a, b):
    a, b = (jax.tree.leaves(jax.tree.map(_raw, tree)) for tree in (a, b))
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _raw(leaf):
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def test_a_checkpoint_holds_every_bit_of_the_state_random_keys_included(tmp_path):
    path = save_checkpoint(tmp_path, _checkpoint(3, seed=4), keep=2)
    loaded = load_checkpoint(path, SHAPES)
    assert _same(loaded.state, _state(4))
    assert jax.tree.structure(loaded.state) == jax.tree.structure(_state())
    np.testing.assert_array_equal(loaded.progress.epochs, [3, 1])
    np.testing.assert_array_equal(loaded.progress.returns, [0.5, np.nan])
    np.testing.assert_array_equal(loaded.progress.exploiting, [np.nan, 0.25])
    assert loaded.progress.seconds == 2.5
    assert loaded.offsets == {"metrics.jsonl": 30}


def test_the_newest_are_kept(tmp_path):
    (tmp_path / "epoch-last.safetensors").touch()  # somebody else's
    for epoch in (1, 2, 3, 999_999, 1_000_000):
        save_checkpoint(tmp_path, _checkpoint(epoch), keep=2)
    kept = [checkpoint_path(tmp_path, n) for n in (1_000_000, 999_999)]
    assert list_checkpoints(tmp_path) == kept


def test_every_flipped_bit_is_noticed(tmp_path):
    path = save_checkpoint(tmp_path, _checkpoint(3), keep=2)
    whole = path.read_bytes()
    noticed = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            loaded = load_checkpoint(path, SHAPES)
        except CheckpointError:
            noticed += 1
        else:  # the padding of the header: nothing that is read has changed
            assert whole[place : place + 1] == b" "
            assert _same(loaded.state, _state())
    assert noticed >= len(whole) - 8


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_the_checkpoint_before_a_damaged_one_is_used_with_a_warning(tmp_path, damage):
    save_checkpoint(tmp_path, _checkpoint(1, seed=1), keep=2)
    path = save_checkpoint(tmp_path, _checkpoint(2, seed=2), keep=2)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes({"flip": bytes(content), "cut": bytes(content[:-9]), "empty": b""}[damage])
    loaded, warnings = newest_checkpoint(tmp_path, SHAPES)
    assert loaded.progress.epoch == 1
    assert _same(loaded.state, _state(1))
    assert len(warnings) == 1
    assert "epoch-000002.safetensors is damaged" in warnings[0]


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (b"123456789\n12345", "had 20 bytes, and it has 15"),
        (b"123456789\n" + 20 * b"1" + b"\n", "which is in the middle of a line now"),
    ],
)
def test_a_checkpoint_whose_logs_are_not_there_is_not_used(tmp_path, log, words):
    save_checkpoint(tmp_path, _checkpoint(1), keep=2)
    save_checkpoint(tmp_path, _checkpoint(2), keep=2)
    (tmp_path / "metrics.jsonl").write_bytes(log)
    loaded, warnings = newest_checkpoint(tmp_path, SHAPES, logs=tmp_path)
    assert loaded.progress.epoch == 1
    assert words in warnings[0]


def test_a_foreign_or_renamed_checkpoint_is_passed_over_with_a_warning(tmp_path):
    owner = Owner("this-run", frozenset({"these-settings"}))
    save_checkpoint(tmp_path, _checkpoint(1), keep=9)
    foreign = replace(_checkpoint(2), origin=replace(ORIGIN, run="that-run"))
    save_checkpoint(tmp_path, foreign, keep=9)
    other = replace(_checkpoint(3), origin=replace(ORIGIN, config="those-settings"))
    save_checkpoint(tmp_path, other, keep=9)
    shutil.copy(checkpoint_path(tmp_path, 1), checkpoint_path(tmp_path, 4))
    loaded, warnings = newest_checkpoint(tmp_path, SHAPES, owner)
    assert loaded.progress.epoch == 1
    assert loaded.origin == ORIGIN
    assert [text.split("safetensors ")[1].partition(". Using")[0] for text in warnings] == [
        "was renamed: it is of epoch 1",
        "was saved under other settings than config.json has",
        "is of another run (that-run; this one is this-run)",
    ]


def test_without_a_whole_checkpoint_all_damage_is_told(tmp_path):
    assert newest_checkpoint(tmp_path, SHAPES) == (None, [])
    for epoch in (1, 2):
        save_checkpoint(tmp_path, _checkpoint(epoch), keep=2).write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match=r"(?s)epoch-000002.*epoch-000001"):
        newest_checkpoint(tmp_path, SHAPES)


def test_a_checkpoint_of_another_state_is_refused_with_the_difference(tmp_path):
    path = save_checkpoint(tmp_path, _checkpoint(1), keep=2)
    other = _state() | {"weights": (jnp.zeros((4, 2)), jnp.arange(3.0)), "extra": jnp.zeros(())}
    del other["flag"]
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path, other)
    for line in (
        "weights.0: expected float32 of shape (4, 2), found float32 of shape (4, 3)",
        "weights.1: expected float32 of shape (3,), found int32 of shape (3,)",
        "extra: expected float32 of shape (), found nothing",
        "flag: expected nothing, found bool of shape ()",
    ):
        assert line in str(caught.value)


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    first = save_checkpoint(tmp_path, _checkpoint(1), keep=2)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(tmp_path, _checkpoint(2), keep=2)
    assert sorted(tmp_path.iterdir()) == [first]


class _Trap:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_a_file_that_holds_pickled_python_is_never_executed(tmp_path):
    path = checkpoint_path(tmp_path, 1)
    path.write_bytes(pickle.dumps(_Trap(str(tmp_path / "executed"))))
    with pytest.raises(CheckpointError):
        load_checkpoint(path, SHAPES)
    assert not (tmp_path / "executed").exists()


def _written(folder, change=None, **notes):
    """A checkpoint, with other arrays or another note, whose checksum is right."""
    path = checkpoint_path(folder, 1)
    arrays = flatten(_state())
    if change is not None:
        change(arrays)
    progress = _checkpoint(1).progress.to_dict()
    note = {**NOTE, "progress": progress, "offsets": {"metrics.jsonl": 10}} | notes
    write_tensors(path, arrays, {name: x for name, x in note.items() if x is not ...})
    return path


NOTE = {"format": FORMAT, "origin": asdict(ORIGIN)}
PROGRESS = {"epochs": [1, 1], "steps": [7, 7], "returns": [None, 0.5]}
PROGRESS |= {"exploiting": [None, None], "seconds": 1.0}


@pytest.mark.parametrize(
    ("note", "words"),
    [
        ({"format": ...}, "has format None"),
        ({"format": "1"}, "has format '1'"),
        ({"origin": ...}, "origin is None"),
        ({"origin": {"run": "a"}}, "origin.config is missing"),
        ({"origin": {"run": 1, "config": "", "made_with": {}}}, "origin.run is 1"),
        ({"progress": ...}, "progress"),
        ({"progress": []}, "progress"),
        ({"progress": {}}, "progress.epochs is missing"),
        ({"progress": PROGRESS | {"epochs": "12"}}, "progress.epochs is '12'"),
        ({"progress": PROGRESS | {"epochs": ["1", 1]}}, "progress.epochs[0] is '1'"),
        ({"progress": PROGRESS | {"epochs": [1]}}, "1 epochs, 2 steps"),
        ({"progress": PROGRESS | {"epochs": [-1, 1]}}, "is -1"),
        ({"progress": PROGRESS | {"steps": [1.5, 2]}}, "progress.steps[0] is 1.5"),
        ({"progress": PROGRESS | {"steps": [10**30, 2]}}, "64 bits"),
        ({"progress": PROGRESS | {"returns": [[], None]}}, "progress.returns[0] is []"),
        ({"progress": PROGRESS | {"exploiting": [None]}}, "2 and 1 returns"),
        ({"progress": PROGRESS | {"seconds": None}}, "progress.seconds is None"),
        ({"progress": PROGRESS | {"seconds": -1.0}}, "is -1.0"),
        ({"progress": PROGRESS | {"more": 1}}, "progress.more is not a field"),
        ({"progress": {x: [] for x in PROGRESS} | {"seconds": 0}}, "0 epochs"),
        ({"offsets": ...}, "offsets"),
        ({"offsets": []}, "offsets is []"),
        ({"offsets": {"metrics.jsonl": -1}}, "offsets.metrics.jsonl is -1"),
        ({"offsets": {"metrics.jsonl": "10"}}, "offsets.metrics.jsonl is '10'"),
        ({"offsets": {"metrics.jsonl": 10**25}}, "64 bits"),
    ],
)
def test_a_note_that_is_not_what_we_write_is_refused_in_a_line(tmp_path, note, words):
    path = _written(tmp_path, **note)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path, SHAPES)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a.update(count=a["count"].astype(np.uint64)), "found uint64"),
        (lambda a: a.update({"weights.0": a["weights.0"].astype(np.float64)}), "found float64"),
        (lambda a: a.update({"weights.0": a["weights.0"].astype(np.float16)}), "found float16"),
        (lambda a: a.update(more=np.zeros(2)), "more: expected nothing"),
        (lambda a: a.pop("key"), "key: expected uint32 of shape (2,), found nothing"),
        (lambda a: a["weights.0"].fill(np.nan), "NaN or infinity in weights.0"),
        (lambda a: a["weights.0"].fill(np.inf), "NaN or infinity in weights.0"),
    ],
)
def test_arrays_of_other_types_or_without_a_number_are_refused(tmp_path, change, words):
    path = _written(tmp_path, change)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path, SHAPES)
    assert words in str(caught.value)


def test_the_number_of_seeds_in_a_note_is_that_of_the_arrays(tmp_path):
    arrays = {"x": np.zeros((3, 4), np.float32)}
    write_tensors(
        checkpoint_path(tmp_path, 1), arrays, {**NOTE, "progress": PROGRESS, "offsets": {}}
    )
    with pytest.raises(CheckpointError, match="of 2 seeds"):
        load_checkpoint(checkpoint_path(tmp_path, 1), {"x": jax.ShapeDtypeStruct((3, 4), "f4")})


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "device"])
def test_what_is_no_file_in_the_place_of_a_checkpoint_is_passed_over(tmp_path, kind):
    save_checkpoint(tmp_path, _checkpoint(1, seed=1), keep=2)
    other = tmp_path / "another run"
    other.mkdir()
    save_checkpoint(other, _checkpoint(2), keep=2)
    path = checkpoint_path(tmp_path, 2)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else checkpoint_path(other, 2))
    loaded, warnings = newest_checkpoint(tmp_path, SHAPES)
    assert loaded.progress.epoch == 1
    assert "it must be a file, and is not read" in warnings[0]


def test_the_file_is_the_one_of_safetensors(tmp_path):
    path = save_checkpoint(tmp_path, _checkpoint(1), keep=2)
    theirs, ours = load_file(path), read_tensors(path)[0]
    assert theirs.keys() == ours.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype
        np.testing.assert_array_equal(array, theirs[name])


def test_arrays_are_compared_by_the_header_before_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("eniac.memory.available", lambda: 2**34)
    # 64 GiB that the disk does not have: to read them would fail, or take long.
    shape = [2**17, 2**17]
    note = json.dumps({"note": {"format": FORMAT}, "sha256": ""})
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, 2**36]}
    header = json.dumps({"__metadata__": {"eniac": note}, "x": entry}).encode()
    path = tmp_path / "large.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + 2**36)
    with pytest.raises(CheckpointError, match=r"expected float32 of shape \(2,\), found"):
        read_tensors(path, {"x": jnp.zeros(2)})
    assert read_header(path).specs["x"].nbytes == 2**36
    # And where they were expected: more than there is memory for is told as such.
    with pytest.raises(CheckpointError, match=r"at least 64 GiB of memory.*and 16 GiB are free"):
        read_tensors(path)
