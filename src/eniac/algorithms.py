"""The algorithms, as rows of a table over one loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import gymnasium

from eniac.bonuses.kernel import Kernel
from eniac.bonuses.rnd import RND
from eniac.bonuses.width import Width
from eniac.deep import DeepLearner
from eniac.envs.base import Environment
from eniac.errors import require, require_choices
from eniac.policies import DEPTHS, check_spaces
from eniac.provable.table import PROVABLE, ProvableRow
from eniac.updates.ppo import PPO

Episodes = Literal["continuing", "episodic"]


@dataclass(frozen=True)
class RollInRule:
    """How trajectories start in the states that the cover reaches. The defaults are those of the
    paper's program."""

    share: float = 0.8
    """share of trajectories that begin with a policy of the cover"""
    length: Literal["uniform", "geometric"] = "uniform"
    """how long it acts: uniform over the trajectory (the paper's program), or geometric with
    1 - gamma (the paper's theory, Algorithm 4), given that the current policy has a turn"""
    epsilon: float = 0.05
    """probability that the first action after it is uniform ("epsilon-greedy sampling")"""
    group: int = 10
    """environments that share one policy of the cover, one length and one toss"""

    def __post_init__(self):
        require_choices(self, "roll_in.")
        require(0 <= self.share <= 1, "roll_in.share", self.share, "in [0, 1]")
        require(0 <= self.epsilon < 1, "roll_in.epsilon", self.epsilon, "in [0, 1)")
        require(self.group >= 1, "roll_in.group", self.group, "1 or more")


