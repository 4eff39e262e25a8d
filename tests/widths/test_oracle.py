import numpy as np
import pytest

from eniac.functions import Aggregation, Finite, GeneralisedLinear, Linear, Network, Tabular, Trees
from eniac.functions.inputs import one_hot_pairs, with_actions
from eniac.widths.exact import finite_widths
from eniac.widths.oracle import OracleSettings, oracle_widths
from eniac.widths.pair_search import pair_search_widths

S, A = 6, 3


def data(rng, share=0.4):
    return rng.integers(1, 20, size=(S, A)) * (rng.uniform(size=(S, A)) < share)


def convex_classes(rng):
    scale = 10 ** rng.uniform(-1, 1)
    return [
        Tabular(S, A, scale),
        Aggregation(rng.integers(0, 7, size=(S, A)), scale),
        Linear(rng.normal(size=(S, A, 4)), scale),
        Linear(rng.normal(size=(S, A, 25)), scale),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_on_convex_classes_the_oracle_is_within_its_tolerance_of_the_exact_width(seed):
    rng = np.random.default_rng(seed)
    for function_class in convex_classes(rng):
        counts, epsilon = data(rng), 10 ** rng.uniform(-1, 1)
        exact = function_class.widths(counts, epsilon)
        for tolerance in (0.05, 1e-3):
            settings = OracleSettings(tolerance=tolerance, max_steps=60)
            found = oracle_widths(function_class, counts, epsilon, settings=settings)
            assert np.all(found.lower <= exact * (1 + 1e-9))
            assert np.all(found.lower >= exact * (1 - 1.01 * tolerance))
            assert np.all(found.upper >= exact * (1 - 1e-12))
            assert np.all(found.queried)


def small_list(rng, num=40):
    drawn = rng.normal(size=(num, S, A)).round(1)
    return Finite(np.concatenate([drawn, -drawn, np.zeros((1, S, A))]))


def test_on_finite_classes_the_oracle_never_exceeds_the_width_and_reaches_most_with_centres():
    """A list is as far from convex as can be: one centre may have no member near it at all."""
    shares = {0: [], 10: []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        function_class = small_list(rng)
        counts = (data(rng) > 0).astype(int)
        epsilon = 1.2 * np.sqrt(counts.sum())
        exact = function_class.widths(counts, epsilon)
        for num_centres, found in shares.items():
            settings = OracleSettings(num_centres=num_centres)
            lower = oracle_widths(function_class, counts, epsilon, settings=settings).lower
            assert np.all(lower <= exact)
            found.append(np.mean(lower / exact))
    assert np.mean(shares[10]) >= 0.95
    assert np.mean(shares[0]) < 0.6


def grid_of_members(function_class, num=41):
    """The widths of a fine grid of members: below the true ones, and near them."""
    axis = np.linspace(-1, 1, num) * function_class.norm_bound
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    points = points[np.linalg.norm(points, axis=1) <= function_class.norm_bound]
    return np.stack([function_class(u).ravel() for u in points])


def glm_case(seed, norm_bound):
    rng = np.random.default_rng(seed)
    link = str(rng.choice(["logistic", "tanh"]))
    function_class = GeneralisedLinear(rng.normal(size=(S, A, 2)), 2.0, norm_bound, link)
    counts, epsilon = data(rng), 0.5
    values, seen = grid_of_members(function_class), counts.ravel() > 0
    brute = finite_widths(values[:, seen], values, epsilon, counts.ravel()[seen]).reshape(S, A)
    return function_class, counts, epsilon, brute


def flatness(function_class):
    """The smallest slope of the link on the ball, as a share of the largest."""
    reach = function_class.norm_bound * np.linalg.norm(function_class.features, axis=2)
    slope = function_class.link.slope
    return float(slope(reach).min() / slope(np.zeros(1))[0])


@pytest.mark.parametrize("norm_bound", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_on_a_glm_the_true_width_lies_between_what_is_attained_and_what_is_proved(seed, norm_bound):
    function_class, counts, epsilon, brute = glm_case(seed, norm_bound)
    below, above = function_class.width_bounds(counts, epsilon)
    oracle = oracle_widths(function_class, counts, epsilon).lower
    search = pair_search_widths(function_class, counts, epsilon)
    best = np.maximum(brute, search)
    assert np.all(best <= above * (1 + 1e-12))
    # Moving both members at once finds what a grid of members finds, and more.
    assert np.all(search >= 0.99 * brute)
    # Around one centre: never more, and at least the square of the link's flatness.
    assert np.all(oracle <= best * 1.01)
    assert np.all(oracle >= flatness(function_class) ** 2 * best)
    assert np.all(oracle >= below * 0.99)


def test_more_centres_find_more_of_a_glms_width():
    shares = {0: [], 8: []}
    for seed in range(4):
        function_class, counts, epsilon, brute = glm_case(seed, 2.0)  # where the link saturates
        for num_centres, found in shares.items():
            settings = OracleSettings(num_centres=num_centres)
            lower = oracle_widths(function_class, counts, epsilon, settings=settings).lower
            found.append(np.mean(lower / np.maximum(brute, lower)))
    assert np.mean(shares[0]) < 0.6
    assert np.mean(shares[8]) > 0.8


COORDINATES = with_actions(np.arange(S, dtype=float)[:, None], A)


@pytest.mark.parametrize(
    "function_class",
    [
        Network(one_hot_pairs(S, A), 2.0, hidden=(8,)),
        Network(COORDINATES, 2.0, hidden=(32,)),
        Trees(COORDINATES, 2.0),
    ],
    ids=["network-one-hot", "network", "trees"],
)
def test_classes_that_interpolate_attain_the_count_form(function_class):
    """So that their `widths`, an upper bound for any class, are what fits can reach."""
    counts = data(np.random.default_rng(0), 0.6)
    found = oracle_widths(function_class, counts, 1.0, settings=OracleSettings(max_steps=30))
    exact = function_class.widths(counts, 1.0)
    assert np.all(found.lower <= exact * (1 + 1e-12))
    assert np.min(found.lower / exact) >= 0.98


@pytest.mark.parametrize("seed", range(3))
def test_a_threshold_decides_as_the_exact_widths_do_with_fewer_fits(seed):
    rng = np.random.default_rng(seed)
    function_class = Linear(rng.normal(size=(S, A, 4)), 3.0)
    counts, epsilon = data(rng), 1.0
    exact = function_class.widths(counts, epsilon)
    beta = float(np.median(exact)) * 1.1
    full = oracle_widths(function_class, counts, epsilon)
    quick = oracle_widths(function_class, counts, epsilon, threshold=beta)
    clear = np.abs(exact / beta - 1) > 0.01  # within the tolerance it may go either way
    assert np.array_equal((quick.widths >= beta)[clear], (exact >= beta)[clear])
    assert quick.num_fits < full.num_fits


def test_pairs_beyond_the_cap_stay_unknown():
    rng = np.random.default_rng(0)
    function_class = Linear(rng.normal(size=(S, A, 2)), 3.0)
    counts, epsilon, beta = data(rng), 1.0, 0.7
    free = oracle_widths(function_class, counts, epsilon, threshold=beta)
    capped = oracle_widths(
        function_class, counts, epsilon, beta, settings=OracleSettings(max_queries=3)
    )
    none = oracle_widths(
        function_class, counts, epsilon, beta, settings=OracleSettings(max_queries=0)
    )
    assert np.any(free.widths < capped.widths)
    assert np.all((capped.widths >= beta) | (free.widths < beta))  # never known too early
    assert none.num_fits == 0
    assert np.array_equal(none.widths, none.upper)


def test_no_data_gives_the_whole_range_and_radius_zero_nothing_where_there_are_data():
    function_class = Tabular(S, A, 3.0)
    assert oracle_widths(function_class, np.zeros((S, A)), 1.0).lower == pytest.approx(6.0)
    found = oracle_widths(function_class, np.ones((S, A)), 0.0)
    assert np.all(found.widths == 0)


def test_search_with_a_threshold_decides_as_without():
    function_class, counts, epsilon, _ = glm_case(2, 2.0)
    full = pair_search_widths(function_class, counts, epsilon)
    beta = float(np.median(full)) * 1.01
    quick = pair_search_widths(function_class, counts, epsilon, threshold=beta)
    assert np.array_equal(quick >= beta, full >= beta)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("tolerance", 0.0), ("max_steps", 0), ("max_queries", -1), ("num_centres", -1)],
)
def test_settings_that_make_no_sense_are_refused(setting, value):
    with pytest.raises(ValueError, match=setting):
        OracleSettings(**{setting: value})
