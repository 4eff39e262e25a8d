import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from eniac.cli.guarantee import guarantee_table
from eniac.theory import guarantees
from eniac.theory.bounds import format_number
from random_mdps import exact

ACCURACIES = st.sampled_from([1e-6, 1e-3, 0.1, 0.9, 3.0])
GAMMAS = st.sampled_from([0.05, 0.3, 0.5, 0.9, 0.99, 0.9999])
ACTIONS = st.sampled_from([2, 3, 4, 10, 1000])
DIMENSIONS = st.sampled_from([1.0, 7.5, 1e4])
COVERS = st.sampled_from([0.0, 10.0, 1e5])
SPI = {"gamma": 0.9, "num_actions": 4, "eluder_dimension": 20.0, "log_cover": 100.0}
NPG = SPI | {"B": 30.0, "G": 1.0, "Lambda": 0.5, "d": 8}
BONUS_TERMS = [
    "critic, samples M",
    "critic, cover epsilon_2",
    "width, cover epsilon_1",
    "width, concentration",
    "width, large ones",
]


def spi_sample_by_hand(e, gamma, A, W, dE, cover, delta, C, power):
    """Theorem C.1 as printed (power 3) or mended (power 4)."""
    unit = dE / (e**3 * (1 - gamma) ** power)
    T = math.ceil(64 * W**2 * math.log(A) / (e * (1 - gamma)) ** 2)
    N = math.ceil(32 * W**2 * unit)
    log_1 = math.log(3 * N * T / delta) + cover
    return {
        "beta": e * (1 - gamma) / 2,
        "T": T,
        "N": N,
        "eta": math.sqrt(math.log(A) / (16 * W**2 * T)),
        "epsilon_1": 1 / (128 * W * unit),
        "epsilon_2": 1 / (110 * C * W**2 * unit),
        "K": math.ceil(128 * W**2 * unit * log_1**2 * math.log(6 * N * T / delta)),
        "M": math.ceil(4000 * C**2 * W**4 * unit * log_1),
    }


@pytest.mark.parametrize(("constants", "power"), [("printed", 3), ("corrected", 4)])
def test_spi_sample_has_the_theorems_hyper_parameters(constants, power):
    found = guarantees.spi_sample(
        0.5, **SPI, W=30.0, C=2.0, delta=0.1, constants=constants, rescale=False
    )
    expected = spi_sample_by_hand(0.5, 0.9, 4, 30.0, 20.0, 100.0, 0.1, 2.0, power)
    for name, number in expected.items():
        assert getattr(found, name) == pytest.approx(number, rel=1e-12), name
    N, K, M, log_1 = found.N, found.K, found.M, math.log(3 * found.N * found.T / 0.1) + 100
    stat = 500 * 2 * 30**4 * log_1 / M + 13 * 30**2 * found.epsilon_2
    square = N * K * (2 * stat + 16 * 30 * found.epsilon_1) + 8 * 30**2 * log_1 * math.sqrt(N * K)
    assert found.epsilon**2 == pytest.approx(square, rel=1e-12)


def test_spi_compute_has_the_theorems_printed_hyper_parameters():
    found = guarantees.spi_compute(0.5, **SPI, W=30.0, constants="printed", rescale=False)
    log_a, unit = math.log(4), 20 / (0.5 * 0.1) ** 4
    assert math.ceil(144 * 900 * log_a / 0.05**2) == found.T
    assert found.alpha == pytest.approx(1 / (1 + math.sqrt(found.T)))
    assert pytest.approx(384 * 30**3 * 4 * log_a * unit, rel=1e-9) == found.N
    log_1 = math.log(3 * found.N * found.T / 0.05) + 100
    assert found.epsilon_1 == pytest.approx(1 / (1536 * 900 * 4 * log_a * unit))
    assert found.epsilon_2 == pytest.approx(1 / (1248 * 30**3 * 4 * log_a * unit))
    assert (
        pytest.approx(
            1536
            * 30**3
            * 16
            * log_a**2
            * unit
            * log_1**2
            * (math.log(found.N * found.T * 6 / 0.05)),
            rel=1e-9,
        )
        == found.K
    )
    assert pytest.approx(48000 * 30**5 * 4 * log_a * unit * log_1, rel=1e-9) == found.M


def test_npg_sample_has_the_theorems_printed_hyper_parameters():
    found = guarantees.npg_sample(0.5, **NPG, constants="printed", rescale=False)
    unit, D, smooth = 20 / (0.5 * 0.1) ** 3, 30.0, 0.5 * 900
    assert math.ceil(64 * (D**2 + smooth) * math.log(4) / 0.05**2) == found.T
    assert found.eta == pytest.approx(math.sqrt(math.log(4) / (16 * D**2 + smooth) / found.T))
    assert pytest.approx(128 * 900 * unit, rel=1e-9) == found.N
    log_1 = math.log(3 * found.N * found.T / 0.05) + 100
    assert found.epsilon_1 == pytest.approx(1 / (128 * D * unit))
    assert found.epsilon_2 == pytest.approx(1 / (110 * D**2 * unit))
    assert (
        pytest.approx(
            32 * D**2 * unit * log_1**2 * math.log(6 * found.N * found.T / 0.05), rel=1e-9
        )
        == found.K
    )
    log_2 = 8 * math.log(18 * D * found.N * found.T / (found.epsilon_2 * 0.05))
    assert pytest.approx(4000 * D**4 * unit * log_2, rel=1e-9) == found.M


