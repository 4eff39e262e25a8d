"""Jobs on a cluster of Ray's: two nodes on this machine, which die."""

import json
import os
import signal
import socket
import threading
import time

import pytest

from eniac import ConfigError, RunError
from eniac.runs.checkpoint import epoch_of, list_checkpoints
from eniac.runs.cluster import RayCluster
from eniac.runs.executors import Processes, open_executor
from eniac.runs.manifest import read_manifest
from eniac.runs.plan import plan
from eniac.runs.sweep import run_sweep
from eniac.runs.work import Job, execute
from machines import Machines, parents
from processes import assert_same_run

pytest.importorskip("ray", reason="Ray is not installed, which is in the extra of that name")


@pytest.fixture(scope="module")
def machines():
    machines = Machines()
    for _ in range(2):
        machines.add()
    yield machines
    machines.close()


@pytest.fixture
def executor(machines):
    executor = RayCluster(machines.address)
    yield executor
    executor.close()


def make(folder, name, call="tell", **arguments):
    product = folder / f"{name}.json"
    return Job(name, f"jobs:{call}", {"path": str(product), **arguments}, product)


def test_jobs_go_on_when_a_worker_and_then_a_machine_die(tmp_path, machines, executor, console):
    jobs = [make(tmp_path, f"count-{n}", "count", until=100) for n in range(3)]
    counted = [tmp_path / f"count-{n}.json.counted" for n in range(3)]
    repeated = []

    def disturb():
        while not all(path.exists() and len(path.read_text()) > 60 for path in counted[:2]):
            time.sleep(0.01)
        first, second = (int(path.with_suffix(".process").read_text()) for path in counted[:2])
        lost = machines.node_of(second)
        os.kill(parents()[first], signal.SIGKILL)  # the worker that looks after the job
        machines.lose(lost)
        repeated.append(int(counted[1].with_suffix(".saved").read_text()))

    thread = threading.Thread(target=disturb)
    thread.start()
    outcome = execute(jobs, executor, console=console)
    thread.join()
    assert outcome.code == 0, console.file.getvalue()
    assert console.file.getvalue().count("is gone") == 2
    whole = list(range(1, 101))
    first, second, third = ([int(x) for x in path.read_text().split()] for path in counted)
    assert first == third == whole  # who lost the worker was asked to save
    (saved,) = repeated
    assert sorted(set(second)) == whole
    assert {number for number in whole if second.count(number) > 1} <= set(
        range(saved + 1, saved + 11)
    )


def test_ctrl_c_lets_jobs_of_other_machines_save(tmp_path, executor, machines, console):
    jobs = [make(tmp_path, f"count-{n}", "count", until=100) for n in range(2)]
    counted = tmp_path / "count-0.json.counted"

    def interrupt():
        while not counted.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcome = execute(jobs, executor, workers=1, console=console)
    thread.join()
    assert (outcome.code, len(outcome.left)) == (130, 2)
    assert counted.with_suffix(".saved").read_text() == counted.read_text().split()[-1]
    assert execute(jobs[:1], executor, console=console).code == 0
    assert counted.read_text().split() == [str(number) for number in range(1, 101)]


def test_a_job_gets_an_accelerator_of_its_own(tmp_path, machines, console):
    with pytest.raises(ConfigError, match=r"no machine of the cluster at .* has GPU"):
        RayCluster(machines.address, "GPU")
    machines.add(num_gpus=2)
    executor = RayCluster(machines.address, "GPU")
    try:
        assert executor.capacity() == 2
        job = make(tmp_path, "gpu")
        assert execute([job], executor, console=console).code == 0
    finally:
        executor.close()
        machines.lose(machines.nodes[-1])
    assert json.loads(job.product.read_text())["accelerators"] in ("0", "1")


