"""The settings of a provable algorithm: one frozen dataclass, resolved when a run is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import gymnasium

from eniac.algorithm1 import AlgorithmConfig
from eniac.envs.base import Environment
from eniac.envs.faults import FAILURES, raised
from eniac.envs.mdp import TabularMDP
from eniac.envs.registry import unwrap
from eniac.envs.sources import HostEnv
from eniac.envs.toy_text import tabular_from_gymnasium
from eniac.errors import ConfigError, EniacError, require, require_choices
from eniac.functions.make import make_function_class
from eniac.memory import require_memory
from eniac.provable.learner import ProvableLearner
from eniac.provable.policies import StateIndexEnv
from eniac.provable.presets import settings_for
from eniac.provable.resolved import ResolvedProvable, Rewards
from eniac.sampling.base import Evaluation


@dataclass(frozen=True)
class ProvableConfig(AlgorithmConfig):
    """A provable algorithm on an MDP with finitely many states.

    What is None is chosen by `resolve` for the MDP at hand, when a run is built: by measured
    settings if the environment has them, else by the rules of `provable/presets.py`.
    """

    always_ends = True
    room_setting = "N"

    name: str = "eniac-spi-sample"
    """the algorithm's row in the table"""
    update: Literal["spi", "npg"] = "spi"
    """the policy update: Equations 7-10, or 12-14"""
    version: Literal["sample", "compute"] = "sample"
    """sample: act by the known set; compute: mix with the uniform policy, look at no bonus"""
    cover: Literal["uniform", "log-det"] = "uniform"
    """weights of the policies in the cover: the paper's, or PC-PG's"""
    bonus: Literal["width", "ellipsoid", "none"] = "width"
    """what makes a pair unknown: its width, PC-PG's ellipsoid norm, or nothing"""
    function_class: str = "tabular"
    """the class F of critics: tabular, linear, glm, network, trees, finite, aggregation, or
    module:name of a FunctionClass of your own"""
    class_options: dict[str, bool | int | float | str] = field(default_factory=dict)
    """options of the class as pairs of name and value, for instance: link tanh"""
    gamma: float | None = None
    """discount"""
    N: int | None = None
    """epochs that there is room for, and how long a run is that has no other stop rule"""
    K: int | None = None
    """samples of each new policy's occupancy, which decide what is known"""
    T: int | None = None
    """updates of the policy in an epoch"""
    M: int | None = None
    """fresh samples for each update"""
    eta: float | None = None
    """step size"""
    m: float | None = None
    """visits that make a pair of the tabular class known: epsilon is beta sqrt(m - 1/2)"""
    beta: float = 1.0
    """the width from which on a pair is unknown"""
    epsilon: float | None = None
    """radius of the data's constraint on the class, in the place of m"""
    alpha: float | None = None
    """probability of a uniform action in the compute version"""
    bound: float | None = None
    """W, the bound of the class; None: 1/(1-gamma)^2, and |A|/alpha times that in compute"""
    norm_bound: float | None = None
    """B, the bound on NPG's |u|; None: sqrt(d) W"""
    ridge: float | None = None
    """added to the Gram matrix of NPG's fit, which is a sum over M samples"""
    tangent: Literal["class", "gradient", "centred"] = "class"
    """what stands for NPG's tangent class in widths: F itself, or the linear class of the gradients
    of f (gradient) or of log pi (centred) at theta_0"""
    ellipsoid_ridge: float = 1.0
    """added to PC-PG's covariance"""
    rewards: Rewards | None = None
    """rewards outside [0, 1]: refuse them, scale by the largest, or shift into the interval"""
    subsample: bool = False
    """keep few of the data of Z^n for the widths, by sensitivity (Section 3.3)"""
    theory_constants: bool = False
    """the theorem's own N, K, T, M, eta, beta and epsilon (tabular class only)"""
    accuracy: float = 0.1
    """the accuracy they are for"""
    delta: float = 0.05
    """the probability of failure they are for"""

    def __post_init__(self):
        require_choices(self)
        for name in ("N", "K", "T", "M"):
            number = getattr(self, name)
            require(number is None or number >= 1, name, number, "1 or more")
        for name in ("eta", "beta", "epsilon", "bound", "norm_bound", "accuracy"):
            number = getattr(self, name)
            require(number is None or 0 < number < math.inf, name, number, "above 0")
        for name in ("gamma", "alpha", "delta"):
            number = getattr(self, name)
            require(number is None or 0 < number < 1, name, number, "strictly between 0 and 1")
        require(self.m is None or self.m >= 1, "m", self.m, "1 or more")
        require(
            self.m is None or self.epsilon is None,
            "epsilon",
            self.epsilon,
            f"left out when m ({self.m}) is given: the two say the same thing",
        )
        require(self.ridge is None or self.ridge >= 0, "ridge", self.ridge, "0 or more")
        require(self.ellipsoid_ridge > 0, "ellipsoid_ridge", self.ellipsoid_ridge, "above 0")
        require(
            self.alpha is None or self.version == "compute",
            "alpha",
            self.alpha,
            "left out in the sample version, which never mixes",
        )
        if self.bound is not None and self.gamma is not None:
            _check_bound(self.bound, self.gamma)
        require(
            not self.subsample or (self.cover == "uniform" and self.bonus == "width"),
            "subsample",
            self.subsample,
            "False unless cover is 'uniform' and bonus 'width': it draws from the data one by one, "
            "to keep the widths",
        )

    @property
    def max_epochs(self) -> int | None:
        """Epochs until the cover is full; None where N is left to the environment."""
        return self.N

    @property
    def longer(self) -> str:
        """What to change for more epochs than `max_epochs`."""
        return f"it has room for N = {self.N} policies, one an epoch. Give it a larger N"

    @property
    def default_epochs(self) -> int:
        """N, once it is chosen."""
        return super().default_epochs if self.N is None else self.N

    def resolve(
        self, env: Environment | HostEnv, name: str = "", options: Mapping[str, Any] | None = None
    ) -> ProvableConfig:
        """These settings with every None chosen for `env`, the environment called `name`.

        **Raises** `ConfigError` for an environment without a table, and where the theorem's
        constants are asked for and there are none, or none that could be run.
        """
        return self.for_mdp(table_of(env), env.time_limit, name, options)

    def for_mdp(
        self,
        mdp: TabularMDP,
        horizon: int | None = None,
        name: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> ProvableConfig:
        """`resolve`, for a table and the time limit around it."""
        found = settings_for(self, mdp, horizon, name, options or {})
        if self.epsilon is not None:
            found["m"] = None
        if self.version != "compute":
            found["alpha"] = None
        found |= {name: getattr(self, name) for name in found if getattr(self, name) is not None}
        if self.theory_constants:
            from eniac.provable.theory import theory_settings

            found |= theory_settings(self, found["gamma"], mdp.num_states, mdp.num_actions)
            found |= {"m": None, "theory_constants": False}
        return replace(self, **found)

    def complete(self, num_actions: int) -> ResolvedProvable:
        """The settings of a run. Those of `resolve` are complete."""
        needed = ["gamma", "N", "K", "T", "M", "eta", "ridge", "rewards"]
        needed += ["m"] if self.epsilon is None else []
        needed += ["alpha"] if self.version == "compute" else []
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise ConfigError(f"{', '.join(missing)} are left open; `resolve` chooses them.")
        chosen: dict[str, Any] = {name: getattr(self, name) for name in needed if name != "m"}
        chosen["alpha"] = self.alpha if self.version == "compute" else None
        bound = self.bound
        if bound is None:
            scale = 1.0 if chosen["alpha"] is None else num_actions / chosen["alpha"]
            bound = scale / (1 - chosen["gamma"]) ** 2
        _check_bound(bound, chosen["gamma"])
        # Halfway between two counts, so that rounding decides nothing.
        epsilon = self.epsilon or self.beta * math.sqrt((self.m or 1.0) - 0.5)
        same = ("update", "cover", "bonus", "beta", "norm_bound", "tangent", "ellipsoid_ridge")
        chosen |= {name: getattr(self, name) for name in (*same, "subsample")}
        return ResolvedProvable(epsilon=epsilon, bound=bound, **chosen)

    def adapt(self, env: Environment | HostEnv) -> Environment | HostEnv:
        """`env`, observed by the number of its state: what the policies of tables read.

        gymnasium's environments with a table observe it already.
        """
        return env if isinstance(env, HostEnv) else StateIndexEnv(env, table_of(env).num_states)

    def memory(self, env: Environment | HostEnv, evaluation: Evaluation) -> dict[str, int]:
        # A few arrays of numbers with an entry for each sample.
        return {
            "K": 12 * (self.K or 0),
            "M": 24 * (self.M or 0),
            "evaluation.episodes": 40 * evaluation.episodes,
        }

    def build(
        self,
        env: Environment | HostEnv,
        evaluation_env: Environment | HostEnv | None,
        evaluation: Evaluation,
    ) -> ProvableLearner:
        """The learner of these settings, which must be resolved, in `env`.

        Its policies are judged in the table too, so `evaluation_env` is not looked at; the horizon
        of `evaluation` is where episodes are cut.

        **Raises** `ConfigError` for an environment without a table, a function class that does not
        suit, and settings that cannot run there.
        """
        del evaluation_env
        mdp = table_of(env)
        config = self.complete(mdp.num_actions)
        # A policy and a critic for each update, in float32.
        sizes = {"N x T": config.N * config.T * mdp.reward.size * 2 * 4}
        require_memory(sizes, "what it keeps of all epochs")
        inner = mdp if isinstance(env, HostEnv) else unwrap(env)
        if isinstance(inner, StateIndexEnv):
            inner = unwrap(inner.env)
        functions = make_function_class(
            self.function_class,
            inner,
            gamma=config.gamma,
            bound=config.bound,
            **self.class_options,
        )
        return ProvableLearner(mdp, functions, config, evaluation)

    def summary(self) -> dict[str, object]:
        """The settings that tell one algorithm from another, for tables."""
        return {"function class": self.function_class, "others": "by environment"}


def table_of(env: Environment | HostEnv) -> TabularMDP:
    """The exact table of one of our environments, or of gymnasium's that have one.

    **Raises** `ConfigError` for an environment without.
    """
    need = (
        "the provable algorithms need finitely many states and actions and their table, as in "
        "DeepSea-10, CombinationLock-5, RiverSwim-v0 or FrozenLake-v1."
    )
    if not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise ConfigError(f"its actions are {env.action_space}; {need}")
    if isinstance(env, HostEnv):
        tables = tabular_from_gymnasium(env.single())
        if tables is None:
            raise ConfigError(f"{env.name} has no exact table; {need}")
        return TabularMDP(*tables)
    try:
        return env.tabular()
    except (NotImplementedError, EniacError) as error:
        raise ConfigError(str(error)) from error
    except FAILURES as error:
        raise ConfigError(f"it {raised(error, 'tabular')}") from error


def _check_bound(bound: float, gamma: float) -> None:
    least = 1 / (1 - gamma)
    require(
        bound >= least * (1 - 1e-12),
        "bound",
        bound,
        f"1/(1 - gamma) = {least:g} or more (Assumption 4.2): every value lies within it",
    )
