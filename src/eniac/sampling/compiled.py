"""Rollouts of many environments at once, advantages, and evaluation. All of it compiles.

Functions on a trajectory take one trajectory, with time as the only axis; those that step
environments take a batch of them, because drawing the randomness of a whole rollout ahead, for all
environments and steps together, is what makes it fast.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.envs.base import Environment
from eniac.policies import ActorCritic


class Vessel(NamedTuple):
    """Environments under way: their states, and what their agents see."""

    state: Any
    observation: Array


class Trajectory(NamedTuple):
    """What a rollout saw, time first, then environments.

    `next_value` is V of the state that the step led to, before any reset: what a truncated or
    unfinished episode is bootstrapped with. It is not to be used where `terminated`. `own` is False
    for the steps of a roll-in, which another policy chose and which nothing is learned from.
    """

    observation: Array
    action: Array
    log_prob: Float[Array, "time envs"]
    value: Float[Array, "time envs"]
    next_value: Float[Array, "time envs"]
    reward: Float[Array, "time envs"]
    terminated: Bool[Array, "time envs"]
    truncated: Bool[Array, "time envs"]
    own: Bool[Array, "time envs"]


def embark(env: Environment, key: PRNGKeyArray, num_envs: int) -> Vessel:
    """`num_envs` environments at their start."""
    return Vessel(*jax.vmap(env.reset)(jax.random.split(key, num_envs)))


def select(condition: Bool[Array, " envs"], yes: Any, no: Any) -> Any:
    """For each environment the leaf of `yes` where `condition`, else that of `no`."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, yes, no)


class RollIn(NamedTuple):
    """How the trajectories of a rollout begin: groups of environments each follow a policy of the
    cover for `length` steps, and then the current policy.

    A group shares its policy, its length and its coin: one set of weights serves all its
    environments, which is what keeps the cost of many policies small. The first action of the
    current policy after a roll-in is uniform if `coin`, a toss with probability `epsilon`.
    """

    policies: Any
    length: Int[Array, " groups"]
    happens: Bool[Array, " groups"]
    coin: Bool[Array, " groups"]
    epsilon: Float[Array, ""]


