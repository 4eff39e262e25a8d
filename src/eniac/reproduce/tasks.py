"""What is learned: the tasks of "Do I need a bonus?" (docs/exploration.md) and of Figure 1.

What differs from task to task is what defines the task: environment, kind of episodes, depth, the
keys of an observation, how the result is judged. All else are an algorithm's defaults, or what the
flags of a run say.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from eniac.errors import ConfigError, suggestion
from eniac.reproduce.figure_tasks import FIGURE_TASKS, FigureTask
from eniac.reproduce.theory_tasks import THEORY, TheoryTask

if TYPE_CHECKING:
    from eniac.reproduce.wanted import Wanted
    from eniac.runs.load import Run

EPISODES = 100
"""Episodes that decide whether a task is solved, and fresh ones of the final judgement."""

PAPER_EPOCHS, PAPER_STEPS = 15, 500_000
"""With the paper's settings: epochs of the paper's program at most, and steps of a policy in one of
them. Those with a cover have two policies."""

OURS = ("eniac", "pc-pg", "zero", "ppo-rnd", "ppo")
WITHOUT_COVER = ("ppo-rnd", "ppo")
SB3 = ("sb3-ppo", "sb3-sac")
ALGORITHMS = (*OURS, *SB3)

Result = dict[str, Any]
"""The content of a run's file."""


@dataclass(frozen=True)
class Task:
    """An environment, and the return from which on it counts as solved."""

    family: str
    env: str
    threshold: float
    limit: int
    """environment steps within which it is to be solved"""
    at_least: bool = False
    """whether a return equal to the threshold is enough; else it has to be above"""
    depth: int | None = None
    episodic: bool = False
    keys: tuple[str, ...] = ()
    seeded: bool = False
    """whether the environment itself is drawn by the run's seed, so that ten seeds are ten codes"""
    greedy: bool = False
    """whether a policy is judged by its most likely actions"""
    continuous: bool = False

    folder: ClassVar[str] = "runs"
    """where the files of its runs are, in a folder of results"""

    def solves(self, mean_return: float) -> bool:
        return mean_return > self.above

    @property
    def above(self) -> float:
        """What `--return-above` is given. Returns are sums in float32."""
        return round(self.threshold - 1e-6, 7) if self.at_least else self.threshold

    def limit_for(self, algorithm: str, flags: Sequence[str]) -> int:
        """Environment steps that a run of an algorithm with `flags` gets."""
        policies = 1 if algorithm in WITHOUT_COVER else 2
        return PAPER_EPOCHS * PAPER_STEPS * policies if "--preset" in flags else self.limit

    def is_enough(self, result: Result, steps: int | None, to_the_end: bool) -> bool:
        """Whether the file of a run says all that a run of so many `steps` would."""
        solved = result["solved_at"] is not None
        return result["steps"] >= (steps or self.limit) or (solved and not to_the_end)

    def has_ended(self, folder: Path, steps: int | None, to_the_end: bool) -> bool:
        """Whether the run in `folder` need not go on."""
        from eniac.reproduce.judged import read_curve

        curve, _ = read_curve(folder, self)
        solved = any(self.solves(point[1]) for point in curve)
        long_enough = bool(curve) and curve[-1][0] >= (steps or self.limit)
        return long_enough or (solved and not to_the_end)

    def outcome(self, run: Run, wanted: Wanted, compiled: float) -> Result:
        """What the file of a run says of how it went."""
        from eniac.reproduce.judged import outcome

        return outcome(run, self, wanted.seed, compiled)

    def options(self, seed: int, flags: Sequence[str] = ()) -> list[str]:
        """What `eniac train` has to know of the task, beside `flags`."""
        words = ["--env", self.env]
        words += ["--env-options", "seed", str(seed)] if self.seeded else []
        words += ["--observation-keys", *self.keys] if self.keys else []
        words += ["--depth", str(self.depth)] if self.depth and "--preset" not in flags else []
        words += ["--episodes", "episodic"] if self.episodic else []
        words += ["--evaluation.episodes", str(EPISODES)]
        return words + (["--evaluation.deterministic"] if self.greedy else [])

    @property
    def goal(self) -> str:
        words = f"{'at least' if self.at_least else 'above'} {self.threshold:g}"
        return words + (", greedy" if self.greedy else "")

    def algorithms(self) -> tuple[str, ...]:
        """Stable-Baselines3 has no use for environments in JAX, nor its SAC for discrete
        actions."""
        ours_only = self.seeded
        return OURS + (() if ours_only else SB3 if self.continuous else SB3[:1])


