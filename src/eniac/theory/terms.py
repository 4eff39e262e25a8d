"""The terms of the proof, measured on a run: one epoch at a time, by linear solves in float64.

The proof sketch of Appendix B goes from V* to the value of an epoch's policy in three steps, and
the middle one is the performance difference lemma. Nothing is lost on the way, so its terms are
an identity, here for the comparator pi-tilde = pi*, with h = 1/(1 - gamma):

    V* - V^{n+1}  =  bonus + pessimism + optimisation + transfer + statistical + dagger

    bonus          V_b^{n+1} - V^{n+1}
    pessimism      V* - V_{M^n} of the comparator
    optimisation   h mean_t E[A-hat_t 1{s in K}]         under d-tilde, the comparator's in M^n
    transfer       h mean_t E[(A_t - A*_t) 1{s in K}]    A*_t from f*_t, best under the cover
    statistical    h mean_t E[(A*_t - A-hat_t) 1{s in K}]
    dagger         h mean_t E[A_t(s, a-dagger) 1{s not in K}]
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import lu_factor, lu_solve

from eniac.functions.base import tangent_features
from eniac.functions.tabular import Tabular
from eniac.theory.planning import (
    Model,
    auxiliary_comparator,
    auxiliary_model,
    occupancy,
    optimal,
    uniform_policy,
    value,
)
from eniac.theory.record import RunRecord
from eniac.updates.npg import tangent_fit
from eniac.widths.exact import bonus_from_unknown

Table = Float[np.ndarray, "states actions"]

PARTS = ("bonus", "pessimism", "optimisation", "transfer", "statistical", "dagger")
"""The terms whose sum is the gap of an epoch's inner mixture."""


class Epoch(NamedTuple):
    """What the proof says about epoch n, measured. Values are in units of the rescaled reward.

    NaN where a quantity could not be measured: `transfer` and `statistical` and what hangs on the
    best fit f* when the class has none that is known to be exact (`best_fit`); `large_widths` in
    the last epoch, whose policy was never sampled.
    """

    epoch: int
    last: float
    """V of pi_T, without the mixing of COMPUTE"""
    inner: float
    """V of pi^{n+1}, the mixture of pi_0 .. pi_{T-1}"""
    bonus: float
    pessimism: float
    optimisation: float
    approximation: float
    """transfer + statistical, which needs no f*"""
    transfer: float
    statistical: float
    dagger: float
    bias: float
    """sup_t L(f*_t; d-tilde, target), d-tilde = d^{pi*}(s) Unif(a): epsilon_bias of this epoch"""
    known_bias: float
    """the same over known states only, which is all the proof reads (docs/errata.md, 6)"""
    excess_loss: float
    """sup_t L(f_t) - L(f*_t) under rho_cov: epsilon_stat"""
    distance: float
    """sup_t of the norm of f*_t - f_t on Z^n, which epsilon should dominate"""
    dominance: float
    """sup over K of d-tilde - d^{pi*} (Lemma B.1)"""
    worst_dagger: float
    """sup over t and unknown states of A_t(s, a-dagger); minus infinity if all are known"""
    critic: float
    """sup |f_t|"""
    target: float
    """sup |Q_b - b| (NPG: sup |A_b - centred b|), which a realisable class must reach"""
    step: float
    """eta sup_t |A-hat_t| on known states"""
    large_widths: float
    """samples of pi^{n+1} whose width, by Z^n, is beta or more"""
    unknown_states: int

    @property
    def parts(self) -> dict[str, float]:
        """The terms by name; approximation for transfer and statistical where those are NaN."""
        found = {name: getattr(self, name) for name in PARTS}
        if np.isnan(self.transfer):
            del found["transfer"], found["statistical"]
            found["approximation"] = self.approximation
        return found


