"""Exact answers on a tabular MDP, by linear solves in float64.

Everything the appendix of the paper speaks of has a function here: values, occupancies, optimal
policies, mixtures drawn once an episode, the bonus MDP M_b and the auxiliary MDP M^n with its extra
action (Appendix B). Policies are arrays of shape (states, actions) whose rows sum to one.

    model = Model.of(mdp, gamma=0.9)
    value(model, policy), optimal(model).policy, occupancy(model, policy)

An action that may not be taken in a state is marked in `Model.available`; its Q-value and advantage
are minus infinity, and a policy that gives it weight is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

# Rows that came through float32 miss one by a little; rows that miss it by more are mistakes.
_ROW_TOLERANCE = 1e-5

StateArray = Float[np.ndarray, " states"]
Table = Float[np.ndarray, "states actions"]


@runtime_checkable
class TabularLike(Protocol):
    """What `Model.of` reads: anything with these three arrays."""

    @property
    def transition(self) -> Any: ...

    @property
    def reward(self) -> Any: ...

    @property
    def start(self) -> Any: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A discounted tabular MDP, validated and in float64.

    `transition[s, a, s']`, `reward[s, a]`, `start[s]`, `gamma` in (0, 1). `available[s, a]` says
    which actions exist in a state (all, unless given); rows of unavailable pairs are not read.
    """

    transition: Float[np.ndarray, "states actions states"]
    reward: Table
    start: StateArray
    gamma: float
    available: Bool[np.ndarray, "states actions"] = None  # pyright: ignore[reportAssignmentType]

    def __post_init__(self):
        transition = np.array(self.transition, dtype=np.float64)
        if transition.ndim != 3 or transition.shape[0] != transition.shape[2]:
            raise ValueError(
                f"transition has shape {transition.shape}; expected (states, actions, states)."
            )
        num_states, num_actions, _ = transition.shape
        reward = np.array(self.reward, dtype=np.float64)
        if reward.shape != (num_states, num_actions):
            raise ValueError(
                f"reward has shape {reward.shape}; expected ({num_states}, {num_actions}), "
                "a reward for each state and action."
            )
        if not np.all(np.isfinite(reward)):
            raise ValueError("reward has entries that are not finite; give finite rewards.")
        available = self.available
        if available is None:
            available = np.ones((num_states, num_actions), dtype=bool)
        available = np.array(available, dtype=bool)
        if available.shape != (num_states, num_actions):
            raise ValueError(
                f"available has shape {available.shape}; expected ({num_states}, {num_actions})."
            )
        if not np.all(available.any(axis=1)):
            state = int(np.argmin(available.any(axis=1)))
            raise ValueError(f"state {state} has no available action; make at least one available.")
        transition = np.where(available[:, :, None], transition, 0.0)
        transition[available] = _distributions(transition[available], "transition rows")
        object.__setattr__(self, "transition", transition)
        object.__setattr__(self, "reward", np.where(available, reward, 0.0))
        object.__setattr__(self, "start", _start(self.start, num_states))
        object.__setattr__(self, "gamma", check_gamma(self.gamma))
        object.__setattr__(self, "available", available)

    @classmethod
    def of(cls, mdp: TabularLike, gamma: float | None = None) -> Model:
        """The model of any object with `transition`, `reward` and `start`.

        `gamma` may be left out if the object has a `gamma` of its own.
        """
        if gamma is None:
            gamma = getattr(mdp, "gamma", None)
        if gamma is None:
            raise ValueError(
                f"{type(mdp).__name__} has no discount of its own; give gamma, a number in (0, 1)."
            )
        return cls(
            np.asarray(mdp.transition), np.asarray(mdp.reward), np.asarray(mdp.start), float(gamma)
        )

    @property
    def num_states(self) -> int:
        return self.transition.shape[0]

    @property
    def num_actions(self) -> int:
        return self.transition.shape[1]


class Optimal(NamedTuple):
    """V*, Q* and a deterministic optimal policy."""

    values: StateArray
    action_values: Table
    policy: Table


def check_gamma(gamma: float) -> float:
    """`gamma` if it lies strictly between zero and one; the theory has no other discounts."""
    gamma = float(gamma)
    if not 0.0 < gamma < 1.0:
        raise ValueError(f"gamma is {gamma}; expected a discount strictly between 0 and 1.")
    return gamma


def uniform_policy(model: Model) -> Table:
    """Uniform over the available actions of each state."""
    return model.available / model.available.sum(axis=1, keepdims=True)


def state_values(model: Model, policy: Table) -> StateArray:
    """V^pi(s), the solution of V = r_pi + gamma P_pi V."""
    policy = _policy(model, policy)
    kernel = np.einsum("sa,sat->st", policy, model.transition)
    reward = np.einsum("sa,sa->s", policy, model.reward)
    return np.linalg.solve(np.eye(model.num_states) - model.gamma * kernel, reward)


