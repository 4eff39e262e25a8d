"""Episodes of a policy, played and written down: in compiled environments and on the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from eniac.envs.base import Environment
from eniac.envs.sources import GivenEnv, HostEnv
from eniac.errors import RunError, one_line
from eniac.sampling.base import EnvBatch, choose, select
from eniac.spaces import canonical, to_env

MAX_STEPS = 10_000
"""Where an episode is cut that nothing ends earlier."""
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
    max_steps: int = MAX_STEPS,
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
def single(env: HostEnv, render_mode: str | None = None) -> Iterator[Any]:
    """One environment of `env`'s, closed in the end unless it is somebody else's."""
    inner = env.single(render_mode)
    try:
        yield inner
    finally:
        if not isinstance(env, GivenEnv):
            inner.close()


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
    def advance(policy: Any, carry: tuple[EnvBatch, jax.Array], key: PRNGKeyArray):
        envs, alive = carry
        act_key, step_key = jax.random.split(key)
        action = choose(policy, act_key, envs.observation, deterministic)
        action = jax.vmap(lambda a: to_env(env.action_space, a))(action)
        step = jax.vmap(env.step)(jax.random.split(step_key, num), envs.state, action)
        # After its end an episode stands still.
        following = select(alive, EnvBatch(step.state, step.observation), envs)
        seen = following, jnp.where(alive, step.reward, 0.0), alive, alive & step.terminated
        return (following, alive & ~(step.terminated | step.truncated)), seen

    reset_key, play_key = jax.random.split(key)
    keys = jax.random.split(reset_key, num)
    begin = EnvBatch(*jax.jit(jax.vmap(env.reset))(keys))
    carry = begin, jnp.ones(num, bool)
    chunk = min(_CHUNK, env.time_limit or max_steps, max_steps)
    # The policy as an argument: its arrays may be numpy's, which no traced number can index.
    go = jax.jit(lambda policy, carry, keys: jax.lax.scan(partial(advance, policy), carry, keys))
    parts = [jax.device_get((jax.tree.map(lambda x: x[None], begin), None, None, None))]
    while bool(carry[1].any()) and chunk * (len(parts) - 1) < max_steps:
        keys = jax.random.split(jax.random.fold_in(play_key, len(parts)), chunk)
        carry, seen = go(policy, carry, keys)
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
            try:
                frames = [np.asarray(env.render(state)) for state in states]
            except NotImplementedError as error:
                raise RunError(str(error)) from error
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
    inner: Any,
    act: Callable[[PRNGKeyArray, Any], Any],
    key: PRNGKeyArray,
    max_steps: int,
    draw: bool,
) -> Episode:
    seed_key, act_key = jax.random.split(key)
    seed = int(jax.random.bits(seed_key, (), jnp.uint32)) & 0x7FFFFFFF
    raw, _ = _told(env, inner.reset, seed=seed)
    # Copied: some environments return one array again and again.
    observations = [jax.tree.map(np.array, canonical(env.observation_space, raw))]
    rewards: list[float] = []
    frames, every, ended, cut = [], 1, False, False
    while True:
        last = ended or cut
        if draw and (last or len(rewards) % every == 0):
            frames.append(_frame(env, inner))
            if len(frames) > 2 * MAX_FRAMES:
                frames, every = frames[::2], 2 * every
        if last:
            break
        emitted = act(jax.random.fold_in(act_key, len(rewards)), observations[-1])
        action = to_env(env.action_space, np.asarray(emitted))
        raw, reward, ended, truncated, _ = _told(env, inner.step, action)
        observations.append(jax.tree.map(np.array, canonical(env.observation_space, raw)))
        rewards.append(float(reward))
        cut = bool(truncated) or len(rewards) >= max_steps
    frames = [frames[t] for t in shown(len(frames) - 1)] if frames else []
    fps = float((inner.metadata or {}).get("render_fps") or 30)
    return Episode(
        jax.tree.map(lambda *x: np.stack(x), *observations),
        np.array(rewards, np.float32),
        bool(ended),
        frames,
        fps,
    )


def _told(env: HostEnv, call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """`call`, which is somebody else's, with what goes wrong in it told as theirs."""
    try:
        return call(*arguments, **more)
    except Exception as error:
        raise RunError(f"{env.name} failed while it was played: {one_line(error)}") from error


def _frame(env: HostEnv, inner: Any) -> np.ndarray:
    try:
        frame = inner.render()
    except Exception as error:
        raise RunError(f"{env.name} cannot be drawn: {one_line(error)}") from error
    picture = np.asarray(frame)
    if picture.ndim != 3 or picture.shape[-1] not in (3, 4) or picture.dtype != np.uint8:
        raise RunError(
            f"{env.name} cannot be drawn: its render() returned {type(frame).__name__} of shape "
            f"{picture.shape} and type {picture.dtype}; with render_mode='rgb_array' it must be "
            "bytes of shape (height, width, 3)."
        )
    return np.array(picture[..., :3])
