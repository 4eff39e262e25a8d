"""A cluster of Ray's on this machine, whose nodes can be lost.

It is kept by a process of its own: Ray forks, which a process with JAX's threads must not.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


class Machines:
    """A head that computes nothing, and nodes; each is known by the number of its first process."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(sys.path), "RAY_USAGE_STATS_ENABLED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.address = self._read()
        self.nodes: list[int] = []

    def add(self, **more: Any) -> int:
        """Adds a node with a core, and says which."""
        self.nodes.append(self._ask({"add": more}))
        return self.nodes[-1]

    def node_of(self, process: int) -> int:
        """The node that a process of a job is on."""
        return next(node for node in self.nodes if process in descendants(node))

    def lose(self, node: int) -> None:
        """What the loss of a machine does: all of its processes end at once."""
        self.nodes.remove(node)
        for process in [node, *descendants(node)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._ask({"lose": node})

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _ask(self, question: Any) -> Any:
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("> "):  # all else is Ray's
                return json.loads(line[2:])
        raise AssertionError("the process that keeps the cluster has ended")


def parents() -> dict[int, int]:
    """The parent of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return found


def descendants(process: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    above, found = parents(), [process]
    for each in found:
        found += [child for child, parent in above.items() if parent == each]
    return found[1:]


def _serve() -> None:
    from ray.cluster_utils import Cluster

    def tell(what: Any) -> None:
        print(f"> {json.dumps(what)}", flush=True)

    # The death of a node is to be noticed soon.
    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
    soon |= {"health_check_failure_threshold": 6}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": soon}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    tell(cluster.address)
    nodes = {}
    for line in sys.stdin:
        job = json.loads(line)
        if "add" in job:
            node = cluster.add_node(num_cpus=1, **job["add"])
            number = node.all_processes["raylet"][0].process.pid
            nodes[number] = node
            tell(number)
        else:
            cluster.remove_node(nodes.pop(job["lose"]), allow_graceful=False)
            tell("lost")
    cluster.shutdown()


if __name__ == "__main__":
    _serve()