def car(depth: int, episodic: bool) -> str:
    """The name of continuous mountain car at a depth, in the paper's program or in its text."""
    return f"mountain-car-{'episodic-' if episodic else ''}{depth}"


def _tasks() -> Iterator[tuple[str, Task]]:
    for episodic, depth in itertools.product((False, True), (2, 4, 6)):
        family = "Continuous mountain car, " + ("episodic" if episodic else "continuing")
        yield (
            car(depth, episodic),
            Task(
                *(family, "MountainCarContinuous-v0", 93, 4_000_000 if episodic else 2_000_000),
                depth=depth,
                episodic=episodic,
                continuous=True,
            ),
        )
    for length, millions in {2: 2, 5: 4, 10: 12, 15: 20, 25: 30}.items():
        lock = f"CombinationLock-{length}"
        task = Task("Combination lock", lock, 3.8, millions * 10**6, at_least=True, seeded=True)
        yield f"lock-{length}", task
    for size, millions in {10: 2, 20: 12, 30: 20, 50: 20}.items():
        task = Task(
            *("Deep sea", f"DeepSea-{size}", 0.95 * 0.99, millions * 10**6),
            at_least=True,
            seeded=True,
            greedy=True,
        )
        yield f"deep-sea-{size}", task
    yield (
        "cartpole-swingup-sparse",
        Task(
            *("Sparse swing-up of dm_control", "envpool:CartpoleSwingupSparse-v1", 700, 3_000_000),
            continuous=True,
        ),
    )
    for name, id in {
        "doorkey-8x8": "DoorKey-8x8",
        "multiroom-n4-s5": "MultiRoom-N4-S5",
        "keycorridor-s3r3": "KeyCorridorS3R3",
        "lockedroom": "LockedRoom",
        "obstructedmaze-2dlh": "ObstructedMaze-2Dlh",
    }.items():
        env = f"envpool:MiniGrid-{id}-v0"
        yield name, Task("MiniGrid", env, 0.7, 10_000_000, keys=("image", "direction"))
    classic = "Classic control"
    yield "mountain-car-v0", Task(classic, "envpool:MountainCar-v0", -110, 2_000_000)
    yield "acrobot-v1", Task(classic, "envpool:Acrobot-v1", -100, 1_000_000)
    yield "pendulum-v1", Task(classic, "envpool:Pendulum-v1", -200, 1_000_000, continuous=True)
    yield "cartpole-v1", Task(classic, "envpool:CartPole-v1", 475, 1_000_000)


TASKS: dict[str, Task] = dict(_tasks())


AnyTask = Task | TheoryTask | FigureTask


def find_task(name: str) -> AnyTask:
    """The task called `name`. **Raises** ConfigError with those that there are."""
    known: dict[str, AnyTask] = {**TASKS, **THEORY, **FIGURE_TASKS}
    if name not in known:
        raise ConfigError(
            f"no task is called {name!r}.{suggestion(name, known)} There are {', '.join(known)}."
        )
    return known[name]


def variant(algorithm: str, flags: Sequence[str]) -> str:
    """The name of an algorithm with other settings than its own: `eniac+restart-0`."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", " ".join(flags)).strip("-")
    return f"{algorithm}+{words}" if words else algorithm
