"""Statistics against cases done by hand, and against SciPy."""

import math

import numpy as np
import pytest
from scipy import stats

from eniac import ConfigError
from eniac.report.statistics import (
    bootstrap_interval,
    holm,
    interquartile_mean,
    mean_improvement,
    mean_interval,
    performance_profile,
    permutation_p_value,
    probability_of_improvement,
    rank_test,
    seeds_to_settle,
    time_to_threshold,
    wilson,
)

RNG = np.random.default_rng(5)


def iqm(strata):
    return interquartile_mean(strata[0], axis=1)


def test_the_interquartile_mean_by_hand():
    assert interquartile_mean(np.array([100.0, 1, 2, -50])) == 1.5
    assert interquartile_mean(np.array([1.0, 2, 6])) == 3  # of three nothing is left out
    assert interquartile_mean(np.arange(8.0)) == 3.5
    np.testing.assert_array_equal(interquartile_mean(np.array([[0, 9], [4, 1]]), axis=0), [2, 5])
    with pytest.raises(ConfigError, match="1 or more"):
        interquartile_mean(np.array([]))


@pytest.mark.parametrize("num", range(1, 20))
def test_the_interquartile_mean_is_scipys_trimmed_mean(num):
    values = RNG.normal(size=num)
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25), rel=1e-12)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (0, 10), (3, 10), (10, 10), (57, 100)])
def test_wilsons_interval_is_scipys(successes, trials, level):
    expected = stats.binomtest(successes, trials).proportion_ci(level, method="wilson")
    assert wilson(successes, trials, level) == pytest.approx(tuple(expected), abs=1e-12)


def test_wilsons_interval_of_none_of_ten_by_hand():
    z = 1.959963984540054
    assert wilson(0, 10) == pytest.approx((0, z**2 / (10 + z**2)))


def test_what_is_no_share_is_refused():
    with pytest.raises(ConfigError, match="trials is 0; it must be 1 or more"):
        wilson(0, 0)
    with pytest.raises(ConfigError, match="successes is 3"):
        wilson(3, 2)


def test_the_probability_of_improvement_by_hand():
    assert probability_of_improvement(np.array([3.0, 4]), np.array([1.0, 2])) == 1
    assert probability_of_improvement(np.array([1.0, 2]), np.array([3.0, 4])) == 0
    # Of six pairs: 1 < 2, 1 < 3, 3 > 2, 3 = 3, and so again.
    assert probability_of_improvement(np.array([1.0, 3]), np.array([2.0, 3, 0])) == 3.5 / 6
    never = -math.inf
    assert probability_of_improvement(np.array([never, -5]), np.array([never, never])) == 0.75


@pytest.mark.parametrize("ties", [False, True])
def test_the_probability_of_improvement_is_mann_and_whitneys(ties):
    for n, m in ((4, 4), (10, 7), (3, 12)):
        a, b = RNG.normal(0.5, 1, n), RNG.normal(size=m)
        if ties:
            a, b = a.round(), b.round()
        found = stats.mannwhitneyu(a, b, method="asymptotic")
        assert probability_of_improvement(a, b) == pytest.approx(found.statistic / (n * m))
        assert rank_test([(a, b)]) == pytest.approx(found.pvalue)


def test_where_all_results_are_the_same_nothing_can_be_told():
    same = np.ones(5)
    assert rank_test([(same, same)]) == 1
    assert permutation_p_value([(same, same)]) == 1
    assert seeds_to_settle([(same, same)]) is None


def test_all_ways_of_dealing_give_the_exact_test():
    a, b = RNG.normal(1, 1, 6), RNG.normal(size=5)
    exact = stats.mannwhitneyu(a, b, method="exact").pvalue
    assert permutation_p_value([(a, b)]) == pytest.approx(exact)
    # The most extreme of C(6, 3) = 20, and its mirror image.
    assert permutation_p_value([(np.arange(3.0) + 9, np.arange(3.0))]) == pytest.approx(0.1)


def test_random_ways_of_dealing_come_near_the_exact_test():
    a, b = RNG.normal(0.7, 1, 15), RNG.normal(size=15)
    exact = stats.mannwhitneyu(a, b, method="exact").pvalue
    assert permutation_p_value([(a, b)]) == pytest.approx(exact, abs=0.01)


def test_environments_are_dealt_out_apart():
    """Three seeds of each decide nothing in one environment, in two they do: 0.1 x 0.1 / 2."""
    apart = (np.arange(3.0) + 9, np.arange(3.0))
    scaled = (1000 + apart[0], 1000 + apart[1])
    assert permutation_p_value([apart, scaled]) == pytest.approx(2 / 400, abs=0.002)
    opposite = (scaled[1], scaled[0])
    assert permutation_p_value([apart, opposite]) == 1
    assert mean_improvement([*apart, *opposite]) == 0.5


