"""Experience from gymnasium's environments: act (compiled), step (host), learn (compiled).

No environment of gymnasium's can be saved. So whenever a policy begins to be improved its
environments begin afresh, with a seed drawn from the run's own randomness; what that cuts off is a
truncation, and is bootstrapped. Then a checkpoint needs no environment, and a resumed run equals
one never stopped whenever the environment is a function of its seed and its actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from eniac.envs.sources import HostEnv
from eniac.envs.stepping import HostEnvs, HostStep
from eniac.policies import ActorCritic
from eniac.sampling.base import (
    EnvBatch,
    Episodes,
    Evaluation,
    Metrics,
    RollIn,
    Trajectory,
    choose,
    decide,
    draw_actions,
)
from eniac.spaces import Spaces, canonical, to_env

Carry = TypeVar("Carry")
Function = TypeVar("Function", bound=Callable[..., Any])

ENDLESS = 100_000
"""Steps after which an episode of an evaluation is cut that nothing else ends."""


class HostSampler:
    """Rolls out in environments of `env`, and judges in those of `evaluation_env`.

    `seconds` adds up where the time of rollouts goes: acting, stepping, copying.
    """

    compiled = False

    def __init__(self, env: HostEnv, num_envs: int, evaluation_env: HostEnv | None = None):
        self.env, self.num_envs = env, num_envs
        self.evaluation_env = env if evaluation_env is None else evaluation_env
        self.seconds = {"act": 0.0, "step": 0.0, "copy": 0.0}
        self._opened: dict[int, HostEnvs] = {}
        self._draw = jax.jit(draw_actions, static_argnums=(2, 3, 4))
        self._value = jax.jit(lambda policy, observation: jax.vmap(policy.value)(observation))
        self._act = jax.jit(_act, static_argnums=0)
        self._choose = jax.jit(_choose, static_argnums=4)
        self._pure: dict[Any, Any] = {}

    @property
    def spaces(self) -> Spaces:
        return Spaces(self.env.observation_space, self.env.action_space)

    def when(
        self, condition: Any, step: Callable[[Carry], tuple[Carry, Metrics]], carry: Carry
    ) -> tuple[Carry, Metrics]:
        return step(carry) if condition else (carry, {})

    def repeat(
        self, step: Callable[[Carry, Any], tuple[Carry, Any]], carry: Carry, inputs: Any
    ) -> tuple[Carry, Any]:
        reports = []
        for i in range(len(jax.tree.leaves(inputs)[0])):
            carry, report = step(carry, jax.tree.map(lambda x, i=i: x[i], inputs))
            reports.append(report)
        return carry, _stacked(reports)

    def pure(self, function: Function) -> Function:
        # One compilation for each function, however often it is asked for.
        return self._pure.setdefault(function, jax.jit(function))

    def begin(self, key: PRNGKeyArray, num_envs: int, parked: Any = None) -> EnvBatch:
        del num_envs, parked
        envs = self._open(self.env)
        return EnvBatch(envs, self._observe(envs.begin(_seed(key))))

    def park(self, envs: EnvBatch) -> tuple[()]:
        del envs
        return ()

    def reset(self, key: PRNGKeyArray, envs: EnvBatch) -> EnvBatch:
        del key
        return EnvBatch(envs.state, self._observe(envs.state.reset()))

    def rollout(
        self,
        key: PRNGKeyArray,
        policy: ActorCritic,
        envs: EnvBatch,
        num_steps: int,
        roll_in: RollIn | None = None,
    ) -> tuple[EnvBatch, Trajectory]:
        num, host, observation = envs.size, envs.state, envs.observation
        draws = self._draw(key, policy, num_steps, num, roll_in is not None)
        # As a list, which JAX passes to a program faster than a tree of modules.
        weights, structure = jax.tree.flatten((policy, roll_in, draws))
        space = self.env.action_space
        seen = _Columns(num_steps, num, observation)
        act, step, copy, now = 0.0, 0.0, 0.0, time.perf_counter()
        for t in range(num_steps):
            decision = [np.asarray(x) for x in self._act(structure, weights, t, observation)]
            started, now = now, time.perf_counter()
            act += now - started
            # Before the step, which may write the next observation into the same memory.
            seen.put_decision(t, observation, decision)
            result = host.step(to_env(space, decision[0]))
            started, now = now, time.perf_counter()
            step += now - started
            seen.put_step(t, result)
            observation = self._observe(result.observation)
            started, now = now, time.perf_counter()
            copy += now - started
        trajectory = self._complete(policy, seen, observation)
        for name, spent in (("act", act), ("step", step), ("copy", copy)):
            self.seconds[name] += spent
        return EnvBatch(host, observation), trajectory

    def evaluate(self, key: PRNGKeyArray, policy: Any, evaluation: Evaluation) -> Episodes:
        """As many episodes as were asked for, the same number in each environment up to one: which
        ones are counted must not depend on how long they are."""
        seed_key, act_key = jax.random.split(key)
        envs = self._open(self.evaluation_env)
        num, limit = envs.num_envs, evaluation.horizon or ENDLESS
        share = evaluation.episodes // num + (np.arange(num) < evaluation.episodes % num)
        first = limit if evaluation.first is None else evaluation.first
        observation = self._observe(envs.begin(_seed(seed_key)))
        total, early = np.zeros(num), np.zeros(num)
        length, played = np.zeros(num, np.int64), np.zeros(num, np.int64)
        found: list[tuple[float, int, float]] = []
        space, t = self.env.action_space, 0
        # A step more for each episode: some environments take one to reset themselves.
        while np.any(played < share) and t < (limit + 1) * int(share.max()):
            action = self._choose(policy, act_key, t, observation, evaluation.deterministic)
            step = envs.step(to_env(space, np.asarray(action)))
            t += 1
            reward = np.where(step.real, step.reward, 0.0)
            total += reward
            early += np.where(length < first, reward, 0.0)
            length += step.real
            ended = step.terminated | step.truncated
            endless = (length >= limit) & ~ended
            for i in np.flatnonzero((ended | endless) & (length > 0)):
                if played[i] < share[i]:
                    found.append((total[i], int(length[i]), early[i]))
                # What comes after an episode that only we have cut is no new one.
                played[i] = share[i] if endless[i] else played[i] + 1
                total[i], early[i], length[i] = 0.0, 0.0, 0
            observation = self._observe(step.observation)
        returns, lengths, firsts = zip(*found, strict=True)
        return Episodes(
            np.array(returns, np.float32), np.array(lengths), np.array(firsts, np.float32)
        )

    def warnings(self) -> list[str]:
        if self._open(self.env).is_deterministic():
            return []
        return [
            f"{self.env.name} does not do the same twice when it is given the same seed and the "
            "same actions: a run that is interrupted and resumed will differ from one that is not."
        ]

    def close(self) -> None:
        for envs in self._opened.values():
            envs.close()
        self._opened.clear()

    def _open(self, env: HostEnv) -> HostEnvs:
        if id(env) not in self._opened:
            self._opened[id(env)] = env.open(self.num_envs)
        return self._opened[id(env)]

    def _observe(self, observation: Any) -> Any:
        return canonical(self.env.observation_space, observation)

    def _complete(self, policy: ActorCritic, seen: _Columns, observation: Any) -> Trajectory:
        """The trajectory, with the values of the states that its steps led to."""
        last = np.asarray(self._value(policy, observation))
        next_value = np.concatenate([seen.value[1:], last[None]])
        if seen.finals:
            times, index, final = zip(*seen.finals, strict=True)
            rows = np.concatenate(index)
            at = np.repeat(times, [len(i) for i in index])
            batch = jax.tree.map(lambda *x: _padded(np.concatenate(x)), *final)
            batch = self._observe(batch)
            next_value[at, rows] = np.asarray(self._value(policy, batch))[: len(rows)]
        return Trajectory(
            seen.observation,
            seen.action,
            seen.log_prob,
            seen.value,
            next_value,
            seen.reward,
            seen.terminated,
            seen.truncated,
            seen.on_policy & seen.real,
            np.asarray(seen.real.sum(), np.int32),
        )


class _Columns:
    """What a rollout sees, as arrays that are filled step by step."""

    def __init__(self, num_steps: int, num_envs: int, observation: Any):
        def room(x: Any) -> np.ndarray:
            return np.empty((num_steps, *x.shape), x.dtype)

        shape = (num_steps, num_envs)
        self.observation = jax.tree.map(room, observation)
        self.action: Any = None
        self.log_prob, self.value = (np.empty(shape, np.float32) for _ in range(2))
        self.reward = np.empty(shape, np.float32)
        self.terminated, self.truncated, self.on_policy, self.real = (
            np.empty(shape, bool) for _ in range(4)
        )
        self.finals: list[tuple[int, np.ndarray, Any]] = []

    def put_decision(self, t: int, observation: Any, decision: list[np.ndarray]) -> None:
        action, self.log_prob[t], self.value[t], self.on_policy[t] = decision
        if self.action is None:
            self.action = np.empty((len(self.reward), *action.shape), action.dtype)
        self.action[t] = action
        jax.tree.map(lambda room, x: room.__setitem__(t, x), self.observation, observation)

    def put_step(self, t: int, step: HostStep) -> None:
        self.reward[t], self.terminated[t], self.truncated[t], self.real[t] = (
            step.reward,
            step.terminated,
            step.truncated,
            step.real,
        )
        if len(step.final_index):
            # Copies: the memory may be the environments' own.
            final = jax.tree.map(np.array, step.final_observation)
            self.finals.append((t, np.array(step.final_index), final))


def _act(structure: Any, weights: list[Any], t: Any, observation: Any) -> Any:
    policy, roll_in, draws = jax.tree.unflatten(structure, weights)
    return tuple(decide(policy, roll_in, draws.uniform_action, t, draws.noise[t], observation))


def _choose(policy: Any, key: PRNGKeyArray, t: Any, observation: Any, deterministic: bool) -> Any:
    return choose(policy, jax.random.fold_in(key, t), observation, deterministic)


def _seed(key: PRNGKeyArray) -> int:
    return int(jax.random.bits(key, (), jnp.uint32)) & 0x7FFFFFFF


def _padded(rows: np.ndarray) -> np.ndarray:
    """`rows` with copies of the first behind them, up to a power of two: few sizes to compile."""
    num = 1 << (len(rows) - 1).bit_length()
    return np.concatenate([rows, np.repeat(rows[:1], num - len(rows), axis=0)])


def _stacked(reports: list[Any]) -> Any:
    """Reports one after another in a new leading axis. A dictionary that lacks a name, as that of a
    step that was left out, has zero there."""
    if all(isinstance(report, dict) for report in reports):
        full = max(reports, key=len)
        zeros = jax.tree.map(lambda x: np.zeros(np.shape(x), np.asarray(x).dtype), full)
        reports = [zeros | report for report in reports]
    elif isinstance(reports[0], tuple) and not hasattr(reports[0], "_fields"):
        return tuple(_stacked(list(column)) for column in zip(*reports, strict=True))
    return jax.tree.map(lambda *x: np.stack([np.asarray(y) for y in x]), *reports)
