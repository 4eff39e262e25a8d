"""Statements of the paper that fail, each by the smallest example found, and how each is mended.

`docs/errata.md` tells the story of every test here.
"""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest

from eniac.theory import guarantees, planning
from eniac.theory.eluder import (
    finite_eluder_dimension,
    greedy_linear_eluder_dimension,
    linear_eluder_bound,
    linear_eluder_dimension,
)
from eniac.theory.planning import Model
from eniac.widths.exact import bonus_from_unknown, finite_widths, tabular_widths


def one_state(num_actions=1, reward=0.0, gamma=0.9):
    return Model(np.ones((1, num_actions, 1)), np.full((1, num_actions), reward), np.ones(1), gamma)


# --- bonus lemmas ---------------------------------------------------------------------------------


def printed_bonus_bound(N, K, epsilon, beta, W, gamma, delta, dimension):
    """The right-hand side of Lemma C.1 as printed."""
    count = (2 * epsilon**2 + 8 * K * W**2 + beta**2) / ((1 - gamma) * beta**2 * K) * dimension
    return count + N / (1 - gamma) * math.sqrt(math.log(2 / delta) / (2 * K))


@pytest.mark.parametrize(
    ("N", "K", "W", "left", "right"),
    [(200, 10**6, 10.0, 2.0e4, 1.2003e4), (10**5, 1000, 100.0, 1.0e7, 2.843e6)],
)
def test_bonus_lemmas_lose_a_factor_of_the_horizon(N, K, W, left, right):
    # One state, one action, values in [-W, W]: eluder dimension 1. The radius keeps the pair
    # unknown in every epoch, so every epoch gains b/(1 - gamma) = 1/(1 - gamma)^2.
    gamma, beta, delta = 0.9, 1.0, 0.05
    epsilon = beta * math.sqrt(K * N)
    widths = tabular_widths(np.arange(1, N + 1) * K, epsilon, W)
    assert np.all(widths >= beta)
    model = one_state()
    bonus = bonus_from_unknown(np.ones((1, 1), bool), gamma)
    policy = np.ones((1, 1))
    with_bonus = planning.value(planning.bonus_model(model, bonus), policy)
    gained = N * (with_bonus - planning.value(model, policy))
    bound = printed_bonus_bound(N, K, epsilon, beta, W, gamma, delta, dimension=1)
    assert gained == pytest.approx(left)
    assert bound == pytest.approx(right, rel=1e-3)
    assert bound < gained <= bound / (1 - gamma)


def test_corrected_constants_hold_where_the_printed_ones_fail():
    arguments = {"gamma": 0.9, "num_actions": 4, "eluder_dimension": 20.0, "log_cover": 100.0}
    printed = guarantees.spi_sample(0.5, **arguments, constants="printed")
    corrected = guarantees.spi_sample(0.5, **arguments)
    assert sum(t > printed.varepsilon for t in printed.terms().values()) == 5
    assert max(printed.terms().values()) == pytest.approx(10 * printed.varepsilon)
    assert max(corrected.terms().values()) <= corrected.varepsilon * (1 + 1e-9)
    assert corrected.gap <= 0.5 < printed.gap
    # N, K and M each pay 1/(1 - gamma) once: N T M is of order (1 - gamma)^-10, not -8.
    for name in ("N", "K", "M"):
        assert 9.999 < getattr(corrected, name) / getattr(printed, name) < 14


# --- the actor of NPG -----------------------------------------------------------------------------