def action_values(model: Model, policy: Table) -> Table:
    """Q^pi(s, a), Section 2; minus infinity where an action is not available."""
    return _backup(model, state_values(model, policy))


def advantages(model: Model, policy: Table) -> Table:
    """A^pi(s, a) = Q^pi(s, a) - V^pi(s), Section 2."""
    values = state_values(model, policy)
    return _backup(model, values) - values[:, None]


def value(model: Model, policy: Table) -> float:
    """V^pi from the model's own start distribution."""
    return float(model.start @ state_values(model, policy))


def value_from(model: Model, policy: Table, distribution: Table) -> float:
    """V^pi_nu = E_{(s, a) ~ nu} Q^pi(s, a) for a state-action distribution nu (Section 2)."""
    distribution = _joint(model, distribution)
    return expectation(distribution, action_values(model, policy))


def occupancy(model: Model, policy: Table, start: StateArray | None = None) -> Table:
    """d^pi(s, a): the normalised discounted occupancy from `start` (default: the model's).

    Section 2: (1 - gamma) sum_t gamma^t Pr(s_t = s, a_t = a). Sums to one.
    """
    policy = _policy(model, policy)
    start = model.start if start is None else _start(start, model.num_states)
    return _state_occupancy(model, policy, start)[:, None] * policy


def occupancy_from(model: Model, policy: Table, distribution: Table) -> Table:
    """d^pi_nu(s, a): the first state *and action* are drawn from nu, the rest follow `policy`."""
    policy = _policy(model, policy)
    distribution = _joint(model, distribution)
    second = np.einsum("sa,sat->t", distribution, model.transition)
    later = _state_occupancy(model, policy, second)[:, None] * policy
    return (1.0 - model.gamma) * distribution + model.gamma * later


def optimal(model: Model) -> Optimal:
    """V*, Q* and an optimal policy, by policy iteration with exact evaluation.

    An action replaces the current one only when it is better by more than rounding, so ties cannot
    make the iteration cycle; it ends at a policy whose advantages are all zero up to rounding.
    """
    states = np.arange(model.num_states)
    actions = model.available.argmax(axis=1)
    # Each round strictly improves some state, so the bound is never met; it guards the `while`.
    for _ in range(model.num_states * model.num_actions + 1000):
        policy = np.zeros((model.num_states, model.num_actions))
        policy[states, actions] = 1.0
        values = state_values(model, policy)
        q = _backup(model, values)
        slack = 1e-12 * max(1.0, float(np.abs(values).max()))
        best = q.argmax(axis=1)
        better = q[states, best] > q[states, actions] + slack
        if not better.any():
            return Optimal(values, q, policy)
        actions = np.where(better, best, actions)
    raise RuntimeError("policy iteration did not end; the model has badly scaled rewards.")


def mixture_value(
    model: Model, policies: Sequence[Table], weights: Sequence[float] | None = None
) -> float:
    """Value of a mixture whose policy is drawn once an *episode*: the mean of the values.

    Drawing anew at each step is another policy with another value (`docs/errata.md`).
    """
    weights_ = _weights(policies, weights)
    return float(sum(w * value(model, p) for w, p in zip(weights_, policies, strict=True)))


def mixture_occupancy(
    model: Model, policies: Sequence[Table], weights: Sequence[float] | None = None
) -> Table:
    """Occupancy of a mixture drawn once an episode; uniform weights give rho_cov, Algorithm 1."""
    weights_ = _weights(policies, weights)
    parts = [w * occupancy(model, p) for w, p in zip(weights_, policies, strict=True)]
    return np.sum(parts, axis=0)


def expectation(distribution: Table, values: Table) -> float:
    """Sum of distribution x values over the support; entries of weight zero are never read."""
    support = distribution > 0
    return float(np.sum(distribution[support] * values[support]))


def known_states(bonus: Table) -> Bool[np.ndarray, " states"]:
    """s in K if and only if b(s, a) = 0 for every action (Section 3.2.1 and Appendix B)."""
    return np.all(np.asarray(bonus) == 0, axis=1)


def bonus_model(model: Model, bonus: Table) -> Model:
    """M_b: the same MDP with reward r + b (Appendix B)."""
    return dataclasses.replace(model, reward=model.reward + _bonus(model, bonus))


def auxiliary_model(model: Model, bonus: Table) -> Model:
    """M^n: M_b with one more action, a-dagger, available only outside K (Appendix B).

    a-dagger is the last action. It stays in the state and pays 1, the largest reward of the
    original MDP; so the rewards of `model` must lie in [0, 1].
    """
    if model.reward.min() < 0 or model.reward.max() > 1:
        raise ValueError(
            f"rewards lie in [{model.reward.min():g}, {model.reward.max():g}]; the auxiliary MDP "
            "pays 1 as the largest reward, so rescale them into [0, 1]."
        )
    bonus = _bonus(model, bonus)
    stay = np.eye(model.num_states)[:, None, :]
    return Model(
        transition=np.concatenate([model.transition, stay], axis=1),
        reward=np.concatenate([model.reward + bonus, np.ones((model.num_states, 1))], axis=1),
        start=model.start,
        gamma=model.gamma,
        available=np.concatenate([model.available, ~known_states(bonus)[:, None]], axis=1),
    )


