"""Algorithm 1 with networks: the learner of ENIAC, PC-PG, ZERO, PPO-RND and PPO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from eniac.actors import Actor, put, take
from eniac.algorithm1 import Metrics
from eniac.bonuses.counts import has_floats
from eniac.buffer import Buffer, Pairs, buffer_capacity
from eniac.cover import Cover
from eniac.draws import integers
from eniac.incumbent import Acting, Contest, Incumbent, Record
from eniac.policies import ActorCritic, actor_critic
from eniac.rewards import RewardScale
from eniac.sampling.base import (
    Evaluation,
    RollIn,
    Sampler,
    Trajectory,
    first_nonfinite,
    flat,
    on_policy_first,
    summary,
)
from eniac.spaces import to_json
from eniac.visits import first_visits

if TYPE_CHECKING:
    from eniac.algorithms.deep import DeepConfig


class State(NamedTuple):
    """All that a run is at the end of an epoch.

    `actors` and `envs` have a leading axis for the policies that are improved: the exploring and
    the exploiting one, or a single one. An algorithm without a cover has neither `cover` nor
    `buffer` nor `queries`.
    """

    key: PRNGKeyArray
    epoch: Int[Array, ""]
    steps: Int[Array, ""]
    """environment steps taken in this epoch that no round has reported yet"""
    nonfinite: Int[Array, ""]
    """what `sampling.base.nonfinite` found first, if anything"""
    actors: Actor
    envs: Any
    cover: Cover | None
    buffer: Buffer | None
    queries: Pairs | None
    """Z_Q^n: pairs where the exploring policy came from the cover in its last rollout"""
    bonus: Any
    incumbent: Incumbent | None


class DeepLearner:
    """Algorithm 1 with networks. An epoch adds one policy to the cover.

    The exploring policy learns from max(r, b) or r + b. The exploiting policy learns from r alone
    and starts in the states that the cover reaches. Without a cover there is one policy, which
    learns from both. The incumbent is judged, the best of them all so far; without one the
    exploiting policy is.
    """

    def __init__(self, sampler: Sampler, config: DeepConfig, evaluation: Evaluation):
        self.sampler, self.config, self.evaluation = sampler, config, evaluation
        self.roles = ("policy",) if config.cover is None else ("explore", "exploit")
        self.num_queries = 0
        if config.cover is not None:
            # Pictures take more memory than there is use for: as many pairs as fit.
            self.num_queries = buffer_capacity(sampler.spaces, config.bonus.query_size)
        # Of floats every one is new.
        self.first_visits = config.first_visits and not has_floats(sampler.spaces.observation)
        self.contest = Contest(
            sampler, config.incumbent, evaluation, self.roles, config.update.init
        )

    @property
    def compiled(self) -> bool:
        return self.sampler.compiled

    @property
    def rounds(self) -> int:
        return self.config.rounds + self.config.extra_rounds

    def init(self, seed: Any) -> State:
        return self.sampler.pure(self._init)(jnp.asarray(seed, jnp.uint32))

    def shapes(self) -> State:
        return jax.eval_shape(self._init, jnp.zeros((), jnp.uint32))

    def _init(self, seed: Array) -> State:
        config, spaces = self.config, self.sampler.spaces
        keys = jax.random.split(jax.random.key(seed), 5)
        key, bonus_key, cover_key, env_key, actor_key = keys
        actors = jax.lax.map(self.new_actor, jax.random.split(actor_key, len(self.roles)))
        envs = ()
        if self.compiled:
            # Environments on the host are no arrays: they begin with the first rollout.
            begin = jax.vmap(lambda key: self.sampler.begin(key, config.num_envs))
            envs = begin(jax.random.split(env_key, len(self.roles)))
        cover = buffer = queries = None
        if config.cover is not None:
            memory = config.cover.init(cover_key, spaces, config.capacity)
            cover = Cover.empty(take(actors, 0).policy, config.capacity, memory)
            buffer = empty_buffer(config, spaces)
            queries = Buffer.empty(spaces, self.num_queries).pairs
        return State(
            key=key,
            epoch=jnp.zeros((), jnp.int32),
            steps=jnp.zeros((), jnp.int32),
            nonfinite=jnp.zeros((), jnp.int32),
            actors=actors,
            envs=envs,
            cover=cover,
            buffer=buffer,
            queries=queries,
            bonus=config.bonus.init(bonus_key, spaces, config.hidden),
            incumbent=self.contest.begin(take(actors, 0).policy),
        )

    def new_actor(self, key: PRNGKeyArray) -> Actor:
        config = self.config
        policy = actor_critic(
            key, *self.sampler.spaces, config.hidden, config.normalise_observations
        )
        return Actor(policy, config.update.init(policy), RewardScale.start())

    def policy(self, state: State) -> ActorCritic:
        """The incumbent; without one the exploiting policy, or the only one."""
        if state.incumbent is not None:
            return state.incumbent.acting.policy
        return take(state.actors, -1).policy

    def policies(self, state: State) -> dict[str, Acting]:
        """The incumbent, if there is one, those that are improved, and those of the cover."""
        sampled = jnp.asarray(False)
        found = {} if state.incumbent is None else {"incumbent": state.incumbent.acting}
        found["exploiting"] = Acting(take(state.actors, -1).policy, sampled)
        if state.cover is not None:
            found["exploring"] = Acting(take(state.actors, 0).policy, sampled)
            # On the host: JAX would compile a program for each place and shape.
            held = jax.device_get(state.cover.policies)
            for place in range(int(state.cover.count)):
                one = jax.tree.map(lambda x, i=place: np.asarray(x[i]), held)
                found[f"cover:{place + 1}"] = Acting(one, sampled)
        return found

    def warnings(self) -> list[str]:
        config, limit = self.config, self.evaluation.horizon
        steps = config.updates_per_round * config.rollout_length
        told = self.sampler.warnings()
        if not self.compiled and config.episodes == "continuing" and (limit or 0) > steps:
            told.append(
                f"environments begin afresh after {steps} steps (updates_per_round x "
                f"rollout_length), and episodes may take {limit}: what comes later in them is "
                "reached by roll-ins only, if at all. More updates_per_round mend that."
            )
        return told

    def events(self) -> list[str]:
        return self.sampler.events()

    def close(self) -> None:
        self.sampler.close()

    def bonus(self, state: State) -> Any:
        return state.bonus if self.config.bonus.coefficient else None

    def record(self, state: State) -> None:
        """No theorem speaks of networks trained by PPO."""
        del state

    def policy_format(self) -> dict[str, Any]:
        observation, action = self.sampler.spaces
        return {
            "kind": "actor-critic",
            "observation": to_json(observation),
            "action": to_json(action),
            "hidden": list(self.config.hidden),
            "normalise_observations": self.config.normalise_observations,
        }

    def visit(self, state: State) -> tuple[State, Trajectory | None]:
        """Line 6: the exploring policy, each visit from a start state. Nothing without a cover."""
        config = self.config
        if state.cover is None:
            return state, None
        key, begin_key, rollout_key = jax.random.split(state.key, 3)
        envs = self.sampler.begin(begin_key, config.visit_envs)
        num_steps = config.visit_rows // envs.size
        policy = take(state.actors, 0).policy
        _, seen = self.sampler.rollout(rollout_key, policy, envs, num_steps)
        state = state._replace(
            key=key,
            steps=state.steps + seen.num_steps,
            nonfinite=self.sampler.pure(first_nonfinite)(state.nonfinite, seen),
        )
        return state, seen

    def merge(self, state: State, samples: Trajectory | None) -> State:
        """Line 7: Z^n, and the first query pairs, which no exploring policy has found yet. A fit
        that waits finds some of its own."""
        return state if samples is None else self.sampler.pure(self._merge)(state, samples)

    def _merge(self, state: State, samples: Trajectory) -> State:
        assert state.buffer is not None
        assert state.cover is not None
        key, add_key, query_key = jax.random.split(state.key, 3)
        pairs, num = pairs_of(samples)
        queries = state.queries
        if not self.config.fit_after:
            queries = jax.tree.map(
                lambda first, later: jnp.where(state.epoch == 0, first.astype(later.dtype), later),
                self.draw_queries(query_key, pairs, num),
                queries,
            )
        buffer = state.buffer.add(add_key, pairs, num, state.cover.count)
        return state._replace(key=key, buffer=buffer, queries=queries)

    def extend(self, state: State, samples: Trajectory | None) -> State:
        """Line 8."""
        return state if samples is None else self.sampler.pure(self._extend)(state, samples)

    def _extend(self, state: State, samples: Trajectory) -> State:
        assert state.cover is not None
        assert self.config.cover is not None
        key, weigh_key = jax.random.split(state.key)
        cover = state.cover.add(take(state.actors, 0).policy)
        pairs, num = pairs_of(samples)
        cover = cover.weighed_by(self.config.cover, weigh_key, pairs, num)
        return state._replace(key=key, cover=cover)

    def fit_bonus(self, state: State) -> State:
        """Line 9.

        The paper's program gathers its query pairs while the exploring policy already learns on
        the bonus of before. With `fit_after` the fit waits for so many updates of line 10.
        """
        if state.cover is None or self.config.fit_after:
            return state
        return self.sampler.pure(self._fit_bonus)(state)

    def _fit_bonus(self, state: State) -> State:
        key, fit_key = jax.random.split(state.key)
        critic = take(state.actors, 0).policy
        bonus = self.fitted(fit_key, state, critic, state.bonus, state.queries)
        return state._replace(key=key, bonus=bonus)

    def fitted(
        self,
        key: PRNGKeyArray,
        state: State,
        critic: ActorCritic,
        bonus: Any,
        queries: Pairs | None,
    ) -> Any:
        """b^n of the buffer in `state`."""
        assert state.buffer is not None
        assert queries is not None
        rule = self.config.bonus
        return rule.fit(key, rule.with_critic(bonus, critic), state.buffer, queries)

    def improve(self, state: State, until: Any) -> tuple[State, Metrics]:
        """Line 10: rounds in which each policy is improved, and the judged one evaluated; then
        those of the exploiting policy alone, once there is a reward to exploit."""
        last = self.config.rounds - 1

        def one_round(carry: tuple[Any, Any], number: Array):
            changing, active = carry
            ran = jnp.any(active)
            changing, metrics = self.sampler.when(
                ran, lambda changing: self.round(state, changing, number, active), changing
            )
            solved = metrics.get("return_mean", 0.0) > until
            goes_on = metrics.pop("goes_on", jnp.zeros_like(active))
            active = jnp.where(number < last, active, active & goes_on) & ~solved
            return (changing, active), metrics | {"ran": ran}

        shared = (state.bonus, state.queries, state.nonfinite)
        changing = (state.key, state.steps, state.actors, state.envs, state.incumbent, shared)
        (changing, _), metrics = self.sampler.repeat(
            one_round, (changing, jnp.ones(len(self.roles), bool)), jnp.arange(self.rounds)
        )
        key, steps, actors, envs, incumbent, (bonus, queries, bad) = changing
        state = state._replace(
            key=key,
            epoch=state.epoch + 1,
            steps=steps,
            nonfinite=bad,
            actors=actors,
            envs=envs,
            bonus=bonus,
            queries=queries,
            incumbent=incumbent,
        )
        return state, metrics

    def round(
        self,
        state: State,
        changing: tuple[Any, ...],
        number: Int[Array, ""],
        active: Bool[Array, " roles"],
    ) -> tuple[tuple[Any, ...], Metrics]:
        """Each of the `active` policies improved by `updates_per_round` updates, and the judged one
        evaluated. Beside the metrics, `goes_on` says which of them learn in extra rounds.

        `changing` is what a round changes of `state`: the rest is not carried through the loop.
        """
        config, sampler = self.config, self.sampler
        key, steps, actors, envs, incumbent, shared = changing
        # What the incumbent takes comes last: without one, all else is drawn as if it were not.
        keys = jax.random.split(key, 4 + 2 * len(self.roles))
        key, restart_key, judge_key, *role_keys, duel_key = keys
        now = state.epoch * config.rounds + number
        if state.cover is not None:
            exploits = now >= config.exploit_from
            if incumbent is not None:
                exploits = exploits | incumbent.found
            if config.restart:
                due = (now - config.exploit_from) % config.restart == 0
                again = exploits & due & (number < config.rounds)
                fresh = sampler.pure(self.new_actor)
                exploiting, _ = sampler.when(
                    again, lambda _: (fresh(restart_key), {}), take(actors, 1)
                )
                actors = put(actors, 1, exploiting)
            active = active & jnp.stack([jnp.asarray(True), exploits])

        # All policies go through one loop, so that their update is compiled once.
        def one_role(shared: Any, role: tuple[Any, ...]):
            actor, envs, active, look_key, *how = role

            def improved(carry: Any):
                actor, envs, shared = carry
                role = (actor, envs, *how)
                actor, envs, shared, metrics, rollouts = self.improve_policy(state, role, shared)
                if incumbent is not None:
                    looks, steps = self.contest.look(look_key, actor.policy)
                    metrics |= {"steps": metrics["steps"] + steps}
                    metrics |= {"looks": looks, "rollouts": rollouts}
                return (actor, envs, shared), metrics

            (actor, envs, shared), metrics = sampler.when(active, improved, (actor, envs, shared))
            return shared, (actor, envs, metrics)

        explores = jnp.asarray([True, False][: len(self.roles)])
        fits = (number == 0) & explores
        improve_keys = jnp.stack(role_keys[: len(self.roles)])
        look_keys = jnp.stack(role_keys[len(self.roles) :])
        shared, (actors, envs, metrics) = sampler.repeat(
            one_role,
            shared,
            (actors, envs, active, look_keys, explores, fits, improve_keys),
        )
        bonus, _, bad = shared
        report: Metrics = {"steps": steps + jnp.sum(metrics.pop("steps"))}
        best: Any = take(actors, -1).policy
        goes_on = jnp.zeros_like(active)
        if incumbent is not None:
            looks, rollouts = metrics.pop("looks"), metrics.pop("rollouts")
            actors, incumbent, told, taken = self.contest.hold(
                duel_key, incumbent, actors, looks, rollouts, active
            )
            report["steps"] += taken
            # Extra rounds are taken all or none: in the second one nobody explores.
            again = incumbent.found | told.get("explore/ahead", False) | ~active[0]
            goes_on = ~explores & again
            report |= told
            best = incumbent.acting
        judged = sampler.evaluate(judge_key, best, self.evaluation)
        report |= {
            "nonfinite": bad,
            "goes_on": goes_on,
            **sampler.counts(),
            **summary(judged, self.evaluation.first),
            **self.named(metrics),
            **config.bonus.metrics(bonus),
        }
        if state.cover is not None:
            report["cover/count"] = state.cover.count
        return (key, jnp.zeros_like(steps), actors, envs, incumbent, shared), report

    def named(self, metrics: Metrics) -> Metrics:
        """The metrics of all roles, each under the name of its role."""
        if len(self.roles) == 1:
            return {name: x[0] for name, x in metrics.items()}
        return {
            f"{role}/{name}": x[i]
            for i, role in enumerate(self.roles)
            for name, x in metrics.items()
            if i == 0 or "bonus" not in name
        }

    def improve_policy(
        self, state: State, role: tuple[Any, ...], shared: tuple[Any, ...]
    ) -> tuple[Actor, Any, tuple[Any, ...], Metrics, Record]:
        """Algorithm 2 for one policy: `updates_per_round` times, gather a rollout and learn from
        it. If it `fits`, the bonus is fitted after `fit_after` of them. The record is of the
        best trajectory of each rollout.

        `shared` are the bonus, which may change as the exploring policy goes, the query pairs,
        which are of its last rollout, and what was not finite, if anything.
        """
        actor, parked, explores, fits, key = role
        config, sampler = self.config, self.sampler
        num_updates = config.updates_per_round
        keys = jax.random.split(key, 2 + num_updates)
        begin_key, fit_key, keys = keys[0], keys[1], keys[2:]
        envs = sampler.begin(begin_key, config.num_envs, parked)
        fitted = sampler.pure(self.fitted)

        def one_update(carry: tuple[Any, ...], draw: tuple[Array, PRNGKeyArray]):
            actor, envs, (bonus, queries, *known) = carry
            number, key = draw
            if config.fit_after:
                bonus, _ = sampler.when(
                    fits & (number == config.fit_after),
                    lambda bonus: (fitted(fit_key, state, actor.policy, bonus, queries), {}),
                    bonus,
                )
            reset_key, roll_key, rollout_key, *learn_keys = jax.random.split(key, 6)
            if config.episodes == "episodic":
                envs = sampler.reset(reset_key, envs)
            roll_in = None
            if state.cover is not None:
                roll_in = sampler.pure(self.draw_roll_in)(roll_key, state.cover, explores)
            envs, seen = sampler.rollout(
                rollout_key, actor.policy, envs, config.rollout_length, roll_in
            )
            actor, shared, metrics = sampler.pure(self.learn)(
                learn_keys, actor, (bonus, queries, *known), seen, explores
            )
            return (actor, envs, shared), metrics

        (actor, envs, shared), metrics = sampler.repeat(
            one_update,
            (actor, envs, shared),
            (jnp.arange(num_updates), keys),
        )
        steps = {"steps": jnp.sum(metrics.pop("steps"))}
        rollouts = Record.of(metrics.get("best_return", metrics["reward"]))
        mean = {name: jnp.mean(x) for name, x in metrics.items()}
        return actor, sampler.park(envs), shared, mean | steps, rollouts

    def learn(
        self,
        keys: Sequence[PRNGKeyArray],
        actor: Actor,
        shared: tuple[Any, ...],
        seen: Trajectory,
        explores: Bool[Array, ""],
    ) -> tuple[Actor, tuple[Any, ...], Metrics]:
        """What a policy makes of a rollout; the bonus counts where it `explores`."""
        config = self.config
        bonus, queries, bad = shared
        bad = first_nonfinite(bad, seen)
        online_key, query_key, update_key = keys
        pairs, num = pairs_of(seen)
        metrics = {
            "steps": seen.num_steps,
            "reward": jnp.sum(seen.reward * seen.on_policy) / jnp.maximum(num, 1),
        }
        if config.cover is not None:
            metrics["best_return"] = self.best_return(seen)
        scale = actor.scale
        if config.normalise_rewards:
            assert config.update.gamma is not None
            scale = scale.update(seen, config.update.gamma)
            seen = seen._replace(reward=scale(seen.reward))
        if config.bonus.coefficient:
            earned = jax.lax.cond(
                explores,
                lambda: bonus.along(seen),
                lambda: jnp.zeros_like(seen.reward),
            )
            if self.first_visits:
                earned = jnp.where(first_visits(seen), earned, 0.0)
            metrics["bonus"] = jnp.sum(earned * seen.on_policy) / num
            if config.combine == "max":
                decides = (earned > seen.reward) & seen.on_policy
                metrics["bonus_decides"] = jnp.sum(decides) / num
        else:
            earned = jnp.zeros_like(seen.reward)
        if config.explores:
            combined = {
                "max": jnp.maximum(seen.reward, earned),
                "add": seen.reward + earned,
                "bonus": earned,
            }[config.combine]
            seen = seen._replace(reward=jnp.where(explores, combined, seen.reward))
        if config.bonus.learns_online:
            online = config.bonus.update_online
            bonus = jax.lax.cond(
                explores, lambda b: online(online_key, b, pairs, num), lambda b: b, bonus
            )
        if queries is not None:
            queries = jax.lax.cond(
                explores,
                lambda before: as_stored(self.draw_queries(query_key, pairs, num), before),
                lambda before: before,
                queries,
            )
        policy, memory, update_metrics = config.update.learn(
            update_key, actor.policy, actor.memory, seen, explores
        )
        if policy.normaliser is not None:
            # After the update, whose probability ratios are of the policy as it acted.
            order, _ = on_policy_first(flat(seen.on_policy))
            encoded = jax.vmap(policy.encoder)(
                jax.tree.map(lambda x: x[order], flat(seen.observation))
            )
            known = policy.normaliser.update(encoded, jnp.arange(len(order)) < num)
            policy = eqx.tree_at(lambda p: p.normaliser, policy, known)
        return Actor(policy, memory, scale), (bonus, queries, bad), metrics | update_metrics

    def best_return(self, seen: Trajectory) -> Float[Array, ""]:
        """The most that the policy has earned in a trajectory, of those in which an exploring and
        an exploiting policy begin alike, where the cover gets to."""
        rule, earned = self.config.roll_in, jnp.sum(seen.reward * seen.on_policy, axis=0)
        alone = round(rule.alone * (len(earned) // rule.group)) * rule.group
        return jnp.max(earned[alone % len(earned) :])

    def draw_queries(self, key: PRNGKeyArray, pairs: Pairs, num: Int[Array, ""]) -> Pairs:
        """As many of the first `num` pairs as a fit asks for."""
        rows = integers(key, (self.num_queries,), num)
        return jax.tree.map(lambda x: x[rows], pairs)

    def draw_roll_in(self, key: PRNGKeyArray, cover: Cover, explores: Bool[Array, ""]) -> RollIn:
        """How each group of environments begins its trajectory (Algorithm 4)."""
        rule = self.config.roll_in
        groups = self.config.num_envs // rule.group
        share, place, part, coin = jax.random.uniform(key, (4, groups))
        happens = share < rule.share
        if rule.alone:
            happens = happens & (explores | (jnp.arange(groups) >= round(rule.alone * groups)))
        longest = self.config.rollout_length
        if not self.config.update.imitate:
            # At least two steps of every trajectory are the current policy's.
            longest = max(longest - 2, 0)
        length = part * (longest + 1)
        if rule.length == "geometric":
            # With 1 - gamma, conditioned on leaving those two steps.
            gamma = self.config.update.gamma
            assert gamma is not None
            length = jnp.log1p(-part * (1 - gamma ** (longest + 1))) / jnp.log(gamma)
        length = jnp.clip(jnp.floor(length).astype(jnp.int32), 0, longest)
        # Somebody has to act by the current policy.
        own = max(self.config.rollout_length - 2, 0)
        length = length.at[0].set(jnp.where(jnp.all(length > own), own, length[0]))
        return RollIn(
            policies=cover.take(cover.places(place)),
            length=jnp.where(happens, length, 0),
            happens=happens,
            coin=coin < rule.epsilon,
            epsilon=jnp.asarray(rule.epsilon),
        )


def pairs_of(seen: Trajectory) -> tuple[Pairs, Int[Array, ""]]:
    """The pairs of a rollout, on-policy ones first, and how many these are."""
    order, num = on_policy_first(flat(seen.on_policy))
    pairs = Pairs(flat(seen.observation), flat(seen.action))
    return jax.tree.map(lambda x: x[order], pairs), num


def as_stored(pairs: Pairs, like: Pairs) -> Pairs:
    return jax.tree.map(lambda x, y: x.astype(y.dtype), pairs, like)


def empty_buffer(config: DeepConfig, spaces: Any) -> Buffer:
    """A buffer for all that the policies of a full cover visit, or what there is memory for."""
    wanted = config.capacity * config.visit_rows
    allowed = config.buffer_rows or buffer_capacity(spaces, wanted)
    return Buffer.empty(spaces, min(wanted, allowed), bounded=allowed < wanted)
