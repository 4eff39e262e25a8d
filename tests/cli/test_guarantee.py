import math

import pytest

from eniac.cli.guarantee import guarantee_command
from eniac.cli.main import main
from eniac.theory import guarantees

CLASS = {"gamma": 0.9, "num_actions": 4, "eluder": 20.0, "log_cover": 100.0}


def test_the_command_prints_the_hyper_parameters_and_every_term(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    found = guarantee_command("spi-sample", accuracy=0.5, **CLASS)
    assert found == guarantees.spi_sample(
        0.5, gamma=0.9, num_actions=4, eluder_dimension=20.0, log_cover=100.0
    )
    text = capsys.readouterr().out
    assert "ENIAC-SPI-SAMPLE, corrected constants" in text
    for name in ("beta", "epsilon_1", "total_samples", "expected_steps", *found.terms()):
        assert name in text
    assert "above varepsilon" not in text


def test_the_command_shows_which_terms_the_printed_constants_miss(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    guarantee_command("spi-sample", accuracy=0.5, **CLASS, constants="printed")
    assert capsys.readouterr().out.count("above varepsilon") == 5


@pytest.mark.parametrize("algorithm", ["spi-sample", "spi-compute", "npg-sample", "npg-compute"])
def test_the_number_of_states_describes_the_tabular_class(algorithm, capsys):
    found = guarantee_command(algorithm, accuracy=0.5, gamma=0.9, num_actions=4, num_states=5)
    assert found.holds
    assert found.eluder_dimension == 20
    # 20 pairs of values within 100 (tangent: 2BG), at radius epsilon_1 (tangent: half of it).
    bound = 100 if algorithm.startswith("spi") else 4 * math.sqrt(20) * 100
    assert found.log_cover_1 == pytest.approx(20 * math.log(bound / found.epsilon_1), rel=1e-6)
    assert ("our adaptation" in capsys.readouterr().out) == (algorithm == "npg-compute")


@pytest.mark.parametrize(
    ("algorithm", "change", "message"),
    [
        ("spi-sample", {"eluder": None}, "class is not described"),
        ("spi-sample", {"alpha": 0.1}, "spi-sample has no alpha"),
        ("spi-compute", {"B": 1.0}, "spi-compute has no B"),
        ("npg-sample", {}, "npg-sample needs B, G, Lambda and d"),
        ("npg-sample", {"W": 10.0}, "npg-sample has no W"),
        ("spi-sample", {"num_actions": 1}, "num_actions is 1"),
        ("spi-sample", {"num_states": 0}, "num_states is 0"),
        ("spi-sample", {"gamma": 1.0}, "gamma is 1"),
    ],
)
def test_bad_input_is_refused_with_the_reason(algorithm, change, message):
    with pytest.raises(ValueError, match=message):
        guarantee_command(algorithm, **({"accuracy": 0.5} | CLASS | change))


def test_the_command_line_prints_the_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    words = "guarantee spi-sample --accuracy 0.1 --gamma 0.9 --num-actions 2 --num-states 10"
    assert main(words.split()) == 0
    assert "expected_steps" in capsys.readouterr().out


def test_the_command_line_refuses_with_the_reason_and_no_traceback(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    words = "guarantee spi-sample --accuracy 0.1 --gamma 0.9 --num-actions 1 --num-states 10"
    assert main(words.split()) == 2
    assert "num_actions is 1" in capsys.readouterr().err
