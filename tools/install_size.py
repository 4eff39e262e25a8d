"""What `pip install .` brings: how long it takes, how large it is, and what each package adds.

    python tools/install_size.py [EXTRA ...]

It installs into a scratch folder that is removed again. The size of a package counts what only it
needs: what would be left out without it. Sizes are of the files, compiled Python included.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


def needs(distribution: Distribution, extras: Iterable[str] = ()) -> set[str]:
    """The packages that a package asks for, here and with these extras."""
    found = set()
    for text in distribution.requires or ():
        wanted = Requirement(text)
        marker = wanted.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found.add(canonicalize_name(wanted.name))
    return found


def reached(graph: dict[str, set[str]], start: set[str], without: str | None = None) -> set[str]:
    """All that comes with the packages `start`, if one of them is left out."""
    found: set[str] = set()
    todo = start - {without}
    while todo:
        found |= todo
        todo = set().union(*(graph.get(name, set()) for name in todo)) - found - {without}
    return found


def megabytes(distribution: Distribution) -> float:
    """The size of a package's files."""
    paths = [Path(str(file.locate())) for file in distribution.files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def main(extras: list[str]) -> None:
    """Installs, and prints a table."""
    with tempfile.TemporaryDirectory() as scratch:
        project, folder = Path(scratch) / "eniac", Path(scratch) / "venv"
        shutil.copytree(ROOT / "src", project / "src")  # pip builds where the source is
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, project)
        wanted = f"{project}[{','.join(extras)}]" if extras else str(project)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = next(folder.glob("[bS]*/python*"))
        start = time.perf_counter()
        subprocess.run([python, "-m", "pip", "install", "-qq", wanted], check=True)
        seconds = time.perf_counter() - start
        place = next(folder.rglob("site-packages"))
        there = {canonicalize_name(d.name): d for d in distributions(path=[str(place)])}
        size = {name: megabytes(found) for name, found in there.items()}
        graph = {name: needs(found) for name, found in there.items()}
        direct = needs(there["eniac"], extras)
        every = reached(graph, direct)
        total = sum(size[name] for name in every)
        print(f"{len(every)} packages, {total:.0f} MB, {seconds:.0f} s\n")
        print("| package | MB with what only it needs | that is |\n| --- | ---: | --- |")
        lost = {name: every - reached(graph, direct, name) for name in direct}
        for name in sorted(direct, key=lambda x: -sum(size[y] for y in lost[x])):
            others = ", ".join(sorted(lost[name] - {name}))
            print(f"| {name} | {sum(size[x] for x in lost[name]):.1f} | {others} |")


if __name__ == "__main__":
    main(sys.argv[1:])
