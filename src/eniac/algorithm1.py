"""Algorithm 1 of the paper, once: every algorithm of this package is this loop with other parts.

The deep learner (float32, compiled or on the host) is in `deep.py`, the provable one (float64, on
the host) in `provable/learner.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from eniac.envs.base import Environment
from eniac.envs.sources import HostEnv
from eniac.incumbent import Acting
from eniac.sampling.base import Evaluation

State = TypeVar("State")

Metrics = dict[str, Any]
"""What an epoch came to: arrays with one number for each of its rounds.

There are always `ran` (False for a round that was left out), `return_mean` (of the round's
evaluation) and `steps` (environment steps that the round took, those of lines 6 to 9 with the
first). Where networks act there is `nonfinite` too, a place in `sampling.base.NONFINITE`: what
was the first to be NaN or infinite."""


@runtime_checkable
class Learner(Protocol[State]):
    """What a run drives: a state of arrays, and the five lines of Algorithm 1 as pure functions of
    it. All randomness is in the state."""

    @property
    def compiled(self) -> bool:
        """Whether `epoch` is one program for JAX to compile, or Python that runs as it stands."""
        ...

    @property
    def rounds(self) -> int:
        """How often line 10 improves and evaluates its policies in an epoch."""
        ...

    def init(self, seed: Any) -> State:
        """The state before the first epoch."""
        ...

    def shapes(self) -> State:
        """A state, or the shapes of its arrays where that is quicker to come by."""
        ...

    def visit(self, state: State) -> tuple[State, Any]:
        """Line 6: samples of d^{pi^n}, where the newest policy goes."""
        ...

    def merge(self, state: State, samples: Any) -> State:
        """Line 7: Z^n, the samples of all policies so far."""
        ...

    def extend(self, state: State, samples: Any) -> State:
        """Line 8: the policy that was visited joins the cover rho^n_cov, and all of them get their
        weights."""
        ...

    def fit_bonus(self, state: State) -> State:
        """Line 9: b^n, large where Z^n leaves the critic undecided."""
        ...

    def improve(self, state: State, until: Any) -> tuple[State, Metrics]:
        """Line 10, Algorithm 2: pi^{n+1}, in some rounds, each followed by an evaluation.

        Rounds after one whose mean return is above `until` are left out.
        """
        ...

    def policy(self, state: State) -> Any:
        """The policy that `state` stands for: what is evaluated, exported and played."""
        ...

    def policies(self, state: State) -> dict[str, Acting]:
        """All policies of `state` that can be asked for, by name, each with how it acts; the first
        is that of `policy`."""
        ...

    def warnings(self) -> list[str]:
        """What the user should know before the first epoch."""
        ...

    def events(self) -> list[str]:
        """What has happened since this was last asked that the user should know."""
        ...

    def close(self) -> None:
        """Ends what the learner has opened, such as environments."""
        ...

    def bonus(self, state: State) -> Any:
        """b(s, a) as a function of one pair; None if there is none to draw."""
        ...

    def record(self, state: State) -> Any:
        """What a proof speaks of, for a certificate; None if no theorem does."""
        ...

    def policy_format(self) -> dict[str, Any]:
        """Plain data from which a policy's arrays can be read back without the environment."""
        ...


class AlgorithmConfig(ABC):
    """The settings of an algorithm, from which its learner is built: a frozen dataclass.

    None stands for what is to be chosen for the environment, when that is known.
    """

    name: str
    """the algorithm's row in the table"""

    has_cover: bool = False
    """whether there are policies of a cover, as networks, to look at"""
    delta: float = 0.05
    """the probability of failure that a certificate is for"""
    always_ends: bool = False
    """whether a run ends after `default_epochs` whatever its stop rules are"""
    room_setting: str | None = None
    """the setting that says for how many epochs there is room, `max_epochs`"""

    @property
    def max_epochs(self) -> int | None:
        """Epochs until the cover is full; None if there is no such limit, or not yet."""
        return None

    @property
    def longer(self) -> str:
        """What to change for more epochs than `max_epochs`."""
        return ""

    @property
    def default_epochs(self) -> int:
        """How long a run is that was given no stop rule at all."""
        return 50

    @abstractmethod
    def summary(self) -> dict[str, object]:
        """The settings that tell one algorithm from another, for tables."""

    def resolve(self, env: Environment | HostEnv, name: str, options: Mapping[str, Any]) -> Self:
        """These settings with nothing left open, for `env`, which is called `name`."""
        del env, name, options
        return self

    def evaluated_by(self, evaluation: Evaluation) -> Evaluation:
        """`evaluation` with what this algorithm adds to it."""
        return evaluation

    def adapt(self, env: Environment | HostEnv) -> Environment | HostEnv:
        """`env` as the policies of this algorithm see it."""
        return env

    def memory(self, env: Environment | HostEnv, evaluation: Evaluation) -> dict[str, int]:
        """Bytes that a seed takes at least beside the state of its learner, by the settings that
        they come from. These settings must be resolved."""
        del env, evaluation
        return {}

    @abstractmethod
    def build(
        self,
        env: Environment | HostEnv,
        evaluation_env: Environment | HostEnv,
        evaluation: Evaluation,
    ) -> Learner[Any]:
        """The learner of these settings, which must be resolved, in `env`."""


def epoch(learner: Learner[State], state: State, until: Any) -> tuple[State, Metrics]:
    """Epoch n of Algorithm 1."""
    state, samples = learner.visit(state)  # line 6
    state = learner.merge(state, samples)  # line 7
    state = learner.extend(state, samples)  # line 8
    state = learner.fit_bonus(state)  # line 9
    return learner.improve(state, until)  # line 10
