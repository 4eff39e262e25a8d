"""What the repository itself promises: what is pinned, what is tracked, what make does."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import eniac

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = ("requirements.lock", "benchmarks/requirements.lock")

# Written in pieces, so that this file does not contain what it looks for.
INDEX_ADDRESS = re.compile(
    r"--(extra-)?index-"
    + r"url|--find-"
    + r"links|(py"
    + r"pi|python"
    + r"hosted|pytorch)\."
    + r"org"
    r"|https?://[^\s\"')>]*/simp" + r"le\b"
)
MACHINE_PATH = re.compile(
    r"(?<![\w.$}~/-])/(root|home/\w+|Users/\w+|work|opt|tmp|mnt)" + r"/\w|\b[A-Z]:\\Users\\"
)


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout, so nothing is tracked")
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="ignore")


def pins(lock: str) -> dict[str, Version]:
    lines = [line.strip() for line in (ROOT / lock).read_text().splitlines()]
    entries = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", entry) for entry in entries), entries
    split = [entry.split("==") for entry in entries]
    found = {canonicalize_name(name): Version(version) for name, version in split}
    assert len(found) == len(entries), "a package is pinned twice"
    return found


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))


def offending(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in tracked_files()
        for match in pattern.finditer(text_of(path))
    ]


def test_no_tracked_file_names_a_package_index():
    assert offending(INDEX_ADDRESS) == []


def test_no_tracked_file_holds_a_path_of_one_machine():
    assert offending(MACHINE_PATH) == []


@pytest.mark.parametrize(
    "text",
    [
        "see https://py" + "pi.org/project/jax",
        "--extra-" + "index-" + "url http://localhost",
        "http://127.0.0.1:3141/root/simp" + "le/",
    ],
)
def test_an_index_address_would_be_noticed(text):
    assert INDEX_ADDRESS.search(text)


@pytest.mark.parametrize("text", ["/ho" + "me/me/x", 'p = "/ro' + 'ot/y"', "C:\\Us" + "ers\\me"])
def test_a_machine_path_would_be_noticed(text):
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize(
    ("extra", "locks"),
    [(None, LOCKS[:1]), ("dev", LOCKS[:1]), ("docs", LOCKS[:1]), ("bench", LOCKS)],
)
def test_every_requirement_is_pinned_to_a_version_in_its_range(extra, locks):
    pinned: dict[str, Version] = {}
    for lock in locks:
        pinned |= pins(lock)
    wanted = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    for requirement in map(Requirement, wanted):
        version = pinned[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, f"{requirement}, but {version} is pinned"


def test_the_two_locks_never_pin_one_package_twice():
    assert not pins(LOCKS[0]).keys() & pins(LOCKS[1]).keys()


def test_the_promised_extras_exist():
    promised = {"bench", "dev", "docs", "envpool", "ray", "trees", "wandb"}
    assert promised <= PROJECT["optional-dependencies"].keys()


def test_the_two_commands_of_the_readme_are_make_targets():
    readme = (ROOT / "README.md").read_text()
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", readme))
    assert {"demo", "test"} <= make_targets()
    # Only what stands in code is a command; "make sure" in a sentence is none.
    in_code = set(re.findall(r"^\s*(?:\$ )?make ([a-z-]+)|`make ([a-z-]+)", readme, re.MULTILINE))
    commands = {name for pair in in_code for name in pair if name} & named
    assert commands <= make_targets()


def test_make_help_lists_every_public_target():
    listed = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True)
    shown = set(re.findall(r"^  make ([a-z-]+)", listed.stdout, re.MULTILINE))
    assert shown == make_targets() - {"venv"}


def test_the_changelog_has_an_entry_for_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[([^\]]+)\]", changelog, flags=re.MULTILINE)
    assert versions[0] == PROJECT["version"]


def test_the_version_is_the_same_wherever_it_stands():
    citation = (ROOT / "CITATION.cff").read_text()
    assert eniac.__version__ == PROJECT["version"]
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == PROJECT["version"]


@pytest.mark.slow
def test_the_wheel_and_the_sdist_have_every_module_install_and_run(tmp_path):
    source, dist = tmp_path / "source", tmp_path / "dist"
    for path in tracked_files():
        copy = source / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    alone = ["-q", "--no-deps", "--no-build-isolation", "--no-index"]
    build_sdist = f"from setuptools.build_meta import build_sdist; build_sdist({str(dist)!r})"
    dist.mkdir()
    subprocess.run([sys.executable, "-c", build_sdist], cwd=source, check=True)
    subprocess.run([*pip, "wheel", *alone, "-w", dist, source], check=True)
    built = sorted(dist.iterdir())
    name = f"eniac-{PROJECT['version']}"
    assert [path.name for path in built] == [f"{name}-py3-none-any.whl", f"{name}.tar.gz"]
    modules = {
        path.relative_to(ROOT / "src").as_posix()
        for path in tracked_files()
        if path.is_relative_to(ROOT / "src")
    }
    for path in built:
        target = tmp_path / path.suffix
        subprocess.run([*pip, "install", *alone, "--target", target, path], check=True)
        there = {file.relative_to(target).as_posix() for file in target.rglob("*")}
        assert modules <= there
        env = os.environ | {"PYTHONPATH": str(target)}
        run = functools.partial(
            subprocess.run, cwd=tmp_path, env=env, check=True, capture_output=True, text=True
        )
        where = run([sys.executable, "-c", "import eniac; print(eniac.__file__)"])
        assert Path(where.stdout.strip()) == target / "eniac" / "__init__.py"
        command = str(target / "bin" / "eniac")
        assert run([command, "--version"]).stdout == f"eniac {PROJECT['version']}\n"
        out = tmp_path / f"run{path.suffix}"
        run([command, "train", "spi", "--env", "DeepSea-3", "--epochs", "1", "--out", str(out)])
        assert (out / "policy" / "seed-0").is_dir()


def test_the_integration_script_runs_the_tests():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o100, ".ci/run is not executable"
    assert re.search(r"^make test$", script.read_text(), flags=re.MULTILINE)
