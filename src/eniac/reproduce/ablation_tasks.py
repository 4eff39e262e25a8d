"""What each of our settings brings: which are undone, how, and on which tasks.

Every setting was put to three tasks that it was made for, before any of these runs was made.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One of our settings, and how it is undone."""

    what: str
    flags: tuple[str, ...]
    tasks: tuple[str, ...]


CAR, LOCK, SEA = "mountain-car-2", "lock-10", "deep-sea-10"
SPARSE = (CAR, LOCK, SEA)
CLASSIC = "mountain-car-v0", "acrobot-v1", "pendulum-v1"

SETTINGS = (
    Setting("the incumbent and the hand-over", ("--incumbent.episodes", "0"), SPARSE),
    Setting(
        "what the exploring policy has found is handed over",
        ("--incumbent.no-rollouts",),
        (LOCK, SEA, "deep-sea-20"),
    ),
    Setting("the exploring policy earns b alone", ("--combine", "max"), ("lock-5", LOCK, SEA)),
    Setting("roll-ins are imitated", ("--update.no-imitate",), SPARSE),
    Setting(
        "entropy of the exploring policy",
        ("--update.explore-entropy", "None"),
        ("lock-5", LOCK, SEA),
    ),
    Setting("Adam", ("--update.optimizer", "rmsprop"), (LOCK, SEA, CLASSIC[0])),
    Setting("rollouts fit episodes", ("--no-fit-episodes",), SPARSE),
    Setting("observations are normalised", ("--no-normalise-observations",), (CAR, *CLASSIC[:2])),
    Setting("rewards are normalised", ("--no-normalise-rewards",), CLASSIC),
    Setting("constrained width training", ("--bonus.training", "lagrangian"), SPARSE),
    Setting("wide query pairs", ("--bonus.uniform-share", "0"), SPARSE),
    Setting("a quantile as normaliser", ("--bonus.normaliser", "max"), SPARSE),
    Setting("a new width at every fit", ("--bonus.no-reinitialise",), SPARSE),
    Setting(
        "the critic's error by the spread of its targets",
        ("--update.no-scale-targets",),
        (CAR, CLASSIC[0], CLASSIC[2]),
    ),
    Setting(
        "a discount by the length of episodes",
        ("--update.gamma", "0.99"),
        (CAR, "mountain-car-4", "mountain-car-6"),
    ),
    Setting(
        "two rounds more of the exploiting policy",
        ("--extra-rounds", "0"),
        (LOCK, CLASSIC[0], CLASSIC[2]),
    ),
    Setting("it begins after one round", ("--exploit-from", "3"), CLASSIC),
    Setting(
        "half of its environments to itself",
        ("--roll-in.alone", "0"),
        (LOCK, CLASSIC[0], CLASSIC[2]),
    ),
    Setting("more deciding episodes", ("--incumbent.share", "0"), (LOCK, SEA, "cartpole-v1")),
)
