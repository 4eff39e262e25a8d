"""Numbers and pictures of docs/widths.md: accuracy and cost of widths, sizes of subsamples.

OPENBLAS_NUM_THREADS=1 python benchmarks/widths.py --figure docs/widths.png
"""

from __future__ import annotations

import argparse
import time

import matplotlib as mpl
import numpy as np

from eniac.envs import DeepSea
from eniac.functions import GeneralisedLinear, Linear, Network, Tabular, Trees, make_function_class
from eniac.functions.inputs import with_actions
from eniac.widths.exact import finite_widths
from eniac.widths.oracle import OracleSettings, oracle_widths
from eniac.widths.pair_search import pair_search_widths
from eniac.widths.sensitivity import subsample, width_factor


def timed(work):
    begin = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begin


def share(found, best):
    ratio = found / best
    return f"{ratio.min():.3f} | {np.median(ratio):.3f}"


def accuracy() -> None:
    """Widths found as shares of the exact ones, or of the largest known."""
    rng = np.random.default_rng(0)
    shape = (10, 4)
    counts = rng.integers(1, 50, size=shape) * (rng.uniform(size=shape) < 0.4)
    linear = Linear(rng.normal(size=(*shape, 8)) / np.sqrt(8), 3.0)
    print("\n| class | method | smallest share | median share | fits | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    exact = linear.widths(counts, 1.0)
    found, seconds = timed(lambda: oracle_widths(linear, counts, 1.0))
    print(f"| linear, d = 8 | oracle | {share(found.lower, exact)} | {found.num_fits} | ", end="")
    print(f"{seconds:.2f} |")
    for norm_bound in (1.0, 3.0, 10.0):
        glm = GeneralisedLinear(linear.features, 10.0, norm_bound)
        rows = {}
        for num_centres in (0, 8):
            settings = OracleSettings(num_centres=num_centres)
            found, seconds = timed(lambda g=glm, s=settings: oracle_widths(g, counts, 3.0, None, s))
            name = f"oracle, {num_centres + 1} centre{'s' if num_centres else ''}"
            rows[name] = (found.lower, found.num_fits, seconds)
        for num_starts in (4, 12):
            found, seconds = timed(
                lambda g=glm, n=num_starts: pair_search_widths(g, counts, 3.0, None, n)
            )
            rows[f"search, {num_starts} starts"] = (found, "-", seconds)
        best = np.max([row[0] for row in rows.values()], axis=0)
        for name, (found, fits, seconds) in rows.items():
            print(f"| glm, d = 8, B = {norm_bound:g} | {name} | ", end="")
            print(f"{share(found, best)} | {fits} | {seconds:.2f} |")


def sea_costs() -> None:
    """What one epoch's widths cost on deep sea 10, half explored."""
    env = DeepSea(10)
    rng = np.random.default_rng(0)
    counts = np.zeros((101, 2), int)
    for row in range(6):
        counts[10 * row : 10 * row + row + 1] = rng.integers(0, 60, size=(row + 1, 2))
    beta, epsilon = 1.0, np.sqrt(10.0)
    print("\n| class | fits | seconds | unknown pairs |")
    print("| --- | --- | --- | --- |")
    for name, options in (
        ("tabular", {}),
        ("trees", {}),
        ("network", {}),
        ("network", {"width_method": "oracle"}),
    ):
        made = make_function_class(name, env, gamma=0.9, **options)
        widths, seconds = timed(lambda m=made: m.widths(counts, epsilon, beta))
        fits = "-"
        if options:
            fits = oracle_widths(made, counts, epsilon, beta).num_fits
        label = f"{name}, {options.get('width_method', 'counts')}"
        print(f"| {label} | {fits} | {seconds:.4f} | {(widths >= beta).sum()} |")


def fit_costs() -> None:
    env = DeepSea(10)
    rng = np.random.default_rng(0)
    target, weight = rng.uniform(size=(101, 2)), rng.integers(0, 100, size=(101, 2))
    print("\n| class | fit (ms) |")
    print("| --- | --- |")
    for name in ("tabular", "linear", "glm", "network", "trees"):
        made = make_function_class(name, env, gamma=0.9)
        params = made.fit(target, weight)
        near = target + 0.05 * rng.normal(size=target.shape)
        _, seconds = timed(lambda m=made, p=params: [m.fit(near, weight, p) for _ in range(3)])  # noqa: B023
        _, cold = timed(lambda m=made: [m.fit(target, weight) for _ in range(3)])
        print(f"| {name} | {cold / 3 * 1e3:.1f}, warm {seconds / 3 * 1e3:.1f} |")


def kept_sizes() -> dict[str, list[tuple[float, int]]]:
    """How many data a subsample keeps as the data grow, and what it does to widths."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(60, 0.3))
    classes = {
        "linear, d = 5": Linear(rng.normal(size=(20, 3, 5)), 2.0),
        "tabular, 60 pairs": Tabular(20, 3, 10.0),
    }
    epsilon, sizes = 3.0, [10**k for k in range(3, 10)]
    print(f"\nwidths are promised within a factor {width_factor(0.5):.3f}\n")
    print("| class | data | kept | worst ratio of widths |")
    print("| --- | --- | --- | --- |")
    curves: dict[str, list[tuple[float, int]]] = {}
    for name, each in classes.items():
        for size in sizes:
            counts = rng.multinomial(size, shares).reshape(20, 3)
            # One in a hundred for all sizes up to this one together.
            kept = subsample(each, counts, epsilon**2, rng, delta=0.01 / size)
            ratio = each.widths(kept.counts, epsilon) / each.widths(counts, epsilon)
            worst = max(ratio.max(), 1 / ratio.min())
            print(f"| {name} | {size:,} | {kept.num_kept:,} | {worst:.3f} |")
            curves.setdefault(name, []).append((size, kept.num_kept))
    return curves


def line_of_widths() -> dict[str, np.ndarray]:
    """Widths along a line of 60 inputs, data in its middle, for classes of growing freedom."""
    x = np.linspace(-2, 2, 60)
    counts = np.zeros((60, 1))
    counts[20:40] = 5
    inputs = np.stack([x, np.ones(60)], axis=1)[:, None]
    glm = GeneralisedLinear(inputs, 1.0, norm_bound=4.0)
    axis = np.linspace(-4, 4, 81)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    points = points[np.linalg.norm(points, axis=1) <= 4]
    values = np.stack([glm(u).ravel() for u in points])
    grid = finite_widths(values[:, 20:40], values, 1.0, np.full(20, 5))
    trees = Trees(with_actions(x[:, None], 1), 0.5)
    return {
        "x": x,
        "linear": Linear(inputs, 0.5).widths(counts, 1.0)[:, 0],
        "glm: oracle around 0": oracle_widths(glm, counts, 1.0).lower[:, 0],
        "glm: search": glm.widths(counts, 1.0)[:, 0],
        "glm: grid of members": grid,
        "trees, network: counts": trees.widths(counts, 1.0)[:, 0],
        "network: oracle": oracle_widths(
            Network(inputs, 0.5, hidden=(16,)), counts, 1.0, settings=OracleSettings(max_steps=12)
        ).lower[:, 0],
    }


def draw(path: str, curves: dict[str, list[tuple[float, int]]]) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    lines = line_of_widths()
    x = lines.pop("x")
    for name, widths in lines.items():
        grid = name.endswith("members")
        style = ":" if grid else "--" if name.endswith("counts") else "-"
        order = 1 if style == "-" else 2
        left.plot(x, widths, style, label=name, color="black" if grid else None, zorder=order)
    left.axvspan(x[20], x[39], color="0.9", zorder=0)
    left.set(xlabel="input (data in the grey part)", ylabel="width, epsilon = 1", ylim=(0, 1.45))
    left.legend(fontsize=8, ncols=2, loc="upper center", frameon=False)
    for name, points in curves.items():
        right.plot(*zip(*points, strict=True), "o-", label=name)
    right.set(xscale="log", xlabel="data", ylabel="data kept", ylim=(0, None))
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    print(f"\ndrawn: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--figure", help="where to draw the picture; none is drawn without it")
    arguments = parser.parse_args()
    accuracy()
    sea_costs()
    fit_costs()
    curves = kept_sizes()
    if arguments.figure:
        draw(arguments.figure, curves)


if __name__ == "__main__":
    main()
