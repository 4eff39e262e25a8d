"""The skeleton of Algorithm 1: five lines, in their order, and nothing else."""

from pathlib import Path

import pytest

import eniac
from eniac import algorithm1
from eniac.algorithm1 import epoch
from eniac.algorithms import ALGORITHMS
from eniac.deep import DeepLearner
from eniac.provable.learner import ProvableLearner

LINES = ("visit", "merge", "extend", "fit_bonus", "improve")


class Recording:
    """A learner whose state is the list of what was called, and which has the five lines only."""

    def visit(self, state):
        return (*state, "visit"), "samples"

    def merge(self, state, samples):
        assert samples == "samples"
        return (*state, "merge")

    def extend(self, state, samples):
        assert samples == "samples"
        return (*state, "extend")

    def fit_bonus(self, state):
        return (*state, "fit_bonus")

    def improve(self, state, until):
        assert until == 7.0
        return (*state, "improve"), {"return_mean": [3.0]}


@pytest.mark.usefixtures("unchecked")
def test_an_epoch_is_lines_6_to_10_in_their_order_and_nothing_else():
    state, metrics = epoch(Recording(), (), 7.0)
    assert state == LINES
    assert metrics == {"return_mean": [3.0]}


@pytest.mark.usefixtures("unchecked")
def test_a_second_epoch_goes_on_from_the_state_of_the_first():
    first, _ = epoch(Recording(), (), 7.0)
    assert epoch(Recording(), first, 7.0)[0] == LINES * 2


@pytest.mark.parametrize("learner", [DeepLearner, ProvableLearner])
def test_a_learner_has_the_five_lines_and_no_epoch_of_its_own(learner):
    for line in (*LINES, "init", "shapes", "policy", "policy_format"):
        assert callable(getattr(learner, line))
    assert not hasattr(learner, "epoch")
    assert isinstance(learner.compiled, property | bool)
    assert isinstance(learner.rounds, property | int)


def test_there_is_one_epoch_in_the_whole_package():
    """Whoever drives a learner does so through the function above."""
    package = Path(eniac.__file__).parent
    defined = [
        path.relative_to(package).as_posix()
        for path in sorted(package.rglob("*.py"))
        if "\ndef epoch(" in path.read_text()
    ]
    assert defined == ["algorithm1.py"]
    assert epoch is algorithm1.epoch


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_row_of_the_table_has_the_settings_of_a_learner(name):
    default = ALGORITHMS[name].default
    assert isinstance(default, algorithm1.AlgorithmConfig)
    assert default.name == name
    assert default.default_epochs >= 1
    assert default.max_epochs is None or default.max_epochs >= default.default_epochs