def test_the_main_texts_npg_actor_loses_the_advantage_of_exploring():
    # One state with one unknown action of four; all four end in a known state that pays nothing.
    gamma, T = 0.9, 200_000
    transition = np.zeros((2, 4, 2))
    transition[:, :, 1] = 1.0
    model = Model(transition, np.zeros((2, 4)), np.array([1.0, 0.0]), gamma)
    unknown = np.zeros((2, 4), bool)
    unknown[0, 3] = True
    bonus = bonus_from_unknown(unknown, gamma)
    known = planning.known_states(bonus)
    auxiliary = planning.auxiliary_model(model, bonus)
    comparator = planning.auxiliary_comparator(planning.uniform_policy(model), known)

    # pi proportional to exp(f 1{s in K}): uniform over all four in the unknown state, for ever.
    main_text = planning.auxiliary_policy(np.full((2, 4), 0.25))
    regret = planning.value(auxiliary, comparator) - planning.value(auxiliary, main_text)
    bound = 8 * 10 * math.sqrt(math.log(4) / T) / (1 - gamma)  # Lemma D.3, D = 1/(1 - gamma)
    assert regret == pytest.approx(7.5)
    assert bound == pytest.approx(2.106, abs=1e-3)
    assert planning.advantages(auxiliary, main_text)[0, -1] == pytest.approx(0.75)

    # The appendix's actor is uniform over the *unknown* actions there.
    appendix = planning.auxiliary_policy(np.array([[0.0, 0, 0, 1], [0.25] * 4]))
    assert planning.value(auxiliary, comparator) <= planning.value(auxiliary, appendix) + 1e-12
    assert planning.advantages(auxiliary, appendix)[0, -1] <= 1e-12


def test_npg_must_start_from_the_uniform_policy_on_known_states():
    # Two arms, one pays. From a start that all but excludes it, the regret of T steps is nearly
    # all there is: KL(comparator, start) stands in the bound, and only for uniform is it log|A|.
    T, W = 400, 2.0
    eta = math.sqrt(math.log(2) / (16 * W**2 * T))
    critic = np.array([W, -W])
    bound = 8 * W * math.sqrt(math.log(2) / T)

    def mean_gain(logit):
        gains = []
        for t in range(T):
            arm = 1 / (1 + math.exp(-(logit + 2 * eta * W * t)))
            gains.append(critic[0] - arm * critic[0] - (1 - arm) * critic[1])
        return np.mean(gains)

    assert mean_gain(0.0) <= bound
    assert mean_gain(-40.0) > 2 * bound


# --- eluder dimension -----------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "length"), [(0.5, 5), (0.1, 10), (0.01, 17), (0.001, 23)])
def test_eluder_dimension_of_one_linear_parameter_is_not_one(epsilon, length):
    # f(x) = u x, |u| <= 1, |x| <= 1. Each point must exceed the root of the sum of squares of those
    # before it, so squares double: x_1 just above epsilon/2, then x_1, sqrt(2) x_1, 2 x_1, ...
    first = epsilon / 2
    points = _strictly_independent(first, length)
    assert points[-1] <= 1.0
    found = greedy_linear_eluder_dimension(points[:, None], epsilon, 1.0)
    assert found.points == tuple(range(length))
    if length <= 16:
        assert linear_eluder_dimension(points[:, None], epsilon, 1.0).dimension == length
    # One more would need x > 2^((length - 1)/2) epsilon/2 >= 1, for any epsilon' >= epsilon.
    assert 2 ** ((length - 1) / 2) * first >= 1.0
    assert length <= linear_eluder_bound(1, epsilon, 1.0)


def _strictly_independent(first, length):
    points = [first * (1 + 1e-8)]
    while len(points) < length:
        points.append(math.sqrt(sum(x * x for x in points)) * (1 + 1e-8))
    return np.array(points)


def test_counting_widths_of_at_least_beta_needs_more_than_beta():
    # F = {0, 1} on one point, beta = 1, W = 1: no difference exceeds beta, so the eluder dimension
    # at beta is 0 and so is the bound of Lemma C.1's proof; yet the width is beta until the data
    # forbid it, for epsilon^2/beta^2 samples.
    values, beta, epsilon = np.array([[0.0], [1.0]]), 1.0, 3.0
    dimension = finite_eluder_dimension(values, beta).dimension
    widths = [finite_widths(values[:, [0] * n], values, epsilon)[0] for n in range(12)]
    assert dimension == 0
    assert sum(w >= beta for w in widths) == 10
    assert sum(w > beta for w in widths) == 0  # mended: count widths above beta ...
    slightly_less = finite_eluder_dimension(values, 0.999 * beta).dimension
    assert slightly_less == 1  # ... or take the dimension at any smaller scale
    assert (2 * epsilon**2 + 8 + 1) / 0.999**2 * slightly_less >= 10