@exact
@given(ACCURACIES, GAMMAS, ACTIONS, DIMENSIONS, COVERS, st.sampled_from([1.0, 5.0]), st.booleans())
def test_every_term_is_within_the_accuracy_for_corrected_constants(
    accuracy, gamma, num_actions, dimension, cover, factor, rescale
):
    accuracy = min(accuracy, 0.99 / (1 - gamma))
    common = {
        "gamma": gamma,
        "num_actions": num_actions,
        "eluder_dimension": dimension,
        "log_cover": cover,
        "rescale": rescale,
    }
    tangent = {"B": factor, "G": 2.0, "Lambda": factor - 1, "d": 3}
    W = factor / (1 - gamma)
    for found in (
        guarantees.spi_sample(accuracy, **common, W=W, C=factor),
        guarantees.spi_compute(accuracy, **common, W=W, C=factor),
        guarantees.npg_sample(accuracy, **common, **tangent),
        guarantees.npg_compute(accuracy, **common, **tangent),
    ):
        assert found.holds
        assert max(found.terms().values()) <= found.varepsilon * (1 + 1e-9)
        assert found.gap <= 9 * found.varepsilon * (1 + 1e-9)
        if rescale:
            assert found.gap <= accuracy * (1 + 1e-9)


def test_printed_constants_miss_five_terms_by_the_horizon():
    # docs/errata.md: the bonus lemmas lose 1/(1 - gamma), here 10.
    found = guarantees.spi_sample(0.5, **SPI, constants="printed", rescale=False)
    terms = found.terms()
    assert not found.holds
    assert [name for name, term in terms.items() if term > 0.5] == BONUS_TERMS
    assert terms["critic, samples M"] == pytest.approx(10 * 0.5, rel=1e-6)
    assert terms["width, large ones"] == pytest.approx(10 * 0.5, rel=1e-6)
    assert terms["width, cover epsilon_1"] == pytest.approx(10 * 0.5)
    assert terms["critic, cover epsilon_2"] == pytest.approx(10 * 0.5 * 104 / 110)


def test_printed_npg_counts_do_not_fit_together_when_BG_is_below_the_horizon():
    # Even by the paper's own bound: N has B^2 G^2, K has D^2, and their product must dominate D^4.
    ratios = []
    for B in (0.5, 30.0):
        found = guarantees.npg_sample(0.5, **(NPG | {"B": B}), constants="printed", rescale=False)
        D, log_union = max(B, 10.0), math.log(3 * found.N * found.T / 0.05)
        own = 64 * D**2 * (log_union + 100) * 20 / (0.5**2 * 0.1**3 * math.sqrt(found.N * found.K))
        ratios.append(own / 0.5)
        root_log = math.sqrt(log_union + math.log(2))
        assert ratios[-1] == pytest.approx(D / B / root_log, rel=1e-6)
    assert ratios[0] > 3 > 1 > ratios[1]


def test_printed_compute_constants_are_too_small_for_two_actions():
    # |A| log|A| stands for |A| sqrt(log|A|), which is larger when log|A| < 1; gamma is small here
    # so that the lost horizon does not hide it.
    two = SPI | {"gamma": 0.01, "num_actions": 2}
    found = guarantees.spi_compute(0.1, **two, W=2.0, constants="printed", rescale=False)
    ratio = found.terms()["width, large ones"] * 0.99 / 0.1
    assert ratio == pytest.approx(1 / math.sqrt(math.log(2)), rel=1e-2)
    assert ratio > 1.19


def test_complexities_may_be_functions_of_their_scale():
    found = guarantees.spi_sample(
        0.9,
        gamma=0.5,
        num_actions=2,
        eluder_dimension=lambda beta: 10 / beta,
        log_cover=lambda radius: 6 * math.log(4 / radius),
    )
    assert found.eluder_dimension == pytest.approx(10 / found.beta)
    assert found.log_cover_1 == pytest.approx(6 * math.log(4 / found.epsilon_1))
    assert found.log_cover_2 == pytest.approx(6 * math.log(4 / found.epsilon_2))


def test_rescaling_divides_the_accuracy_by_nine():
    asked = guarantees.spi_sample(0.9, **SPI)
    assert asked.varepsilon == pytest.approx(0.1)
    plain = guarantees.spi_sample(0.1, **SPI, rescale=False)
    assert pytest.approx((plain.N, plain.K, plain.T, plain.M), rel=1e-9) == (
        asked.N,
        asked.K,
        asked.T,
        asked.M,
    )


