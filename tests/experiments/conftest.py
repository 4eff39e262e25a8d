"""What the tests of runs share."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import toy
from eniac.algorithms import ALGORITHMS
from eniac.experiments import Config, Evaluation


@pytest.fixture(autouse=True)
def _toy_is_an_algorithm(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "toy", toy.Row("toy", "a random walk of weights", toy.Toy()))


@pytest.fixture
def console():
    """A console that is no terminal, and keeps what is printed."""
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def toy_config(tmp_path):
    """Makes a config of the toy that is quick to run."""

    def make(algorithm=None, **changes):
        fields = {
            "env": "Chain-4",
            "horizon": 5,
            "epochs": 4,
            "evaluation": Evaluation(episodes=3),
            "checkpoint_every": 2,
            "out": tmp_path / "run",
        }
        return Config(algorithm or toy.Toy(), **(fields | changes))

    return make
