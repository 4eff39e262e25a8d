"""Attacks on runs, thousands of them, and what became of each.

    make torture                            # all; a quarter of an hour on two cores
    python benchmarks/torture.py --quick    # a few of each; two minutes, writes nothing
    python benchmarks/torture.py kills      # some kinds only

Every attack must be survived (it went on, and ended with the bytes or the result of a run that was
never attacked) or refused cleanly (one line in our words, no traceback, nothing executed, nothing
in the way of the next try). Anything else is a fault of ours, is shown, and ends in exit code 1.

The attacks themselves are in tests/attacks and use what the tests use; a small version of each is
among the tests. Kinds are cut in parts, each of which has a process of its own, two at a time. All
of them together write benchmarks/results/torture.json; `--write` puts the table of that file into
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "torture.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- torture: the table that `make torture` prints -->\n", "<!-- end of torture -->"
sys.path[:0] = [str(ROOT / "tests")]

LEARNERS = tuple(
    f"{name}{where}" for name in ("ppo", "eniac", "ppo-rnd", "spi") for where in ("", "-host")
)
TITLES = {
    "kills": "SIGKILL, then resumed",
    "flips": "flipped bits",
    "configs": "configs and command lines",
    "folders": "folders made to do harm",
    "faults": "environments that misbehave",
    "writers": "two writers and readers, for a minute",
    "devices": "going on elsewhere",
}
COLUMNS = ("tried", "survived", "refused", "else")


class Part(NamedTuple):
    """What one process does: a function of tests/attacks and its arguments."""

    kind: str
    attack: str
    arguments: dict[str, Any]

    @property
    def name(self) -> str:
        shown = [str(x) for x in self.arguments.values() if isinstance(x, str)]
        return " ".join([self.attack.partition(":")[2], *shown])


def parts(quick: bool) -> Iterator[Part]:
    """All of them, the longest first."""
    every = 8 if quick else 1
    for learner in LEARNERS[:: 5 if quick else 1]:
        count = {"learner": learner, "count": 3 if quick else 15}
        yield Part("kills", "kills:kills", count)
    for name in ("later", "at once", "replaced", "jax", "ours"):
        yield Part("faults", "faults:faults", {"part": name, "every": every})
    for learner in ("ppo", "eniac", "ppo-rnd", "spi")[: 1 if quick else 4]:
        count = {"learner": learner, "count": 250, "resumed": 10}
        few = {"learner": learner, "count": 20, "resumed": 2}
        yield Part("flips", "files:flips", few if quick else count)
    drawn = 100 if quick else 5_000
    for first in range(0, 2 * drawn, drawn):
        yield Part("configs", "files:configs", {"first": first, "count": drawn})
    yield Part("configs", "files:commands", {"first": 0, "count": 20 if quick else 1_000})
    yield Part("configs", "files:by_hand", {"every": every})
    yield Part("folders", "files:folders", {"every": every})
    yield Part("devices", "crowds:devices", {"learner": "toy", "few": quick})
    if not quick:
        for learner in ("ppo", "eniac", "spi"):
            yield Part("devices", "crowds:devices", {"learner": learner, "few": True})
    yield Part("writers", "crowds:writers", {"seconds": 5 if quick else 60})


def work(part: Part) -> None:
    """One part, in this process; each outcome is a line on standard output."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what is printed by those who are attacked is none of it
    module, function = part.attack.split(":")
    with tempfile.TemporaryDirectory(prefix="eniac-torture-") as folder:
        attack = getattr(import_module(f"attacks.{module}"), function)
        for found in attack(Path(folder), **part.arguments):
            print(json.dumps(found), file=output)