def test_samples_and_expected_environment_steps_are_counted_exactly():
    found = guarantees.spi_sample(0.9, **(SPI | {"gamma": 0.5}))
    samples = found.N * (found.K + found.T * found.M)
    assert found.total_samples == samples
    assert found.expected_steps == 2 * found.N * found.K + 3 * found.N * found.T * found.M
    natural = guarantees.npg_sample(0.9, **(NPG | {"gamma": 0.5}))
    assert natural.expected_steps == natural.N * (2 * natural.K + 5 * natural.T * natural.M)


def test_the_radius_grows_with_the_epochs_up_to_the_theorems_epsilon():
    found = guarantees.spi_sample(0.9, **SPI)
    assert found.radius(found.N) == pytest.approx(found.epsilon, rel=1e-12)
    assert found.radius(1) < found.radius(2) < found.epsilon
    # With epsilon itself, a pair visited m times is known only if m beta^2 > epsilon^2. For as many
    # pairs as the eluder dimension, visited alike, that takes this share of all samples:
    share = found.epsilon**2 / found.beta**2 / found.N / found.K * found.eluder_dimension
    first_four = list(found.terms().values())[:4]
    assert share == pytest.approx(sum(first_four) * (1 - found.gamma) ** 2 / 2, rel=1e-9)
    with pytest.raises(ValueError, match="epoch is 0"):
        found.radius(0)


def test_the_default_W_is_exactly_what_realisability_needs():
    found = guarantees.spi_sample(0.9, **SPI)
    assert found.class_bound == pytest.approx(100)
    assert found.critic_bound == pytest.approx(100)
    assert found.realisable
    assert not guarantees.spi_sample(0.9, **SPI, W=10.0).realisable


def test_no_finite_W_makes_spi_compute_realisable():
    for W in (1e2, 1e4, 1e8):
        found = guarantees.spi_compute(0.9, **SPI, W=W)
        assert not found.realisable
        assert found.critic_bound > 1e5 * W
    assert "no class so bounded is realisable" in _text(guarantee_table(found))


def test_alpha_may_be_given_and_is_then_judged_by_the_terms():
    default = guarantees.spi_compute(0.9, **SPI)
    assert default.holds
    generous = guarantees.spi_compute(0.9, **SPI, alpha=0.5)
    assert generous.alpha == 0.5
    assert generous.bonus == pytest.approx(4 / 0.5 / 0.1)
    assert [k for k, v in generous.terms().items() if v > generous.varepsilon] == [
        "optimisation, T steps"
    ]


def test_misspecification_adds_what_the_theorem_says():
    found = guarantees.spi_sample(0.5, **SPI, epsilon_0=1e-9, rescale=False)
    # 8 (C+1) <= 16 C times epsilon_0 dim / (varepsilon^2 (1-gamma)^4), one power mended.
    assert found.misspecification() == pytest.approx(16e-9 * 20 / (0.25 * 0.1**4))
    assert found.misspecification(0.01) - found.misspecification() == pytest.approx(4 * 0.2 * 10)


def test_huge_numbers_stay_exact_integers():
    found = guarantees.spi_sample(1e-9, **(SPI | {"gamma": 0.999999}), W=1e20)
    assert isinstance(found.M, int)
    assert found.total_samples > 10**200
    assert found.expected_steps > found.total_samples
    assert "e+" in format_number(found.total_samples)
    assert "e+" in _text(guarantee_table(found))
    with pytest.raises(ValueError, match="beyond 1e308"):
        guarantees.spi_sample(1e-30, **(SPI | {"gamma": 1 - 1e-12}), W=1e60)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_actions": 1}, "num_actions is 1; expected an integer of 2 or more"),
        ({"num_actions": 2.5}, "num_actions is 2.5"),
        ({"W": 9.0}, "W is 9.0; Assumption 4.2 has W >= 1/\\(1 - gamma\\) = 10"),
        ({"gamma": 1.0}, "gamma is 1.0"),
        ({"accuracy": 0.0}, "accuracy is 0.0"),
        ({"accuracy": 91.0}, "need less than 1/\\(1 - gamma\\) = 10"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"C": 0.5}, "C is 0.5"),
        ({"epsilon_0": -1.0}, "epsilon_0 is -1.0"),
        ({"eluder_dimension": 0.5}, "eluder dimension at .* is 0.5; expected 1 or more"),
        ({"log_cover": lambda radius: -radius}, "log covering number"),
        ({"constants": "guessed"}, 'expected "corrected" or "printed"'),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_refused(change, message):
    arguments = {"accuracy": 0.5} | SPI | change
    with pytest.raises(ValueError, match=message):
        guarantees.spi_sample(arguments.pop("accuracy"), **arguments)


def test_bad_input_of_the_other_variants_is_refused():
    with pytest.raises(ValueError, match="no printed constants"):
        guarantees.npg_compute(0.5, **NPG, constants="printed")
    with pytest.raises(ValueError, match="B is 0"):
        guarantees.npg_sample(0.5, **(NPG | {"B": 0}))
    with pytest.raises(ValueError, match="Lambda is -1"):
        guarantees.npg_sample(0.5, **(NPG | {"Lambda": -1}))
    with pytest.raises(ValueError, match="alpha is"):
        guarantees.spi_compute(0.5, **SPI, alpha=1.5)


def _text(table):
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()