# --- coverings ------------------------------------------------------------------------------------


def test_linear_covering_number_exceeds_three_over_epsilon():
    # One parameter, |u| <= B = 10, two actions with gradients +1 and -1 (G = 1), D = BG = 10 at
    # gamma = 0.9. When the policy is sure of one action, the other's log-gradient is almost 2G, and
    # the class is an interval of half-length 2BG(1 - p) in the sup norm.
    B, G, D, sure = 10.0, 1.0, 10.0, 0.999
    log_gradients = np.array([G - G * (2 * sure - 1), -G - G * (2 * sure - 1)])
    half_length = B * np.abs(log_gradients).max()
    epsilon = 1.9 * B * G
    needed = math.ceil(half_length / epsilon)  # intervals of radius epsilon
    assert needed == 2
    assert 3 * D / epsilon < needed <= 6 * D / epsilon


# --- NPG's assumptions ----------------------------------------------------------------------------


def test_tangent_closedness_fails_at_every_unknown_state():
    # One state, two actions, the first known. pi_{f,K} plays the second, so the target T g - E T g
    # with r = (1, 0), g = 0 is (1, 0). Every tangent function has mean zero under pi_f instead.
    target = np.array([1.0, 0.0]) - 0.0
    for logits in ([0.0, 0.0], [3.0, -3.0], [-8.0, 8.0]):
        policy = np.exp(logits) / np.exp(logits).sum()
        log_gradients = np.eye(2) - policy  # row a: gradient of log pi_f(a), tabular softmax
        span = log_gradients @ np.random.default_rng(0).normal(size=(2, 50))
        np.testing.assert_allclose(policy @ span, 0.0, atol=1e-12)
        assert policy @ target == policy[0] > 0
        closest = log_gradients @ np.linalg.lstsq(log_gradients, target, rcond=None)[0]
        assert np.abs(closest - target).max() > 1e-8
    # On known states the same expectation is taken on both sides, and tangents reach the target.
    policy = np.array([0.3, 0.7])
    centred = np.array([1.0, 0.0]) - 0.3
    log_gradients = np.eye(2) - policy
    solution = np.linalg.lstsq(log_gradients, centred, rcond=None)[0]
    np.testing.assert_allclose(log_gradients @ solution, centred, atol=1e-12)


def test_quadratic_lemma_fails_for_a_finite_set_of_directions():
    # U = {-1, 1}, one feature 1, target 0.1: the minimiser is 1, and the other is 2 away.
    loss = lambda u: (u - 0.1) ** 2  # noqa: E731
    best, other = 1.0, -1.0
    assert loss(best) < loss(other)
    assert (other - best) ** 2 == pytest.approx(4.0)
    assert loss(other) - loss(best) == pytest.approx(0.4)
    # With U = [-1, 1] the minimiser is 0.1 and the inequality is an equality.
    assert (other - 0.1) ** 2 == pytest.approx(loss(other) - loss(0.1))


# --- what the critic must reach -------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_realisability_of_sample_needs_exactly_the_squared_horizon(gamma):
    model = one_state(num_actions=2, reward=1.0, gamma=gamma)
    bonus = bonus_from_unknown(np.ones((1, 2), bool), gamma)
    policy = planning.uniform_policy(model)
    critic = planning.action_values(planning.bonus_model(model, bonus), policy) - bonus
    np.testing.assert_allclose(critic, 1 / (1 - gamma) ** 2)


