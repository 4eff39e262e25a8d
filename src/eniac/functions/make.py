"""Function classes by name, with inputs and bounds that suit an MDP."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from eniac.envs.base import Environment
from eniac.envs.deep_sea import DeepSea
from eniac.envs.lock import CombinationLock
from eniac.envs.logistic import LogisticMDP
from eniac.envs.mdp import LinearMDP
from eniac.envs.registry import unwrap
from eniac.errors import ConfigError, require, require_kinds, suggestion
from eniac.functions.base import FunctionClass, check_class_bound
from eniac.functions.finite import Finite
from eniac.functions.glm import GeneralisedLinear
from eniac.functions.inputs import (
    Inputs,
    grid_coordinates,
    lock_coordinates,
    one_hot_pairs,
    with_actions,
)
from eniac.functions.linear import Linear
from eniac.functions.network import Network
from eniac.functions.tabular import Aggregation, Tabular
from eniac.functions.trees import Trees
from eniac.lazy import import_named

CLASSES: dict[str, type[FunctionClass]] = {
    each.name: each
    for each in (Tabular, Linear, GeneralisedLinear, Network, Trees, Finite, Aggregation)
}
INPUTS = ("features", "pairs", "one-hot", "coordinates")
# What a constructor takes and the MDP gives; everything else is an option.
_GIVEN = {"num_states", "num_actions", "features", "inputs", "bound"}


def make_function_class(
    name: str, mdp: Any, *, gamma: float | None = None, bound: float | None = None, **options: Any
) -> FunctionClass:
    """The class called `name` on the states and actions of `mdp` (an environment, or a `Model`).

    `name` is one of `CLASSES`, or `module:name` of a `FunctionClass` of one's own. Its constructor
    is given what it has a parameter for among `num_states`, `num_actions`, `bound` and `inputs` (or
    `features`, the same array), and the options by name; `default_inputs` of the class says which
    inputs it gets unless the option `inputs` does.

    `bound` is W, by default 1/(1-gamma)^2, which is what realisability of Q_b - b needs. For
    'linear' it is the size of the weights of one-hot features: unless `norm_bound` is given, the
    ball has the radius sqrt(dim) bound / max |phi|, and W is sqrt(dim) bound. ('finite' has the
    bound of its list.) Where gamma is given, W below 1/(1-gamma) is refused.

    `inputs` (for linear, glm, network and trees) are an array [states, actions, features], or
    [states, features] to be put beside a one-hot of the action, or a name: 'features', those of a
    linear MDP; 'pairs', a coordinate a pair; 'one-hot', of the state and of the action;
    'coordinates', such as row and column. Default: features for a linear MDP; otherwise pairs for
    linear and glm, one-hot for network, coordinates for trees.

    'aggregation' takes `groups`, an array of group numbers [states] or [states, actions], or
    `num_groups`, which cuts the list of states into as many pieces. 'finite' takes `tables`. All
    other options are those of the class.

    **Raises** `ConfigError` for an unknown name, an unknown option, or a bound that is too small.
    """
    kind = find_function_class(name)
    env = unwrap(mdp) if isinstance(mdp, Environment) else mdp
    table = env.tabular() if isinstance(env, Environment) else env
    shape = np.shape(table.reward)
    taken = _check_options(kind, options)
    if gamma is not None:
        require(0 < gamma < 1, "gamma", gamma, "a discount strictly between 0 and 1")
    if bound is None and gamma is None and "bound" in taken:
        raise ConfigError("give bound, the W with |f| <= W, or gamma, for 1/(1-gamma)^2.")
    if bound is None:
        bound = 1.0 if gamma is None else 1 / (1 - gamma) ** 2
    made = _make(kind, taken, env, shape, check_class_bound(bound), options)
    if made.shape != tuple(shape):
        raise ConfigError(
            f"the class '{name}' is of {made.shape} states and actions; expected {tuple(shape)}."
        )
    if gamma is not None and made.bound * (1 + 1e-12) < 1 / (1 - gamma):
        raise ConfigError(
            f"the bound W of the class '{name}' is {made.bound:.6g}, smaller than 1/(1-gamma) = "
            f"{1 / (1 - gamma):.6g}: it could not hold the values of this MDP. Give a larger bound."
        )
    return made


def find_function_class(name: str) -> type[FunctionClass]:
    """The class that `name` stands for: one of `CLASSES`, or `module:name`, which is imported."""
    if name in CLASSES:
        return CLASSES[name]
    if ":" not in name:
        raise ConfigError(
            f"no function class is called {name!r}.{suggestion(name, CLASSES)} There are: "
            f"{', '.join(CLASSES)}; one of your own is named as module:name."
        )
    found = import_named(name, "function_class")
    if not (isinstance(found, type) and issubclass(found, FunctionClass)):
        raise ConfigError(
            f"function_class is {name!r}; it must be a subclass of "
            "eniac.functions.FunctionClass, whose documentation says what that has."
        )
    return found


def _make(
    kind: Any,
    taken: set[str],
    env: Any,
    shape: tuple[int, ...],
    bound: float,
    options: dict[str, Any],
) -> FunctionClass:
    if kind is Aggregation:
        return Aggregation(_groups(shape, **options), bound)
    if kind is Finite and "tables" not in options:
        raise ConfigError("the finite class takes tables, an array [functions, states, actions].")
    given: dict[str, Any] = {"num_states": shape[0], "num_actions": shape[1], "bound": bound}
    if taken & {"inputs", "features"}:
        inputs = resolve_inputs(options.pop("inputs", None), env, shape, kind.default_inputs)
        given |= {"inputs": inputs, "features": inputs}
        if kind is Linear and "norm_bound" not in options:
            longest = float(np.linalg.norm(inputs, axis=2).max())
            options["norm_bound"] = np.sqrt(inputs.shape[2]) * bound / max(longest, 1e-300)
    return kind(**{name: given[name] for name in taken & given.keys()}, **options)


def resolve_inputs(given: Any, env: Any, shape: tuple[int, ...], default: str) -> Inputs:
    """The array that `inputs` of `make_function_class` stands for."""
    num_states, num_actions = shape
    if given is None:
        given = "features" if isinstance(env, LinearMDP | LogisticMDP) else default
    if not isinstance(given, str):
        array = np.asarray(given, dtype=np.float64)
        array = with_actions(array, num_actions) if array.ndim == 2 else array
        if array.ndim != 3 or array.shape[:2] != tuple(shape):
            raise ConfigError(
                f"inputs have shape {np.shape(given)}; expected ({num_states}, {num_actions}, "
                f"features) or ({num_states}, features)."
            )
        return array
    if given == "features":
        if not isinstance(env, LinearMDP | LogisticMDP):
            raise ConfigError(
                "inputs='features' needs a linear or logistic MDP, which has features; give an "
                "array, or 'pairs', 'one-hot' or 'coordinates'."
            )
        return env.features
    if given == "pairs":
        return one_hot_pairs(num_states, num_actions)
    if given == "one-hot":
        return with_actions(np.eye(num_states), num_actions)
    if given == "coordinates":
        if isinstance(env, DeepSea):
            return with_actions(grid_coordinates(env.size), num_actions)
        if isinstance(env, CombinationLock):
            return with_actions(lock_coordinates(env.length), num_actions)
        return with_actions(np.arange(num_states, dtype=np.float64)[:, None], num_actions)
    raise ConfigError(
        f"inputs is {given!r}; expected an array or one of {', '.join(INPUTS)}."
        f"{suggestion(given, INPUTS)}"
    )


def _groups(shape: tuple[int, ...], groups: Any = None, num_groups: int | None = None):
    num_states, num_actions = shape
    if (groups is None) == (num_groups is None):
        raise ConfigError("aggregation takes either groups or num_groups.")
    if num_groups is not None:
        if not 1 <= num_groups <= num_states:
            raise ConfigError(
                f"num_groups is {num_groups}; expected 1 to {num_states}, the states."
            )
        groups = np.arange(num_states) * num_groups // num_states
    groups = np.asarray(groups)
    if groups.shape == (num_states,):
        groups = groups[:, None] * num_actions + np.arange(num_actions)
    if groups.shape != tuple(shape):
        raise ConfigError(
            f"groups have shape {groups.shape}; expected ({num_states},) or {tuple(shape)}."
        )
    return groups


def _check_options(kind: type[FunctionClass], options: dict[str, Any]) -> set[str]:
    """The parameters of the constructor; a `ConfigError` for options that are none of them."""
    parameters = inspect.signature(kind.__init__).parameters
    taken = set(parameters) - {"self"}
    if kind is Aggregation:
        allowed = {"groups", "num_groups"}
    else:
        allowed = taken - _GIVEN | ({"inputs"} if taken & {"inputs", "features"} else set())
    for option in options:
        if option not in allowed:
            raise ConfigError(
                f"the class '{kind.name}' has no option {option!r}.{suggestion(option, allowed)} "
                f"It takes gamma, bound, {', '.join(sorted(allowed))}."
            )
    require_kinds(f"the class '{kind.name}'", parameters.values(), options)
    return taken
