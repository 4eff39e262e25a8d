"""Episodes of a policy, played and written down: in compiled environments and on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PRNGKeyArray

from eniac.envs.base import Environment
from eniac.envs.faults import FAILURES, close_quietly, picture, raised
from eniac.envs.registry import unwrap
from eniac.envs.single_env import SingleEnv
from eniac.envs.sources import HostEnv
from eniac.errors import RunError
from eniac.sampling.base import LONGEST_EPISODE, EnvBatch, choose, select
from eniac.spaces import canonical, to_env

MAX_FRAMES = 250
"""Pictures of an episode at most: of a longer one every second, third, ... step is drawn."""
_CHUNK = 200
"""Steps that a compiled program takes before it is asked whether all episodes have ended."""


@dataclass(frozen=True)
class Episode:
    """One episode that was played."""

    observations: Any
    """what was seen, as stored: a pytree whose leaves have an axis of length + 1 times"""
    rewards: np.ndarray
    terminated: bool
    """whether it came to its end; if not, it was cut"""
    frames: list[np.ndarray] = field(default_factory=list, repr=False)
    """pictures of its states, if they were asked for; the last is that of the end"""
    fps: float = 4.0
    """how many of all its pictures a second make a film that can be followed"""

    @property
    def length(self) -> int:
        return len(self.rewards)

    @property
    def total_reward(self) -> float:
        """The undiscounted return."""
        return float(self.rewards.sum(dtype=np.float64))


def play(
    env: Environment | HostEnv,
    policy: Any,
    key: PRNGKeyArray,
    num: int = 1,
    *,
    max_steps: int = LONGEST_EPISODE,
    deterministic: bool = False,
    draw: bool = False,
) -> list[Episode]:
    """`num` episodes of `policy`, each from a fresh start; with pictures if they are to `draw`.

    The same `key` gives the same episodes, on the host if the environment is a function of its
    seed. **Raises** `RunError` if no single episode can be played in `env`, or none drawn.
    """
    if isinstance(env, HostEnv):
        return _on_host(env, policy, key, num, max_steps, deterministic, draw)
    return _compiled(env, policy, key, num, max_steps, deterministic, draw)


@contextmanager
def single(env: HostEnv, render_mode: str | None = None) -> Iterator[SingleEnv]:
    """One environment of `env`'s, closed in the end unless it is somebody else's."""
    inner = env.single(render_mode)
    try:
        yield SingleEnv(env.name, inner, env.observation_space)
    finally:
        if not env.given:
            close_quietly(inner.close)


def shown(length: int) -> list[int]:
    """The times of an episode that are drawn: at most `MAX_FRAMES`, and always the last."""
    every = -(-(length + 1) // MAX_FRAMES)
    return list(range(length, -1, -every))[::-1]


def _compiled(
    env: Environment,
    policy: Any,
    key: PRNGKeyArray,
    num: int,
    max_steps: int,
    deterministic: bool,
    draw: bool,
) -> list[Episode]:
    reset_key, play_key = jax.random.split(key)
    begin = _begin(env, jax.random.split(reset_key, num))
    carry = begin, jnp.ones(num, bool)
    chunk = min(_CHUNK, env.time_limit or max_steps, max_steps)
    parts = [jax.device_get((jax.tree.map(lambda x: x[None], begin), None, None, None))]
    while bool(carry[1].any()) and chunk * (len(parts) - 1) < max_steps:
        keys = jax.random.split(jax.random.fold_in(play_key, len(parts)), chunk)
        carry, seen = _advance(env, policy, carry, keys, deterministic)
        parts.append(jax.device_get(seen))
    envs = jax.tree.map(lambda *x: np.concatenate(x), *(part[0] for part in parts))
    rewards, alive, terminated = (
        np.concatenate([part[i] for part in parts[1:]])[:max_steps] for i in (1, 2, 3)
    )
    episodes = []
    for k in range(num):
        length = int(alive[:, k].sum())
        frames = []
        if draw:
            states = (jax.tree.map(lambda x, t=t, k=k: x[t, k], envs.state) for t in shown(length))
            frames = [_drawn(env, state) for state in states]
        episodes.append(
            Episode(
                jax.tree.map(lambda x, k=k, n=length: x[: n + 1, k], envs.observation),
                rewards[:length, k],
                bool(terminated[:, k].any()),
                frames,
                env.render_fps,
            )
        )
    return episodes


# Compiled once for all policies and environments that differ in nothing but their numbers.
@eqx.filter_jit
def _begin(env: Environment, keys: Key[Array, " episodes"]) -> EnvBatch:
    return EnvBatch(*jax.vmap(env.reset)(keys))


@eqx.filter_jit
def _advance(
    env: Environment,
    policy: Any,
    carry: tuple[EnvBatch, jax.Array],
    keys: Key[Array, " steps"],
    deterministic: bool,
) -> Any:
    """A step for each of the keys. The arrays of a policy may be numpy's, and are JAX's in here."""

    def one(carry: tuple[EnvBatch, jax.Array], key: PRNGKeyArray):
        envs, alive = carry
        act_key, step_key = jax.random.split(key)
        action = choose(policy, act_key, envs.observation, deterministic)
        action = jax.vmap(lambda a: to_env(env.action_space, a))(action)
        keys = jax.random.split(step_key, alive.shape[0])
        step = jax.vmap(env.step)(keys, envs.state, action)
        # After its end an episode stands still.
        following = select(alive, EnvBatch(step.state, step.observation), envs)
        seen = following, jnp.where(alive, step.reward, 0.0), alive, alive & step.terminated
        return (following, alive & ~(step.terminated | step.truncated)), seen

    return jax.lax.scan(one, carry, keys)


def _on_host(
    env: HostEnv,
    policy: Any,
    key: PRNGKeyArray,
    num: int,
    max_steps: int,
    deterministic: bool,
    draw: bool,
) -> list[Episode]:

    def one_action(policy: Any, key: PRNGKeyArray, observation: Any) -> Any:
        batch = jax.tree.map(lambda x: x[None], observation)
        return choose(policy, key, batch, deterministic)[0]

    act = jax.jit(one_action)
    with single(env, "rgb_array" if draw else None) as inner:
        return [
            _episode(env, inner, partial(act, policy), k, max_steps, draw)
            for k in jax.random.split(key, num)
        ]


def _episode(
    env: HostEnv,
    inner: SingleEnv,
    act: Callable[[PRNGKeyArray, Any], Any],
    key: PRNGKeyArray,
    max_steps: int,
    draw: bool,
) -> Episode:
    seed_key, act_key = jax.random.split(key)
    seed = int(jax.random.bits(seed_key, (), jnp.uint32)) & 0x7FFFFFFF
    observations = [canonical(env.observation_space, inner.reset(seed))]
    rewards: list[float] = []
    frames, every, ended, cut = [], 1, False, False
    while True:
        last = ended or cut
        if draw and (last or len(rewards) % every == 0):
            frames.append(inner.render())
            if len(frames) > 2 * MAX_FRAMES:
                frames, every = frames[::2], 2 * every
        if last:
            break
        emitted = act(jax.random.fold_in(act_key, len(rewards)), observations[-1])
        action = to_env(env.action_space, np.asarray(emitted))
        raw, reward, ended, truncated = inner.step(action)
        observations.append(canonical(env.observation_space, raw))
        rewards.append(reward)
        cut = truncated or len(rewards) >= max_steps
    frames = [frames[t] for t in shown(len(frames) - 1)] if frames else []
    return Episode(
        jax.tree.map(lambda *x: np.stack(x), *observations),
        np.array(rewards, np.float32),
        ended,
        frames,
        inner.fps,
    )


def _drawn(env: Environment, state: Any) -> np.ndarray:
    try:
        return picture(env.render(state))
    except NotImplementedError as error:
        raise RunError(str(error)) from error
    except FAILURES as error:
        fault = raised(error, "render")
        raise RunError(f"{type(unwrap(env)).__name__} {fault}") from error
