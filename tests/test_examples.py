"""The examples run, and learn what they say."""

import importlib.util
from pathlib import Path

import pytest

from eniac.envs import ENVS

EXAMPLES = Path(__file__).parents[1] / "examples"


def _load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _environments_stay_as_they_are():
    """An example adds an environment to the table, which other tests go through."""
    before = dict(ENVS)
    yield
    ENVS.clear()
    ENVS.update(before)


@pytest.mark.slow
def test_eniac_solves_mountain_car_from_python(tmp_path):
    assert _load("train_eniac").main(tmp_path / "run") > 93
    drawn = {path.name for path in (tmp_path / "run" / "figures").iterdir()}
    assert drawn == {"learning_curve.png", "visits.png", "bonus.png"}


@pytest.mark.slow
def test_eniac_finds_the_lamp_in_an_environment_of_ones_own(tmp_path):
    assert _load("own_environment").main(tmp_path / "run") > 0.99


def test_examples_can_be_read_without_running_anything(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in EXAMPLES.glob("*.py"):
        assert _load(path.stem).main.__doc__
    assert "DarkRoom-v0" in ENVS
    assert list(tmp_path.iterdir()) == []
