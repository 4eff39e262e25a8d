"""Random small MDPs for the property tests, the same ones on every run."""

import dataclasses

import hypothesis
import numpy as np
from hypothesis import strategies as st

from eniac.theory.planning import Model

# Derandomised: a property test looks at the same examples on every run, on every machine.
exact = hypothesis.settings(derandomize=True, deadline=None, max_examples=60, database=None)


@dataclasses.dataclass
class Case:
    """A random MDP with rewards in [0, 1], two policies and a random set of unknown pairs."""

    model: Model
    policy: np.ndarray
    other: np.ndarray
    unknown: np.ndarray
    rng: np.random.Generator


def random_rows(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Distributions over the last axis, some sparse and some not."""
    rows = rng.dirichlet(np.full(shape[-1], rng.choice([0.1, 1.0])), size=shape[:-1])
    return rows / rows.sum(axis=-1, keepdims=True)


def random_case(seed: int, num_states: int, num_actions: int, gamma: float) -> Case:
    rng = np.random.default_rng(seed)
    model = Model(
        transition=random_rows(rng, num_states, num_actions, num_states),
        reward=rng.choice([0.0, 1.0, rng.uniform()], size=(num_states, num_actions)),
        start=random_rows(rng, num_states),
        gamma=gamma,
    )
    return Case(
        model=model,
        policy=random_rows(rng, num_states, num_actions),
        other=random_rows(rng, num_states, num_actions),
        unknown=rng.uniform(size=(num_states, num_actions)) < rng.choice([0.0, 0.15, 0.4, 1.0]),
        rng=rng,
    )


cases = st.builds(
    random_case,
    seed=st.integers(0, 2**31),
    num_states=st.integers(1, 6),
    num_actions=st.integers(2, 4),
    gamma=st.sampled_from([0.3, 0.7, 0.9, 0.97]),
)
