"""A hundred runs, on the cores of this machine or on a cluster: how deep a sea needs a bonus?

    python examples/hundred_runs.py FOLDER [HOST:PORT]

Two algorithms that differ in their bonus alone, five depths, ten seeds each: eight minutes of
processor time. With the address of a Ray cluster the runs go to all of its machines, and FOLDER has
to be one that they share. Stopped at any moment, it goes on when it is called again.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import eniac

ALGORITHMS = ("spi", "eniac-spi-sample")  # without a bonus, and with one
DEPTHS = (4, 8, 12, 16, 20)


def main(
    out: Path, address: str | None = None, depths: Sequence[int] = DEPTHS, seeds: int = 10
) -> dict[str, list[int]]:
    """Makes all runs, and returns how many seeds of each algorithm found the treasure, by depth."""
    rows = eniac.sweep(
        ALGORITHMS,
        [f"DeepSea-{depth}" for depth in depths],
        settings={"return_above": 0.9},  # the treasure is worth 0.99
        seeds=seeds,
        out=out,
        executor="processes" if address is None else "ray",
        address=address,
    )
    solved = {name: [0] * len(depths) for name in ALGORITHMS}
    for row in rows:
        depth = int(row["env"].removeprefix("DeepSea-"))
        solved[row["algorithm"]][depths.index(depth)] += row["solved"]
    for name, counts in solved.items():
        told = ", ".join(f"{n} at {depth}" for n, depth in zip(counts, depths, strict=True))
        print(f"{name}, seeds of {seeds} by depth: {told}")

    for pair in eniac.compare_runs([out])["pairs"]:
        print(pair["sentence"])
    eniac.learning_curves([out], out / "curves.png")
    return solved


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
