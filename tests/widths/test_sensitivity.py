import numpy as np
import pytest
from scipy.optimize import minimize

from eniac.functions import Finite, Linear, Tabular
from eniac.widths.sensitivity import oversampling, sensitivities, subsample, width_factor

S, A = 10, 3


def linear_class(seed=0, dim=5, norm_bound=2.0):
    return Linear(np.random.default_rng(seed).normal(size=(S, A, dim)), norm_bound)


def many_data(rng, total):
    """Unevenly many data of each pair, some pairs with few or none."""
    shares = rng.dirichlet(np.full(S * A, 0.3))
    return rng.multinomial(total, shares).reshape(S, A)


def test_tabular_sensitivity_is_one_over_the_count_unless_the_bound_binds():
    counts = np.array([[0, 1, 2], [10, 100, 1000]])
    # 4 W^2 = 4: a pair with n data reaches the squared norm lam = 20 alone from n = 5 on; below
    # that, the others must help, and its own share is at most 4 / 20.
    found = sensitivities(Tabular(2, 3, 1.0), counts, lam=20.0)
    assert found == pytest.approx(np.array([[0, 0.2, 0.2], [0.1, 0.01, 0.001]]))


def test_linear_sensitivity_is_the_leverage_score_where_the_ball_does_not_bind():
    rng = np.random.default_rng(0)
    function_class = linear_class(norm_bound=1e3)
    counts = rng.integers(1, 30, size=(S, A))
    phi = function_class.features.reshape(-1, 5)
    inverse = np.linalg.inv(function_class.gram(counts))
    leverage = np.einsum("qd,de,qe->q", phi, inverse, phi).reshape(S, A)
    found = sensitivities(function_class, counts, lam=1e-2)
    assert found == pytest.approx(np.minimum(leverage, 1), rel=1e-9)
    assert np.sum(counts * found) == pytest.approx(5)  # leverage scores of data sum to dim


def test_linear_sensitivity_is_between_one_and_two_ridge_leverage_scores():
    rng = np.random.default_rng(1)
    for lam in (0.1, 10.0, 1000.0):
        function_class = linear_class(norm_bound=0.5)
        counts = rng.integers(1, 30, size=(S, A))
        phi = function_class.features.reshape(-1, 5)
        ridge = lam / (4 * function_class.norm_bound**2) * np.eye(5)
        inverse = np.linalg.inv(function_class.gram(counts) + ridge)
        score = np.einsum("qd,de,qe->q", phi, inverse, phi).reshape(S, A)
        found = sensitivities(function_class, counts, lam)
        assert np.all(np.minimum(score, 1) <= found * (1 + 1e-9))
        assert np.all(found <= 2 * score * (1 + 1e-9))


def test_no_difference_has_a_larger_share_than_the_sensitivity():
    """Against a solver that looks for one, from the definition."""
    rng = np.random.default_rng(2)
    function_class = linear_class(dim=3, norm_bound=0.5)
    counts, lam = rng.integers(0, 6, size=(S, A)), 3.0
    found, gram = sensitivities(function_class, counts, lam), function_class.gram(counts)
    for s, a in np.argwhere(counts > 0)[:8]:
        phi = function_class.features[s, a]
        best = 0.0
        for _ in range(5):
            solved = minimize(
                lambda u, phi=phi: -((u @ phi) ** 2) / (u @ gram @ u),
                rng.normal(size=3),
                constraints=[
                    {"type": "ineq", "fun": lambda u: u @ gram @ u - lam},
                    {"type": "ineq", "fun": lambda u: 1 - u @ u},  # 2 B = 1
                ],
                method="SLSQP",
            )
            u = solved.x
            if u @ gram @ u >= lam * (1 - 1e-6) and u @ u <= 1 + 1e-6:
                best = max(best, (u @ phi) ** 2 / (u @ gram @ u))
        assert 0 < best <= found[s, a] * (1 + 1e-5)


def test_sensitivities_of_a_list_are_the_largest_shares_up_to_the_grid_of_radii():
    rng = np.random.default_rng(3)
    function_class = Finite(np.concatenate([rng.normal(size=(15, S, A)), np.zeros((1, S, A))]))
    counts, lam = rng.integers(0, 4, size=(S, A)), 20.0
    tables = function_class.tables
    difference = (tables[:, None] - tables).reshape(-1, S, A)
    norms = np.einsum("fsa,sa->f", np.square(difference), counts)
    shares = np.square(difference[norms >= lam]) / norms[norms >= lam, None, None]
    exact = np.where(counts > 0, np.minimum(shares.max(axis=0), 1), 0)
    found = sensitivities(function_class, counts, lam)
    assert np.all(found >= exact * (1 - 1e-12))
    # The radii are a factor 1.5 apart; differences shorter than sqrt(lam) may add to the first.
    assert np.median(found[counts > 0] / exact[counts > 0]) <= 1.5**2


