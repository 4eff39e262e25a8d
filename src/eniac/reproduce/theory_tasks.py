"""What the provable algorithms learn: tasks whose values are known exactly.

Four questions, each with tasks of its own. Does the bonus find what the same algorithm without it
does not? How do samples grow with accuracy and dimension? What does COMPUTE take that SAMPLE does
not? Does the guarantee survive a class that cannot say it all? The settings are those of
`provable/presets.py`, but for what the flags of a run say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from eniac.reproduce.wanted import Wanted
    from eniac.runs.load import Run

FIRST_SEED, SEEDS = 100, 10
"""Nothing was chosen on these seeds."""
MANY_SEEDS = 40
"""Seeds where a share of nine tenths is asked about, and all may pass."""

Variant = tuple[str, tuple[str, ...]]
"""An algorithm and the flags of its runs."""


class EpochsTask:
    """A task whose runs have so many epochs, whatever comes of them: a file that is there says all,
    and a run that has ended well has come to its last epoch."""

    def limit_for(self, algorithm: str, flags: Sequence[str]) -> int | None:
        """There is no limit of environment steps."""
        del algorithm, flags
        return None

    def is_enough(self, result: dict[str, Any], steps: int | None, to_the_end: bool) -> bool:
        """Whether the file of a run says all that another one would."""
        del result, steps, to_the_end
        return True

    def has_ended(self, folder: Path, steps: int | None, to_the_end: bool) -> bool:
        """Whether the run in `folder`, which has ended well, need not go on."""
        del folder, steps, to_the_end
        return True


@dataclass(frozen=True)
class TheoryTask(EpochsTask):
    """A finite environment with a function class, and the algorithms that learn there."""

    question: str
    """learning, growth, versions or misspecification"""
    env: str
    function_class: str = "tabular"
    variants: tuple[Variant, ...] = ()
    env_options: dict[str, Any] = field(default_factory=dict, hash=False)
    class_options: dict[str, Any] = field(default_factory=dict, hash=False)
    seeded: bool = False
    """whether the environment is drawn by the run's seed"""
    seeds: int = SEEDS

    folder: ClassVar[str] = "theory"
    """where the files of its runs are, in a folder of results"""

    def options(self, seed: int, flags: Sequence[str] = ()) -> list[str]:
        """What `eniac train` has to know of the task, beside `flags`."""
        del flags
        drawn = {"seed": seed} if self.seeded else {}
        return [
            *("--env", self.env),
            *_pairs("--env-options", self.env_options | drawn),
            *("--function-class", self.function_class),
            *_pairs("--class-options", self.class_options),
        ]

    def outcome(self, run: Run, wanted: Wanted, compiled: float) -> dict[str, Any]:
        """What the file of a run says of how it went."""
        del wanted, compiled
        from eniac.reproduce.theory_outcome import outcome

        return outcome(run)


def _pairs(option: str, values: dict[str, Any]) -> list[str]:
    words = [str(word) for pair in values.items() for word in pair]
    return [option, *words] if words else []


SAMPLE = ("eniac-spi-sample", "eniac-npg-sample")
COMPUTE = ("eniac-spi-compute", "eniac-npg-compute")
WITHOUT = ("spi", "npg")

STATES = (5, 10, 20, 40)
"""States of the random MDPs, of four actions each, on which growth is measured."""
BUDGETS = (125, 500, 2000, 8000, 32_000)
"""K and M of the runs on them."""
SMALL_BUDGETS = (125, 250, 500, 1000, 2000, 4000, 8000)
"""K and M of the runs of SAMPLE and of COMPUTE."""
GROUPS = (40, 39, 38, 36, 32)
"""Groups that the 40 states of an MDP are put into: with 40 the class is exact."""


def budget_flags(size: int) -> tuple[str, ...]:
    """The flags of a run with as many samples of each kind."""
    return ("--K", str(size), "--M", str(size))


def group_flags(number: int) -> tuple[str, ...]:
    """The flags of a run on a class that cannot tell apart the states of a group."""
    return ("--class-options", "num_groups", str(number))


def _tasks() -> Iterator[tuple[str, TheoryTask]]:
    linear = {"num_states": 20, "num_actions": 4, "dim": 8}
    ball = {"norm_bound": 25}
    all_four = (*SAMPLE, *COMPUTE, *WITHOUT)
    linear_too = "pc-pg-linear"
    for name, env, kind, algorithms, env_options, class_options in (
        ("deep-sea-10", "DeepSea-10", "tabular", (*all_four, linear_too), {}, {}),
        ("deep-sea-10-trees", "DeepSea-10", "trees", SAMPLE[:1], {}, {}),
        ("deep-sea-10-network", "DeepSea-10", "network", SAMPLE, {}, {}),
        ("deep-sea-20", "DeepSea-20", "tabular", (*SAMPLE, *WITHOUT), {}, {}),
        ("lock-5", "CombinationLock-5", "tabular", all_four, {}, {}),
        ("lock-10", "CombinationLock-10", "tabular", (*SAMPLE, *WITHOUT), {}, {}),
        ("river-swim", "RiverSwim-v0", "tabular", all_four, {}, {}),
        ("linear-mdp", "LinearMDP-v0", "linear", (*SAMPLE, *WITHOUT, linear_too), linear, {}),
        ("logistic-mdp", "LogisticMDP-v0", "glm", SAMPLE, {}, ball),
    ):
        variants = tuple((algorithm, ()) for algorithm in algorithms)
        task = TheoryTask("learning", env, kind, variants, env_options, class_options)
        yield f"provable-{name}", task
    for states in STATES:
        yield (
            f"random-mdp-{states}",
            TheoryTask(
                *("growth", "RandomMDP-v0", "tabular"),
                tuple((SAMPLE[0], budget_flags(size)) for size in BUDGETS),
                {"num_states": states},
                seeded=True,
            ),
        )
    for name, env in {"deep-sea-10": "DeepSea-10", "river-swim": "RiverSwim-v0"}.items():
        # As many visits make a pair known in both.
        flags = [(*budget_flags(size), "--m", "10") for size in SMALL_BUDGETS]
        variants = tuple((which, each) for which in (SAMPLE[0], COMPUTE[0]) for each in flags)
        yield f"{name}-budgets", TheoryTask("versions", env, "tabular", variants)
    yield (
        "random-mdp-40-groups",
        TheoryTask(
            *("misspecification", "RandomMDP-v0", "aggregation"),
            tuple((SAMPLE[0], (*group_flags(number), "--gamma", "0.5")) for number in GROUPS),
            {"num_states": 40, "num_actions": 2},
            seeded=True,
            seeds=MANY_SEEDS,
        ),
    )


THEORY: dict[str, TheoryTask] = dict(_tasks())
