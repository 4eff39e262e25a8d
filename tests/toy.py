"""A learner that compiles in no time: a random walk of a small table, with all a learner has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from eniac.algorithm1 import AlgorithmConfig
from eniac.algorithms import ALGORITHMS
from eniac.incumbent import Acting
from eniac.provable.policies import TablePolicy
from eniac.provable.table import ProvableSpec
from eniac.sampling.base import Evaluation, summary
from eniac.sampling.compiled import CompiledSampler


class State(NamedTuple):
    key: PRNGKeyArray
    epoch: Int[Array, ""]
    policy: TablePolicy
    flag: Array


@dataclass(frozen=True)
class Step:
    rate: float = 0.1
    kind: Literal["up", "down"] = "up"

    def __post_init__(self):
        if self.rate <= 0:
            raise ValueError(f"step.rate is {self.rate}; it must be above 0.")


@dataclass(frozen=True)
class Toy(AlgorithmConfig):
    room_setting = "room"

    name: str = "toy"
    width: int = 5
    sizes: tuple[int, ...] = (2, 3)
    nan_at: int | None = None
    bad_reward_at: int | None = None
    on_host: bool = False
    room: int | None = None
    step: Step = field(default_factory=Step)

    @property
    def max_epochs(self) -> int | None:
        return self.room

    def summary(self) -> dict[str, object]:
        return {"width": self.width}

    def build(self, env: Any, evaluation_env: Any, evaluation: Evaluation) -> Learner:
        return Learner(self, CompiledSampler(env, evaluation_env), evaluation)


class Learner:
    """A table of `width` states and two actions, of which action 1 gets likelier or not."""

    rounds = 1

    def __init__(self, toy: Toy, sampler: CompiledSampler, evaluation: Evaluation):
        self.toy, self.sampler, self.evaluation = toy, sampler, evaluation
        self.compiled = not toy.on_host
        self.step = jax.jit(self.walk) if toy.on_host else self.walk

    def init(self, seed: Any) -> State:
        key, weight_key = jax.random.split(jax.random.key(seed))
        chance = jax.random.uniform(weight_key, (self.toy.width, 1))
        policy = TablePolicy(jnp.concatenate([1 - chance, chance], axis=1))
        return State(key, jnp.zeros((), jnp.int32), policy, jnp.asarray(True))

    def shapes(self) -> State:
        return jax.eval_shape(self.init, jnp.zeros((), jnp.uint32))

    def visit(self, state: State) -> tuple[State, None]:
        return state, None

    def merge(self, state: State, samples: None) -> State:
        return state

    def extend(self, state: State, samples: None) -> State:
        return state

    def fit_bonus(self, state: State) -> State:
        return state

    def improve(self, state: State, until: Any) -> tuple[State, dict[str, Array]]:
        return self.step(state)

    def walk(self, state: State) -> tuple[State, dict[str, Array]]:
        key, noise_key, judge_key = jax.random.split(state.key, 3)
        epoch = state.epoch + 1
        noise = self.toy.step.rate * jax.random.normal(noise_key, (self.toy.width, 2))
        table = jax.nn.softmax(jnp.log(state.policy.probabilities) + noise)
        table = jnp.where(epoch == (self.toy.nan_at or -1), jnp.nan, table)
        state = State(key, epoch, TablePolicy(table), ~state.flag)
        metrics = {
            "ran": jnp.asarray(True),
            "steps": jnp.asarray(7, jnp.int32),
            "nonfinite": 3 * (epoch == (self.toy.bad_reward_at or -1)).astype(jnp.int32),
            "loss": jnp.sum(table**2),
            "undefined": jnp.asarray(jnp.nan),
            **summary(
                self.sampler.evaluate(judge_key, state.policy, self.evaluation),
                self.evaluation.first,
            ),
        }
        return state, {name: x[None] for name, x in metrics.items()}

    def policy(self, state: State) -> TablePolicy:
        return state.policy

    def policies(self, state: State) -> dict[str, Acting]:
        other = TablePolicy(jnp.asarray(state.policy.probabilities)[:, ::-1])
        return {
            "incumbent": Acting(state.policy, state.flag),
            "exploiting": Acting(other, jnp.asarray(False)),
        }

    def warnings(self) -> list[str]:
        return []

    def events(self) -> list[str]:
        return []

    def close(self) -> None:
        pass

    def bonus(self, state: State) -> None:
        pass

    def record(self, state: State) -> None:
        pass

    def policy_format(self) -> dict[str, Any]:
        return {"kind": "table", "num_states": self.toy.width, "num_actions": 2}


@dataclass(frozen=True)
class Row(ProvableSpec):
    """The toy's row, in the place of a provable algorithm's: the table has no other kinds."""

    name: str = "toy"
    description: str = "a random walk of weights"
    cover: str = "none"
    bonus: str = "none"
    update: str = "none"
    source: str = "here"
    default: Toy = field(default_factory=Toy)  # pyright: ignore

    def settings(self) -> Any:
        return self.default


def register() -> None:
    ALGORITHMS["toy"] = Row()
