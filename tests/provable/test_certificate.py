"""`eniac certify`, on a run."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from eniac import Config, ConfigError, train
from eniac.algorithms import ALGORITHMS
from eniac.cli.main import main
from eniac.provable import PROVABLE
from eniac.report.certificate import certify_run

SMALL = {"N": 3, "K": 60, "T": 3, "M": 60, "m": 4.0, "eta": 2.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "swim"
    parts = replace(PROVABLE["eniac-spi-sample"].default, **SMALL)
    train(Config(parts, env="RiverSwim-v0", seeds=2, out=folder))
    return folder


def test_the_command_prints_a_table_and_draws(run, capsys):
    assert main(["certify", str(run)]) == 0
    printed = capsys.readouterr().out
    for word in ("gap, outer mixture", "optimisation", "Lemma C.1", "rewards outside [0, 1]"):
        assert word in printed
    assert (run / "figures" / "certificate.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_prints_json_of_the_seed_asked_for(run, capsys):
    found = []
    for seed in ("0", "1"):
        assert main(["certify", str(run), "--seed", seed, "--json"]) == 0
        text = capsys.readouterr().out
        found.append(json.loads(text, parse_constant=lambda name: pytest.fail(name)))
    assert found[0]["epochs"] != found[1]["epochs"]
    assert len(found[0]["epochs"]) == 3
    assert found[0]["settings"]["eta"] == 2.0


def test_what_cannot_be_certified_is_refused_with_the_reason(run, tmp_path, capsys):
    assert main(["certify", str(run), "--seed", "7"]) == 2
    assert "seed is 7" in capsys.readouterr().err
    assert main(["certify", str(tmp_path)]) == 2
    assert "no config.json" in capsys.readouterr().err


@pytest.mark.usefixtures("unchecked")
def test_a_run_that_no_theorem_speaks_of_is_refused_by_its_name():
    deep = SimpleNamespace(
        path="runs/deep",
        config=SimpleNamespace(algorithm=ALGORITHMS["ppo"].default),
        learner=SimpleNamespace(record=lambda state: None),
        progress=SimpleNamespace(epochs=[1]),
        states=(),
        index=lambda seed: 0,
    )
    with pytest.raises(ConfigError, match=r"run of ppo, .*eniac-spi-sample"):
        certify_run(deep)