def auxiliary_policy(policy: Table) -> Float[np.ndarray, "states actions+1"]:
    """A policy that does not know a-dagger, as a policy of M^n (the remark in Appendix B)."""
    policy = np.asarray(policy, dtype=np.float64)
    return np.concatenate([policy, np.zeros((policy.shape[0], 1))], axis=1)


def auxiliary_comparator(
    policy: Table, known: Bool[np.ndarray, " states"]
) -> Float[np.ndarray, "states actions+1"]:
    """pi-tilde^n: `policy` on known states, a-dagger elsewhere (Appendix B)."""
    extended = auxiliary_policy(policy)
    known = np.asarray(known, dtype=bool)
    if known.shape != extended.shape[:1]:
        raise ValueError(
            f"known has shape {known.shape}; expected ({extended.shape[0]},), one entry a state."
        )
    extended[~known] = 0.0
    extended[~known, -1] = 1.0
    return extended


def _backup(model: Model, values: StateArray) -> Table:
    q = model.reward + model.gamma * model.transition @ values
    return np.where(model.available, q, -np.inf)


def _state_occupancy(model: Model, policy: Table, start: StateArray) -> StateArray:
    kernel = np.einsum("sa,sat->st", policy, model.transition)
    system = np.eye(model.num_states) - model.gamma * kernel.T
    # The true solution has no negative entry; a solve may leave one of the size of rounding.
    return np.maximum(np.linalg.solve(system, (1.0 - model.gamma) * start), 0.0)


def _distributions(rows: np.ndarray, name: str) -> np.ndarray:
    if not np.all(np.isfinite(rows)) or np.any(rows < 0):
        raise ValueError(f"{name} must be finite and not negative; the smallest is {rows.min()}.")
    totals = rows.sum(axis=-1, keepdims=True)
    worst = float(np.abs(totals - 1.0).max(initial=0.0))
    if worst > _ROW_TOLERANCE:
        raise ValueError(
            f"{name} must sum to one; one sums to {float(totals.flat[np.abs(totals - 1).argmax()])}"
            f", off by {worst:.3g}. Normalise them."
        )
    return rows / totals


def _start(start: Any, num_states: int) -> StateArray:
    start = np.array(start, dtype=np.float64)
    if start.shape != (num_states,):
        raise ValueError(f"start has shape {start.shape}; expected ({num_states},).")
    return _distributions(start, "the start distribution")


def _policy(model: Model, policy: Any) -> Table:
    policy = np.array(policy, dtype=np.float64)
    expected = (model.num_states, model.num_actions)
    if policy.shape != expected:
        raise ValueError(f"policy has shape {policy.shape}; expected {expected}.")
    if np.any(policy[~model.available] != 0):
        state, action = np.argwhere((policy != 0) & ~model.available)[0]
        raise ValueError(
            f"the policy gives weight to action {action} in state {state}, which is not available "
            "there; give it zero."
        )
    return _distributions(policy, "policy rows")


def _joint(model: Model, distribution: Any) -> Table:
    distribution = np.array(distribution, dtype=np.float64)
    expected = (model.num_states, model.num_actions)
    if distribution.shape != expected:
        raise ValueError(
            f"the state-action distribution has shape {distribution.shape}; expected {expected}."
        )
    if np.any(distribution[~model.available] != 0):
        raise ValueError("the state-action distribution gives weight to an unavailable action.")
    return _distributions(distribution.ravel(), "the state-action distribution").reshape(expected)


def _bonus(model: Model, bonus: Any) -> Table:
    bonus = np.array(bonus, dtype=np.float64)
    expected = (model.num_states, model.num_actions)
    if bonus.shape != expected:
        raise ValueError(f"bonus has shape {bonus.shape}; expected {expected}.")
    if not np.all(np.isfinite(bonus)) or np.any(bonus < 0):
        raise ValueError("a bonus must be finite and not negative.")
    return bonus


def _weights(policies: Sequence[Table], weights: Sequence[float] | None) -> np.ndarray:
    if len(policies) == 0:
        raise ValueError("a mixture needs at least one policy; the list is empty.")
    if weights is None:
        return np.full(len(policies), 1.0 / len(policies))
    array = np.array(weights, dtype=np.float64)
    if array.shape != (len(policies),):
        raise ValueError(f"{len(policies)} policies were given with weights of shape {array.shape}")
    return _distributions(array, "mixture weights")
