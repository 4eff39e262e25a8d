"""The numbers of the theory, on curves that were made up, and one run that was not."""

import json
import math

import numpy as np
import pytest

from eniac.reproduce.choice import QUICK_RESULTS, Choice
from eniac.reproduce.make import make_run
from eniac.reproduce.results import rows_of
from eniac.reproduce.theory import report, runs
from eniac.reproduce.theory_numbers import (
    Point,
    accuracy_exponent,
    dimension_exponent,
    exponents,
    growth,
    misspecified,
    steps_to,
    versions,
)
from eniac.reproduce.theory_tasks import (
    BUDGETS,
    COMPUTE,
    GROUPS,
    SAMPLE,
    SMALL_BUDGETS,
    STATES,
    THEORY,
    budget_flags,
)
from eniac.reproduce.wanted import Wanted
from reproduce.fake_results import result_of, write_result


def theory(task, algorithm=SAMPLE[0], flags=(), seed=100, steps=1000, last=1.0, outer=1.0, **more):
    curve = {"env_steps": [steps], "known/pairs": [1]}
    curve |= {f"share/{name}": [last] for name in ("last", "executed", "inner_mixture")}
    return result_of(task, algorithm, seed) | {
        "flags": list(flags),
        "steps": steps,
        "seconds": 1.0,
        "ceiling": 1.0,
        "largest_gap": 2.0,
        "by_epoch": curve | {"share/outer_mixture": [outer]},
        **more,
    }


def test_steps_between_two_budgets_are_read_off_a_line_of_logarithms():
    points = [Point(100.0, 0.4), Point(400.0, 0.1), Point(1600.0, 0.05)]
    assert steps_to(points, 0.2) == pytest.approx(200)
    assert steps_to(points, 0.5) == 100
    assert steps_to(points, 0.01) == math.inf


def test_exponents_are_those_that_curves_were_made_with():
    """Steps of (1/gap)^2.5 times the number of states to the 1.5."""
    rng = np.random.default_rng(0)
    results = [
        theory(
            f"random-mdp-{states}",
            flags=budget_flags(size),
            seed=seed,
            steps=1000 * size,
            outer=1 - min((states**1.5 * luck / size / 10) ** 0.4, 0.99),
        )
        for states in STATES
        for seed, luck in enumerate(np.exp(0.1 * rng.normal(size=10)))
        for size in BUDGETS
    ]
    found = exponents(growth(rows_of(results)))
    assert found["accuracy, 20 states"].value == pytest.approx(2.5)
    exponent = found["dimension"]
    assert exponent.value == pytest.approx(1.5, abs=0.02)
    assert exponent.low <= 1.5 <= exponent.high
    assert exponent.seeds == 10


def test_the_exponent_of_one_seed_is_a_slope():
    points = [Point(100.0 * 4**k, 0.5 / 2**k) for k in range(4)]
    assert accuracy_exponent(points) == pytest.approx(2)
    steps = [np.full((2, 3), 10.0 * states) for states in STATES]
    np.testing.assert_allclose(dimension_exponent(steps, STATES), 1)


def test_a_budget_is_enough_if_all_larger_ones_are_too():
    enough = [False, True, False, True, True, True, True]
    results = [
        theory(
            "deep-sea-10-budgets",
            *(algorithm, (*budget_flags(size), "--m", "10")),
            steps=size,
            last=float(good or algorithm == COMPUTE[0]),
        )
        for algorithm in (SAMPLE[0], COMPUTE[0])
        for size, good in zip(SMALL_BUDGETS, enough, strict=True)
    ]
    sample, compute = versions(rows_of(results))["deep-sea-10"]
    assert sample.tolist() == [1000.0]
    assert compute.tolist() == [125.0]


def test_what_a_class_costs_is_held_against_the_exact_one():
    def result(number, gap, transfer, bound):
        terms = {
            "gap, outer mixture": [gap, None, 1e9],
            "transfer": [transfer / 2, transfer, bound],
            "epsilon_bias on K": [0.01, None, None],
        }
        flags = dict(zip(GROUPS, THEORY["random-mdp-40-groups"].variants, strict=True))[number][1]
        return theory("random-mdp-40-groups", flags=flags, terms=terms)

    exact, few, none = (result(n, *x) for n, x in zip(GROUPS, _COSTS, strict=False))
    found = misspecified(rows_of([exact, few, none]))
    assert found[GROUPS[1]][100].gap == pytest.approx(0.2)
    assert found[GROUPS[1]][100].within
    assert not found[GROUPS[2]][100].within


_COSTS = ((0.1, 0.0, 0.0), (0.3, 0.1, 0.25), (0.3, 0.4, 0.25))


def test_tables_and_pictures_are_made_of_what_there_is(tmp_path):
    for seed in (100, 101):
        for algorithm in ("eniac-spi-sample", "spi"):
            result = theory("provable-lock-5", algorithm, seed=seed, last=float(algorithm != "spi"))
            write_result(tmp_path, result, "theory")
    found = report(Choice(results=tmp_path))
    assert "| lock-5 | eniac-spi-sample | 2 of 2 | 1.000 |" in found.text
    assert "| lock-5 | spi | 0 of 2 | 0.000 |" in found.text
    assert "provable-lock-5: eniac-spi-sample (seeds 102-109), eniac-npg-sample" in found.text
    assert list(found.pictures) == ["theory"]


def test_every_task_has_runs_of_its_own():
    every = runs(Choice())
    assert len({run.file for run in every}) == len(every)
    assert {run.task for run in every} == set(THEORY)
    assert len(runs(Choice(quick=True, results=QUICK_RESULTS))) < len(every) / 5


def test_a_run_of_a_provable_algorithm_becomes_a_file(tmp_path):
    run = Wanted(
        "provable-river-swim",
        *("spi", 100, ("--K", "50", "--M", "50", "--T", "2", "--epochs", "2")),
        results=tmp_path / "results",
        runs=tmp_path / "runs",
    )
    make_run(run)
    found = json.loads(run.file.read_text())
    assert found["steps"] == found["by_epoch"]["env_steps"][-1] > 0
    assert len(found["by_epoch"]["share/last"]) == 2
    assert found["command"].startswith(
        "eniac train spi --env RiverSwim-v0 --function-class tabular"
    )
    assert len(found["terms"]["gap, outer mixture"]) == 3
    assert run.is_done()
    assert not run.folder.exists()
