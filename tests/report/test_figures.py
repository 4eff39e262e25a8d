import json

import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from eniac import ConfigError, learning_curves
from eniac.report import figures
from eniac.report.figures import on_a_common_grid
from eniac.report.numbers import short_number
from eniac.report.statistics import bootstrap_interval, interquartile_mean
from fake_runs import write_run


def _run(folder, seeds, name="toy"):
    folder.mkdir()
    config = {"algorithm": {"name": name}, "env": "Chain-4", "env_options": {}}
    (folder / "config.json").write_text(json.dumps(config))
    lines = [
        json.dumps({"epoch": n + 1, "seed": seed, "env_steps": 10 * (n + 1), "return_mean": value})
        for seed, values in enumerate(seeds)
        for n, value in enumerate(values)
    ]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_a_curve_is_linear_between_its_points_and_keeps_its_last_value():
    long = (np.array([1.0, 3.0, 5.0]), np.array([0.0, 2.0, 4.0]))
    short = (np.array([2.0, 3.0]), np.array([10.0, 20.0]))
    steps, values = on_a_common_grid([long, short])
    np.testing.assert_array_equal(steps, [1, 2, 3, 5])
    np.testing.assert_array_equal(values, [[0, 1, 2, 4], [10, 10, 20, 20]])


def test_numbers_on_the_axis_are_short():
    assert [short_number(n) for n in (0, 950, 20_000, 1_500_000, 2e9)] == [
        "0",
        "950",
        "20k",
        "1.5M",
        "2G",
    ]


def test_runs_are_drawn_from_their_logs_alone(tmp_path):
    a = _run(tmp_path / "a", [[0.0, 1.0, None], [0.5, 2.0, 3.0]])
    b = _run(tmp_path / "b", [[1.0]])
    out = learning_curves([a, b], tmp_path / "new" / "both.png")
    with Image.open(out) as image:
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.shape == (660, 1080, 3)
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)):  # one a run
        assert (np.abs(pixels.astype(int) - colour).sum(-1) < 12).sum() > 50


def test_the_exploiting_policy_is_dashed_beside_the_incumbent(tmp_path, monkeypatch):
    """The mean of the seeds in which it learns by then; where none does yet there is no line."""
    run = tmp_path / "a"
    run.mkdir()
    known = [[None, 1.0, 3.0], [None, None, 5.0]]
    lines = [
        {"seed": seed, "env_steps": 10 * n, "return_mean": 6.0, "exploit/sampled_return": value}
        for seed, values in enumerate(known)
        for n, value in enumerate(values, start=1)
    ]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    drawn = {}
    plot = Axes.plot

    def noted(axes, x, y, **style):
        drawn[style.get("linestyle", "-")] = (np.array(x), np.array(y), style.get("label"))
        return plot(axes, x, y, **style)

    monkeypatch.setattr(Axes, "plot", noted)
    learning_curves([run], tmp_path / "x.png")
    steps, values, label = drawn["--"]
    np.testing.assert_array_equal(steps, [20, 30])
    np.testing.assert_array_equal(values, [1, 4])
    assert label == "exploiting policy"
    np.testing.assert_array_equal(drawn["-"][1], [6, 6, 6])
    drawn.clear()
    learning_curves([run], tmp_path / "x.png", "exploit/sampled_return")
    assert "--" not in drawn


def test_what_cannot_be_drawn_is_told(tmp_path):
    run = _run(tmp_path / "a", [[1.0]])
    with pytest.raises(ConfigError, match=r"metric is 'return_meen'; .*Did you mean 'return_mean'"):
        learning_curves([run], tmp_path / "x.png", "return_meen")
    with pytest.raises(ConfigError, match="no epoch"):
        learning_curves([tmp_path / "nowhere"], tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


@pytest.fixture
def figure(monkeypatch):
    """The figure that was drawn last, as matplotlib has it."""
    kept = []
    monkeypatch.setattr("eniac.report.figures.write", lambda drawn, out: kept.append(drawn))
    return lambda: kept[-1]


def test_a_curve_is_the_interquartile_mean_and_its_interval_with_the_threshold(tmp_path, figure):
    values = [[0.0, float(k)] for k in range(8)]
    run = write_run(tmp_path / "a", values, return_above=6)
    learning_curves([run], tmp_path / "x.png")
    (axes,) = figure().axes
    lines = {line.get_label(): line for line in axes.lines}
    np.testing.assert_array_equal(lines["ppo (8 seeds)"].get_ydata(), [0, 3.5])
    np.testing.assert_array_equal(lines["threshold 6"].get_ydata(), [6, 6])
    (band,) = axes.collections
    vertices = band.get_paths()[0].vertices
    low, high = bootstrap_interval(
        [np.arange(8.0)], lambda drawn: interquartile_mean(drawn[0], axis=1)
    )
    assert {float(low), float(high)} <= set(vertices[:, 1])
    assert axes.get_xlim()[0] == 0
    assert axes.get_xlabel() == "environment steps of a seed"
    assert axes.get_ylabel() == "return (sum of an episode's rewards)"
    assert figure().get_supxlabel() == (
        "line: interquartile mean of seeds; band: its 95 % bootstrap interval"
    )


def test_environments_have_panels_apart_and_seeds_of_several_runs_are_one_curve(tmp_path, figure):
    runs = [
        write_run(tmp_path / f"{env}-{seed}", [[1.0, 2.0]], env=env, first_seed=seed)
        for env in ("Chain-4", "DeepSea-10")
        for seed in range(3)
    ]
    learning_curves(runs, tmp_path / "x.png")
    assert [axes.get_title() for axes in figure().axes] == [
        "ppo on Chain-4, 3 seeds",
        "ppo on DeepSea-10, 3 seeds",
    ]
    for axes in figure().axes:
        assert sum(line.get_label() == "ppo (3 seeds)" for line in axes.lines) == 1


def test_long_logs_are_resampled_in_pieces(monkeypatch):
    values = np.random.default_rng(0).normal(size=(4, 11))
    whole = figures.band(values)
    monkeypatch.setattr(figures, "_AT_ONCE", 8000)
    np.testing.assert_array_equal(figures.band(values), whole)
