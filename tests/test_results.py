"""The tables of the documentation say what the files of results say."""

import re
from pathlib import Path

import pytest

from programs import load_program

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def benchmark():
    return load_program("benchmarks/mountain_car.py")


def lines_of_runs():
    for page in PAGES:
        for line in page.read_text().splitlines():
            found = re.match(r"\| ((?:ours|paper|undo|try)-[a-z0-9-]+) \|", line)
            if found:
                yield pytest.param(found[1], line, id=f"{page.stem}-{found[1]}")


@pytest.mark.parametrize(("name", "line"), list(lines_of_runs()))
def test_a_line_of_a_table_is_that_of_its_run(benchmark, name, line):
    assert line == benchmark.row(name)
