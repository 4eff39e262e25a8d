"""`eniac reproduce`, on files of results that were made up."""

import pytest

from eniac.cli.main import main
from reproduce.fake_results import result_of, write_result


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a few results, in which the command is given."""
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        write_result(tmp_path / "results", solved(seed))
    return tmp_path


def solved(seed, **more):
    curve = [[300_000, 94.0, None]]
    return result_of("mountain-car-2", seed=seed, solved=300_000, curve=curve, **more)


def told(capsys):
    said = capsys.readouterr()
    return " ".join((said.out + said.err).split())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", "Reproduce what? There are figure1, "),
        (
            "figur1",
            "Did you mean 'figure1'? There are figure1, figure2, figure3, tables, ",
        ),
        ("figure1 --depths 3", "--depths has 3; there are 2, 4, 6"),
        (
            "tables --seeds 3",
            "--seeds is only for figure1, figure2, figure3, theory, exploration, ablation;",
        ),
        ("theory --episodes episodic", "--episodes is only for figure1; leave it out."),
        ("exploration --tasks lock2", "--tasks has lock2; there are"),
        ("figure1 --seeds 0", "seeds is 0; it must be 1 or more"),
        ("figure1 --workers 0", "workers is 0; it must be 1 or more"),
        ("claims --results nowhere", "there is no folder nowhere"),
        ("figure1 --dry-run --from-results", "both given; give one"),
        ("all --tasks lock-2", "--tasks is only for"),
        ("theory --algorithms ppo", "--algorithms has ppo; there are eniac-spi-sample"),
        ("figure1 --quick --results results", "a folder whose name has 'quick' in it"),
        ("figure1 --results results-quick", "a folder whose name has 'quick' in it"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(here, capsys, words, wanted):
    assert main(["reproduce", *words.split()]) == 2
    assert wanted in told(capsys)
    assert not list(here.rglob("*.png"))


def test_a_dry_run_says_what_there_is_to_do_and_does_nothing(here, capsys):
    words = "reproduce figure1 --settings paper --depths 2 --workers 2 --dry-run"
    assert main(words.split()) == 0
    said = told(capsys)
    assert said.startswith("figure1: 100 runs in results, 0 done; 100 to make, about ")
    assert said.endswith("with 2 at a time.")
    assert [path.name for path in here.iterdir()] == ["results"]


def test_rows_of_another_version_are_not_mixed_unless_that_is_asked_for(here, capsys):
    write_result(here / "results", solved(0, versions={"eniac": "0.1.0"}))
    assert main(["reproduce", "figure1", "--depths", "2", "--settings", "ours"]) == 2
    assert "--mix-versions goes on" in told(capsys)
    assert main(["reproduce", "figure1", "--from-results"]) == 0
    assert "mixes versions: eniac 0.1.0 (seed 0), eniac 0.2.0 (seeds 1-2)" in told(capsys)


def test_what_there_is_is_drawn_from_files_alone(here):
    assert main(["reproduce", "figure1", "--from-results", "--format", "svg"]) == 0
    figures = here / "results" / "figures"
    assert "| mountain-car-2 | eniac | 3 of 3 " in (figures / "figure1.md").read_text()
    assert sorted(path.name for path in figures.iterdir()) == [
        "figure1-continuing-ours.svg",
        "figure1.md",
    ]
    first = (figures / "figure1-continuing-ours.svg").read_bytes()
    assert main(["reproduce", "figure1", "--from-results", "--format", "svg"]) == 0
    assert (figures / "figure1-continuing-ours.svg").read_bytes() == first


def test_a_page_with_a_block_gets_the_text_and_a_quick_version_never_does(here):
    page = here / "docs" / "paper.md"
    page.parent.mkdir()
    page.write_text("a\n<!-- tables: begin -->\n<!-- tables: end -->\nb\n")
    assert main(["reproduce", "tables", "--quick"]) == 0
    assert (here / "results-quick" / "figures" / "tables-quick.md").exists()
    assert "Table 1" not in page.read_text()
    assert main(["reproduce", "tables"]) == 0
    assert "### Table 1" in page.read_text()
    assert page.read_text().startswith("a\n")
