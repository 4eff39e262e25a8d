"""The loop that every algorithm is: Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from eniac.bonuses.base import Buffer, Pairs, Spaces
from eniac.cover import Cover
from eniac.envs.base import Environment
from eniac.policies import ActorCritic, actor_critic
from eniac.sampling.compiled import RollIn, Trajectory, Vessel, advantages, embark, rollout
from eniac.updates.ppo import Rows

if TYPE_CHECKING:
    from eniac.algorithms import Deep

Metrics = dict[str, Array]
T = TypeVar("T")


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
    """All that a run is at the end of an epoch.

    Algorithms without a cover have one policy, `exploit`; `explore`, `cover` and `buffer` are None.
    """

    key: PRNGKeyArray
    epoch: Int[Array, ""]
    explore: Actor | None
    exploit: Actor
    cover: Cover | None
    buffer: Buffer | None
    bonus: Any


class DeepLearner(eqx.Module):
    """Algorithm 1 with networks, and PPO as its policy update.

    An epoch here is a part of an epoch n of the paper: `parts.interval` of them share one cover,
    one buffer and one bonus. The exploring policy learns from max(r, b) or r + b; the exploiting
    policy learns from r alone, starts in the states that the cover reaches, and is the one judged.
    """

    env: Environment
    parts: Deep = eqx.field(static=True)

    @property
    def spaces(self) -> Spaces:
        return Spaces(self.env.observation_space, self.env.action_space)

    def init(self, key: PRNGKeyArray) -> State:
        parts = self.parts
        key, explore_key, exploit_key, bonus_key = jax.random.split(key, 4)
        exploit = self.new_actor(exploit_key)
        bonus = None
        if parts.bonus is not None:
            bonus = parts.bonus.init(bonus_key, self.spaces, parts.hidden, parts.capacity)
        covered = parts.cover != "none"
        return State(
            key=key,
            epoch=jnp.zeros((), jnp.int32),
            explore=self.new_actor(explore_key) if covered else None,
            exploit=exploit,
            cover=Cover.empty(exploit.policy, parts.capacity) if covered else None,
            buffer=Buffer.empty(self.spaces, parts.capacity * parts.visits) if covered else None,
            bonus=bonus,
        )

    def new_actor(self, key: PRNGKeyArray) -> Actor:
        policy_key, vessel_key = jax.random.split(key)
        policy = actor_critic(policy_key, *self.spaces, self.parts.hidden)
        vessel = embark(self.env, vessel_key, self.parts.num_envs)
        return Actor(policy, self.parts.ppo.init(policy), vessel)

    def policy(self, state: State) -> ActorCritic:
        return state.exploit.policy

    def epoch(self, state: State) -> tuple[State, Metrics]:
        if state.explore is None:
            return self.plain_epoch(state)
        parts = self.parts
        assert parts.bonus is not None
        key, visit_key, restart_key, *improve_keys = jax.random.split(state.key, 5)
        due = state.epoch % parts.interval == 0
        started = state.epoch >= parts.exploit_from
        state = jax.lax.cond(due, self.extend, lambda _, state: state, visit_key, state)
        if parts.restart:
            since = state.epoch - parts.exploit_from
            again = started & (since % parts.restart == 0)
            exploit = jax.lax.cond(
                again, lambda _: self.new_actor(restart_key), lambda actor: actor, state.exploit
            )
            state = state._replace(exploit=exploit)

        # Both policies go through one scan, so that their update is compiled once.
        def one_role(carry: tuple[Any, Any], role: tuple[Actor, Array, Array, PRNGKeyArray]):
            actor, active, explores, key = role

            def improved(now: tuple[Actor, tuple[Any, Any]]):
                actor, (bonus, cover) = now
                given = state._replace(bonus=bonus, cover=cover)
                actor, *carry, metrics = self.improve(key, actor, given, explores, due & explores)
                return (actor, tuple(carry)), metrics

            (actor, carry), metrics = run_if(active, improved, (actor, carry))
            return carry, (actor, metrics)

        both = jax.tree.map(lambda *x: jnp.stack(x), state.explore, state.exploit)
        (bonus, cover), (both, metrics) = jax.lax.scan(
            one_role,
            (state.bonus, state.cover),
            (
                both,
                jnp.stack([jnp.asarray(True), started]),
                jnp.asarray([True, False]),
                jnp.stack(improve_keys),
            ),
        )
        explore = jax.tree.map(lambda x: x[0], both)
        exploit = jax.tree.map(lambda x: x[1], both)
        state = State(key, state.epoch + 1, explore, exploit, cover, state.buffer, bonus)
        shown = {
            f"{role}/{name}": x[i]
            for i, role in enumerate(("explore", "exploit"))
            for name, x in metrics.items()
            if name not in ("steps", "nonfinite_rewards") and (i == 0 or "bonus" not in name)
        }
        return state, {
            "steps": jnp.sum(metrics["steps"]) + jnp.where(due, parts.visits, 0),
            "nonfinite_rewards": jnp.sum(metrics["nonfinite_rewards"]),
            "cover/count": state.cover.count if state.cover else jnp.zeros((), jnp.int32),
            **shown,
            **parts.bonus.metrics(bonus),
        }

    def plain_epoch(self, state: State) -> tuple[State, Metrics]:
        """An epoch without a cover: PPO, and PPO with a bonus added."""
        key, improve_key = jax.random.split(state.key)
        yes = jnp.asarray(True)
        exploit, bonus, _, metrics = self.improve(improve_key, state.exploit, state, yes)
        if self.parts.bonus is not None:
            metrics |= self.parts.bonus.metrics(bonus)
        state = state._replace(key=key, epoch=state.epoch + 1, exploit=exploit, bonus=bonus)
        return state, metrics

    def extend(self, key: PRNGKeyArray, state: State) -> State:
        """Lines 6-8: visit with the exploring policy, merge into Z^n, add it to the cover."""
        assert state.explore is not None
        assert state.buffer is not None
        assert state.cover is not None
        parts = self.parts
        policy = state.explore.policy
        vessel_key, rollout_key = jax.random.split(key)
        vessel = embark(self.env, vessel_key, parts.visitors)
        _, seen = rollout(self.env, policy, vessel, rollout_key, parts.visits // parts.visitors)
        return state._replace(
            buffer=state.buffer.add(Pairs(*map(flat, (seen.observation, seen.action)))),
            cover=state.cover.add(policy),
        )

    def improve(
        self,
        key: PRNGKeyArray,
        actor: Actor,
        state: State,
        rewarded: Bool[Array, ""],
        fit: Bool[Array, ""] | None = None,
    ) -> tuple[Actor, Any, Any, Metrics]:
        """Line 10, Algorithm 2 by PPO: `loops` times, gather trajectories and update on them.

        `rewarded` says whether the bonus counts. Where `fit` says so, the bonus is fitted (line 9)
        when loop `fit_at` has gathered its trajectories, which are the query pairs Z_Q^n: the cover
        as the initial distribution, then the current policy.
        """
        parts = self.parts

        def one_loop(carry: tuple[Actor, Any, Any], draw: tuple[Array, PRNGKeyArray]):
            actor, bonus, cover = carry
            loop, key = draw
            vessel_key, roll_key, rollout_key, fit_key, watch_key, update_key = jax.random.split(
                key, 6
            )
            vessel = actor.vessel
            if parts.episodes == "episodic":
                vessel = embark(self.env, vessel_key, parts.num_envs)
            roll_in = None if cover is None else self.roll_in(roll_key, cover)
            vessel, seen = rollout(
                self.env, actor.policy, vessel, rollout_key, parts.trajectory, roll_in
            )
            order, num = own_first(flat(seen.own))
            pairs = Pairs(*(flat(x)[order] for x in (seen.observation, seen.action)))
            if fit is not None:
                bonus, cover = jax.lax.cond(
                    fit & (loop == parts.fit_at),
                    lambda: self.fit(fit_key, bonus, state, cover, pairs, num),
                    lambda: (bonus, cover),
                )
            metrics = {
                "reward": jnp.sum(seen.reward * seen.own) / num,
                "nonfinite_rewards": jnp.sum(~jnp.isfinite(seen.reward)),
            }
            if parts.bonus is not None:
                earned = jax.lax.cond(
                    rewarded,
                    lambda: jax.vmap(jax.vmap(bonus))(seen.observation, seen.action),
                    lambda: jnp.zeros_like(seen.reward),
                )
                metrics["bonus"] = jnp.sum(earned * seen.own) / num
                metrics["bonus_decides"] = jnp.sum((earned > seen.reward) & seen.own) / num
                combined = (
                    jnp.maximum(seen.reward, earned)
                    if parts.combine == "max"
                    else seen.reward + earned
                )
                seen = seen._replace(reward=jnp.where(rewarded, combined, seen.reward))
                watch = parts.bonus.watch
                bonus = jax.lax.cond(
                    rewarded, lambda b: watch(watch_key, b, pairs, num), lambda b: b, bonus
                )
            rows = jax.tree.map(lambda x: x[order], self.rows(seen))
            policy, optimiser, update_metrics = parts.ppo.update(
                update_key, actor.policy, actor.optimiser, rows, num
            )
            return (Actor(policy, optimiser, vessel), bonus, cover), metrics | update_metrics

        (actor, bonus, cover), metrics = jax.lax.scan(
            one_loop,
            (actor, state.bonus, state.cover),
            (jnp.arange(parts.loops), jax.random.split(key, parts.loops)),
        )
        nonfinite = jnp.sum(metrics["nonfinite_rewards"])
        metrics = {name: jnp.mean(x) for name, x in metrics.items()}
        steps = jnp.asarray(parts.loops * parts.trajectory * parts.num_envs, jnp.int32)
        metrics |= {"nonfinite_rewards": nonfinite, "steps": steps}
        return actor, bonus, cover, metrics

    def fit(
        self,
        key: PRNGKeyArray,
        bonus: Any,
        state: State,
        cover: Cover,
        pairs: Pairs,
        num: Int[Array, ""],
    ) -> tuple[Any, Cover]:
        """Line 9: b^n, and the weights of the cover that go with it."""
        parts = self.parts
        assert parts.bonus is not None
        assert state.buffer is not None
        query_key, fit_key = jax.random.split(key)
        rows = jax.random.randint(query_key, (parts.bonus.query_size,), 0, num)
        query = Pairs(*(x[rows] for x in pairs))
        start = jnp.maximum(state.buffer.count - parts.visits, 0)
        newest = Pairs(
            *(jax.lax.dynamic_slice_in_dim(x, start, parts.visits) for x in state.buffer.pairs)
        )
        bonus = parts.bonus.fit(fit_key, bonus, state.buffer, newest, query)
        return bonus, cover.reweighted(parts.bonus.weights(bonus, cover.count, cover.capacity))

    def roll_in(self, key: PRNGKeyArray, cover: Cover) -> RollIn:
        """Draws how each group of environments begins its trajectory (Algorithm 4)."""
        rule = self.parts.roll_in
        groups = self.parts.num_envs // rule.group
        policy_key, share_key, length_key, coin_key = jax.random.split(key, 4)
        happens = jax.random.bernoulli(share_key, rule.share, (groups,))
        # At least two steps of every trajectory are the current policy's.
        longest = max(self.parts.trajectory - 2, 0)
        if rule.length == "uniform":
            length = jax.random.randint(length_key, (groups,), 0, longest + 1)
        else:
            # Geometric with 1 - gamma, conditioned on leaving those two steps.
            gamma = self.parts.ppo.gamma
            u = jax.random.uniform(length_key, (groups,))
            below = jnp.log1p(-u * (1 - gamma ** (longest + 1))) / jnp.log(gamma)
            length = jnp.clip(jnp.floor(below).astype(jnp.int32), 0, longest)
        return RollIn(
            policies=cover.take(cover.sample(policy_key, (groups,))),
            length=jnp.where(happens, length, 0),
            happens=happens,
            coin=jax.random.bernoulli(coin_key, rule.epsilon, (groups,)),
            epsilon=jnp.asarray(rule.epsilon),
        )

    def rows(self, seen: Trajectory) -> Rows:
        """What PPO learns from in a rollout, times and environments in one axis."""
        ppo = self.parts.ppo
        advantage, returns = jax.vmap(
            lambda one: advantages(one, ppo.gamma, ppo.gae_lambda), in_axes=1, out_axes=1
        )(seen)
        target = returns if ppo.value_target == "return" else advantage + seen.value
        columns = (seen.observation, seen.action, seen.log_prob, advantage, target)
        return Rows(*map(flat, columns))


def run_if(
    active: Bool[Array, ""], step: Callable[[T], tuple[T, Metrics]], state: T
) -> tuple[T, Metrics]:
    """`step(state)` if `active`, else `state` as it is and zeros for its metrics."""
    # jit, so that it is traced once: for its shapes and for its place in the program.
    step = jax.jit(step)

    def stay(state: T) -> tuple[T, Metrics]:
        metrics = jax.eval_shape(step, state)[1]
        return state, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), metrics)

    return jax.lax.cond(active, step, stay, state)


def flat(x: Array) -> Array:
    """Times and environments in one axis."""
    return x.reshape((-1, *x.shape[2:]))


def own_first(own: Bool[Array, " rows"]) -> tuple[Int[Array, " rows"], Int[Array, ""]]:
    """An order of the rows in which those that are `own` come first, and their number."""
    num = jnp.sum(own)
    place = jnp.where(own, jnp.cumsum(own) - 1, num + jnp.cumsum(~own) - 1)
    order = (
        jnp.zeros(own.shape, jnp.int32)
        .at[place]
        .set(jnp.arange(own.shape[0], dtype=jnp.int32), unique_indices=True)
    )
    return order, num
