"""Environments in JAX, looked at before a run: do `reset` and `step` return what they should?

A compiled program cannot be asked afterwards which line of it was wrong, and JAX tells a wrong
shape in terms of loops that the user never wrote. `jax.eval_shape` computes nothing and finds it.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from gymnasium import spaces

from eniac.envs.base import Environment, Step
from eniac.envs.faults import FAILURES, Fault, raised
from eniac.envs.registry import unwrap
from eniac.envs.sources import spaces_of
from eniac.errors import ConfigError
from eniac.spaces import stored_dtype


def check_environment(name: str, env: Environment) -> None:
    """Raises `ConfigError`, in one line, unless `env`, called `name`, keeps to its spaces."""
    inner = unwrap(env)
    observation_space, action_space = spaces_of(name, inner)
    try:
        state = _check_reset(inner, observation_space)
        _check_step(inner, state, observation_space, action_space)
    except Fault as fault:
        raise ConfigError(f"{name} {fault}") from fault


def _check_reset(env: Environment, space: Any) -> Any:
    result = _traced("reset", env.reset, jax.random.key(0))
    if not isinstance(result, tuple) or len(result) != 2:
        raise Fault(
            f"returned {_shown(result)} from reset(key); expected two: a state and an observation."
        )
    state, observation = result
    _check_observation("reset", observation, space, "")
    return state


def _check_step(env: Environment, state: Any, space: Any, action_space: Any) -> None:
    if not isinstance(action_space, spaces.Dict | spaces.Tuple):  # others no policy acts in
        action = jax.ShapeDtypeStruct(action_space.shape or (), stored_dtype(action_space))
        step = _traced("step", env.step, jax.random.key(0), state, action)
        if not isinstance(step, Step):
            raise Fault(
                f"returned {_shown(step)} from step(key, state, action); expected an "
                f"eniac.envs.Step of {', '.join(Step._fields)}."
            )
        _check_state(state, step.state)
        _check_observation("step", step.observation, space, "")
        _check_scalar("reward", step.reward, "biuf", "a number: shape () and type float32")
        for flag in ("terminated", "truncated"):
            _check_scalar(flag, getattr(step, flag), "b", "True or False: shape () and type bool")


def _traced(doing: str, call: Any, *arguments: Any) -> Any:
    try:
        return jax.eval_shape(call, *arguments)
    except FAILURES as error:
        raise raised(error, doing) from error


def _check_observation(doing: str, given: Any, space: Any, part: str) -> None:
    if isinstance(space, spaces.Dict):
        if not isinstance(given, dict) or given.keys() != space.spaces.keys():
            raise Fault(
                f"returned an observation{part} that is {_shown(given)} from {doing}(); its "
                f"observation_space has the keys {', '.join(map(repr, space.spaces))}."
            )
        for key, inner in space.spaces.items():
            _check_observation(doing, given[key], inner, f"{part}[{key!r}]")
        return
    if isinstance(space, spaces.Tuple):
        if not isinstance(given, tuple) or len(given) != len(space.spaces):
            raise Fault(
                f"returned an observation{part} that is {_shown(given)} from {doing}(); its "
                f"observation_space is a tuple of {len(space.spaces)}."
            )
        for k, inner in enumerate(space.spaces):
            _check_observation(doing, given[k], inner, f"{part}[{k}]")
        return
    expected = space.shape or (), stored_dtype(space) if space.dtype is not None else None
    fits = isinstance(given, jax.ShapeDtypeStruct) and given.shape == expected[0]
    if not fits or expected[1] is None or given.dtype != expected[1]:
        raise Fault(
            f"returned an observation{part} that is {_shown(given)} from {doing}(); its "
            f"observation_space says shape {expected[0]} and type {expected[1]}."
        )


def _check_state(before: Any, after: Any) -> None:
    """A state must keep its form, so that a loop can carry it."""
    one, other = (jax.tree_util.tree_flatten_with_path(x) for x in (before, after))
    if one[1] != other[1]:
        raise Fault(
            f"returned a state from step() of another structure than reset() did: {other[1]!s:.100}"
            f", not {one[1]!s:.100}. A state must keep its form."
        )
    for (path, a), (_, b) in zip(one[0], other[0], strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise Fault(
                f"returned a state from step() whose {jax.tree_util.keystr(path) or 'value'} is "
                f"{_shown(b)}, and {_shown(a)} from reset(). A state must keep its form."
            )


def _check_scalar(name: str, given: Any, kinds: str, expected: str) -> None:
    fits = isinstance(given, jax.ShapeDtypeStruct) and given.shape == ()
    if not fits or np.dtype(given.dtype).kind not in kinds:
        raise Fault(f"returned a {name} that is {_shown(given)} from step(); expected {expected}.")


def _shown(x: Any) -> str:
    if isinstance(x, jax.ShapeDtypeStruct):
        return f"an array of shape {x.shape} and type {x.dtype}"
    if isinstance(x, tuple) and not hasattr(x, "_fields"):
        return f"a tuple of {len(x)}"
    if isinstance(x, dict):
        return f"a dict with the keys {', '.join(map(repr, x)) or 'none'}"
    return f"{' '.join(repr(x).split()):.60} ({type(x).__name__})"
