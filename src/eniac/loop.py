"""The loop that every algorithm is: Algorithm 1."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from eniac.envs.base import Environment
from eniac.policies import ActorCritic, actor_critic
from eniac.sampling import Trajectory, Vessel, advantages, embark, rollout
from eniac.updates.ppo import PPO, Rows

Metrics = dict[str, Array]


class Learner(Protocol):
    """What a run drives: a state, and one epoch of Algorithm 1 as a pure function of it.

    The metrics of an epoch are scalars. They always have `steps`, the number of environment steps
    that the epoch took, and `nonfinite_rewards`, the number of rewards that were NaN or infinite.
    """

    def init(self, key: PRNGKeyArray) -> Any: ...

    def epoch(self, state: Any) -> tuple[Any, Metrics]: ...

    def policy(self, state: Any) -> ActorCritic:
        """The policy that `state` stands for: what is evaluated, exported and played."""
        ...


class Actor(NamedTuple):
    """A policy that is being improved, its optimiser, and the environments it acts in."""

    policy: ActorCritic
    optimiser: Any
    vessel: Vessel


class State(NamedTuple):
    """All that a run is at the end of an epoch."""

    key: PRNGKeyArray
    epoch: Int[Array, ""]
    actor: Actor


class DeepLearner(eqx.Module):
    """Algorithm 1 with networks, and PPO as its policy update."""

    env: Environment
    hidden: tuple[int, ...] = eqx.field(static=True)
    num_envs: int = eqx.field(static=True)
    trajectory: int = eqx.field(static=True)
    loops: int = eqx.field(static=True)
    ppo: PPO = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> State:
        key, actor_key = jax.random.split(key)
        return State(key, jnp.zeros((), jnp.int32), self.new_actor(actor_key))

    def new_actor(self, key: PRNGKeyArray) -> Actor:
        policy_key, vessel_key = jax.random.split(key)
        policy = actor_critic(
            policy_key, self.env.observation_space, self.env.action_space, self.hidden
        )
        return Actor(policy, self.ppo.init(policy), embark(self.env, vessel_key, self.num_envs))

    def policy(self, state: State) -> ActorCritic:
        return state.actor.policy

    def epoch(self, state: State) -> tuple[State, Metrics]:
        key, improve_key = jax.random.split(state.key)
        actor, metrics = self.improve(improve_key, state.actor)
        return State(key, state.epoch + 1, actor), metrics

    def improve(self, key: PRNGKeyArray, actor: Actor) -> tuple[Actor, Metrics]:
        """Algorithm 2 by PPO: `loops` times, gather trajectories and update the policy on them."""

        def one_loop(actor: Actor, key: PRNGKeyArray):
            rollout_key, update_key = jax.random.split(key)
            vessel, seen = rollout(
                self.env, actor.policy, actor.vessel, rollout_key, self.trajectory
            )
            policy, optimiser, metrics = self.ppo.update(
                update_key, actor.policy, actor.optimiser, self.rows(seen)
            )
            metrics |= {
                "reward": jnp.mean(seen.reward),
                "nonfinite_rewards": jnp.sum(~jnp.isfinite(seen.reward)),
            }
            return Actor(policy, optimiser, vessel), metrics

        actor, metrics = jax.lax.scan(one_loop, actor, jax.random.split(key, self.loops))
        nonfinite = jnp.sum(metrics["nonfinite_rewards"])
        metrics = {name: jnp.mean(x) for name, x in metrics.items()}
        steps = jnp.asarray(self.loops * self.trajectory * self.num_envs, jnp.int32)
        return actor, metrics | {"nonfinite_rewards": nonfinite, "steps": steps}

    def rows(self, seen: Trajectory) -> Rows:
        """What PPO learns from in a rollout, times and environments in one axis."""
        advantage, returns = jax.vmap(
            lambda one: advantages(one, self.ppo.gamma, self.ppo.gae_lambda),
            in_axes=1,
            out_axes=1,
        )(seen)
        target = returns if self.ppo.value_target == "return" else advantage + seen.value
        columns = (seen.observation, seen.action, seen.log_prob, advantage, target)
        return Rows(*(x.reshape((-1, *x.shape[2:])) for x in columns))