@pytest.mark.parametrize("accuracy", [0.3, 0.6])
@pytest.mark.parametrize("seed", range(5))
def test_norms_and_widths_on_the_subsample_are_within_the_stated_factor(seed, accuracy):
    rng = np.random.default_rng(seed)
    function_class = linear_class(seed)
    counts, epsilon = many_data(rng, 300_000), 3.0
    kept = subsample(function_class, counts, epsilon**2, rng, accuracy)
    assert kept.num_kept < counts.sum() / 10

    # All norms at once: eigenvalues of the error against gram + lam / (4 B^2).
    full, part = function_class.gram(counts), function_class.gram(kept.counts)
    ridge = epsilon**2 / (4 * function_class.norm_bound**2) * np.eye(5)
    root = np.linalg.inv(np.linalg.cholesky(full + ridge))
    assert np.abs(np.linalg.eigvalsh(root @ (part - full) @ root.T)).max() <= accuracy

    ratio = function_class.widths(kept.counts, epsilon) / function_class.widths(counts, epsilon)
    assert ratio.max() <= width_factor(accuracy)
    assert ratio.min() >= 1 / width_factor(accuracy)


@pytest.mark.parametrize("seed", range(5))
def test_tabular_widths_on_the_subsample_are_within_the_stated_factor(seed):
    rng = np.random.default_rng(seed)
    function_class, epsilon, accuracy = Tabular(S, A, 10.0), 3.0, 0.5
    counts = many_data(rng, 1_000_000)
    kept = subsample(function_class, counts, epsilon**2, rng, accuracy)
    ratio = function_class.widths(kept.counts, epsilon) / function_class.widths(counts, epsilon)
    assert ratio.max() <= width_factor(accuracy)
    assert ratio.min() >= 1 / width_factor(accuracy)
    assert kept.num_kept < counts.sum() / 50
    assert np.all(kept.counts[counts == 0] == 0)


def test_what_is_kept_grows_like_the_logarithm_of_the_data():
    """With delta shared among all sizes so far, a fixed multiple of log(data / delta) is kept."""
    function_class, epsilon = linear_class(), 3.0
    shares = np.random.default_rng(0).dirichlet(np.full(S * A, 0.3))
    sizes = 10.0 ** np.arange(6, 12)  # from where probabilities are small, hence hardly rounded
    kept = []
    for size in sizes:
        rng = np.random.default_rng(int(np.log10(size)))
        counts = rng.multinomial(int(size), shares).reshape(S, A)
        part = subsample(function_class, counts, epsilon**2, rng, delta=0.01 / size)
        expected = np.sum(counts * part.probability)
        assert abs(part.num_kept - expected) <= 4 * np.sqrt(expected)
        kept.append(expected)
    multiple = np.array(kept) / [oversampling(5, 0.01 / size, 0.5) for size in sizes]
    assert kept[-1] < 2 * kept[0]  # of a hundred thousand times as many data
    # Sensitivities sum to the dimension, and the part of lam is nothing here.
    assert multiple == pytest.approx(5, rel=0.05)


def test_copies_are_unbiased_whole_numbers():
    function_class = Tabular(1, 2, 1.0)
    counts = np.array([[4000, 30]])
    drawn = [
        subsample(function_class, counts, 1.0, np.random.default_rng(seed), accuracy=0.9)
        for seed in range(300)
    ]
    mean = np.mean([each.counts for each in drawn], axis=0)
    probability = drawn[0].probability
    spread = np.sqrt(counts * (1 / probability - 1) / 300)
    assert np.all(np.abs(mean - counts) <= 4 * spread + 1e-12)
    assert np.all(probability[0, 0] < 0.1)
    assert np.all(1 / probability == np.round(1 / probability))
    assert drawn[0].counts.dtype == np.int64


def test_little_data_are_all_kept():
    counts = np.random.default_rng(0).integers(0, 5, size=(S, A))
    kept = subsample(linear_class(), counts, 1.0, np.random.default_rng(0))
    assert np.array_equal(kept.counts, counts)
    assert kept.num_kept == counts.sum()


@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_refused():
    function_class, rng = Tabular(1, 1, 1.0), np.random.default_rng(0)
    with pytest.raises(ValueError, match="whole numbers"):
        subsample(function_class, np.array([[0.5]]), 1.0, rng)
    with pytest.raises(ValueError, match="lam"):
        sensitivities(function_class, np.array([[1]]), 0.0)
    with pytest.raises(ValueError, match="accuracy"):
        subsample(function_class, np.array([[1]]), 1.0, rng, accuracy=1.0)
    with pytest.raises(ValueError, match="delta"):
        subsample(function_class, np.array([[1]]), 1.0, rng, delta=0.0)