@dataclass(frozen=True)
class Deep:
    """A deep algorithm: networks for policy and critic, PPO as the policy update."""

    name: str = "ppo"
    """the algorithm's row in the table"""
    hidden: tuple[int, ...] = DEPTHS[2]
    """sizes of the hidden layers; the paper's depths 2, 4 and 6 are (64, 64), (64, 128, 128, 64)
    and (64, 64, 128, 128, 64, 64)"""
    num_envs: int = 500
    """environments stepped side by side"""
    trajectory: int = 100
    """steps that each of them takes before an update"""
    loops: int = 10
    """updates of each policy in an epoch"""
    episodes: Episodes = "continuing"
    """continuing: an environment goes on where the last trajectory left it, until its episode ends
    (the paper's program); episodic: every trajectory starts from a reset (the paper's text)"""
    ppo: PPO = field(default_factory=PPO)
    cover: Literal["none", "uniform", "log-det"] = "none"
    """the policy cover: none, equal weights (the paper), or weights of largest log-determinant
    (PC-PG; needs the kernel bonus)"""
    bonus: Width | Kernel | RND | None = None
    combine: Literal["max", "add"] = "max"
    """how the exploring policy's reward comes of reward r and bonus b: max(r, b) or r + b"""
    roll_in: RollInRule = field(default_factory=RollInRule)
    interval: int = 3
    """epochs between two policies of the cover, each with a new bonus"""
    fit_at: int = 0
    """loop of such an epoch at which the bonus is fitted, on query pairs gathered in that loop"""
    visits: int = 10_000
    """steps that a policy of the cover adds to the buffer"""
    visit_envs: int = 10
    """environments that they are made in, each from a reset, when continuing; when episodic, there
    are as many as make trajectories of the usual length"""
    capacity: int = 17
    """policies that the cover has room for"""
    exploit_from: int = 3
    """epoch at which the exploiting policy starts to learn"""
    restart: int = 0
    """epochs after which the exploiting policy starts afresh, with what the cover has reached by
    then; 0 is never (the paper's program), `interval` is whenever the cover grows (Algorithm 2)"""

    def __post_init__(self):
        require_choices(self)
        require(
            len(self.hidden) > 0 and min(self.hidden, default=0) >= 1,
            "hidden",
            self.hidden,
            "one size of 1 or more for each hidden layer, for example (64, 64)",
        )
        for name in ("num_envs", "trajectory", "loops", "interval", "visit_envs", "capacity"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        require(self.exploit_from >= 0, "exploit_from", self.exploit_from, "0 or more")
        require(
            0 <= self.fit_at < self.loops, "fit_at", self.fit_at, f"in 0..{self.loops - 1} (loops)"
        )
        require(
            self.visits >= 1 and self.visits % self.visitors == 0,
            "visits",
            self.visits,
            f"a multiple of the number of environments they are made in ({self.visitors})",
        )
        if self.cover == "none":
            require(
                self.bonus is None or isinstance(self.bonus, RND),
                "bonus",
                self.bonus,
                "an RND or None without a cover, whose data the others are fitted to",
            )
            return
        require(
            self.num_envs % self.roll_in.group == 0,
            "num_envs",
            self.num_envs,
            f"a multiple of roll_in.group ({self.roll_in.group})",
        )
        require(self.trajectory >= 2, "trajectory", self.trajectory, "2 or more with a cover")
        require(
            self.bonus is not None,
            "bonus",
            self.bonus,
            "a bonus when there is a cover; ZERO is Kernel(coefficient=0)",
        )
        require(
            self.cover != "log-det" or isinstance(self.bonus, Kernel),
            "cover",
            self.cover,
            "uniform unless the bonus is a Kernel, whose covariances the weights are made of",
        )

    @property
    def visitors(self) -> int:
        """Environments in which a policy of the cover makes its visits."""
        episodic = self.episodes == "episodic"
        return max(self.visits // self.trajectory, 1) if episodic else self.visit_envs

    @property
    def max_epochs(self) -> int | None:
        """Epochs until the cover is full."""
        return None if self.cover == "none" else self.capacity * self.interval

    @property
    def room(self) -> str:
        """What decides `max_epochs`, for whoever wants more."""
        return (
            f"capacity = {self.capacity} policies, one every interval = {self.interval} epochs. "
            "Give it a larger capacity"
        )

    def summary(self) -> dict[str, object]:
        """The settings that tell one algorithm from another, for tables."""
        shown: dict[str, object] = {
            "learning rate": self.ppo.learning_rate,
            "minibatch": self.ppo.minibatch,
            "envs x steps": f"{self.num_envs} x {self.trajectory}",
            "updates an epoch": self.loops,
        }
        if self.bonus is not None:
            shown["coefficient"] = self.bonus.coefficient
        if self.cover != "none":
            shown["new bonus every"] = f"{self.interval} epochs"
        return shown

    def build(self, env: Environment) -> DeepLearner:
        """The learner of these settings in `env`.

        Raises ValueError for spaces that no policy can be made for, and for an action box without
        bounds where the settings ask for uniform actions.
        """
        check_spaces(env.observation_space, env.action_space)
        action = env.action_space
        if self.cover != "none" and isinstance(action, gymnasium.spaces.Box):
            require(
                self.roll_in.epsilon == 0 or action.is_bounded(),
                "the action space",
                action,
                "bounded on all sides for uniform actions after a roll-in; bound it, for example "
                "by gymnasium.wrappers.RescaleAction, or set roll_in.epsilon to 0",
            )
        return DeepLearner(env, self)


@dataclass(frozen=True)
class Row:
    """An algorithm of the table: what it is made of, and where its settings come from."""

    name: str
    description: str
    cover: str
    bonus: str
    update: str
    source: str
    ours: Callable[[int], Deep]
    """our settings at a depth"""
    paper: Callable[[int], Deep]
    """the paper's settings at a depth"""

    def settings(
        self, depth: int = 2, preset: str | None = None, episodes: Episodes = "continuing"
    ) -> Deep:
        """The settings at `depth`, or those of `preset`, one of `PRESETS`."""
        if preset is not None:
            require(preset in PRESETS, "preset", preset, f"one of {', '.join(PRESETS)}")
            return replace(self.paper(PRESETS[preset]), episodes=episodes)
        require(depth in DEPTHS, "depth", depth, f"one of {', '.join(map(str, DEPTHS))}")
        settings = replace(self.ours(depth), episodes=episodes)
        if episodes == "episodic" and settings.cover != "none":
            # Within 100 steps the goal is reached by few policies: the cover has to grow faster.
            settings = replace(settings, interval=1, capacity=50)
        return settings

    @property
    def default(self) -> Deep:
        return self.settings()


PRESETS: dict[str, int] = {f"paper-depth{depth}": depth for depth in DEPTHS}


def paper_eniac(depth: int) -> Deep:
    """Tables 1 and 2 of the paper's appendix, and its program where they are silent."""
    width = Width(
        training="lagrangian",
        of="state",
        reinitialise=False,
        wide=0.0,
        normaliser="max",
        learning_rate=1.5e-3 if depth == 6 else 1e-3,
        query_batch=10 if depth == 6 else 20,
    )
    # The program fits the width when the exploring policy has gathered its query pool, about two
    # thirds into the epoch.
    return Deep("eniac", DEPTHS[depth], cover="uniform", bonus=width, fit_at=6)


def ours(settings: Deep) -> Deep:
    """What we set otherwise than the paper in every algorithm with a cover.

    Five times as many updates, each on a fifth of the steps; a critic whose error counts a
    fiftieth, so that it does not fill a gradient that is cut to norm 5; a bonus that is fitted
    before the policy is improved, as in Algorithm 1; a new policy for the cover every second epoch;
    and an exploiting policy that starts afresh after some epochs, as in Algorithm 2. docs/eniac.md
    has what each of them brings.
    """
    return replace(
        settings,
        num_envs=100,
        loops=50,
        fit_at=0,
        interval=2,
        exploit_from=2,
        capacity=25,
        restart=3,
        ppo=replace(settings.ppo, value_weight=0.01),
    )


def our_eniac(depth: int) -> Deep:
    return ours(replace(paper_eniac(depth), bonus=Width()))


def paper_pc_pg(depth: int, coefficient: float = 1.0, name: str = "pc-pg") -> Deep:
    kernel = Kernel(coefficient=coefficient, bandwidth="paper")
    return Deep(name, DEPTHS[depth], cover="log-det", bonus=kernel)


def our_pc_pg(depth: int, coefficient: float = 1.0, name: str = "pc-pg") -> Deep:
    return ours(
        replace(paper_pc_pg(depth, coefficient, name), bonus=Kernel(coefficient=coefficient))
    )


def paper_ppo(depth: int, name: str = "ppo", bonus: RND | None = None) -> Deep:
    """10 workers and 100 steps an update, as in the paper's program; 500,000 steps an epoch."""
    ppo = PPO(learning_rate=1e-4) if bonus else PPO()
    return Deep(name, DEPTHS[depth], num_envs=10, loops=500, ppo=ppo, bonus=bonus, combine="add")


def paper_rnd(depth: int) -> Deep:
    return paper_ppo(depth, "ppo-rnd", RND(coefficient=5e3 if depth == 2 else 1e3))


ALGORITHMS: dict[str, Row | ProvableRow] = {
    row.name: row
    for row in (
        Row(
            name="eniac",
            description="policy cover and width bonus: the paper's deep algorithm",
            cover="uniform",
            bonus="trained width, 0.5 w / max w, max(r, b)",
            update="PPO",
            source="Feng et al. 2021, Section 5, Algorithm 5, Tables 1-2",
            ours=our_eniac,
            paper=paper_eniac,
        ),
        Row(
            name="ppo",
            description="proximal policy optimisation: no cover, no bonus",
            cover="none",
            bonus="none",
            update="PPO",
            source="Schulman et al. 2017; the paper's baseline",
            ours=lambda depth: Deep("ppo", DEPTHS[depth]),
            paper=paper_ppo,
        ),
        Row(
            name="ppo-rnd",
            description="PPO with the prediction error of a random network added to the reward",
            cover="none",
            bonus="random network distillation, r + b",
            update="PPO",
            source="Burda et al. 2019; the paper's Table 3",
            ours=lambda depth: replace(paper_rnd(depth), num_envs=500, loops=10),
            paper=paper_rnd,
        ),
        Row(
            name="pc-pg",
            description="policy cover with log-det weights and a kernel bonus",
            cover="log-det",
            bonus="sqrt(phi' Sigma^-1 phi) of random Fourier features, max(r, b)",
            update="PPO",
            source="Agarwal et al. 2020; the paper's Table 2",
            ours=our_pc_pg,
            paper=paper_pc_pg,
        ),
        Row(
            name="zero",
            description="the cover of PC-PG and a bonus of zero",
            cover="log-det",
            bonus="0, max(r, b)",
            update="PPO",
            source="the paper's baseline ZERO",
            ours=lambda depth: our_pc_pg(depth, 0.0, "zero"),
            paper=lambda depth: paper_pc_pg(depth, 0.0, "zero"),
        ),
    )
} | PROVABLE
