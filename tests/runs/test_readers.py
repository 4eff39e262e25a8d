"""Whoever looks at a run leaves it as it is, and may look while it is being written."""

import threading

import pytest

import toy
from eniac import load_run
from eniac.cli.main import main
from eniac.runs import checkpoint as checkpoints
from eniac.runs.checkpoint import list_checkpoints, newest_checkpoint
from eniac.runs.engine import train
from eniac.runs.files import TEMPORARY
from eniac.runs.program import make_program

KINDS = {"compiled": toy.Toy(), "host": toy.Toy(on_host=True)}


@pytest.mark.parametrize("kind", KINDS)
def test_hundreds_of_loads_do_not_disturb_the_process_that_writes(
    toy_config, tmp_path, console, kind
):
    config = toy_config(KINDS[kind], epochs=30, checkpoint_every=1, keep=2)
    shapes = make_program(config.build()).shapes
    folder, loaded, failures = tmp_path / "run", [], []

    def write():
        try:
            train(config, console=console)
        except Exception as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive() or len(loaded) < 200:
        found, warnings = newest_checkpoint(folder / "checkpoints", shapes)
        assert warnings == []
        if found is not None:
            assert int(found.state.epoch[0]) == found.progress.epoch
            loaded.append(found.progress.epoch)
            if len(loaded) % 50 == 0:
                assert load_run(folder).progress.epoch >= found.progress.epoch
    writer.join()
    assert failures == []
    assert loaded == sorted(loaded)
    assert len(set(loaded)) > 5  # else this test shows nothing
    assert load_run(folder).progress.epoch == 30


def test_a_checkpoint_that_the_writer_deletes_while_we_look_gives_way_to_a_newer_one(
    toy_config, tmp_path, console, monkeypatch
):
    train(toy_config(epochs=3, checkpoint_every=1, keep=3), console=console)
    newest = list_checkpoints(tmp_path / "run/checkpoints")
    hidden = [path.rename(path.with_suffix(".hidden")) for path in newest[:2]]
    load = checkpoints.load_checkpoint

    def rotating(path, *arguments):
        # Between the listing and the opening, the writer saves two more and deletes the oldest.
        if hidden:
            path.unlink()
            for other in (hidden.pop(), hidden.pop()):
                other.rename(other.with_suffix(".safetensors"))
        return load(path, *arguments)

    monkeypatch.setattr(checkpoints, "load_checkpoint", rotating)
    run = load_run(tmp_path / "run")
    assert run.progress.epoch == 3
    assert run.warnings == []


def _content(folder):
    """Every file and when it was changed, but for the pictures, which readers may draw."""
    paths = [path for path in folder.rglob("*") if "figures" not in path.parts]
    return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in paths}


READERS = {
    "evaluate RUN --episodes 2": 0,
    "play RUN --out OUT/film.gif": 0,
    "plot RUN --out OUT/curve.png": 0,
    "export RUN --out OUT/policy": 0,
    "cover RUN": 1,  # the toy has no cover, nor a theorem
    "certify RUN": 1,
    "list runs OUT": 0,
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_reader_changes_a_file_of_a_run(toy_config, tmp_path, console, kind):
    folder = train(toy_config(KINDS[kind], epochs=2), console=console).path
    list_checkpoints(folder / "checkpoints")[0].write_bytes(b"damaged")
    (folder / "checkpoints" / f"epoch-000003.safetensors{TEMPORARY}").write_bytes(b"half")
    (folder / f"manifest.json{TEMPORARY}").write_bytes(b"half")
    before = _content(folder)
    for command, code in READERS.items():
        words = command.replace("RUN", str(folder)).replace("OUT", str(tmp_path)).split()
        assert main(words) == code, command
        assert _content(folder) == before, command
