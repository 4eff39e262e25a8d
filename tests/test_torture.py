"""The torture counts right: what is neither survived nor refused in a line is a fault."""

import json
import queue
from pathlib import Path

import pytest

from attacks import crowds, faults, files, kills
from attacks.outcome import Outcome, judge
from eniac.errors import ConfigError
from programs import load_program

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def torture():
    return load_program("benchmarks/torture.py")


def refuse(text):
    def call():
        raise ConfigError(text)

    return call


@pytest.mark.parametrize(
    ("call", "expected", "ended"),
    [
        (lambda: None, "survived", "survived"),
        (lambda: None, "refused", "else"),
        (refuse("seed is 3; expected 4."), "refused", "refused"),
        (refuse("seed is 3; expected 4."), "survived", "else"),
        (refuse("seed is 3;\nexpected 4."), "refused", "else"),
        (refuse("x" * 5000), "refused", "else"),
        (refuse("something else"), "refused", "else"),
        (lambda: 1 / 0, "refused", "else"),
        (lambda: exit(1), "refused", "else"),
    ],
)
def test_an_attack_ends_as_expected_and_in_a_line_or_is_a_fault(call, expected, ended):
    assert judge("it", call, expected, "seed").ended == ended


def test_what_is_left_behind_counts_too():
    def left():
        raise AssertionError("a file is left")

    found = judge("it", lambda: None, "survived", after=left)
    assert found.ended == "else"
    assert "a file is left" in found.told


SMALL = {
    "configs": lambda folder: files.configs(folder, first=0, count=20),
    "commands": lambda folder: files.commands(folder, first=0, count=5),
    "by hand": lambda folder: files.by_hand(folder, every=50),
    "folders": lambda folder: files.folders(folder, every=40),
    "flips": lambda folder: files.flips(folder, "toy", count=10, resumed=1),
    "kills": lambda folder: kills.kills(folder, "toy", count=2, epochs=30),
    "writers": lambda folder: crowds.writers(folder, seconds=0.1, epochs=30),
    "faults": lambda folder: faults.faults(folder, "jax", every=8),
}


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.usefixtures("unchecked", "toy_is_an_algorithm")
def test_a_little_of_each_attack_leaves_nothing_to_mend(tmp_path, kind):
    found = [x for x in SMALL[kind](tmp_path) if isinstance(x, Outcome)]
    assert found
    assert [one for one in found if one.ended == "else"] == []


def test_a_run_that_does_not_end_the_same_is_a_fault(tmp_path, monkeypatch):
    def other(*arguments):
        raise AssertionError("another log")

    monkeypatch.setattr(kills, "assert_same_run", other)
    found = [x for x in kills.kills(tmp_path, "toy", count=1, epochs=3) if isinstance(x, Outcome)]
    assert [one.ended for one in found] == ["else"]
    assert "another log" in found[0].told


def test_a_part_that_breaks_is_a_fault(torture):
    told = queue.Queue()
    torture.attack(torture.Part("configs", "files:nothing", {}), told, "")
    (_, (_, ended, text)), (_, end) = told.get(), told.get()
    assert ended == "else"
    assert "AttributeError" in text
    assert end is None


def test_the_numbers_that_are_promised_are_tried():
    data = json.loads((ROOT / "benchmarks/results/torture.json").read_text())
    tried = {}
    for row in data["rows"]:
        tried[row["kind"]] = tried.get(row["kind"], 0) + row["tried"]
        tried[row["what"]] = row["tried"]
        assert row["tried"] == row["survived"] + row["refused"]
        assert row["else"] == 0
    for what, least in {
        "kills": 100,
        "a bit of a checkpoint": 1_000,
        "random configs": 10_000,
        "hand-made configs": 200,
        "folders": 60,
        "faults": 40,
    }.items():
        assert tried[what] >= least
    assert {"readers", "writers", "other devices"} <= tried.keys()


def test_the_page_has_the_table_of_the_results(torture):
    data = json.loads(torture.RESULTS.read_text())
    assert torture.section(data) in torture.PAGE.read_text()