class Solved(NamedTuple):
    """One policy, solved in M and in M_b at once."""

    value: float
    state_values: Float[np.ndarray, " states"]
    """V_b"""
    action_values: Table
    """Q_b"""
    occupancy: Table


def measure(run: RunRecord) -> list[Epoch]:
    """The terms of every epoch of `run`."""
    model = run.learned_model
    comparator = optimal(model).policy
    reached = occupancy(model, comparator)
    optimum = value(model, comparator)
    visited = [occupancy(model, uniform_policy(model))]
    epochs = []
    for n in range(run.num_epochs):
        cover = np.tensordot(run.weights[n], np.stack(visited), axes=1)
        found, inner = _epoch(run, n, model, comparator, reached, cover, optimum)
        epochs.append(found)
        visited.append(inner)
    return epochs


def _epoch(
    run: RunRecord,
    n: int,
    model: Model,
    comparator: Table,
    reached: Table,
    cover: Table,
    optimum: float,
) -> tuple[Epoch, Table]:
    """The terms of epoch n, and the occupancy of its inner mixture."""
    horizon = 1 / (1 - model.gamma)
    bonus = bonus_from_unknown(run.unknown[n], run.gamma, run.alpha)
    known = ~run.unknown[n].any(axis=1)
    auxiliary = auxiliary_mdp(model, bonus)
    aware = auxiliary_comparator(comparator, known)
    there = occupancy(auxiliary, aware)
    inside, outside = there[:, :-1] * known[:, None], there[:, -1]
    spread = np.repeat(reached.sum(axis=1, keepdims=True) / model.num_actions, bonus.shape[1], 1)
    counts = run.visits[: n + 1].sum(axis=0)
    sums = dict.fromkeys(("value", "bonus", "optimisation", "approximation", "transfer"), 0.0)
    sums |= {"statistical": 0.0, "dagger": 0.0}
    names = ("bias", "known_bias", "excess_loss", "distance", "worst_dagger")
    most = dict.fromkeys((*names, "critic", "target", "step"), -np.inf)
    mixture = np.zeros(bonus.shape)
    for raw, critic in zip(run.policies[n], run.critics[n].astype(np.float64), strict=True):
        policy = raw / raw.astype(np.float64).sum(axis=1, keepdims=True)
        solved = solve(model, policy, bonus)
        mixture += solved.occupancy / run.T
        true = solved.action_values - solved.state_values[:, None]
        guess = _centred(critic + bonus, policy)
        dagger = 1 - (1 - model.gamma) * solved.state_values
        target = solved.action_values - bonus
        if run.update == "npg":
            target = true - _centred(bonus, policy)
        sums["value"] += solved.value
        sums["bonus"] += float(model.start @ solved.state_values) - solved.value
        sums["optimisation"] += horizon * float(np.sum(inside * guess))
        sums["approximation"] += horizon * float(np.sum(inside * (true - guess)))
        sums["dagger"] += horizon * float(np.sum(outside * dagger))
        reading = {
            "worst_dagger": float(np.max(dagger[~known], initial=-np.inf)),
            "critic": float(np.abs(critic).max()),
            "target": float(np.abs(target).max()),
            "step": run.eta * float(np.abs(guess[known]).max(initial=0.0)),
        }
        best = best_fit(run, policy, target, cover)
        if best is None:
            reading |= dict.fromkeys(names[:-1], np.nan)
            sums["transfer"] = sums["statistical"] = np.nan
        else:
            middle = _centred(best + bonus, policy)
            sums["transfer"] += horizon * float(np.sum(inside * (true - middle)))
            sums["statistical"] += horizon * float(np.sum(inside * (middle - guess)))
            missed = spread * np.square(best - target)
            lost = np.square(critic - target) - np.square(best - target)
            reading["bias"] = float(np.sum(missed))
            reading["known_bias"] = float(np.sum(missed[known]))
            reading["excess_loss"] = float(np.sum(cover * lost))
            reading["distance"] = float(np.sqrt(np.sum(counts * np.square(best - critic))))
        most = {name: float(np.maximum(most[name], reading[name])) for name in most}
    mean = {name: total / run.T for name, total in sums.items()}
    found = Epoch(
        epoch=n + 1,
        last=_rescaled(run, run.last_values[n]),
        inner=mean.pop("value"),
        pessimism=optimum - value(auxiliary, aware),
        dominance=float(np.max((there[:, :-1] - reached)[known], initial=-np.inf)),
        large_widths=_large_widths(run, n),
        unknown_states=int((~known).sum()),
        **mean,
        **most,
    )
    return found, mixture


