"""The data of the paper's Figures 2 and 3, and their pictures."""

import json

import numpy as np
import pytest
from PIL import Image

from eniac import ConfigError, RunError, load_run
from eniac.bonuses.kernel import Kernel
from eniac.bonuses.width import Width
from eniac.report import figure3
from eniac.report.figure2 import CELLS, draw_figure2, figure2_data
from eniac.report.figure3 import curvature, draw_figure3, figure3_data, variation
from eniac.report.pictures import NoPicture
from eniac.runs.load import kept_checkpoints


@pytest.fixture
def car(kept_car):
    return load_run(kept_car)


def test_the_states_of_all_kept_checkpoints_can_be_had(car):
    damaged = car.path / "checkpoints" / "epoch-000002.safetensors"
    damaged.write_bytes(b"?")
    assert [run.progress.epoch for run in kept_checkpoints(car)] == [0, 1, 4]
    damaged.unlink()


def test_figure_2_has_the_first_policies_and_says_what_was_not_kept(car, tmp_path):
    data = json.loads(json.dumps(figure2_data(car, 1), allow_nan=False))
    assert [(row["kind"], row["epoch"]) for row in data["policies"]] == [
        *(("cover", epoch) for epoch in (1, 2, 3)),
        *(("exploiting", epoch) for epoch in (1, 4)),
    ]
    assert data["missing"] == [2, 3]
    for row in data["policies"]:
        counts = np.array(row["visits"])
        assert counts.shape == CELLS
        assert counts.sum() == 10 * 21  # episodes of 20 steps, and where they begin
        reached = np.flatnonzero(counts.sum(1)).max()
        assert -1.2 + 0.04 * reached <= row["furthest"] <= -1.2 + 0.04 * (reached + 1)
        assert row["reached"] == 0
    shares = {row["epoch"]: row for row in data["bonus_share"]}
    assert list(shares) == [1, 2, 3, 4]
    # Our settings: the exploring policy has the bonus alone.
    assert [shares[n]["share"] for n in (1, 2, 4)] == [1.0, None, 1.0]
    assert shares[3]["decides"] == 0.5
    with Image.open(draw_figure2(data, tmp_path / "2.png")) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    for colour in ((0xE6, 0x9F, 0x00), (0, 0, 0), (0x00, 0x9E, 0x73)):
        assert (np.abs(pixels - colour).sum(-1) < 30).sum() > 100


def test_figure_3_has_both_bonuses_of_the_same_visits(car, tmp_path, monkeypatch):
    short = {"width": Width(outer=300, inner=5, query_size=500), "kernel": Kernel(features=16)}
    monkeypatch.setattr(figure3, "bonus_rules", lambda preset: short)
    data = json.loads(json.dumps(figure3_data(car, policy=2), allow_nan=False))
    assert (data["policy"], data["seed"], data["preset"]) == (2, 0, None)
    for name in ("width", "kernel"):
        grid = np.array(data["bonuses"][name])
        assert grid.shape == (60, 60)
        assert grid.min() >= 0
        assert grid.max() == pytest.approx(1, abs=0.05)
        assert data["smoothness"][name] > 0
        # Smallest near the visits, which are near the start.
        points = np.concatenate(data["trajectories"])
        cells = ((points - data["low"]) / np.subtract(data["high"], data["low"]) * 60).astype(int)
        assert grid[tuple(cells.T)].mean() < 0.5 * grid.mean()
    with Image.open(draw_figure3(data, tmp_path / "3.png")) as image:
        assert image.size == (2100, 660)


def test_smoothness_is_that_of_functions_known_by_formula():
    u = (np.arange(400) + 0.5)[:, None] / 400 * np.ones((1, 400))
    for shape, bends, goes in (
        (3 * u - 7, 0, 0.5),
        (np.zeros((400, 400)), 0, 0),
        ((u - 0.5) ** 2, 4, 1),
        (np.sin(np.pi * u), np.pi, 1),
        (np.cos(3 * np.pi * u), np.pi * 9 / 2, 1.5),
    ):
        for grid in (shape, shape.T, 1e-3 * shape, shape[::4, ::4]):
            assert curvature(grid) == pytest.approx(bends, rel=0.03, abs=1e-6)
            assert variation(grid) == pytest.approx(goes, rel=0.03)


def test_what_has_no_such_figure_is_told(car, run_of):
    for data in (figure2_data, figure3_data):
        with pytest.raises(RunError, match="observations of two numbers"):
            data(run_of("lock"))
    with pytest.raises(NoPicture, match="two numbers with bounds, as mountain car"):
        figure3_data(run_of("sea"))
    with pytest.raises(ConfigError, match=r"policy is 4; it must be .* one of the cover's 3"):
        figure3_data(car, policy=4)
    with pytest.raises(ConfigError, match="preset is 'depth9'; it must be one of paper-depth2"):
        figure3_data(car, preset="depth9")
