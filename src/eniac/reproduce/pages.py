"""Where generated text goes: between two markers of a page of the documentation, or to a file."""

from __future__ import annotations

import re
from pathlib import Path

from eniac.errors import RunError
from eniac.runs.files import write_atomically


def markers(name: str) -> tuple[str, str]:
    """What stands before and after the block called `name`."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"


def has_block(page: Path, name: str) -> bool:
    """Whether there is such a page, with such a block."""
    return page.is_file() and markers(name)[0] in page.read_text()


def with_block(page: str, name: str, text: str) -> str:
    """The page with `text` as its block called `name`. **Raises** ValueError if it has none."""
    begin, end = map(re.escape, markers(name))
    found = re.subn(
        f"({begin}\n).*?({end})",
        lambda match: f"{match[1]}{text}{match[2]}",
        page,
        count=1,
        flags=re.DOTALL,
    )
    if not found[1]:
        raise ValueError(f"the page has no block called {name!r}")
    return found[0]


def write_text(path: Path, text: str) -> Path:
    """Writes a file of text that is whole or not there. **Raises** `RunError` if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise RunError(f"Cannot write to {path}: {error.strerror or error}.") from error
    return path
