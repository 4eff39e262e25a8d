"""What holds for every function class."""

import numpy as np
import pytest

from eniac.functions import (
    Aggregation,
    Finite,
    GeneralisedLinear,
    Linear,
    Network,
    Tabular,
    Trees,
    tangent_features,
)
from eniac.functions.inputs import one_hot_pairs, with_actions

S, A = 6, 3
BOUND = 5.0


def features(dim):
    return np.random.default_rng(7).normal(size=(S, A, dim))


def tables(num):
    drawn = np.random.default_rng(8).uniform(-BOUND, BOUND, size=(num, S, A))
    return np.concatenate([drawn, np.zeros((1, S, A))])


COORDINATES = with_actions(np.arange(S, dtype=float)[:, None], A)
MAKERS = {
    "tabular": lambda: Tabular(S, A, BOUND),
    "tabular-zero": lambda: Tabular(S, A, BOUND, fill="zero"),
    "aggregation": lambda: Aggregation(np.arange(S * A).reshape(S, A) // 4, BOUND),
    "linear": lambda: Linear(features(4), 2.0),
    "linear-wide": lambda: Linear(features(30), 2.0),
    "glm": lambda: GeneralisedLinear(features(3), BOUND, norm_bound=2.0),
    "glm-tanh": lambda: GeneralisedLinear(features(3), BOUND, norm_bound=1.0, link="tanh"),
    "network": lambda: Network(COORDINATES, BOUND, hidden=(32,), max_steps=200, tolerance=1e-6),
    "network-deep": lambda: Network(
        one_hot_pairs(S, A), BOUND, hidden=(8, 8), max_steps=200, tolerance=1e-6
    ),
    "trees": lambda: Trees(COORDINATES, BOUND),
    "trees-small": lambda: Trees(COORDINATES, BOUND, max_leaves=4),
    "trees-bagged": lambda: Trees(COORDINATES, BOUND, max_leaves=8, num_trees=3, ensemble="bagged"),
    "trees-boosted": lambda: Trees(
        COORDINATES, BOUND, max_leaves=8, num_trees=8, ensemble="boosted", learning_rate=0.5
    ),
    "finite": lambda: Finite(tables(20)),
}
EVERY = pytest.mark.parametrize("name", MAKERS)
SMOOTH = [n for n in MAKERS if MAKERS[n]().smooth]
# Greedy partitions and averages of trees need not reach the best that the class could do.
EXACT = [n for n in MAKERS if n not in ("trees-small", "trees-bagged", "trees-boosted")]


def some_data(seed):
    rng = np.random.default_rng(seed)
    target = rng.uniform(-1.2 * BOUND, 1.2 * BOUND, size=(S, A))
    weight = rng.integers(0, 10, size=(S, A)) * (rng.uniform(size=(S, A)) < 0.7)
    return target, weight, rng


def loss(function_class, params, target, weight):
    return np.sum(weight * np.square(function_class(params) - target))


@pytest.mark.parametrize("name", EXACT)
def test_a_member_is_recovered_from_noiseless_data(name):
    function_class = MAKERS[name]()
    rng = np.random.default_rng(0)
    for _ in range(3):
        member = function_class(function_class.sample(rng))
        if name.startswith("network"):
            member = 0.9 * np.clip(member, -BOUND, BOUND)  # both can take any values here
        fitted = function_class(function_class.fit(member, rng.integers(1, 9, size=(S, A))))
        assert fitted == pytest.approx(member, abs=1e-6 * BOUND)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", range(3))
def test_no_random_member_fits_better(name, seed):
    function_class = MAKERS[name]()
    target, weight, rng = some_data(seed)
    params = function_class.fit(target, weight)
    best = loss(function_class, params, target, weight)
    # The network stops a thousandth short of its bound, where targets lie beyond it.
    slack = 1.01 if name.startswith("network") else 1 + 1e-9
    for _ in range(200):
        assert best <= slack * loss(function_class, function_class.sample(rng), target, weight)


@pytest.mark.parametrize("name", ["linear", "linear-wide", "glm", "glm-tanh"])
@pytest.mark.parametrize("seed", range(3))
def test_no_small_change_inside_the_ball_fits_better(name, seed):
    function_class = MAKERS[name]()
    target, weight, rng = some_data(seed)
    params = function_class.fit(target, weight)
    best = loss(function_class, params, target, weight)
    for scale in (1e-1, 1e-2, 1e-3, 1e-4):
        for _ in range(50):
            moved = params + scale * rng.normal(size=params.shape)
            moved *= min(1.0, function_class.norm_bound / np.linalg.norm(moved))
            assert best <= loss(function_class, moved, target, weight) + 1e-9 * best


@EVERY
def test_every_member_is_within_the_bound(name):
    function_class = MAKERS[name]()
    rng = np.random.default_rng(1)
    extreme = 100 * BOUND * rng.choice([-1.0, 1.0], size=(S, A))
    members = [function_class.sample(rng) for _ in range(50)]
    for params in [*members, function_class.fit(extreme, np.ones((S, A)))]:
        assert np.abs(function_class(params)).max() <= function_class.bound * (1 + 1e-12)


@EVERY
def test_without_data_the_fit_is_zero_and_zero_is_a_uniform_policy(name):
    function_class = MAKERS[name]()
    params = function_class.fit(np.full((S, A), np.nan), np.zeros((S, A)))
    assert np.array_equal(params, function_class.zero())
    table = function_class(params)
    assert np.all(table == table[0, 0])
    if name != "glm":  # the logistic class has no zero function
        assert table[0, 0] == 0


@EVERY
def test_only_proportions_of_weights_matter(name):
    function_class = MAKERS[name]()
    target, weight, _ = some_data(3)
    once = function_class(function_class.fit(target, weight))
    assert function_class(function_class.fit(target, 1024 * weight)) == pytest.approx(once)


@EVERY
def test_pairs_without_weight_have_no_say(name):
    function_class = MAKERS[name]()
    target, weight, _ = some_data(4)
    other = np.where(weight > 0, target, np.nan)
    first, second = function_class.fit(target, weight), function_class.fit(other, weight)
    assert np.array_equal(first, second)


@EVERY
def test_samples_and_their_means_give_the_same_fit(name):
    """Least squares on the samples of a pair is least squares on their mean, times their number."""
    function_class = MAKERS[name]()
    rng = np.random.default_rng(5)
    samples = rng.normal(size=(S, A, 4))
    params = function_class.fit(samples.mean(axis=2), np.full((S, A), 4))
    other = function_class.sample(rng)

    def sum_over_samples(p):
        return np.sum(np.square(samples - function_class(p)[..., None]))

    spread = np.sum(np.square(samples - samples.mean(axis=2, keepdims=True)))
    weighted = loss(function_class, params, samples.mean(axis=2), np.full((S, A), 4))
    assert sum_over_samples(params) == pytest.approx(weighted + spread)
    if name in EXACT:
        assert sum_over_samples(params) <= sum_over_samples(other)


@EVERY
def test_parameters_are_flat_float64_and_survive_a_round_trip(name, tmp_path):
    function_class = MAKERS[name]()
    target, weight, rng = some_data(6)
    kept = [function_class.fit(target, weight), function_class.zero(), function_class.sample(rng)]
    for params in kept:
        assert params.shape == (function_class.dim,)
        assert params.dtype == np.float64
        np.save(tmp_path / "params.npy", params)
        again = np.load(tmp_path / "params.npy")
        assert np.array_equal(function_class(again), function_class(params))
        assert function_class(params).shape == (S, A)


@EVERY
def test_the_same_data_give_the_same_fit(name):
    target, weight, _ = some_data(7)
    assert np.array_equal(MAKERS[name]().fit(target, weight), MAKERS[name]().fit(target, weight))


@EVERY
def test_a_fit_may_start_from_another(name):
    function_class = MAKERS[name]()
    target, weight, _ = some_data(8)
    first = function_class.fit(target, weight)
    again = function_class.fit(target, weight, first)
    assert loss(function_class, again, target, weight) <= (
        loss(function_class, first, target, weight) * (1 + 1e-12)
    )


@EVERY
def test_widths_shrink_with_data_and_never_exceed_what_counts_and_bound_allow(name):
    function_class = MAKERS[name]()
    _, weight, _ = some_data(9)
    few, many = function_class.widths(weight, 1.0), function_class.widths(4 * weight, 1.0)
    counted = 1.0 / np.sqrt(np.maximum(weight, 1e-300))
    assert np.all(few <= np.minimum(2 * function_class.bound, counted) * (1 + 1e-9))
    # The search of the generalised linear class stops at about 1e-3 of its optimum.
    assert np.all(many <= few * (1 + (1e-3 if name.startswith("glm") else 1e-12)))
    assert np.all(function_class.widths(np.zeros((S, A)), 1.0) >= 0)


@EVERY
def test_a_threshold_does_not_change_which_pairs_are_known(name):
    function_class = MAKERS[name]()
    _, weight, _ = some_data(10)
    beta = 0.5
    known = function_class.widths(weight, 1.0) < beta
    assert np.array_equal(function_class.widths(weight, 1.0, threshold=beta) < beta, known)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_gradient_is_the_slope_of_the_function(name):
    function_class = MAKERS[name]()
    params = function_class.sample(np.random.default_rng(11))
    gradient = function_class.gradient(params)
    assert gradient.shape == (S, A, function_class.dim)
    step = 1e-6
    for i in range(function_class.dim):
        shift = step * np.eye(function_class.dim)[i]
        slope = (function_class(params + shift) - function_class(params - shift)) / (2 * step)
        assert gradient[..., i] == pytest.approx(slope, abs=1e-7 * BOUND)


@pytest.mark.parametrize("name", [n for n in MAKERS if n not in SMOOTH])
def test_a_class_without_gradient_sends_npg_users_to_spi(name):
    function_class = MAKERS[name]()
    with pytest.raises(ValueError, match=f"'{function_class.name}' has no gradient.*use SPI"):
        function_class.gradient(function_class.zero())


@pytest.mark.parametrize("name", [n for n in MAKERS if MAKERS[n]().additive])
def test_additive_classes_add_in_their_parameters(name):
    function_class = MAKERS[name]()
    rng = np.random.default_rng(12)
    first, second = function_class.sample(rng), function_class.sample(rng)
    total = function_class(first) + function_class(second)
    assert function_class(first + second) == pytest.approx(total)


@EVERY
@pytest.mark.parametrize(
    ("target", "weight", "reason"),
    [
        (np.zeros((S, A)), np.zeros((S, A + 1)), "shape"),
        (np.zeros((S, A + 1)), np.ones((S, A)), "target has shape"),
        (np.full((S, A), np.nan), np.ones((S, A)), "finite"),
        (np.zeros((S, A)), np.full((S, A), -1.0), "not negative"),
        (np.zeros((S, A)), np.full((S, A), np.inf), "finite"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_data_that_are_none_are_refused(name, target, weight, reason):
    with pytest.raises(ValueError, match=reason):
        MAKERS[name]().fit(target, weight)


@EVERY
def test_a_start_of_another_class_is_refused(name):
    function_class = MAKERS[name]()
    with pytest.raises(ValueError, match="start has shape"):
        function_class.fit(np.zeros((S, A)), np.ones((S, A)), np.zeros(function_class.dim + 1))


@pytest.mark.parametrize("name", SMOOTH)
def test_tangent_features_are_the_slopes_of_log_pi(name):
    functions = MAKERS[name]()
    params = 0.1 * functions.sample(np.random.default_rng(1))

    def log_policy(params):
        table = functions(params)
        return table - np.log(np.exp(table).sum(axis=1, keepdims=True))

    policy = np.exp(log_policy(params))
    found = tangent_features(functions.gradient(params), policy)
    assert np.einsum("sad,sa->sd", found, policy) == pytest.approx(0, abs=1e-12)
    for i in np.random.default_rng(2).permutation(functions.dim)[:5]:
        step = 1e-6 * np.eye(functions.dim)[i]
        slope = (log_policy(params + step) - log_policy(params - step)) / 2e-6
        assert found[..., i] == pytest.approx(slope, abs=1e-6)


@pytest.mark.usefixtures("unchecked")
def test_a_policy_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="shape"):
        tangent_features(np.zeros((2, 2, 3)), np.zeros((2, 3)))