def solve(model: Model, policy: Table, bonus: Table) -> Solved:
    """Values of `policy` with and without the bonus and its occupancy, by one factorisation."""
    kernel = np.einsum("sa,sat->st", policy, model.transition)
    factors = lu_factor(np.eye(model.num_states) - model.gamma * kernel)
    rewards = np.stack([np.sum(policy * table, axis=1) for table in (model.reward, bonus)], axis=1)
    plain, extra = lu_solve(factors, rewards).T
    reach = lu_solve(factors, (1 - model.gamma) * model.start, trans=1)
    q = model.reward + bonus + model.gamma * model.transition @ (plain + extra)
    return Solved(float(model.start @ plain), plain + extra, q, reach[:, None] * policy)


def auxiliary_mdp(model: Model, bonus: Table) -> Model:
    """M^n also for rewards below zero, which `auxiliary_model` refuses as the paper does.

    What a-dagger pays is the largest reward still, so that Lemma B.2 holds; that A(s, a-dagger) is
    never positive does not follow any more, and is measured.
    """
    plain = auxiliary_model(dataclasses.replace(model, reward=np.clip(model.reward, 0, 1)), bonus)
    reward = plain.reward.copy()
    reward[:, :-1] = model.reward + bonus
    return dataclasses.replace(plain, reward=reward)


def best_fit(run: RunRecord, policy: Table, target: Table, cover: Table) -> Table | None:
    """f*_t: the best fit to the true target under rho_cov (NPG: u*_t . g_t), or None.

    Exact for convex classes with SPI, and for classes linear in their parameters with NPG; for
    others nothing tells the best fit from one that a descent ended at. Where the cover leaves a
    choice, the tabular class takes the target itself, which attains the infimum of Assumption C.1;
    other classes take what their fit takes, so that `bias` bounds the infimum from above.
    """
    functions = run.functions
    if run.update == "spi":
        if isinstance(functions, Tabular):
            return np.clip(target, -functions.bound, functions.bound)
        return functions(functions.fit(target, cover)) if functions.convex else None
    if not functions.additive:
        return None
    bound = run.norm_bound
    if isinstance(functions, Tabular) and np.linalg.norm(target) <= bound:
        return target  # of mean zero under the policy in every state: a member, with u = target
    features = tangent_features(functions.gradient(functions.zero()), policy)
    return tangent_fit(features, target, cover, bound, 0.0)[1]


def _centred(table: Table, policy: Table) -> Table:
    return table - np.sum(policy * table, axis=1, keepdims=True)


def _large_widths(run: RunRecord, n: int) -> float:
    """D^{n+1} is drawn at the start of the next epoch, if there was one."""
    if n + 1 >= run.num_epochs:
        return np.nan
    chosen: Bool[np.ndarray, "states actions"] = run.unknown[n]
    return float(run.visits[n + 1][chosen].sum())


def _rescaled(run: RunRecord, given: float) -> float:
    """A value in the environment's units, in those of the reward that is learned from."""
    old, new = run.model.reward, run.reward
    spread = float(old.max() - old.min())
    slope = float(new.max() - new.min()) / spread if spread > 0 else 1.0
    shift = float(new.max()) - slope * float(old.max())
    return slope * float(given) + shift / (1 - run.gamma)
