"""The settings of a provable algorithm: one frozen dataclass, filled in for an environment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import gymnasium

from eniac.envs.base import Environment
from eniac.envs.registry import unwrap
from eniac.errors import require, require_choices
from eniac.functions.make import make_function_class
from eniac.provable.exploration import Chosen, Rewards
from eniac.provable.learner import ProvableLearner
from eniac.provable.policies import Numbered
from eniac.provable.presets import preset


@dataclass(frozen=True)
class Provable:
    """A provable algorithm on an MDP with finitely many states. What is None is chosen for the
    environment, when that is known."""

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
    """the class F of critics: tabular, linear, glm, network, trees, ..."""
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
            least = 1 / (1 - self.gamma)
            require(
                self.bound >= least * (1 - 1e-12),
                "bound",
                self.bound,
                f"1/(1 - gamma) = {least:g} or more (Assumption 4.2): every value lies within it",
            )

    @property
    def max_epochs(self) -> int | None:
        """Epochs until the cover is full."""
        return self.N

    @property
    def room(self) -> str:
        """What decides `max_epochs`, for whoever wants more."""
        return f"N = {self.N} policies. Give it a larger N"

    @property
    def exact(self) -> bool:
        """Values are computed, not measured in episodes."""
        return True

    def for_env(self, env: str, options: Mapping[str, Any]) -> Provable:
        """These settings with every None chosen for the environment called `env`."""
        if self.theory_constants:
            from eniac.provable.theory import theory_settings

            return theory_settings(self, env, options)
        chosen = preset(self, env, options)
        if chosen is None:
            return self
        if self.epsilon is not None or (self.m is not None):
            chosen.pop("m", None)
        if self.version != "compute":
            chosen.pop("alpha", None)
        missing = {name: value for name, value in chosen.items() if getattr(self, name) is None}
        return replace(self, **missing)

    def complete(self) -> Chosen:
        """These settings, if nothing is left to choose; a ValueError that says what is."""
        needed = ["gamma", "N", "K", "T", "M", "eta"]
        needed += ["m"] if self.epsilon is None else []
        needed += ["alpha"] if self.version == "compute" else []
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise ValueError(f"eniac has no settings of its own for it; give {', '.join(missing)}.")
        assert self.N is not None
        assert self.K is not None
        assert self.T is not None
        assert self.M is not None
        assert self.eta is not None
        assert self.gamma is not None
        # Halfway between two counts, so that rounding decides nothing.
        epsilon = self.epsilon or self.beta * math.sqrt((self.m or 1.0) - 0.5)
        return Chosen(
            update=self.update,
            cover=self.cover,
            bonus=self.bonus,
            gamma=self.gamma,
            N=self.N,
            K=self.K,
            T=self.T,
            M=self.M,
            eta=self.eta,
            beta=self.beta,
            epsilon=epsilon,
            alpha=self.alpha if self.version == "compute" else None,
            norm_bound=self.norm_bound,
            ridge=0.01 if self.ridge is None else self.ridge,
            tangent=self.tangent,
            ellipsoid_ridge=self.ellipsoid_ridge,
            rewards=self.rewards or "refuse",
        )

    def adapt(self, env: Environment) -> Environment:
        """`env`, observed by the number of its state: what the policies of tables read."""
        if not isinstance(env.action_space, gymnasium.spaces.Discrete):
            raise ValueError(
                f"its actions are {env.action_space}; the provable algorithms need finitely many "
                "states and actions, as in DeepSea-10, CombinationLock-5 or RiverSwim-v0."
            )
        try:
            mdp = env.tabular()
        except NotImplementedError as error:
            raise ValueError(str(error)) from error
        return Numbered(env, mdp.num_states)

    def build(self, env: Environment) -> ProvableLearner:
        chosen = self.complete()
        inner = unwrap(env.env if isinstance(env, Numbered) else env)
        mdp = inner.tabular()
        bound = self.bound
        if bound is None:
            bound = 1 / (1 - chosen.gamma) ** 2
            bound *= 1.0 if chosen.alpha is None else mdp.num_actions / chosen.alpha
        functions = make_function_class(
            self.function_class, inner, gamma=chosen.gamma, bound=bound, **self.class_options
        )
        return ProvableLearner(mdp, functions, chosen)

    def summary(self) -> dict[str, object]:
        """The settings that tell one algorithm from another, for tables."""
        return {"function class": self.function_class, "others": "by environment"}


@dataclass(frozen=True)
class ProvableRow:
    """An algorithm of the table: what it is made of."""

    name: str
    description: str
    cover: str
    bonus: str
    update: str
    source: str
    default: Provable

    def settings(
        self, depth: int = 2, preset: str | None = None, episodes: str = "continuing"
    ) -> Provable:
        """The settings; there is no network to choose a depth of, and no preset."""
        require(preset is None, "preset", preset, f"left out: {self.name} has none")
        require(depth == 2, "depth", depth, f"left out: {self.name} has no network")
        require(
            episodes == "continuing",
            "episodes",
            episodes,
            f"left out: {self.name} samples by geometric stopping, not in episodes",
        )
        return self.default
