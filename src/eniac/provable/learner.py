"""Algorithm 1 on a tabular MDP, with exact widths: the five lines of all provable algorithms.

Everything runs on the host in NumPy: samples are tables of pairs, fits are small, and known sets
are decided in float64 (see `widths.exact`). Nothing but the metrics looks at the MDP's transition
probabilities: the learner sees samples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from eniac.envs.mdp import TabularMDP
from eniac.errors import ConfigError
from eniac.functions.base import FunctionClass
from eniac.incumbent import Acting
from eniac.provable.exploration import (
    Exploration,
    find_unknown,
    log_det_weights,
    rescale_rewards,
)
from eniac.provable.policies import TableBonus, TablePolicy, known_set_policy, mixed_policy, softmax
from eniac.provable.resolved import ResolvedProvable
from eniac.sampling.base import Evaluation, summary
from eniac.sampling.tables import Alias, TableSampler, VisitedPairs, policy_tables
from eniac.theory.planning import Model, optimal, value
from eniac.theory.record import RunRecord
from eniac.updates.npg import NPG
from eniac.updates.spi import SPI, pair_means
from eniac.widths.exact import bonus_from_unknown
from eniac.widths.sensitivity import subsample

Table = Float[np.ndarray, "states actions"]

_EVALUATION = 0x6576616C  # sets the evaluation's stream of random numbers apart


class ProvableState(NamedTuple):
    """All that a run is, and all that a certificate reads.

    Places of epochs still to come are zero. Policies and critics are float32, and what is executed
    is these tables themselves.
    """

    seed: Int[np.ndarray, ""]
    rng: UInt[np.ndarray, "6"]
    """of all that is learned from; evaluations have streams of their own, by seed and epoch"""
    epoch: Int[np.ndarray, ""]
    """epochs that are finished"""
    visits: Int[np.ndarray, "N states actions"]
    """the K samples of each epoch, counted pair by pair; their sum is Z^n"""
    visit_steps: Int[np.ndarray, ""]
    """environment steps that the newest of them took"""
    weights: Float[np.ndarray, " N"]
    """of the cover in the newest epoch"""
    unknown: Bool[np.ndarray, "N states actions"]
    """the complement of K^n; the bonus is one number there and zero elsewhere"""
    kept: Int[np.ndarray, ""]
    """data of Z^n that the newest widths looked at: all, unless they are subsampled"""
    policies: Float[np.ndarray, "N T states actions"]
    """pi_0 .. pi_{T-1} as executed, whose mixture is pi^{n+1}; pi^1 is uniform"""
    critics: Float[np.ndarray, "N T states actions"]
    """f_0 .. f_{T-1} of each epoch (NPG: u_t . g_t), bonus taken off"""
    last: Float[np.ndarray, "states actions"]
    """pi_T of the last epoch, without the mixing of COMPUTE: the policy that is played"""
    values: Float[np.ndarray, "N 3"]
    """exact values in the environment's units: pi_T unmixed, pi_T executed, the inner mixture"""


class Improved(NamedTuple):
    """What Algorithm 2 returns: its policies, and the critics between them."""

    policies: Float[np.ndarray, "T states actions"]
    critics: Float[np.ndarray, "T states actions"]
    last: Table
    executed: Table
    steps: int


