"""Environments by name: `make("DeepSea-v0", size=20)`, or `make("DeepSea-20")` for short."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eniac.errors import require_kinds, suggestion
from eniac.lazy import resolve

if TYPE_CHECKING:
    from eniac.envs.base import Environment
    from eniac.envs.mdp import TabularMDP


@dataclass(frozen=True)
class Entry:
    """One registered environment.

    `made_by` is the name of what makes it, imported when one is made: listing the table is quick.
    `size` names the parameter that a number at the end of a short id sets, if there is one.
    `horizon` is the time limit that `make` puts around it; None for one that ends by itself.
    """

    id: str
    made_by: str
    description: str
    size: str | None
    horizon: int | None

    @property
    def factory(self) -> Callable[..., Environment]:
        return resolve(f"eniac.envs.{self.made_by}")

    @property
    def parameters(self) -> dict[str, Any]:
        """The names and defaults of what the factory takes."""
        signature = inspect.signature(self.factory)
        return {name: p.default for name, p in signature.parameters.items()}


_ENTRIES = (
    Entry(
        "MountainCarContinuous-v0",
        "mountain_car:MountainCarContinuous",
        "A weak car in a valley, equal to gymnasium's; the flag pays 100, effort costs.",
        None,
        999,
    ),
    Entry(
        "DeepSea-v0",
        "deep_sea:DeepSea",
        "An N x N dive to a treasure that only N rights in a row find.",
        "size",
        None,
    ),
    Entry(
        "CombinationLock-v0",
        "lock:CombinationLock",
        "Two locks with ten actions a digit; wrong digits are for good, right ones cost.",
        "length",
        None,
    ),
    Entry(
        "RiverSwim-v0",
        "mdp:river_swim",
        "Swim against a current to a large reward, or drift to a small one.",
        "num_states",
        200,
    ),
    Entry(
        "Chain-v0",
        "mdp:chain",
        "A deterministic row of states, a lure at the near end and the reward at the far one.",
        "length",
        100,
    ),
    Entry("RandomMDP-v0", "mdp:random_mdp", "A tabular MDP drawn with a seed.", "num_states", 100),
    Entry(
        "LinearMDP-v0",
        "mdp:random_linear_mdp",
        "An MDP drawn with a seed, exactly linear in features on the simplex.",
        "num_states",
        100,
    ),
    Entry(
        "LogisticMDP-v0",
        "logistic:LogisticMDP",
        "Choose a room, then an action in it; action values are logistic in features.",
        "num_contexts",
        None,
    ),
)

ENVS: dict[str, Entry] = {entry.id: entry for entry in _ENTRIES}


def make(id: str, horizon: int | None = None, **parameters: Any) -> Environment:
    """The environment called `id`, with a time limit of `horizon` steps around it.

    Without `horizon` the limit is the table's: 999 for mountain car, none for deep sea and the
    lock, which end by themselves. `parameters` go to the environment. A number in the place of
    `v0` sets its size: `make("CombinationLock-5")` is `make("CombinationLock-v0", length=5)`.

    **Raises** ValueError for an unknown id or a value of another kind, TypeError for an unknown
    parameter.
    """
    from eniac.envs.base import TimeLimit

    entry, parameters = find(id, parameters)
    env = entry.factory(**parameters)
    horizon = entry.horizon if horizon is None else horizon
    return env if horizon is None else TimeLimit(env, horizon)


def find(id: str, parameters: dict[str, Any]) -> tuple[Entry, dict[str, Any]]:
    """The table's entry for an id, short or long, and all the parameters it is to be made with."""
    entry = ENVS.get(id)
    if entry is None:
        entry, size = _find_short(id)
        if entry.size is None:
            raise ValueError(f"{entry.id} has no size, so {id!r} means nothing; use {entry.id!r}.")
        if entry.size in parameters:
            raise TypeError(
                f"{entry.size} is given twice: {size} in {id!r} and {parameters[entry.size]!r} by "
                f"name. Write {entry.id!r} to give it by name."
            )
        parameters = {entry.size: size, **parameters}
    unknown = sorted(parameters.keys() - entry.parameters.keys())
    if unknown:
        raise TypeError(
            f"{entry.id} takes no {', '.join(map(repr, unknown))}; it takes "
            f"{', '.join(f'{name}={default!r}' for name, default in entry.parameters.items())}."
        )
    require_kinds(entry.id, inspect.signature(entry.factory).parameters.values(), parameters)
    return entry, parameters


def _find_short(id: str) -> tuple[Entry, int]:
    match = re.fullmatch(r"(.+)-(\d+)", id) if isinstance(id, str) else None
    if match and (entry := ENVS.get(f"{match[1]}-v0")):
        return entry, int(match[2])
    hint = suggestion(str(id), ENVS, without_version, most=3)
    raise ValueError(f"no environment is called {id!r}.{hint} There are: {', '.join(ENVS)}.")


def without_version(id: str) -> str:
    """What is compared of two ids to tell which are near. A number in the place of a version is a
    size of ours: DeepSee-20 is near DeepSea-v0."""
    return re.sub(r"^(gymnasium|envpool):|-v?\d+$", "", id).lower()


def unwrap(env: Environment) -> Environment:
    """The environment inside all time limits."""
    from eniac.envs.base import TimeLimit

    while isinstance(env, TimeLimit):
        env = env.env
    return env


def is_finite(env: Environment) -> bool:
    """Whether the states of an environment can be listed, without listing them."""
    from eniac.envs.base import Environment

    return type(unwrap(env)).tabular is not Environment.tabular


def tabular(env: Environment | str) -> TabularMDP:
    """The exact table of an environment, or of the one with this id.

    **Raises** NotImplementedError where there is none, as for mountain car.
    """
    return (make(env) if isinstance(env, str) else env).tabular()