class Table:
    """Counts of outcomes, by kind and what was attacked, and everything that should not be."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[str, int]] = {}
        self.faults: list[str] = []

    def add(self, kind: str, what: str, ended: str, told: str) -> None:
        row = self.rows.setdefault((kind, what), dict.fromkeys(COLUMNS, 0))
        row["tried"] += 1
        row[ended] += 1
        if ended == "else":
            self.faults.append(f"{kind}, {what}: {told}")

    def data(self) -> list[dict[str, Any]]:
        order = list(TITLES)
        rows = sorted(self.rows.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
        return [{"kind": kind, "what": what, **counts} for (kind, what), counts in rows]


def attack(part: Part, told: queue.Queue[tuple[Part, Any]], cache: str) -> None:
    """A part in a process of its own; what it tells goes to `told`, and None when it has ended."""
    command = [sys.executable, "-W", "ignore", __file__, "--part", json.dumps(part)]
    environment = os.environ | {"ENIAC_CACHE": cache}
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            for line in process.stdout or ():
                told.put((part, json.loads(line)))
        if process.returncode != 0:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["nothing"])[-1]
            text = f"{part.name} ended with code {process.returncode}: {last[:500]}"
            told.put((part, ["the torture itself", "else", text]))
    told.put((part, None))


def torture(chosen: list[Part], workers: int) -> Table:
    """Runs all parts, and tells how it goes."""
    table, told, began = Table(), queue.Queue(), time.monotonic()
    waiting, counts = queue.SimpleQueue[Part](), {part.name: 0 for part in chosen}
    for part in chosen:
        waiting.put(part)

    def serve() -> None:
        while True:
            try:
                part = waiting.get_nowait()
            except queue.Empty:
                return
            attack(part, told, cache)

    with tempfile.TemporaryDirectory(prefix="eniac-torture-cache-") as cache:
        for _ in range(workers):
            threading.Thread(target=serve, daemon=True).start()
        left, spoken = len(chosen), 0.0
        while left:
            part, found = told.get()
            minutes = (time.monotonic() - began) / 60
            if isinstance(found, list):
                table.add(part.kind, *found)
                counts[part.name] += 1
                if found[1] == "else":
                    print(f"  FAULT {table.faults[-1]}", flush=True)
            if found is None:
                left -= 1
            if found is None or time.monotonic() - spoken > 20:
                spoken = time.monotonic()
                how = f"{counts[part.name]:,} done" if found is None else f"{counts[part.name]:,}"
                how = found if isinstance(found, str) else how
                print(f"{minutes:5.1f} min  {part.kind}: {part.name}: {how}", flush=True)
    return table


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table as the page has it."""
    lines = ["| attack | tried | survived | refused cleanly | anything else |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for kind, title in TITLES.items():
        of_kind = [row for row in rows if row["kind"] == kind]
        if of_kind:
            total = {name: sum(row[name] for row in of_kind) for name in COLUMNS}
            lines.append(_line(f"**{title}**", total))
            lines += [_line(row["what"], row) for row in of_kind]
    return "\n".join(lines)


def _line(name: str, counts: dict[str, Any]) -> str:
    return f"| {name} | " + " | ".join(f"{counts[column]:,}" for column in COLUMNS) + " |"


def section(data: dict[str, Any]) -> str:
    """What the page says between its two marks."""
    text = f"`{data['command']}`, {data['minutes']:.0f} minutes on {data['cores']} cores"
    return f"{BEGIN}\n{text} ({data['versions']}):\n\n{markdown(data['rows'])}\n\n{END}"


def write_page() -> None:
    """Puts the table of the results into the page."""
    text = PAGE.read_text()
    head, _, rest = text.partition("<!-- torture")
    tail = rest.partition(END)[2]
    PAGE.write_text(head + section(json.loads(RESULTS.read_text())) + tail)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(TITLES)}")
    parser.add_argument("--quick", action="store_true", help="a few of each")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        work(Part(*json.loads(given.part)))
        return 0
    unknown = [kind for kind in given.kinds if kind not in TITLES]
    if unknown:
        parser.error(f"{unknown[0]} is none of {', '.join(TITLES)}")
    chosen = [x for x in parts(given.quick) if x.kind in (given.kinds or TITLES)]
    began = time.monotonic()
    table = torture(chosen, given.workers)
    rows = table.data()
    print(markdown(rows))
    for fault in table.faults:
        print(f"FAULT {fault}")
    if not given.quick and not given.kinds:
        data = {
            "command": " ".join(["python benchmarks/torture.py", *sys.argv[1:]]),
            "minutes": round((time.monotonic() - began) / 60, 1),
            "cores": len(os.sched_getaffinity(0)),
            "versions": _versions(),
            "rows": rows,
            "faults": table.faults,
        }
        RESULTS.write_text(json.dumps(data, indent=1) + "\n")
    if given.write:
        write_page()
    return 1 if table.faults else 0


def _versions() -> str:
    from importlib.metadata import version

    names = ", ".join(f"{name} {version(name)}" for name in ("eniac", "jax", "gymnasium"))
    return f"{names}, Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