class ProvableLearner:
    """The lines of `algorithm1.Learner`: visit, merge, extend, fit the bonus, improve."""

    compiled = False
    rounds = 1

    def __init__(
        self,
        mdp: TabularMDP,
        functions: FunctionClass,
        config: ResolvedProvable,
        evaluation: Evaluation,
    ):
        self.config, self.functions, self.evaluation = config, functions, evaluation
        self.reward = rescale_rewards(mdp.reward, config.rewards)
        self.model = Model.of(mdp, config.gamma)
        best = optimal(self.model)
        self.optimum = float(self.model.start @ best.values)
        if config.alpha is not None:
            # What alpha costs the optimal policy: executed ones are to be held against this.
            mixed = (1 - config.alpha) * best.policy + config.alpha / mdp.num_actions
            self.ceiling = value(self.model, mixed)
        self.sampler = TableSampler(self.model.transition, self.model.start, config.gamma)
        self.shape = self.reward.shape
        self.exploration = Exploration.of(config, functions)
        if config.update == "spi":
            self.update = SPI(functions, config.eta)
        else:
            self.update = NPG(functions, config.eta, self.exploration.norm_bound, config.ridge)

    def init(self, seed: int) -> ProvableState:
        config, shape = self.config, self.shape
        return ProvableState(
            seed=np.asarray(seed, np.int64),
            rng=pack(np.random.Generator(np.random.SFC64(seed))),
            epoch=np.zeros((), np.int64),
            visits=np.zeros((config.N, *shape), np.int32),
            visit_steps=np.zeros((), np.int64),
            weights=np.zeros(config.N),
            unknown=np.zeros((config.N, *shape), bool),
            kept=np.zeros((), np.int64),
            policies=np.zeros((config.N, config.T, *shape), np.float32),
            critics=np.zeros((config.N, config.T, *shape), np.float32),
            last=np.full(shape, 1 / shape[1], np.float32),
            values=np.zeros((config.N, 3)),
        )

    def shapes(self) -> ProvableState:
        """A state, for the shapes of its arrays."""
        return self.init(0)

    def visit(self, state: ProvableState) -> tuple[ProvableState, VisitedPairs]:
        """Line 6: K samples of d^{pi^n}, the policy's own mixture drawn for each."""
        rng, n = unpack(state.rng), int(state.epoch)
        if n >= self.config.N:
            raise ConfigError(f"the cover is full after N = {self.config.N} epochs.")
        newest = state.policies[n - 1] if n else np.full(self.shape, 1 / self.shape[1])
        samples = self.sampler.visit(rng, policy_tables(newest), self.config.K)
        return state._replace(rng=pack(rng)), samples

    def merge(self, state: ProvableState, samples: VisitedPairs) -> ProvableState:
        """Line 7: Z^n, as counts of pairs."""
        counts = np.bincount(samples.pairs, minlength=self.reward.size).reshape(self.shape)
        visits = _put(state.visits, int(state.epoch), counts)
        return state._replace(visits=visits, visit_steps=np.asarray(samples.steps, np.int64))

    def extend(self, state: ProvableState, samples: VisitedPairs) -> ProvableState:
        """Line 8: the weights of pi^1, ..., pi^n, the last of which is now in the cover."""
        del samples
        n = int(state.epoch)
        weights = np.zeros(self.config.N)
        weights[: n + 1] = self.cover_weights(state.visits[: n + 1])
        return state._replace(weights=weights)

    def cover_weights(self, visits: Int[np.ndarray, "n states actions"]) -> Float[np.ndarray, " n"]:
        """Unif(1, ..., n), the paper's; or PC-PG's weights of largest log-determinant."""
        n = len(visits)
        if self.config.cover == "uniform":
            return np.full(n, 1 / n)
        return log_det_weights(visits, self.exploration.features)

    def fit_bonus(self, state: ProvableState) -> ProvableState:
        """Line 9: the pairs that get the bonus, those whose width is beta or more (Equations 15 to
        18), or whose ellipsoid norm is large (PC-PG)."""
        n, rng = int(state.epoch), unpack(state.rng)
        visits, weights = state.visits[: n + 1], state.weights[: n + 1]
        # The cover's samples: Z^n itself under uniform weights.
        uniform = self.config.cover == "uniform"
        counts = visits.sum(axis=0) if uniform else (n + 1) * np.tensordot(weights, visits, axes=1)
        kept = int(visits.sum())
        if self.config.subsample:
            few = subsample(self.functions, counts, self.config.epsilon**2, rng)
            counts, kept = few.counts, few.num_kept
        unknown = _put(state.unknown, n, find_unknown(self.exploration, counts))
        return state._replace(rng=pack(rng), unknown=unknown, kept=np.asarray(kept, np.int64))

    def improve(self, state: ProvableState, until: Any) -> tuple[ProvableState, dict[str, Any]]:
        """Line 10: pi^{n+1} by Algorithm 2, and its evaluation. There is one round, so that none is
        left out by `until`."""
        del until
        rng, n = unpack(state.rng), int(state.epoch)
        improved = self.update_policy(rng, state)
        state = state._replace(
            rng=pack(rng),
            epoch=np.asarray(n + 1, np.int64),
            policies=_put(state.policies, n, improved.policies),
            critics=_put(state.critics, n, improved.critics),
            last=improved.last.astype(np.float32),
            values=_put(state.values, n, self.exact_values(improved)),
        )
        metrics = self.evaluate(state) | self.metrics(state, improved.steps)
        return state, {name: np.asarray(number)[None] for name, number in metrics.items()}

    def policy(self, state: ProvableState) -> TablePolicy:
        """pi_T of the last epoch, unmixed: what is evaluated, exported and played."""
        return TablePolicy(jnp.asarray(state.last))

    def policies(self, state: ProvableState) -> dict[str, Acting]:
        """`last`, as in the metrics: the theorems speak of it, whether or not an earlier one did
        better. The policies of the cover are mixtures, and no tables."""
        return {"last": Acting(self.policy(state), jnp.asarray(False))}

    def warnings(self) -> list[str]:
        return []

    def events(self) -> list[str]:
        return []

    def close(self) -> None:
        pass

    def bonus(self, state: ProvableState) -> TableBonus | None:
        """The bonus of the newest known set; before there is one, nothing is known. None for the
        algorithms without."""
        if self.config.bonus == "none":
            return None
        n = int(state.epoch)
        unknown = state.unknown[n - 1] if n else np.ones(self.shape, bool)
        worth = bonus_from_unknown(unknown, self.config.gamma, self.config.alpha)
        return TableBonus(jnp.asarray(worth, jnp.float32))

    def policy_format(self) -> dict[str, Any]:
        """The shape of the table, which is all there is to know."""
        return {"kind": "table", "num_states": self.shape[0], "num_actions": self.shape[1]}

    def cover(self, state: ProvableState) -> Alias:
        """pi^1, ..., pi^n as one table of all their inner policies.

        pi^1 is there T times, so that choosing an epoch by its weight and one of its T policies is
        one choice.
        """
        n, num = int(state.epoch), self.config.T
        first = np.full((num, *self.shape), 1 / self.shape[1], np.float32)
        return policy_tables(np.concatenate([first, *state.policies[:n]]))

    def act(self, logits: Table, unknown: Bool[np.ndarray, "states actions"]) -> Table:
        """The policy that is executed: by the known set (SAMPLE), or mixed (COMPUTE)."""
        if self.config.alpha is not None:
            return mixed_policy(logits, self.config.alpha)
        return known_set_policy(logits, unknown)

    def update_policy(self, rng: np.random.Generator, state: ProvableState) -> Improved:
        """Algorithm 2: T times, M fresh samples from the cover, a critic, a step of the actor."""
        config, update, n = self.config, self.update, int(state.epoch)
        unknown, cover = state.unknown[n], self.cover(state)
        bonus = bonus_from_unknown(unknown, config.gamma, config.alpha)
        choice = None
        if config.cover != "uniform":
            choice = np.repeat(state.weights[: n + 1] / config.T, config.T)
        policies = np.zeros((config.T, *self.shape), np.float32)
        critics = np.zeros((config.T, *self.shape), np.float32)
        actor, steps = update.start(), 0
        for t in range(config.T):
            policies[t] = self.act(actor.logits, unknown)
            table = policy_tables(policies[t])
            pairs = self.sampler.visit(rng, cover, config.M, choice)
            # The roll-in's last action is the first step of the return, and is counted there.
            found = update.sample(rng, self.sampler, table, pairs.pairs, self.reward + bonus)
            steps += pairs.steps - config.M + found.steps
            gathered = pair_means(found.pairs, found.returns, self.shape)
            params, critic = update.fit(actor, policies[t].astype(np.float64), gathered, bonus)
            critics[t] = critic
            actor = update.advance(actor, params, critic)
        executed = self.act(actor.logits, unknown)
        last = executed if config.alpha is None else softmax(actor.logits)
        return Improved(policies, critics, last, executed, steps)

    def exact_values(self, improved: Improved) -> tuple[float, float, float]:
        """Discounted values: of pi_T, of pi_T as executed, and of the inner mixture."""
        mixture = np.mean([value(self.model, policy) for policy in improved.policies])
        last = value(self.model, improved.last)
        same = improved.executed is improved.last
        executed = last if same else value(self.model, improved.executed)
        return last, executed, float(mixture)

    def evaluate(self, state: ProvableState) -> dict[str, Any]:
        """Episodes of the policy, undiscounted and in the environment's units, as for every other
        algorithm. They have their own random numbers: how policies are judged changes no run."""
        asked = self.evaluation
        source = np.random.SeedSequence([_EVALUATION, int(state.seed), int(state.epoch)])
        found = self.sampler.evaluate(
            np.random.Generator(np.random.SFC64(source)),
            state.last,
            self.model.reward,
            asked.episodes,
            asked.horizon,
            asked.deterministic,
            asked.first,
        )
        return summary(found, asked.first)

    def metrics(self, state: ProvableState, steps: int) -> dict[str, Any]:
        n = int(state.epoch)
        last, executed, inner = state.values[n - 1]
        outer = state.values[:n, 2].mean()
        known = ~state.unknown[n - 1]
        found = {
            "ran": True,
            "steps": int(state.visit_steps) + steps,
            "value/optimum": self.optimum,
            "value/last": last,
            "value/executed": executed,
            "value/inner_mixture": inner,
            "value/outer_mixture": outer,
            "known/pairs": int(known.sum()),
            "known/states": int(known.all(axis=1).sum()),
            "visited/pairs": int((state.visits.sum(0) > 0).sum()),
            "critic/largest": float(np.abs(state.critics[n - 1]).max()),
            "critic/bound": self.functions.bound,
        }
        if self.config.subsample:
            found["data/kept"] = int(state.kept)
        if self.config.alpha is not None:
            found["value/mixed_optimum"] = self.ceiling
        if self.optimum > 0:
            found |= {
                "share/last": last / self.optimum,
                "share/executed": executed / self.optimum,
                "share/inner_mixture": inner / self.optimum,
                "share/outer_mixture": outer / self.optimum,
            }
            if self.config.alpha is not None:
                found["share/mixed_optimum"] = self.ceiling / self.optimum
        return found

    def record(self, state: ProvableState) -> RunRecord:
        """What a certificate reads of the epochs that `state` has behind it."""
        n, config = int(state.epoch), self.config
        return RunRecord(
            update=config.update,
            bonus=config.bonus,
            gamma=config.gamma,
            K=config.K,
            T=config.T,
            M=config.M,
            eta=config.eta,
            beta=config.beta,
            epsilon=config.epsilon,
            alpha=config.alpha,
            model=self.model,
            reward=self.reward,
            functions=self.functions,
            features=self.exploration.features,
            norm_bound=self.exploration.norm_bound,
            visits=state.visits[:n],
            weights=[self.cover_weights(state.visits[: k + 1]) for k in range(n)],
            unknown=state.unknown[:n],
            policies=state.policies[:n],
            critics=state.critics[:n],
            last_values=state.values[:n, 0],
        )


def _put(array: np.ndarray, place: int, row: Any) -> np.ndarray:
    """A copy of `array` with another row: states are never changed in place."""
    array = array.copy()
    array[place] = row
    return array


def pack(rng: np.random.Generator) -> UInt[np.ndarray, "6"]:
    """The whole state of an SFC64 generator as an array."""
    state = rng.bit_generator.state
    extra = np.array([state["has_uint32"], state["uinteger"]], np.uint64)
    return np.concatenate([state["state"]["state"], extra])


def unpack(words: UInt[np.ndarray, "6"]) -> np.random.Generator:
    """The generator that `pack` was given."""
    words = np.asarray(words, np.uint64)
    generator = np.random.SFC64()
    generator.state = {
        "bit_generator": "SFC64",
        "state": {"state": words[:4].copy()},
        "has_uint32": int(words[4]),
        "uinteger": int(words[5]),
    }
    return np.random.Generator(generator)