def test_holms_correction_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([0.02]) == [0.02]


def test_the_bootstrap_is_the_same_each_time_and_agrees_with_scipys():
    values = RNG.exponential(size=30)
    low, high = bootstrap_interval([values], iqm)
    assert bootstrap_interval([values], iqm) == (low, high)
    theirs = stats.bootstrap(
        (values,),
        lambda x, axis: stats.trim_mean(x, 0.25, axis=axis),
        n_resamples=2000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.06)


@pytest.mark.parametrize("draw", [RNG.normal, RNG.uniform], ids=["normal", "uniform"])
def test_the_intervals_hold_the_truth_about_as_often_as_they_say(draw):
    middle = {"normal": 0.0, "uniform": 0.5}[draw.__name__]
    intervals = [bootstrap_interval([draw(size=20)], iqm, 0.9, 300, k) for k in range(300)]
    share = np.mean([low <= middle <= high for low, high in intervals])
    assert 0.82 <= share <= 0.96


def test_strata_are_drawn_apart():
    """Each from its own seeds: of constant ones there is nothing to vary, however they differ."""
    strata = [np.zeros(4), np.full(6, 100.0)]
    ends = bootstrap_interval(strata, lambda drawn: drawn[1].mean(1) - drawn[0].mean(1))
    assert ends == (100, 100)
    shapes = []
    bootstrap_interval(strata, lambda drawn: shapes.extend(x.shape for x in drawn) or np.ones(2000))
    assert shapes == [(2000, 4), (2000, 6)]


def test_of_one_seed_there_is_no_interval():
    assert np.isnan(bootstrap_interval([np.ones(1)], iqm)).all()
    assert np.isnan(bootstrap_interval([np.ones(5), np.ones(1)], iqm)).all()


def test_medians_of_times_may_be_infinite():
    times = np.array([10.0, 20, math.inf, math.inf])
    low, high = bootstrap_interval([times], lambda drawn: np.median(drawn[0], axis=1))
    assert low in (10, 15)
    assert high == math.inf


def test_a_profile_is_the_share_above_each_level():
    shares = performance_profile(np.array([1.0, 2, 2, 5]), np.array([0.0, 1, 2, 5]))
    np.testing.assert_array_equal(shares, [1, 0.75, 0.25, 0])
    assert performance_profile(np.zeros((7, 4)), np.zeros(3)).shape == (7, 3)


def test_the_time_to_a_threshold_is_the_first_above_it():
    steps, values = np.array([10.0, 20, 30]), np.array([1.0, 3, 2])
    assert time_to_threshold(steps, values, 1) == 20  # at it is not above it
    assert time_to_threshold(steps, values, 0) == 10
    assert time_to_threshold(steps, values, 3) == math.inf


def test_a_clear_difference_needs_few_more_seeds_and_a_small_one_many():
    base = RNG.normal(size=8)
    clear = seeds_to_settle([(base + 1.5, base)])
    small = seeds_to_settle([(base + 0.7, base)])
    assert 9 <= clear < small <= 100
    assert seeds_to_settle([(base + 0.01, base)]) is None


def test_the_number_of_seeds_is_what_the_formula_for_means_says():
    """Of normal results a shift by one deviation takes 17 of each for a power of 0.8 (t-test), and
    Mann and Whitney's test about 1.05 times as many."""
    values = stats.norm.ppf((np.arange(60) + 0.5) / 60)
    few = [(values + 1, values)]
    found = [
        num
        for num in range(5, 40)
        if np.mean(rank_test([tuple(x[RNG.integers(60, size=(400, num))] for x in few[0])]) < 0.05)
        >= 0.8
    ]
    assert 14 <= found[0] <= 21


def test_more_tests_take_more_seeds():
    base = RNG.normal(size=8)
    one, many = (seeds_to_settle([(base + 1.2, base)], tests) for tests in (1, 10))
    assert one < many


def test_fewer_than_four_seeds_each_never_settle_anything():
    apart = (np.arange(3.0) + 9, np.arange(3.0))
    assert seeds_to_settle([apart]) == 4
    assert rank_test([apart]) > 0.05


def test_the_interval_of_a_mean_is_that_of_student():
    low, high = mean_interval(2.0, float(np.std([1.0, 2.0, 3.0])), 3)
    assert (low, high) == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5))
    assert mean_interval(2.0, 0.0, 1) is None
