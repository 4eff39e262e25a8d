"""Claims, decided by files of results that were made up."""

import json

import pytest

from eniac.reproduce.choice import Choice
from eniac.reproduce.claim_list import CLAIMS, Sources
from eniac.reproduce.claims import decide, markdown, report
from reproduce.fake_results import result_of, write_result


def write_car(folder, algorithm, depth, solved, seeds=10):
    for seed in range(seeds):
        steps = solved * (1 + seed) if solved else None
        result = result_of(f"mountain-car-{depth}", algorithm, seed, solved=steps)
        write_result(folder, result)


def verdict(decided, begin, setting):
    (row,) = [x for x in decided if x["claim"].startswith(begin) and x["setting"] == setting]
    return row["verdict"]


@pytest.fixture(scope="module")
def decided(tmp_path_factory):
    """PC-PG gets slower with depth, ZERO does not, ENIAC fails beyond depth 2, PPO always does."""
    folder = tmp_path_factory.mktemp("results")
    for depth in (2, 4, 6):
        write_car(folder, "pc-pg", depth, 10_000 * depth**2)
        write_car(folder, "zero", depth, 10_000)
        write_car(folder, "eniac", depth, 10_000 if depth == 2 else None)
        write_car(folder, "ppo", depth, None)
        write_car(folder, "ppo-rnd", depth, None, seeds=4)
    for seed in range(10):
        policies = [{"kind": "cover", "furthest": 0.3 + 0.1 * (seed < 9)}]
        for name, more in {
            "figure2": {"policies": policies, "bonus_share": []},
            "figure3": {"smoothness": {"width": 1.0, "kernel": 2.0}},
        }.items():
            write_result(folder, result_of(name, seed=seed, **more), kind="")
    return decide(Sources.read(folder))


def test_what_was_found_decides(decided):
    setting = "ours, continuing"
    assert verdict(decided, "ENIAC robustly", setting) == "did not hold"
    assert verdict(decided, "PC-PG performs well", setting) == "held"
    assert verdict(decided, "PC-PG gets slower", setting) == "held"
    assert verdict(decided, "ZERO gets slower", setting) == "undecided"
    assert verdict(decided, "PPO performs poorly", setting) == "held"
    assert verdict(decided, "PPO-RND performs poorly", setting) == "undecided"
    assert verdict(decided, "With deeper networks", setting) == "did not hold"
    assert verdict(decided, "Exploration reaches", "ours") == "undecided"
    assert verdict(decided, "ENIAC's bonus changes", "ours") == "held"
    assert verdict(decided, "ENIAC robustly", "paper, episodic") == "not measured"
    assert verdict(decided, "COMPUTE needs more", "") == "not measured"


def test_the_table_has_verdicts_numbers_intervals_and_commands(decided):
    text = markdown(decided)
    assert "**did not hold**: depth 2: 10 of 10 [0.72, 1.00]; depth 4, depth 6: 0 of 10" in text
    assert "0 of 4 [0.00, 0.49]; about 9 seeds would decide" in text
    assert "`eniac reproduce figure1 --settings paper --episodes episodic`" in text
    assert "`eniac reproduce theory`" in text
    assert "- PPO performs poorly: below 0.3: share of seeds above 93." in text


def test_claims_are_data_with_a_source_and_a_command():
    assert len({(claim.statement, claim.setting) for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.where
        assert claim.rule.what
        assert claim.command.startswith("eniac reproduce ")


def test_the_data_of_the_claims_are_json(tmp_path):
    (tmp_path / "results").mkdir()
    found = report(Choice(results=tmp_path / "results"))
    assert {x["verdict"] for x in json.loads(json.dumps(found.data))["claims"]} == {"not measured"}
