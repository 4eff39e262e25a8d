"""Experience from environments that are pure JAX: everything compiles into one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from eniac.envs.base import Environment, Step
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
    select,
)
from eniac.spaces import Spaces, to_env

Carry = TypeVar("Carry")
Function = TypeVar("Function", bound=Callable[..., Any])


def when(
    condition: Any, step: Callable[[Carry], tuple[Carry, Metrics]], carry: Carry
) -> tuple[Carry, Metrics]:
    """`step(carry)` if `condition`, else `carry` as it is and zeros for the metrics."""
    # jit, so that it is traced once: for its shapes and for its place in the program.
    step = jax.jit(step)

    def stay(carry: Carry) -> tuple[Carry, Metrics]:
        metrics = jax.eval_shape(step, carry)[1]
        return carry, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), metrics)

    return jax.lax.cond(condition, step, stay, carry)


class CompiledSampler:
    """Rolls out in `env`, and judges in `evaluation_env`. Where an evaluation has a horizon, that
    one must have it as a `TimeLimit`."""

    compiled = True

    def __init__(self, env: Environment, evaluation_env: Environment | None = None):
        self.env = env
        self.evaluation_env = env if evaluation_env is None else evaluation_env

    @property
    def spaces(self) -> Spaces:
        return Spaces(self.env.observation_space, self.env.action_space)

    def when(
        self, condition: Any, step: Callable[[Carry], tuple[Carry, Metrics]], carry: Carry
    ) -> tuple[Carry, Metrics]:
        return when(condition, step, carry)

    def repeat(
        self, step: Callable[[Carry, Any], tuple[Carry, Any]], carry: Carry, inputs: Any
    ) -> tuple[Carry, Any]:
        return jax.lax.scan(step, carry, inputs)

    def pure(self, function: Function) -> Function:
        return function

    def begin(self, key: PRNGKeyArray, num_envs: int, parked: Any = None) -> EnvBatch:
        if parked is not None:
            return parked
        return EnvBatch(*jax.vmap(self.env.reset)(jax.random.split(key, num_envs)))

    def park(self, envs: EnvBatch) -> EnvBatch:
        return envs

    def reset(self, key: PRNGKeyArray, envs: EnvBatch) -> EnvBatch:
        return self.begin(key, envs.size)

    def rollout(
        self,
        key: PRNGKeyArray,
        policy: ActorCritic,
        envs: EnvBatch,
        num_steps: int,
        roll_in: RollIn | None = None,
    ) -> tuple[EnvBatch, Trajectory]:
        num_envs = envs.size
        keys = jax.random.split(key, 4)
        draws = draw_actions(keys[:2], policy, num_steps, num_envs, roll_in is not None)
        step_keys = jax.random.split(keys[2], (num_steps, num_envs))
        reset_keys = jax.random.split(keys[3], (num_steps, num_envs))

        def advance(envs: EnvBatch, draw: tuple[Array, Array, Array, Array]):
            time, noise, step_keys, reset_keys = draw
            decision = decide(policy, roll_in, draws.uniform_action, time, noise, envs.observation)
            step = jax.vmap(self._step)(step_keys, envs.state, decision.action)
            # Few steps truncate, so that the second pass through the network is rarely made.
            final_value = jax.lax.cond(
                jnp.any(step.truncated),
                lambda: jax.vmap(policy.value)(step.observation),
                lambda: jnp.zeros(num_envs),
            )
            following = select(
                step.terminated | step.truncated,
                EnvBatch(*jax.vmap(self.env.reset)(reset_keys)),
                EnvBatch(step.state, step.observation),
            )
            seen = (
                envs.observation,
                decision.action,
                decision.log_prob,
                decision.value,
                final_value,
                step.reward,
                step.terminated,
                step.truncated,
                decision.on_policy,
            )
            return following, seen

        inputs = (jnp.arange(num_steps), draws.noise, step_keys, reset_keys)
        envs, columns = jax.lax.scan(advance, envs, inputs)
        seen = Trajectory(*columns, num_steps=jnp.asarray(num_steps * num_envs, jnp.int32))
        last_value = jax.vmap(policy.value)(envs.observation)
        next_value = jnp.concatenate([seen.value[1:], last_value[None]])
        next_value = jnp.where(seen.truncated, seen.next_value, next_value)
        rolled_in = None if roll_in is None else ~seen.on_policy
        return envs, seen._replace(next_value=next_value, rolled_in=rolled_in)

    def evaluate(self, key: PRNGKeyArray, policy: Any, evaluation: Evaluation) -> Episodes:
        """One episode in each of so many environments, side by side, until all have ended."""
        env, num, first = self.evaluation_env, evaluation.episodes, evaluation.first
        key, reset_key = jax.random.split(key)
        endless = evaluation.horizon is None

        def under_way(carry: tuple[Any, ...]) -> Array:
            *_, lengths, alive = carry
            return jnp.any(alive & (lengths < LONGEST_EPISODE) if endless else alive)

        def advance(carry: tuple[Any, ...]):
            key, envs, returns, early, lengths, alive = carry
            key, act_key, step_key = jax.random.split(key, 3)
            action = choose(policy, act_key, envs.observation, evaluation.deterministic)
            action = jax.vmap(lambda a: to_env(env.action_space, a))(action)
            step = jax.vmap(env.step)(jax.random.split(step_key, num), envs.state, action)
            reward = jnp.where(alive, step.reward, 0.0)
            returns = returns + reward
            early = early + (reward if first is None else jnp.where(lengths < first, reward, 0.0))
            lengths = lengths + alive
            alive = alive & ~(step.terminated | step.truncated)
            return key, EnvBatch(step.state, step.observation), returns, early, lengths, alive

        start = (
            key,
            EnvBatch(*jax.vmap(env.reset)(jax.random.split(reset_key, num))),
            jnp.zeros(num),
            jnp.zeros(num),
            jnp.zeros(num, jnp.int32),
            jnp.ones(num, bool),
        )
        end = jax.lax.while_loop(under_way, advance, start)
        _, _, returns, early, lengths, alive = end
        steps = jnp.sum(lengths)
        return Episodes(returns, lengths, early, steps, alive if endless else None)

    def evaluate_each(self, key: PRNGKeyArray, policies: Any, evaluation: Evaluation) -> Episodes:
        keys = jax.random.split(key, jax.tree.leaves(policies)[0].shape[0])
        found = jax.vmap(lambda key, policy: self.evaluate(key, policy, evaluation))(keys, policies)
        return found._replace(num_steps=jnp.sum(found.num_steps))

    def warnings(self) -> list[str]:
        return []

    def counts(self) -> Metrics:
        return {}

    def events(self) -> list[str]:
        return []

    def close(self) -> None:
        pass

    def _step(self, key: PRNGKeyArray, state: Any, action: Array) -> Step:
        return self.env.step(key, state, to_env(self.env.action_space, action))
