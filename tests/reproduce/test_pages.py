"""The pages of the documentation say what the files of results say."""

from pathlib import Path

import pytest

from eniac.reproduce.choice import Choice
from eniac.reproduce.figures import FIGURES, with_pictures
from eniac.reproduce.pages import with_block
from eniac.reproduce.results import read_results

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", FIGURES)
def test_a_page_says_what_the_files_say(name):
    row = FIGURES[name]
    page = ROOT / "docs" / row.page
    found = row.report(Choice(results=ROOT / "results"))
    pictures = [ROOT / "results" / "figures" / f"{picture}.png" for picture in found.pictures]
    text = with_block(page.read_text(), name, with_pictures(found.text, pictures, page))
    assert page.read_text() == text, f"run `eniac reproduce {name} --from-results`"
    assert all(picture.exists() for picture in pictures)


def test_every_result_says_how_it_was_made():
    for kind in ("runs", "theory"):
        for result in read_results(ROOT / "results", kind):
            assert result["command"]
            assert result["commit"]
            assert result["versions"]
            assert result["machine"]
