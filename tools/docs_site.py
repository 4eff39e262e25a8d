"""What the documentation site has beyond the pages in docs/; mkdocs calls it, as `make docs` does.

- Files of the repository that belong to it become pages: the changelog and its like, the examples.
- The pictures in results/figures belong to it.
- Links work on a forge and here: what is no page of the site is left as its text.
- Commands in blocks of the kind "console run" are run, and what they print is put beneath them.
- The reference has every public name and every command, also those that its pages do not mention.
- Formulas become MathML, which browsers draw by themselves.
"""

from __future__ import annotations

import contextlib
import functools
import html
import inspect
import io
import os
import posixpath
import re
import shlex
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ADOPTED = {
    **{ROOT / name: name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")},
    **{path: f"examples/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.py"))},
}
"""Files outside of docs/ that are pages of the site, and where."""
PICTURES = ROOT / "results" / "figures"
"""Pictures outside of docs/ that pages show."""
WIDTH = 96
"""Columns of the terminal that commands are run in."""

LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s]+)\)")
PICTURE = re.compile(r"(!\[[^\[\]]*\])\(([^()\s]+)\)")
RUN = re.compile(r"^```console run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"^::: eniac\.(\w+)$", re.MULTILINE)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages that are made of files outside of docs/."""
    for path, uri in ADOPTED.items():
        text = path.read_text()
        if path.suffix == ".py":
            text = f"# {path.name}\n\n```python\n{text}```\n"
        files.append(File.generated(config, uri, content=text))
    for path in sorted(PICTURES.glob("*.png")):
        uri = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The text of a page as it is here and not on a forge."""
    uri = page.file.src_uri
    if uri == "reference/python.md":
        markdown = with_all_names(markdown)
    if uri == "reference/commands.md":
        markdown = with_all_commands(markdown)
    markdown = with_site_links(markdown, uri)
    if config.extra["run_commands"]:
        shown = transcript(tuple(RUN.findall(markdown)))
        markdown = RUN.sub(lambda _: f"```console\n{next(shown)}```", markdown)
    else:
        markdown = markdown.replace("```console run\n", "```console\n")
    return markdown


def on_page_content(content: str, **_: Any) -> str:
    """The page with its formulas as MathML."""
    return FORMULA.sub(_formula, content)


def _formula(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    return convert(html.unescape(found[3]).strip(), display=display)


def source_of(uri: str) -> Path:
    """The file that a page is made of."""
    origin = {uri: path for path, uri in ADOPTED.items()}
    return origin.get(uri, DOCS / uri)


def with_site_links(markdown: str, uri: str) -> str:
    """Links of a page, which are those between files, as links between pages of the site."""
    folder = source_of(uri).parent

    def mended(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        path, mark, fragment = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        file = Path(os.path.normpath(folder / path))
        if not file.exists():
            return found[0]  # mkdocs refuses it
        if file == ROOT / "README.md":
            page = "README.md"
        elif file.is_relative_to(DOCS):
            page = file.relative_to(DOCS).as_posix()
        elif file in ADOPTED:
            page = ADOPTED[file]
        else:
            return text
        return f"[{text}]({posixpath.relpath(page, posixpath.dirname(uri))}{mark}{fragment})"

    def moved(found: re.Match[str]) -> str:
        file = Path(os.path.normpath(folder / found[2]))
        if not file.is_relative_to(PICTURES):
            return found[0]
        picture = file.relative_to(ROOT).as_posix()
        return f"{found[1]}({posixpath.relpath(picture, posixpath.dirname(uri))})"

    return PICTURE.sub(moved, LINK.sub(mended, markdown))


def with_all_names(markdown: str) -> str:
    """The page of names, with those of `eniac` that it does not mention, and agents in words."""
    import eniac
    from eniac.agents import AGENTS

    there = set(NAME.findall(markdown))
    unknown = there - set(eniac.__all__)
    if unknown:
        raise PluginError(f"reference/python.md has names that eniac has not: {sorted(unknown)}")
    missing = [name for name in eniac.__all__ if name not in there | {"__version__"}]
    if missing:
        markdown += "\n## More names\n\n" + "\n".join(f"::: eniac.{name}\n" for name in missing)

    def agent(found: re.Match[str]) -> str:
        # Made of a table when they are imported, so that nothing can be read off the source.
        kind = AGENTS.get(found[1])
        if kind is None:
            return found[0]
        return f"### `{found[1]}` {{ #eniac.{found[1]} }}\n\n{inspect.getdoc(kind)}\n"

    return NAME.sub(agent, markdown)


def with_all_commands(markdown: str) -> str:
    """The page of commands, with the help of those that it does not mention."""
    from eniac.cli.main import COMMANDS

    for name, (_, text) in COMMANDS.items():
        if f"\n## eniac {name}\n" not in markdown:
            markdown += (
                f"\n## eniac {name}\n\n{text}.\n\n```console run\n$ eniac {name} --help\n```\n"
            )
    return markdown


def transcript(blocks: tuple[str, ...]) -> Any:
    """The blocks of a page, each command in them followed by what it prints."""
    return iter(_transcript(blocks))


@functools.cache
def _transcript(blocks: tuple[str, ...]) -> list[str]:
    if not blocks:
        return []
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, _terminal():
        os.chdir(folder)
        try:
            return ["".join(map(_ran, block.splitlines())) for block in blocks]
        finally:
            os.chdir(before)


@contextlib.contextmanager
def _terminal() -> Any:
    settings = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    kept = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _ran(line: str) -> str:
    """A line "$ eniac ..." and what the command prints."""
    from eniac.cli.main import main

    words = shlex.split(line, comments=True)
    if words[:2] != ["$", "eniac"]:
        raise PluginError(
            f"a block of the kind 'console run' has {line!r}; expected '$ eniac ...'."
        )
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main(words[2:])
        except SystemExit as end:
            code = end.code
    # A terminal wraps what is longer than it is wide.
    wrapped = (textwrap.wrap(each, WIDTH) or [""] for each in said.getvalue().splitlines())
    text = "\n".join(part for parts in wrapped for part in parts).strip("\n")
    if code:
        raise PluginError(f"{line!r} of the documentation ended with code {code}:\n{text}")
    return f"{line}\n{text}\n"