def test_realisability_of_compute_runs_away_from_every_W():
    # The critic's bound is about gamma |A| 12 W sqrt(log|A|) / (varepsilon (1 - gamma)^3): more
    # than W whatever W is, unless gamma |A| 12 sqrt(log|A|) < varepsilon (1 - gamma)^3.
    arguments = {"num_actions": 2, "eluder_dimension": 2.0, "log_cover": 1.0, "rescale": False}
    for gamma, W in itertools.product([0.5, 0.9], [1e2, 1e5, 1e9]):
        found = guarantees.spi_compute(0.5, gamma=gamma, W=W, **arguments)
        assert found.critic_bound > 50 * W
    tiny = guarantees.spi_compute(0.9, gamma=0.001, W=20.0, **arguments)
    assert tiny.realisable


@pytest.mark.parametrize(("power", "likely"), [(1, True), (2, False)])
def test_returns_by_geometric_stopping_are_not_bounded_as_the_statistics_ask(power, likely):
    # Lemma C.4 uses |f + f* - 2y| <= 6 W^2, so |y| <= 2 W^2. Everything unknown and paying 1,
    # y = 1 + (1 + b)(L - 1) with P(L > k) = gamma^k: no bound holds, and how likely 2 W^2 is to
    # be passed depends on W = (1 - gamma)^-power.
    gamma = 0.9
    bonus, W = 1 / (1 - gamma), (1 - gamma) ** -power
    steps = math.floor((2 * W**2 - 1) / (1 + bonus)) + 1  # fewest L - 1 with y > 2 W^2
    passed = gamma**steps
    assert (passed > 0.1) if likely else (passed < 1e-80)


# --- mixtures -------------------------------------------------------------------------------------


def test_mixing_at_every_step_is_not_mixing_once_an_episode():
    # A chain that pays only at its end: right (n times) wins, one left falls into a pit.
    n, gamma = 4, 0.9
    transition = np.zeros((n + 2, 2, n + 2))
    for s in range(n):
        transition[s, 1, s + 1] = transition[s, 0, n + 1] = 1.0
    transition[n:, :, n:] = np.eye(2)[:, None, :]
    reward = np.zeros((n + 2, 2))
    reward[n] = 1.0
    model = Model(transition, reward, np.eye(n + 2)[0], gamma)
    left, right = np.tile([1.0, 0.0], (n + 2, 1)), np.tile([0.0, 1.0], (n + 2, 1))
    once = planning.mixture_value(model, [left, right])
    each_step = planning.value(model, (left + right) / 2)
    assert once == pytest.approx(0.5 * gamma**n / (1 - gamma))
    assert each_step == pytest.approx(0.5**n * gamma**n / (1 - gamma))


# --- SPI-COMPUTE with two actions -----------------------------------------------------------------


def test_the_last_step_of_lemma_C6_needs_three_actions():
    # log|A|/eta + 4W sqrt(T) + 16 eta T W^2 = (8 sqrt(log|A|) + 4) W sqrt(T), claimed to be at most
    # 12 W sqrt(log|A| T): so for log|A| >= 1. With |A-hat| <= 2W, which |f| <= W gives, it is
    # (5 sqrt(log|A|) + 2) W sqrt(T), and the lemma holds for two actions too.
    two, three = math.sqrt(math.log(2)), math.sqrt(math.log(3))
    assert 8 * two + 4 > 12 * two
    assert 8 * three + 4 <= 12 * three
    assert 5 * two + 2 <= 12 * two


# --- the page itself ------------------------------------------------------------------------------


def test_every_test_that_the_page_names_exists():
    here = Path(__file__).parent
    page = (here.parents[1] / "docs" / "errata.md").read_text()
    named = re.findall(r"(?:(test_\w+\.py)::)?(test_\w+)(?!\.py)\b", page)
    assert len(named) > 30
    for module, name in named:
        assert f"def {name}(" in (here / (module or "test_lemmas.py")).read_text(), name
    kept = re.findall(r"^def (test_\w+)", Path(__file__).read_text(), flags=re.MULTILINE)
    assert set(kept) - {name for _, name in named} == {"test_every_test_that_the_page_names_exists"}
