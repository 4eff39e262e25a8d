"""Algorithm 1 on a tabular MDP, with exact widths: the loop of all provable algorithms.

Everything runs on the host in NumPy: samples are tables of pairs, fits are small, and known sets
are decided in float64 (see `bonus.exact`). Nothing but the metrics looks at the MDP's transition
probabilities: the learner sees samples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt

from eniac.envs.mdp import TabularMDP
from eniac.functions.base import FunctionClass
from eniac.provable.exploration import (
    Chosen,
    Exploration,
    find_unknown,
    log_det_weights,
    rescale_rewards,
)
from eniac.provable.policies import TablePolicy, known_set_policy, mixed_policy, softmax
from eniac.sampling.tables import Alias, Draws, Sampler, policy_tables
from eniac.theory.planning import Model, optimal, value
from eniac.updates.npg import NPG
from eniac.updates.spi import SPI, means
from eniac.widths.exact import bonus_from_unknown

Table = Float[np.ndarray, "states actions"]


class State(NamedTuple):
    """All that a run is at the end of an epoch, and all that a certificate reads.

    Places of epochs still to come are zero. Policies and critics are float32, and what is executed
    is these tables themselves.
    """

    rng: UInt[np.ndarray, "6"]
    epoch: Int[np.ndarray, ""]
    visits: Int[np.ndarray, "N states actions"]
    """the K samples of each epoch, counted pair by pair; their sum is Z^n"""
    unknown: Bool[np.ndarray, "N states actions"]
    """the complement of K^n; the bonus is one number there and zero elsewhere"""
    policies: Float[np.ndarray, "N T states actions"]
    """pi_0 .. pi_{T-1} as executed, whose mixture is pi^{n+1}; pi^1 is uniform"""
    critics: Float[np.ndarray, "N T states actions"]
    """f_0 .. f_{T-1} of each epoch (NPG: u_t . g_t), bonus taken off"""
    weights: Float[np.ndarray, " N"]
    """of the cover in the last epoch"""
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
    """Algorithm 1: visit, merge, cover, bonus, improve."""

    compiled = False

    def __init__(self, mdp: TabularMDP, functions: FunctionClass, parts: Chosen):
        self.parts, self.functions = parts, functions
        self.reward = rescale_rewards(mdp.reward, parts.rewards)
        self.model = Model.of(mdp, parts.gamma)
        best = optimal(self.model)
        self.optimum = float(self.model.start @ best.values)
        if parts.alpha is not None:
            # What alpha costs the optimal policy: executed ones are to be held against this.
            mixed = (1 - parts.alpha) * best.policy + parts.alpha / mdp.num_actions
            self.ceiling = value(self.model, mixed)
        self.sampler = Sampler(self.model.transition, self.model.start, parts.gamma)
        self.shape = self.reward.shape
        self.exploration = Exploration.of(parts, functions)
        if parts.update == "spi":
            self.update = SPI(functions, parts.eta)
        else:
            self.update = NPG(functions, parts.eta, self.exploration.norm_bound, parts.ridge)

    def init(self, seed: int) -> State:
        parts, shape = self.parts, self.shape
        uniform = np.full(shape, 1 / shape[1], np.float32)
        return State(
            rng=pack(np.random.Generator(np.random.SFC64(seed))),
            epoch=np.zeros((), np.int64),
            visits=np.zeros((parts.N, *shape), np.int32),
            unknown=np.zeros((parts.N, *shape), bool),
            policies=np.zeros((parts.N, parts.T, *shape), np.float32),
            critics=np.zeros((parts.N, parts.T, *shape), np.float32),
            weights=np.zeros(parts.N),
            last=uniform,
            values=np.zeros((parts.N, 3)),
        )

    def policy(self, state: State) -> TablePolicy:
        """pi_T of the last epoch, unmixed: what is evaluated, exported and played."""
        return TablePolicy(jnp.asarray(state.last))

    def epoch(self, state: State) -> tuple[State, dict[str, Any]]:
        """One epoch n of Algorithm 1."""
        rng, n = unpack(state.rng), int(state.epoch)
        if n >= self.parts.N:
            raise ValueError(f"the cover is full after N = {self.parts.N} epochs.")
        visited = self.visit(rng, state)  # line 6
        visits, unknown = state.visits.copy(), state.unknown.copy()
        visits[n] = np.bincount(visited.pairs, minlength=self.reward.size).reshape(self.shape)
        weights = self.cover_weights(visits[: n + 1])  # lines 7 and 8
        unknown[n] = self.find_unknown(visits[: n + 1], weights)  # line 9
        bonus = bonus_from_unknown(unknown[n], self.parts.gamma, self.parts.alpha)
        improved = self.improve(rng, self.cover(state), weights, unknown[n], bonus)  # line 10
        policies, critics = state.policies.copy(), state.critics.copy()
        policies[n], critics[n] = improved.policies, improved.critics
        values = state.values.copy()
        values[n] = self.judge(improved)
        padded = np.zeros(self.parts.N)
        padded[: n + 1] = weights
        state = State(
            pack(rng),
            np.asarray(n + 1),
            visits,
            unknown,
            policies,
            critics,
            padded,
            improved.last.astype(np.float32),
            values,
        )
        return state, self.metrics(state, visited.steps + improved.steps)

    def visit(self, rng: np.random.Generator, state: State) -> Draws:
        """K samples of d^{pi^n}: the newest policy of the cover, its own mixture drawn for each."""
        n = int(state.epoch)
        newest = state.policies[n - 1] if n else np.full(self.shape, 1 / self.shape[1])
        return self.sampler.visit(rng, policy_tables(newest), self.parts.K)

    def cover(self, state: State) -> Alias:
        """pi^1, ..., pi^n as one table of all their inner policies.

        pi^1 is there T times, so that choosing an epoch by its weight and one of its T policies is
        one choice.
        """
        n, num = int(state.epoch), self.parts.T
        first = np.full((num, *self.shape), 1 / self.shape[1], np.float32)
        return policy_tables(np.concatenate([first, *state.policies[:n]]))

    def cover_weights(self, visits: Int[np.ndarray, "n states actions"]) -> Float[np.ndarray, " n"]:
        """Unif(1, ..., n), the paper's; or PC-PG's weights of largest log-determinant."""
        n = len(visits)
        if self.parts.cover == "uniform":
            return np.full(n, 1 / n)
        return log_det_weights(visits, self.exploration.features)

    def find_unknown(
        self, visits: Int[np.ndarray, "n states actions"], weights: Float[np.ndarray, " n"]
    ) -> Bool[np.ndarray, "states actions"]:
        """The pairs whose width is beta or more (Equations 15 to 18), or whose ellipsoid norm is
        large (PC-PG): those that get the bonus."""
        # The cover's samples: Z^n itself under uniform weights.
        counts = len(visits) * np.tensordot(weights, visits, axes=1)
        return find_unknown(self.exploration, counts)

    def act(self, logits: Table, unknown: Bool[np.ndarray, "states actions"]) -> Table:
        """The policy that is executed: by the known set (SAMPLE), or mixed (COMPUTE)."""
        if self.parts.alpha is not None:
            return mixed_policy(logits, self.parts.alpha)
        return known_set_policy(logits, unknown)

    def improve(
        self,
        rng: np.random.Generator,
        cover: Alias,
        weights: Float[np.ndarray, " n"],
        unknown: Bool[np.ndarray, "states actions"],
        bonus: Table,
    ) -> Improved:
        """Algorithm 2: T times, M fresh samples from the cover, a critic, a step of the actor."""
        parts, update = self.parts, self.update
        policies = np.zeros((parts.T, *self.shape), np.float32)
        critics = np.zeros((parts.T, *self.shape), np.float32)
        choice = None if parts.cover == "uniform" else np.repeat(weights / parts.T, parts.T)
        actor, steps = update.start(), 0
        for t in range(parts.T):
            policies[t] = self.act(actor.logits, unknown)
            table = policy_tables(policies[t])
            pairs = self.sampler.visit(rng, cover, parts.M, choice)
            # The roll-in's last action is the first step of the return, and is counted there.
            found = update.sample(rng, self.sampler, table, pairs.pairs, self.reward + bonus)
            steps += pairs.steps - parts.M + found.steps
            gathered = means(found.pairs, found.returns, self.shape)
            params, critic = update.fit(actor, policies[t].astype(np.float64), gathered, bonus)
            critics[t] = critic
            actor = update.advance(actor, params, critic)
        executed = self.act(actor.logits, unknown)
        last = executed if parts.alpha is None else softmax(actor.logits)
        return Improved(policies, critics, last, executed, steps)

    def judge(self, improved: Improved) -> tuple[float, float, float]:
        """Exact values: of pi_T, of pi_T as executed, and of the inner mixture."""
        mixture = np.mean([value(self.model, policy) for policy in improved.policies])
        last = value(self.model, improved.last)
        same = improved.executed is improved.last
        executed = last if same else value(self.model, improved.executed)
        return last, executed, float(mixture)

    def metrics(self, state: State, steps: int) -> dict[str, Any]:
        n = int(state.epoch)
        last, executed, inner = state.values[n - 1]
        outer = state.values[:n, 2].mean()
        known = ~state.unknown[n - 1]
        found = {
            "return_mean": last,
            "steps": steps,
            "nonfinite_rewards": 0,
            "value/optimum": self.optimum,
            "value/executed": executed,
            "value/inner_mixture": inner,
            "value/outer_mixture": outer,
            "known/pairs": int(known.sum()),
            "known/states": int(known.all(axis=1).sum()),
            "visited/pairs": int((state.visits.sum(0) > 0).sum()),
            "critic/largest": float(np.abs(state.critics[n - 1]).max()),
            "critic/bound": self.functions.bound,
        }
        if self.parts.alpha is not None:
            found["value/mixed_optimum"] = self.ceiling
        if self.optimum > 0:
            found |= {
                "share/last": last / self.optimum,
                "share/executed": executed / self.optimum,
                "share/inner_mixture": inner / self.optimum,
                "share/outer_mixture": outer / self.optimum,
            }
            if self.parts.alpha is not None:
                found["share/mixed_optimum"] = self.ceiling / self.optimum
        return found


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
