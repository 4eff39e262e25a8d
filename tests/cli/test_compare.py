"""`eniac compare` and the formats of `eniac plot`, from the outside."""

import json

import pytest

from eniac.cli.main import main
from fake_runs import write_run


@pytest.fixture
def runs(tmp_path):
    better = [[0.0, 5.0 + k] for k in range(6)]
    worse = [[0.0, float(k)] for k in range(6)]
    return [
        str(write_run(tmp_path / "eniac", better, name="eniac", return_above=4.5)),
        str(write_run(tmp_path / "ppo", worse)),
    ]


def told(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_a_comparison_is_printed(runs, capsys):
    assert main(["compare", *runs]) == 0
    out = told(capsys)
    for words in (
        "Chain-4: last return; success: above 4.5",
        "6/6 [0.61, 1]",
        "1/6 [0.03, 0.56]",
        "share of seeds that end above",
        "eniac is better than ppo: a seed of eniac ends higher",
    ):
        assert words in out


def test_a_comparison_is_json_for_programs(runs, capsys):
    assert main(["compare", *runs, "--by", "steps", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["by"] == "steps"
    assert [row["method"] for row in result["environments"][0]["methods"]] == ["eniac", "ppo"]


def test_without_a_threshold_there_is_no_success(tmp_path, capsys):
    runs = [str(write_run(tmp_path / name, [[1.0], [2.0]], name=name)) for name in ("a", "b")]
    assert main(["compare", *runs]) == 0
    out = told(capsys)
    assert "success" not in out
    assert "Undecided between a and b" in out
    assert "Note: Fewer than 5 seeds" in out


def test_the_profile_is_drawn(runs, tmp_path, capsys):
    out = tmp_path / "profile.svg"
    assert main(["compare", *runs, "--out", str(out)]) == 0
    assert f"The figure is in {out}" in capsys.readouterr().out
    assert b"<svg" in out.read_bytes()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--by", "steps"], "by is 'steps', which needs a threshold"),
        (["--level", "2"], "level is 2.0; it must be between 0 and 1"),
        (["--metric", "return_meen"], "Did you mean 'return_mean'"),
        (["--steps", "0"], "steps is 0; it must be 1 or more"),
        (["--out", "x.gif"], "out is 'x.gif'; it must end in .png, .svg, .pdf"),
    ],
)
def test_mistakes_are_told_in_one_line(more, words, tmp_path, capsys):
    runs = [str(write_run(tmp_path / name, [[1.0], [2.0]], name=name)) for name in ("a", "b")]
    assert main(["compare", *runs, *more]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


@pytest.mark.parametrize(
    ("format", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_curves_are_drawn_in_the_format_asked_for(format, begin, runs, tmp_path, capsys):
    by_ending = tmp_path / f"curves.{format}"
    assert main(["plot", *runs, "--out", str(by_ending)]) == 0
    assert by_ending.read_bytes().startswith(begin)
    assert main(["plot", runs[0], "--format", format]) == 0
    assert (tmp_path / "eniac" / "figures" / f"learning_curve.{format}").exists()
    again = tmp_path / f"again.{format}"
    assert main(["plot", *runs, "--out", str(again.with_suffix("")), "--format", format]) == 0
    assert again.read_bytes() == by_ending.read_bytes()


def test_a_format_that_the_name_denies_is_refused(runs, tmp_path, capsys):
    assert main(["plot", *runs, "--out", str(tmp_path / "x.png"), "--format", "svg"]) == 2
    assert "ends in .svg, as --format says" in capsys.readouterr().err
    assert main(["plot", *runs, "--out", str(tmp_path / "x.gif")]) == 2
    assert "must end in .png, .svg, .pdf" in capsys.readouterr().err
