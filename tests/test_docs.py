"""The documentation: commands and programs work, links lead somewhere, the site is whole."""

import ast
import contextlib
import html
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import eniac
from eniac.cli.main import COMMANDS, main
from eniac.runs.options import parse_config
from programs import load_program

ROOT = Path(__file__).parents[1]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page_id(path):
    return str(path.relative_to(ROOT))


def code_blocks(page, language):
    return [code for kind, code in FENCE.findall(page.read_text()) if kind == language]


def commands(page):
    """The lines of a page that are commands of ours, as words."""
    for line in page.read_text().replace("\\\n", " ").splitlines():
        found = re.match(r"(?:    |\$ )(eniac [a-z][a-z-]*( .*)?)$", line)
        if found:
            yield shlex.split(found[1], comments=True)[1:]


def text_of(page):
    """What a page of the site says."""
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))


def help_of(command):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit):
        main([command, "--help"])
    return said.getvalue()


def test_every_command_that_a_page_shows_can_be_given():
    helps, shown = {}, 0
    for page in PAGES:
        for name, *rest in commands(page):
            assert name in COMMANDS, f"{page}: eniac {name}"
            if "--help" in rest:
                continue
            shown += 1
            if name == "sweep" and "--" in rest:  # what follows is for `eniac train`
                cut = rest.index("--")
                parse_config([rest[rest.index("--algorithms") + 1], *rest[cut + 1 :]])
                rest = rest[:cut]
            if name != "train":
                text = helps.setdefault(name, help_of(name))
                for word in rest:
                    known = not word.startswith("-") or re.search(rf"{word}\b", text)
                    assert known, f"{page}: eniac {name} has no {word}"
            elif not re.search(r"\.json\b|:|\b[A-Z]+(?= |$)", " ".join(rest)):
                parse_config(rest)  # raises where it cannot be; NAME and what is yours aside
    assert shown > 80


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_to_files_of_the_repository(page):
    for target in re.findall(r"\]\(([^()\s:]+)\)", page.read_text()):
        path = target.partition("#")[0]
        assert not path or (page.parent / path).exists(), f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_of_a_page_is_python_and_names_what_there_is(page):
    for code in code_blocks(page, "python"):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "eniac":
                known = node.attr in eniac.__all__ or (ROOT / "src/eniac" / node.attr).exists()
                assert known, f"{page}: eniac.{node.attr}"


@pytest.mark.parametrize("page", TUTORIALS, ids=page_id)
def test_the_code_of_a_tutorial_is_that_of_its_program(page):
    named = re.findall(r"The program is \[\w+\.py\]\(([^)]+)\)", page.read_text())
    assert len(named) == 1
    program = (page.parent / named[0]).read_text()
    blocks = code_blocks(page, "python")
    assert blocks
    for code in blocks:
        there = any(f"\n{textwrap.indent(code, pad)}" in program for pad in ("", "    "))
        assert there, f"{page} shows what {named[0]} does not have:\n{code}"


def test_formulas_and_links_of_a_page_become_those_of_the_site():
    site = load_program("tools/docs_site.py")
    formula = '<span class="arithmatex">\\(a &lt; b^2\\)</span>'
    assert re.fullmatch(r"<math .*<msup>.*</math>", site.on_page_content(formula))
    text = "[a](../examples/agent.py) [b](../results/runs) [c](nowhere.md) [d](ppo.md#results)"
    assert site.with_site_links(text, "eniac.md") == (
        "[a](examples/agent.md) b [c](nowhere.md) [d](ppo.md#results)"
    )
    assert site.with_site_links("[a](docs/ppo.md)", "CHANGELOG.md") == "[a](ppo.md)"
    assert site.with_site_links("[a](../CHANGELOG.md)", "ppo.md") == "[a](CHANGELOG.md)"


def build(folder, config="mkdocs.yml", **settings):
    """Builds the site, as `make docs` does, but into `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-f", config, "-d", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"} | settings,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, without running the commands that it shows the output of."""
    folder = tmp_path_factory.mktemp("site")
    built = build(folder, ENIAC_DOCS_COMMANDS="false")
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


def test_the_site_fetches_nothing(site):
    fetched = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\bsrc=\"(?:https?:)?//|@import|url\(['\"]?(?:https?:)?//|<link[^>]*rel=\"(?:stylesheet|preload|preconnect|icon)\"[^>]*href=\"(?:https?:)?//"
    )
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in [*pages, *site.rglob("*.css")]:
        assert not fetched.search(page.read_text()), page
    kept = {path.suffix for path in (site / "results").rglob("*") if path.is_file()}
    assert kept == {".png"}


def test_nothing_of_a_formula_is_left_as_it_was_typed(site):
    pages = {page.name: page.read_text() for page in site.rglob("*.html")}
    assert sum(text.count("<math") for text in pages.values()) > 300
    left = {name: re.findall(r"<m\w+>\\[^<]*|\$[^$<]*\\\w+", text) for name, text in pages.items()}
    assert not {name: found for name, found in left.items() if found}


def test_the_reference_has_every_name_and_every_command(site):
    python = (site / "reference" / "python.html").read_text()
    missing = {name for name in eniac.__all__ if f'id="eniac.{name}"' not in python}
    assert missing == {"__version__"}
    shown = text_of(site / "reference" / "commands.html")
    assert all(f"eniac {name} --help" in shown for name in COMMANDS)


def test_a_broken_link_fails_the_build(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[gone](gone.md)")
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\nnav: [index.md]\nplugins: []\nhooks: []\n"
        "theme: {name: mkdocs}\nextra_css: []\n"
    )
    built = build(tmp_path / "site", str(tmp_path / "mkdocs.yml"))
    assert built.returncode == 1
    assert "gone.md" in built.stderr


@pytest.mark.slow
def test_the_commands_of_the_reference_run_when_the_site_is_built(tmp_path):
    built = build(tmp_path / "site")
    assert built.returncode == 0, built.stderr
    text = text_of(tmp_path / "site" / "reference" / "commands.html")
    for said in ("ended by  14 epochs", "return_above", "IQM", "Its parts, whose means add up"):
        assert said in text
    assert not re.search(r"Traceback|Error:", text)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(code_blocks(ROOT / "docs" / "howto.md", "python"))))
def test_the_answers_work(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = code_blocks(ROOT / "docs" / "howto.md", "python")[number]
    exec(compile(code, "howto.md", "exec"), {"__name__": "answer"})
