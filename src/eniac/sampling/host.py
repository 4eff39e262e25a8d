"""Experience from gymnasium's environments: act (compiled), step (host), learn (compiled).

No environment of gymnasium's can be saved. So whenever a policy begins to be improved its
environments begin afresh, with a seed drawn from the run's own randomness; what that cuts off is a
truncation, and is bootstrapped. Then a checkpoint needs no environment, and a resumed run equals
one never stopped whenever the environment is a function of its seed and its actions.

What environments give is looked at before anything is learned from it: shapes and types at every
step (`envs.stepping`), values once a rollout, all together, which costs next to nothing.
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
from eniac.envs.stepping import HostEnvs
from eniac.errors import RunError
from eniac.policies import ActorCritic
from eniac.sampling.base import (
    LONGEST_EPISODE,
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
from eniac.sampling.columns import Columns, Final
from eniac.sampling.watch import Watch
from eniac.spaces import Spaces, canonical, to_env

Carry = TypeVar("Carry")
Function = TypeVar("Function", bound=Callable[..., Any])


class HostSampler:
    """Rolls out in environments of `env`, and judges in those of `evaluation_env`.

    `seconds` adds up where the time of rollouts goes: acting, stepping, copying.
    """

    compiled = False

    def __init__(self, env: HostEnv, num_envs: int, evaluation_env: HostEnv | None = None):
        self.env, self.num_envs = env, num_envs
        self.evaluation_env = env if evaluation_env is None else evaluation_env
        self.seconds = {"act": 0.0, "step": 0.0, "copy": 0.0}
        self._opened: dict[tuple[int, int], HostEnvs] = {}
        self._watch = Watch(env.observation_space)
        self._restarted, self._events = 0, []
        self._draw = jax.jit(draw_actions, static_argnums=(2, 3, 4))
        self._value = jax.jit(lambda policy, observation: jax.vmap(policy.value)(observation))
        self._act = jax.jit(_act, static_argnums=0)
        self._choose = jax.jit(_choose, static_argnums=5)
        self._rows = jax.jit(_rows)
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
        for row in self._rows(inputs):
            carry, report = step(carry, row)
            reports.append(report)
        return carry, _stacked(reports)

    def pure(self, function: Function) -> Function:
        # One compilation for each function, however often it is asked for.
        return self._pure.setdefault(function, jax.jit(function))

    def begin(self, key: PRNGKeyArray, num_envs: int, parked: Any = None) -> EnvBatch:
        del parked
        envs = self._open(self.env, num_envs)
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
        taken, host = 0, envs.state
        while True:
            before = len(host.restarts)
            envs, seen = self._rollout(key, policy, envs, num_steps, roll_in)
            taken += int(seen.num_steps)
            if len(host.restarts) == before or seen.on_policy.any():
                self._count_restarts(host)
                return envs, seen._replace(num_steps=np.asarray(taken, np.int32))
            # All of it was dropped with environments that failed: there is nothing to learn from.
            # This ends, because no more than so many are replaced in one rollout.
            key = jax.random.fold_in(key, len(host.restarts))

    def _rollout(
        self,
        key: PRNGKeyArray,
        policy: ActorCritic,
        envs: EnvBatch,
        num_steps: int,
        roll_in: RollIn | None,
    ) -> tuple[EnvBatch, Trajectory]:
        num, host, observation = envs.size, envs.state, envs.observation
        draws = self._draw(jax.random.split(key), policy, num_steps, num, roll_in is not None)
        # As a list, which JAX passes to a program faster than a tree of modules.
        weights, structure = jax.tree.flatten((policy, roll_in, draws))
        space = self.env.action_space
        seen = Columns(num_steps, num, observation, host.steps)
        act, step, copy, now = 0.0, 0.0, 0.0, time.perf_counter()
        for t in range(num_steps):
            decision = [np.asarray(x) for x in self._act(structure, weights, t, observation)]
            started, now = now, time.perf_counter()
            act += now - started
            # Before the step, which may write the next observation into the same memory.
            seen.put_decision(t, observation, decision)
            try:
                result = host.step(to_env(space, decision[0]))
            except RunError:
                # It may have failed for want of an action: tell what came first.
                self._watch.check_rollout(host, seen, self._final(seen), None, t + 1, t)
                raise
            started, now = now, time.perf_counter()
            step += now - started
            seen.put_step(t, result)
            observation = self._observe(result.observation)
            started, now = now, time.perf_counter()
            copy += now - started
        final = self._final(seen)
        self._watch.check_rollout(host, seen, final, observation, num_steps, num_steps)
        trajectory = self._complete(policy, seen, final, observation)
        for name, spent in (("act", act), ("step", step), ("copy", copy)):
            self.seconds[name] += spent
        return EnvBatch(host, observation), trajectory

    def evaluate(self, key: PRNGKeyArray, policy: Any, evaluation: Evaluation) -> Episodes:
        alone = jax.tree.map(lambda x: x[None], policy)
        found = self.evaluate_each(key, alone, evaluation)
        return jax.tree.map(lambda x: x if x.ndim == 0 else x[0], found)

    def evaluate_each(self, key: PRNGKeyArray, policies: Any, evaluation: Evaluation) -> Episodes:
        """All policies side by side. Which environment plays which episode of which policy is
        settled before: what is counted must not depend on how long episodes are."""
        seed_key, act_key = jax.random.split(key)
        num_policies = jax.tree.leaves(policies)[0].shape[0]
        episodes = num_policies * evaluation.episodes
        envs = self._open(self.evaluation_env, episodes)
        num, limit = envs.num_envs, evaluation.horizon or LONGEST_EPISODE
        # Environment i plays the episodes i, i + num, i + 2 num, ... of all, policy by policy.
        share = episodes // num + (np.arange(num) < episodes % num)
        first = limit if evaluation.first is None else evaluation.first
        total, early = np.zeros(num), np.zeros(num)
        length, played = np.zeros(num, np.int64), np.zeros(num, np.int64)
        # Those whose episode only we have cut: what comes after it is no new one.
        waits = np.ones(num, bool)
        returns, firsts = np.zeros(episodes, np.float32), np.zeros(episodes, np.float32)
        lengths, cut = np.zeros(episodes, np.int64), np.zeros(episodes, bool)
        space, t, steps, observation = self.env.action_space, 0, 0, None
        # A step more for each episode: some environments take one to reset themselves.
        most = (limit + 1) * int(share.max())
        while np.any(played < share) and t < most:
            if np.all(waits | (played >= share)):
                seed_key = jax.random.fold_in(seed_key, t)
                observation = self._observe(envs.begin(_seed(seed_key)))
                self._watch.check_step(envs, observation, np.zeros(num))
                waits[:], total[:], early[:], length[:] = False, 0.0, 0.0, 0
            episode = np.minimum(np.arange(num) + num * played, episodes - 1)
            whose = (episode // evaluation.episodes).astype(np.int32)
            action = np.asarray(
                self._choose(policies, whose, act_key, t, observation, evaluation.deterministic)
            )
            try:
                step = envs.step(to_env(space, action))
            except RunError:
                self._watch.check_action(envs, action)
                raise
            t += 1
            steps += int(step.real.sum())
            observation = self._observe(step.observation)
            self._watch.check_step(envs, observation, step.reward)
            if step.failed:
                # Their episodes are played again from the start.
                again = list(step.failed)
                total[again], early[again], length[again] = 0.0, 0.0, 0
                most += limit + 1
            reward = np.where(step.real, step.reward, 0.0)
            total += reward
            early += np.where(length < first, reward, 0.0)
            length += step.real
            ended = step.terminated | step.truncated
            endless = (length >= limit) & ~ended
            for i in np.flatnonzero((ended | endless) & (length > 0)):
                if played[i] < share[i] and not waits[i]:
                    returns[episode[i]], firsts[episode[i]] = total[i], early[i]
                    lengths[episode[i]], cut[episode[i]] = length[i], endless[i]
                    played[i] += 1
                waits[i] |= endless[i]
                total[i], early[i], length[i] = 0.0, 0.0, 0
        self._count_restarts(envs)
        shape = (num_policies, evaluation.episodes)
        return Episodes(
            returns.reshape(shape),
            lengths.reshape(shape),
            firsts.reshape(shape),
            np.asarray(steps, np.int32),
            cut.reshape(shape) if evaluation.horizon is None else None,
        )

    def counts(self) -> Metrics:
        restarted, self._restarted = self._restarted, 0
        return {"restarted_envs": np.asarray(restarted, np.int32)}

    def events(self) -> list[str]:
        events, self._events = self._events, []
        return events

    def warnings(self) -> list[str]:
        envs = self._open(self.env)
        same = envs.is_deterministic()
        self._count_restarts(envs)
        if same:
            return []
        return [
            f"{self.env.name} does not do the same twice when it is given the same seed and the "
            "same actions: a run that is interrupted and resumed will differ from one that is not."
        ]

    def close(self) -> None:
        for envs in self._opened.values():
            envs.close()
        self._opened.clear()

    def _open(self, env: HostEnv, most: int | None = None) -> HostEnvs:
        """Environments of `env`: no more than there are episodes to play, where that is `most`."""
        num = env.num_envs or min(self.num_envs, most or self.num_envs)
        if (id(env), num) not in self._opened:
            self._opened[id(env), num] = env.open(num)
        return self._opened[id(env), num]

    def _observe(self, observation: Any) -> Any:
        return canonical(self.env.observation_space, observation)

    def _count_restarts(self, envs: HostEnvs) -> None:
        """Takes note of the environments that were replaced since this was last called."""
        told, envs.restarts = envs.restarts, []
        self._restarted += len(told)
        self._events += [f"{text} It was replaced by a new one." for text in told]

    def _final(self, seen: Columns) -> Final | None:
        """The last observations of the episodes that were truncated, if there were any."""
        if not seen.finals:
            return None
        times, index, final = zip(*seen.finals, strict=True)
        observation = jax.tree.map(lambda *x: np.concatenate(x), *final)
        at = np.repeat(times, [len(i) for i in index])
        return Final(at, np.concatenate(index), self._observe(observation))

    def _complete(
        self, policy: ActorCritic, seen: Columns, final: Final | None, observation: Any
    ) -> Trajectory:
        """The trajectory, with the values of the states that its steps led to."""
        last = np.asarray(self._value(policy, observation))
        next_value = np.concatenate([seen.value[1:], last[None]])
        if final is not None:
            value = self._value(policy, jax.tree.map(_padded, final.observation))
            next_value[final.times, final.envs] = np.asarray(value)[: len(final.envs)]
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
            seen.rolled_in & seen.real,
        )


def _act(structure: Any, weights: list[Any], t: Any, observation: Any) -> Any:
    policy, roll_in, draws = jax.tree.unflatten(structure, weights)
    return tuple(decide(policy, roll_in, draws.uniform_action, t, draws.noise[t], observation))


def _choose(
    policies: Any,
    whose: Any,
    key: PRNGKeyArray,
    t: Any,
    observation: Any,
    deterministic: bool,
) -> Any:
    key = jax.random.fold_in(key, t)
    if jax.tree.leaves(policies)[0].shape[0] == 1:
        policy = jax.tree.map(lambda x: x[0], policies)
        return choose(policy, key, observation, deterministic)
    noise = policies.noise(key, (len(whose),))

    def one(whose: Any, noise: Any, observation: Any) -> Any:
        policy = jax.tree.map(lambda x: x[whose], policies)
        return policy.mode(observation) if deterministic else policy.action(noise, observation)

    return jax.vmap(one)(whose, noise, observation)


def _rows(inputs: Any) -> list[Any]:
    """What `inputs` have in each row of their leading axis: one program, not a call for each."""
    num = len(jax.tree.leaves(inputs)[0])
    return [jax.tree.map(lambda x, i=i: x[i], inputs) for i in range(num)]


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
