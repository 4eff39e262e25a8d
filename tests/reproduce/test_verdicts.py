"""Rules, and the verdicts that they come to."""

import math

import numpy as np
import pytest

from eniac.report.statistics import wilson
from eniac.reproduce.verdicts import (
    Evidence,
    Rule,
    comparison,
    measured,
    not_measured,
    share,
    together,
)

ABOVE, BELOW = Rule("a share", 0.7), Rule("a share", 0.3, above=False)


@pytest.mark.parametrize(
    ("rule", "low", "high", "verdict"),
    [
        (ABOVE, 0.71, 1.0, "held"),
        (ABOVE, 0.0, 0.69, "did not hold"),
        (ABOVE, 0.6, 0.8, "undecided"),
        (BELOW, 0.0, 0.29, "held"),
        (BELOW, 0.31, 1.0, "did not hold"),
        (BELOW, 0.2, 0.4, "undecided"),
        (ABOVE, math.nan, math.nan, "undecided"),
    ],
)
def test_the_side_of_the_bound_on_which_the_interval_lies_decides(rule, low, high, verdict):
    assert rule.verdict(low, high) == verdict


def test_ten_of_ten_seeds_are_enough_and_nine_are_not():
    assert share(ABOVE, [True] * 10).verdict == "held"
    assert share(ABOVE, [True] * 9 + [False]).verdict == "undecided"
    assert share(BELOW, [False] * 10).verdict == "held"
    assert share(BELOW, [False] * 5).verdict == "undecided"


def test_an_undecided_share_says_how_many_seeds_would_decide():
    found = share(ABOVE, [True] * 5)
    assert found.more == 9
    assert wilson(9, 9)[0] > 0.7 > wilson(8, 8)[0]
    assert share(ABOVE, [True] * 7 + [False] * 3).more is None


def test_a_comparison_needs_the_interval_and_the_test():
    rule = Rule("a probability", 0.5)
    many, never = np.arange(10.0), np.full(10, np.inf)
    assert comparison(rule, [(never, many)]).verdict == "held"
    assert comparison(rule, [(many, never)]).verdict == "did not hold"
    # All of three are above all of three: an interval without width, and p = 0.1.
    few = comparison(rule, [(np.arange(3.0) + 9, np.arange(3.0))])
    assert (few.low, few.high, few.verdict) == (1.0, 1.0, "undecided")
    assert few.more > 3


def test_one_place_can_refute_a_claim_and_all_have_to_hold_it():
    def of(*verdicts):
        return together([Evidence("", "", 0, 1, 10, verdict) for verdict in verdicts])

    assert of("held", "held") == "held"
    assert of("held", "undecided") == "undecided"
    assert of("held", "undecided", "not measured") == "not measured"
    assert of("not measured", "did not hold") == "did not hold"
    assert of() == "not measured"
    assert together([not_measured("")]) == "not measured"


def test_a_measured_number_keeps_its_interval():
    found = measured(Rule("an exponent", 8, above=False), 2.5, 2.0, 3.0, 10, "20 states")
    assert (found.shown, found.low, found.high, found.verdict) == ("2.50", 2.0, 3.0, "held")