def test_a_machine_without_eniac_is_told_in_a_line(tmp_path, executor, machines, console):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_ENIAC)
    machines.add(resources={"bare": 1}, env_vars={"PYTHONPATH": str(tmp_path)})
    bare = RayCluster(machines.address, "bare")  # which is that one
    with pytest.raises(RunError) as caught:
        execute([make(tmp_path, "a"), make(tmp_path, "b")], bare, workers=1, console=console)
    machines.lose(machines.nodes[-1])
    assert str(caught.value) == (
        "A machine of the cluster cannot begin a job: ModuleNotFoundError: No module named "
        "'eniac'. Each needs the same folders, and the same eniac in the Python of its Ray: `pip "
        "install 'eniac[ray]'`."
    )


WITHOUT_ENIAC = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "eniac":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Without())
"""


def test_a_cluster_that_cannot_be_reached_is_told_in_a_line(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ConfigError, match=f"no Ray cluster answers at {nobody}: .*`ray start"):
        RayCluster(nobody)
    for address in ("nonsense", "ray://here:1", "a/b:1"):
        with pytest.raises(ConfigError, match="it must be HOST:PORT or auto"):
            RayCluster(address)
    with (
        pytest.raises(ConfigError, match=r"address is '.*', which is only for Ray: --executor"),
        open_executor("processes", address=nobody),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["eniac", "ppo", "eniac-spi-sample"])
def test_a_sweep_on_machines_that_die_equals_one_that_nothing_befell(
    tmp_path, machines, executor, console, algorithm
):
    """All bytes of logs and policies; and what was saved is not computed again."""
    runs = plan(algorithm, "DeepSea-3", SMALL[algorithm], seeds=4)
    processes, cluster = tmp_path / "processes", tmp_path / "cluster"
    assert run_sweep(runs, processes, Processes(), console=console).code == 0
    while len(machines.nodes) < 2:
        machines.add()
    saved = {}

    def disturb():
        first = writing(cluster, saved)
        os.kill(parents()[first], signal.SIGKILL)  # the worker that looks after it
        machines.lose(machines.node_of(writing(cluster, saved)))

    thread = threading.Thread(target=disturb)
    thread.start()
    assert run_sweep(runs, cluster, executor, console=console).code == 0
    thread.join()
    assert len(saved) == 2
    assert console.file.getvalue().count("is gone") == 2
    for run in runs:
        assert_same_run(processes / run.name, cluster / run.name, SMALL[algorithm]["epochs"])
        sessions = read_manifest(cluster / run.name)["sessions"]
        assert len(sessions) == (2 if run.name in saved else 1)
        assert sessions[-1]["from_epoch"] >= saved.get(run.name, 0)
        timed = (cluster / run.name / "timings.jsonl").read_text().splitlines()
        assert [json.loads(line)["epoch"] for line in timed] == list(
            range(1, SMALL[algorithm]["epochs"] + 1)
        )


COVERED = {"num_envs": 4, "rollout_length": 8, "updates_per_round": 1, "hidden": [4], "rounds": 1}
COVERED |= {"visit_steps": 16, "visit_envs": 4, "capacity": 400, "evaluation.episodes": 2}
SMALL = {
    "eniac": COVERED
    | {"bonus.outer": 40, "bonus.inner": 5, "bonus.buffer_batch": 8, "bonus.query_batch": 4}
    | {"epochs": 60},
    "ppo": {name: COVERED[name] for name in ("num_envs", "rollout_length", "hidden")}
    | {"epochs": 150, "evaluation.episodes": 2},
    "eniac-spi-sample": {"epochs": 30, "N": 30, "T": 2, "K": 50, "M": 50, "m": 5.0},
}


def writing(folder, saved):
    """The process of a run that has saved some epochs and is not among `saved`, which it joins
    with how many these are."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        for lock in folder.glob("*/writer.json"):
            found = list_checkpoints(lock.parent / "checkpoints")
            if lock.parent.name not in saved and found and epoch_of(found[0]) >= 5:
                saved[lock.parent.name] = epoch_of(found[0])
                return json.loads(lock.read_text())["process"]
        time.sleep(0.01)
    raise AssertionError("no run is under way")
