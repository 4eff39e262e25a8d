"""Folders made to do harm execute nothing, wait for nothing, and are refused in a line."""

import os
import subprocess
import sys

import pytest

from eniac import EniacError, load_policy, load_run
from runs import malicious
from runs.random_configs import check_line


@pytest.fixture
def nothing_runs(tmp_path):
    """Fails if anything is executed."""
    with malicious.nothing_runs(tmp_path):
        yield


def refused(call):
    with pytest.raises(EniacError) as caught:
        call()
    check_line(str(caught.value))


def test_there_are_as_many_malicious_folders_as_promised():
    assert len(malicious.POLICIES) >= 60
    assert len(malicious.RUNS) >= 30


@pytest.mark.parametrize("kind", ["actor-critic", "table"])
def test_a_good_policy_loads(tmp_path, kind):
    assert load_policy(malicious.good_policy(tmp_path / "policy", kind)) is not None


@pytest.mark.parametrize("name", malicious.POLICIES)
def test_a_malicious_policy_executes_nothing_and_is_refused_in_a_line(
    tmp_path, monkeypatch, nothing_runs, name
):
    folder = malicious.good_policy(tmp_path / "policy")
    malicious.plant(folder)
    malicious.POLICIES[name](folder)
    # Where a program looks for modules that was started in the folder itself.
    monkeypatch.chdir(folder)
    refused(lambda: load_policy(folder))


@pytest.mark.parametrize("name", malicious.NAMED)
def test_code_that_a_policy_names_is_never_looked_for(tmp_path, monkeypatch, nothing_runs, name):
    folder = malicious.good_policy(tmp_path / "policy")
    malicious.plant(folder)
    malicious.NAMED[name](folder)
    monkeypatch.syspath_prepend(folder)
    assert load_policy(folder) is not None


@pytest.mark.parametrize("where", ["inside", "above", "on the path"])
@pytest.mark.parametrize("name", malicious.RUNS)
def test_a_malicious_run_executes_nothing_and_is_refused_in_a_line(
    tmp_path, monkeypatch, nothing_runs, name, where
):
    folder = malicious.RUNS[name](tmp_path / "run")
    malicious.plant(folder)
    monkeypatch.chdir(tmp_path if where == "above" else folder)
    if where == "on the path":
        monkeypatch.syspath_prepend(folder)
    refused(lambda: load_run(folder))


@pytest.mark.parametrize("load", [load_policy, load_run])
@pytest.mark.parametrize(
    "folder",
    ["", "nowhere", "a" * 300, "a\0b", "a\nb", "\ud800", "x/" * 3000, "/dev/zero", None, 3],
)
@pytest.mark.usefixtures("unchecked")
def test_a_folder_that_cannot_be_is_refused_in_a_line(load, folder):
    refused(lambda: load(folder))


def test_what_a_run_names_is_imported_from_the_users_path(tmp_path, monkeypatch):
    (tmp_path / "users_module_of_a_run.py").write_text(
        "def make(): raise ValueError('it was me')\n"
    )
    folder = malicious.good_run(tmp_path / "run", env="users_module_of_a_run:make")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EniacError, match="it was me"):
        load_run(folder)


LIMITED = """
import resource, sys
from pathlib import Path
from eniac import EniacError, load_policy

good, *folders = sys.argv[1:]
load_policy(good)  # JAX and all that is imported take their memory
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 100 * 2**20,) * 2)
try:
    bytes(200 * 2**20)
except MemoryError:
    print("limited")
load_policy(good)
for folder in folders:
    try:
        load_policy(folder)
        print("loaded")
    except EniacError as error:
        print("refused")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory cannot be limited here")
def test_loading_a_policy_takes_no_more_memory_than_its_files(tmp_path):
    named = ["env is a huge one", "tensors are told otherwise"]
    large = ["space of 9e7", "space of 1e12", "hidden of 1e9", "header of 2^60", "1 GiB"]
    large += ["64 GiB of zeros behind", "gzip bomb for json", "a table of 1e12 states"]
    good = malicious.good_policy(tmp_path / "good")
    folders = [malicious.good_policy(tmp_path / str(i)) for i in range(len(named + large))]
    for folder, name in zip(folders, named + large, strict=True):
        (malicious.NAMED | malicious.POLICIES)[name](folder)
    command = [sys.executable, "-c", LIMITED, str(good), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = ["limited", *["loaded"] * len(named), *["refused"] * len(large)]
    assert done.stdout.split() == told, done.stderr


def test_a_folder_without_a_run_is_as_good_a_place_for_modules_as_before(tmp_path, monkeypatch):
    (tmp_path / "module_beside_no_run.py").write_text("def make(): raise ValueError('it was me')\n")
    monkeypatch.chdir(tmp_path)
    refused(lambda: load_run("."))
    folder = malicious.good_run(tmp_path / "run", env="module_beside_no_run:make")
    with pytest.raises(EniacError, match="it was me"):
        load_run(folder)
