"""Is what leaves the library the policy? Its answers are compared with ours before it is written.

An answer is the action for `env.step` under the name `action`, and the parameters of the
distribution that it is the most likely action of: `mean` and `std`, `logits`, or `probabilities`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym
from jaxtyping import Array

from eniac.boxes import box_bounds
from eniac.errors import RunError
from eniac.policies import Gaussian
from eniac.provable.policies import TablePolicy
from eniac.spaces import Space, Spaces, canonical, to_env

Answers = dict[str, np.ndarray]

HUGE = 1e30
"""An observation that is larger than any, and still leaves room for products with weights."""
TOLERANCE = 1e-4
"""How far a parameter may be off, relative to the largest of its row and at least to 1."""


def parameters(policy: Any, action: Space, observations: Any) -> dict[str, Array]:
    """What the distributions of `policy` are made of at a batch of observations, as stored.

    A mean, its std and the logits of bits have the shape of the action; the logits of choices stand
    side by side.
    """
    if isinstance(policy, TablePolicy):
        # Not row by row, which jax2onnx 0.17.1 makes twice as many rows of.
        return {"probabilities": jnp.take(policy.probabilities, observations, axis=0)}
    shape = action.shape or ()

    def at(observation: Any) -> dict[str, Array]:
        law = policy(observation)[0]
        if isinstance(law, Gaussian):
            return {"mean": law.mean.reshape(shape), "std": law.std.reshape(shape)}
        return {"logits": law.logits.reshape(shape if isinstance(action, gym.MultiBinary) else -1)}

    return jax.vmap(at)(observations)


def likeliest(policy: Any, action: Space, found: Answers) -> np.ndarray:
    """The actions that are most likely under these parameters, a batch of them, for `env.step`."""
    if "mean" in found:
        emitted = found["mean"].reshape((len(found["mean"]), -1))
    elif "probabilities" in found:
        emitted = found["probabilities"].argmax(axis=1)
    else:
        rows = found["logits"].reshape((len(found["logits"]), -1))
        emitted = jax.vmap(lambda row: policy.actions.distribution(row, None).mode())(rows)
    return to_env(action, np.asarray(emitted))


def own_answers(policy: Any, spaces: Spaces, observations: Any) -> Answers:
    """What `policy` itself answers to a batch of observations, in the environment's own form."""
    rows = canonical(spaces.observation, observations)
    found = jax.jit(lambda x: parameters(policy, spaces.action, x))(rows)
    answers = {name: np.asarray(x) for name, x in found.items()}
    return {**answers, "action": likeliest(policy, spaces.action, answers)}


def observations_to_try(space: Space, num: int = 16, seed: int = 0) -> Any:
    """A batch of observations in the environment's own form: `num` random ones, zeros, the lower
    and the upper bounds, and such as are far beyond them."""
    return _tried(space, num, np.random.default_rng(seed))


def _tried(space: Space, num: int, rng: np.random.Generator) -> Any:
    if isinstance(space, gym.Dict):
        return {key: _tried(space.spaces[key], num, rng) for key in sorted(space.spaces)}
    if isinstance(space, gym.Tuple):
        return tuple(_tried(part, num, rng) for part in space.spaces)
    shape, dtype = space.shape or (), np.dtype(space.dtype)
    if isinstance(space, gym.Box) and dtype.kind == "f":
        low, high = box_bounds(space)
        most = min(HUGE, float(np.finfo(dtype).max) / 2)
        first, last = (np.where(np.isfinite(x), x, y) for x, y in ((low, -10.0), (high, 10.0)))
        drawn = rng.uniform(np.minimum(first, last), np.maximum(first, last), (num, *shape))
        beyond = [np.full(shape, x) for x in (-most, most)]
        ends = [np.where(np.isfinite(x), x, y) for x, y in zip((low, high), beyond, strict=True)]
        rows = [np.zeros(shape), *ends, *beyond]
        return np.concatenate([drawn, np.stack(rows)]).astype(dtype)
    first, last = _whole_bounds(space)
    drawn = rng.integers(first, last, (num, *shape), endpoint=True)
    zeros = np.clip(np.zeros(shape, np.int64), first, last)
    return np.concatenate([drawn, np.stack([zeros, first, last, first, last])]).astype(dtype)


def _whole_bounds(space: Space) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest element of a space of whole numbers that 32 bits hold."""
    shape = space.shape or ()
    if isinstance(space, gym.Discrete | gym.MultiDiscrete):
        num = space.n if isinstance(space, gym.Discrete) else space.nvec
        first, num = np.asarray(space.start, np.int64), np.asarray(num, np.int64)
        return first, np.asarray(first + num - 1)
    if isinstance(space, gym.Box) and space.dtype != np.bool_:
        kind = np.iinfo(np.int32 if np.dtype(space.dtype).kind == "i" else np.uint32)
        bounds = (
            np.clip(x.astype(np.float64), kind.min, kind.max) for x in (space.low, space.high)
        )
        low, high = (x.astype(np.int64) for x in bounds)
        return low, high
    return np.zeros(shape, np.int64), np.ones(shape, np.int64)


def require_same(what: str, answer: Callable[[Any], Answers], policy: Any, spaces: Spaces) -> None:
    """Raises `RunError` if `what` is to leave does not answer as `policy` does.

    The parameters must be equal but for rounding. Of those that `answer` found, the action must be
    the most likely one, exactly: two logits that all but agree may be in another order there. Where
    the policy itself has no finite answer, because the observation is too far away, none is asked.
    """
    tried = observations_to_try(spaces.observation)
    ours, found = own_answers(policy, spaces, tried), answer(tried)
    wrong = [
        f"{name} is {_told(found.get(name))} and not {_told(expected)}"
        for name, expected in ours.items()
        if _told(found.get(name)) != _told(expected)
    ]
    if not wrong:
        wrong = _differences(ours, found, policy, spaces.action)
    if wrong:
        raise RunError(
            f"{what} does not act as the policy does, so that nothing was written: "
            f"{'; '.join(wrong)}. The other formats are not concerned; please report it."
        )


def _differences(ours: Answers, found: Answers, policy: Any, action: Space) -> list[str]:
    """What is not the same in answers of the same shapes."""
    names = ours.keys() - {"action"}
    own = {name: ours[name].reshape((len(ours[name]), -1)) for name in names}
    finite = np.all([np.isfinite(x).all(axis=1) for x in own.values()], axis=0)
    wrong = []
    for name in sorted(names):
        expected, got = own[name][finite], found[name].reshape(own[name].shape)[finite]
        scale = np.maximum(1.0, np.abs(expected).max(axis=1, keepdims=True))
        error = np.abs(got / scale - expected / scale).max()
        if not error <= TOLERANCE:  # NaN is no agreement
            wrong.append(f"{name} is off by {error:.1e}")
    found = {name: x[finite] for name, x in found.items()}
    if not wrong and not np.array_equal(found["action"], likeliest(policy, action, found)):
        wrong.append("action is not the most likely one")
    return wrong


def _told(array: np.ndarray | None) -> str:
    return "missing" if array is None else f"{array.dtype} of shape {array.shape}"