def rollout(
    env: Environment,
    policy: ActorCritic,
    vessel: Vessel,
    key: PRNGKeyArray,
    num_steps: int,
    roll_in: RollIn | None = None,
) -> tuple[Vessel, Trajectory]:
    """`num_steps` steps of `policy` in every environment; one whose episode ends is reset.

    With a `roll_in` the first steps of a group are those of a policy of the cover. They stand in
    the trajectory too, and `own` is False there. The log-probability of the first own action is
    that of the mixture, log((1 - epsilon) pi + epsilon uniform).
    """
    num_envs = vessel.observation.shape[0]
    noise_key, step_key, reset_key, uniform_key = jax.random.split(key, 4)
    noise = policy.noise(noise_key, (num_steps, num_envs))
    step_keys = jax.random.split(step_key, (num_steps, num_envs))
    reset_keys = jax.random.split(reset_key, (num_steps, num_envs))
    uniform_action = policy.uniform(uniform_key, (num_envs,)) if roll_in else None

    def decide(time: Array, noise: Array, observation: Array):
        if roll_in is None:
            return (*jax.vmap(policy.act)(noise, observation), jnp.ones(num_envs, bool))
        groups = roll_in.length.shape[0]

        def spread(x: Array) -> Array:
            return jnp.repeat(x, num_envs // groups)

        def grouped(x: Array) -> Array:
            return x.reshape((groups, num_envs // groups, *x.shape[1:]))

        theirs = jax.vmap(lambda other, n, o: jax.vmap(lambda n, o: other.act(n, o)[0])(n, o))(
            roll_in.policies, grouped(noise), grouped(observation)
        )
        theirs = theirs.reshape((num_envs, *theirs.shape[2:]))
        own = time >= spread(roll_in.length)
        first = spread(roll_in.happens) & (time == spread(roll_in.length))
        distribution, value = jax.vmap(policy)(observation)
        ours = jax.vmap(lambda d, n: d.transform(n))(distribution, noise)
        ours = select(first & spread(roll_in.coin), uniform_action, ours)
        log_prob = jax.vmap(lambda d, a: d.log_prob(a))(distribution, ours)
        mixed = jnp.logaddexp(
            jnp.log1p(-roll_in.epsilon) + log_prob, jnp.log(roll_in.epsilon) + policy.log_uniform
        )
        return select(own, ours, theirs), jnp.where(first, mixed, log_prob), value, own

    def advance(vessel: Vessel, draw: tuple[Array, Array, Array, Array]):
        time, noise, step_keys, reset_keys = draw
        action, log_prob, value, own = decide(time, noise, vessel.observation)
        step = jax.vmap(env.step)(step_keys, vessel.state, action)
        # Few steps truncate, so that the second pass through the network is rarely made.
        final_value = jax.lax.cond(
            jnp.any(step.truncated),
            lambda: jax.vmap(policy.value)(step.observation),
            lambda: jnp.zeros(num_envs),
        )
        done = step.terminated | step.truncated
        following = select(
            done,
            Vessel(*jax.vmap(env.reset)(reset_keys)),
            Vessel(step.state, step.observation),
        )
        seen = Trajectory(
            observation=vessel.observation,
            action=action,
            log_prob=log_prob,
            value=value,
            next_value=final_value,
            reward=step.reward,
            terminated=step.terminated,
            truncated=step.truncated,
            own=own,
        )
        return following, seen

    draws = (jnp.arange(num_steps), noise, step_keys, reset_keys)
    vessel, seen = jax.lax.scan(advance, vessel, draws)
    last_value = jax.vmap(policy.value)(vessel.observation)
    next_value = jnp.concatenate([seen.value[1:], last_value[None]])
    return vessel, seen._replace(next_value=jnp.where(seen.truncated, seen.next_value, next_value))


def advantages(
    trajectory: Trajectory, gamma: float, gae_lambda: float
) -> tuple[Float[Array, " time"], Float[Array, " time"]]:
    """Generalised advantage estimates of one trajectory, and its discounted returns.

    A terminal step has no future; a truncated one, like the last, has the value of the state it
    led to as its future: a time limit is not death.
    """
    future = jnp.where(trajectory.terminated, 0.0, gamma * trajectory.next_value)
    delta = trajectory.reward + future - trajectory.value
    goes_on = ~(trajectory.terminated | trajectory.truncated)

    def backwards(carry: tuple[Array, Array], now: tuple[Array, Array, Array, Array]):
        advantage, following = carry
        delta, reward, future, goes_on = now
        advantage = delta + gamma * gae_lambda * goes_on * advantage
        following = reward + jnp.where(goes_on, gamma * following, future)
        return (advantage, following), (advantage, following)

    start = (jnp.zeros(()), trajectory.next_value[-1])
    _, (advantage, returns) = jax.lax.scan(
        backwards, start, (delta, trajectory.reward, future, goes_on), reverse=True
    )
    return advantage, returns


class Evaluation(NamedTuple):
    """Undiscounted returns and lengths, one of each an episode."""

    returns: Float[Array, " episodes"]
    lengths: Int[Array, " episodes"]
    first_returns: Float[Array, " episodes"]
    """what the first steps of each episode brought, as many as were asked for"""


def evaluate(
    env: Environment,
    policy: ActorCritic,
    key: PRNGKeyArray,
    num_episodes: int,
    deterministic: bool = False,
    first: int | None = None,
) -> Evaluation:
    """One episode in each of `num_episodes` environments, side by side, until all have ended.

    The return of the `first` steps is told as well; None is all steps. `env` must end its episodes
    itself: wrap it in a `TimeLimit`.
    """
    key, reset_key = jax.random.split(key)

    def act(key: PRNGKeyArray, observation: Array) -> Array:
        return policy.mode(observation) if deterministic else policy.sample(key, observation)

    def under_way(carry: tuple[Any, ...]) -> Array:
        return jnp.any(carry[-1])

    def advance(carry: tuple[Any, ...]):
        key, vessel, returns, early, lengths, alive = carry
        key, act_key, step_key = jax.random.split(key, 3)
        action = jax.vmap(act)(jax.random.split(act_key, num_episodes), vessel.observation)
        step = jax.vmap(env.step)(jax.random.split(step_key, num_episodes), vessel.state, action)
        reward = jnp.where(alive, step.reward, 0.0)
        returns = returns + reward
        early = early + (reward if first is None else jnp.where(lengths < first, reward, 0.0))
        lengths = lengths + alive
        alive = alive & ~(step.terminated | step.truncated)
        return key, Vessel(step.state, step.observation), returns, early, lengths, alive

    start = (
        key,
        embark(env, reset_key, num_episodes),
        jnp.zeros(num_episodes),
        jnp.zeros(num_episodes),
        jnp.zeros(num_episodes, jnp.int32),
        jnp.ones(num_episodes, bool),
    )
    _, _, returns, early, lengths, _ = jax.lax.while_loop(under_way, advance, start)
    return Evaluation(returns, lengths, early)
