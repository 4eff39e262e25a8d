"""The deep algorithms: their settings, ours and the paper's, as rows of the table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import gymnasium

from eniac.algorithm1 import AlgorithmConfig
from eniac.bonuses.base import BonusRule
from eniac.bonuses.kernel import Kernel
from eniac.bonuses.rnd import RND
from eniac.bonuses.width import Width
from eniac.bonuses.zero import Zero
from eniac.cover import CoverRule, LogDet, Uniform
from eniac.deep import DeepLearner
from eniac.envs.base import Environment
from eniac.envs.registry import is_finite
from eniac.envs.sources import HostEnv
from eniac.errors import require, require_choices
from eniac.incumbent import IncumbentRule
from eniac.memory import require_memory
from eniac.networks import DEPTHS, MOST_LAYERS
from eniac.sampling import make_sampler
from eniac.sampling.base import Evaluation
from eniac.spaces import Encoder, Spaces, check_spaces, element_bytes, emitted
from eniac.updates.base import UpdateRule
from eniac.updates.ppo import PPO

EpisodeKind = Literal["continuing", "episodic"]


@dataclass(frozen=True)
class RollInRule:
    """How trajectories start in the states that the cover reaches. The defaults are those of the
    paper's program."""

    share: float = 0.8
    """share of trajectories that begin with a policy of the cover"""
    alone: float = 0.0
    """share of the environments in which the exploiting policy has no roll-ins: there it learns
    from whole episodes of its own"""
    length: Literal["uniform", "geometric"] = "uniform"
    """how long it acts: uniform over the trajectory (the paper's program), or geometric with
    1 - gamma (the paper's theory, Algorithm 4), given that the current policy has a turn"""
    epsilon: float = 0.05
    """probability that the first action after it is uniform ("epsilon-greedy sampling")"""
    group: int = 10
    """environments that share one policy of the cover, one length and one toss; or fewer,
    so that the groups are equal"""

    def __post_init__(self):
        require_choices(self, "roll_in.")
        require(0 <= self.share <= 1, "roll_in.share", self.share, "in [0, 1]")
        require(0 <= self.alone <= 1, "roll_in.alone", self.alone, "in [0, 1]")
        require(0 <= self.epsilon < 1, "roll_in.epsilon", self.epsilon, "in [0, 1)")
        require(self.group >= 1, "roll_in.group", self.group, "1 or more")


@dataclass(frozen=True)
class DeepConfig(AlgorithmConfig):
    """A deep algorithm: networks for policy and critic; a cover, a bonus and an update as parts."""

    room_setting = "capacity"

    name: str = "ppo"
    """the algorithm's row in the table"""
    hidden: tuple[int, ...] = DEPTHS[2]
    """sizes of the hidden layers; the paper's depths 2, 4 and 6 are (64, 64), (64, 128, 128, 64)
    and (64, 64, 128, 128, 64, 64)"""
    num_envs: int = 500
    """environments stepped side by side; a vector environment of your own has its own number"""
    rollout_length: int = 100
    """steps that each of them takes before an update; fit_episodes may change it"""
    fit_episodes: bool = False
    """let a rollout be no longer than an episode can be, where that is known (a roll-in comes once
    a rollout), and at least a quarter of that where episodes go on in the next rollout; in as many
    more or fewer environments. Turn it off to have rollout_length and num_envs as they stand"""
    updates_per_round: int = 10
    """updates of each policy in a round"""
    rounds: int = 1
    """rounds of improvement in an epoch, each followed by an evaluation; an epoch adds one policy
    to the cover and has one bonus"""
    extra_rounds: int = 0
    """rounds more, in which the exploiting policy alone learns: in every epoch as soon as an
    exploring policy has earned clearly more than the first policy of the run, and in those in which
    one is ahead of it in its best trajectories (incumbent.rollouts)"""
    episodes: EpisodeKind = "continuing"
    """continuing: an environment goes on where the last rollout left it, until its episode ends
    (the paper's program); episodic: every rollout starts from a reset (the paper's text)"""
    normalise_observations: bool = False
    """shift and scale what the networks see by its mean and spread so far"""
    normalise_rewards: bool = False
    """divide rewards by the spread of discounted returns so far"""
    update: UpdateRule = field(default_factory=PPO)
    """the policy update"""
    cover: CoverRule | None = None
    """the weights of the policy cover; none: no cover, and one policy instead of two"""
    bonus: BonusRule = field(default_factory=Zero)
    """the exploration bonus"""
    combine: Literal["max", "add", "bonus"] = "max"
    """how the exploring policy's reward comes of reward r and bonus b: max(r, b), r + b, or the
    bonus alone"""
    first_visits: bool = False
    """pay the bonus only at the first visit of an observation in its episode, where observations
    have no floats, so that two can be the same"""
    roll_in: RollInRule = field(default_factory=RollInRule)
    """how trajectories start in the states that the cover reaches"""
    fit_after: int = 0
    """updates of the exploring policy in an epoch's first round, on the bonus of before, in which
    the query pairs are gathered; the bonus is fitted after them"""
    incumbent: IncumbentRule = field(default_factory=IncumbentRule)
    """how the best policy of the run is chosen"""
    visit_steps: int = 10_000
    """steps that a policy of the cover adds to the buffer"""
    visit_envs: int = 10
    """environments that they are made in, each from a reset"""
    buffer_rows: int | None = None
    """pairs that the buffer holds at most, subsampled by sensitivity when it is full; None: all
    of them, as long as they take no more than 256 MiB"""
    capacity: int = 17
    """policies that the cover has room for"""
    exploit_from: int = 3
    """round of the run at which the exploiting policy starts to learn"""
    restart: int = 0
    """rounds after which the exploiting policy starts afresh, with what the cover has reached by
    then; 0 is never (the paper's program)"""

    def __post_init__(self):
        require_choices(self)
        require(
            0 < len(self.hidden) <= MOST_LAYERS and min(self.hidden, default=0) >= 1,
            "hidden",
            self.hidden,
            f"one size of 1 or more for each of at most {MOST_LAYERS} hidden layers, for example "
            "(64, 64)",
        )
        least = ("num_envs", "rollout_length", "updates_per_round", "rounds", "visit_steps")
        for name in (*least, "visit_envs", "capacity"):
            fits = 1 <= getattr(self, name) < 2**31
            require(fits, name, getattr(self, name), "1 or more, and below 2**31")
        require(
            self.buffer_rows is None or self.buffer_rows >= 1,
            "buffer_rows",
            self.buffer_rows,
            "1 or more, or left out",
        )
        for name in ("extra_rounds", "exploit_from", "restart"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        require(
            0 <= self.fit_after < self.updates_per_round,
            "fit_after",
            self.fit_after,
            f"in 0..{self.updates_per_round - 1} (updates_per_round)",
        )
        require(
            self.round_steps < 2**31,
            "num_envs x rollout_length x updates_per_round, and visit_steps,",
            self.round_steps,
            "below 2**31 steps for all policies of a round together: they are counted in 32 bits",
        )
        require(
            self.cover is not None or not self.bonus.reads_buffer,
            "bonus",
            self.bonus,
            "one that learns as the policy goes, such as RND, without a cover, whose data the "
            "others are fitted to",
        )
        if self.cover is not None:
            require(
                self.rollout_length >= 2,
                "rollout_length",
                self.rollout_length,
                "2 or more with a cover",
            )

    @property
    def has_cover(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.cover is not None

    @property
    def explores(self) -> bool:
        """Whether there is a policy whose reward is more than that of the environment."""
        return self.cover is not None or self.bonus.coefficient > 0

    @property
    def round_steps(self) -> int:
        """Environment steps of the longest round, that which an epoch begins with."""
        steps = self.num_envs * self.rollout_length * self.updates_per_round
        return steps if self.cover is None else 2 * steps + self.visit_rows

    @property
    def visit_rows(self) -> int:
        """Steps that `visit_envs` environments take to make `visit_steps` or a few more."""
        return -(-self.visit_steps // self.visit_envs) * self.visit_envs

    @property
    def max_epochs(self) -> int | None:
        """Epochs until the cover is full."""
        return None if self.cover is None else self.capacity

    @property
    def longer(self) -> str:
        """What to change for more epochs than `max_epochs`."""
        return (
            f"it has a capacity of {self.capacity} policies, one an epoch. Give it a larger "
            "capacity"
        )

    @property
    def default_epochs(self) -> int:
        """How long a run is that was given no stop rule at all."""
        return 50 if self.max_epochs is None else min(50, self.max_epochs)

    def summary(self) -> dict[str, object]:
        """The settings that tell one algorithm from another, for tables."""
        shown: dict[str, object] = {
            "envs x steps": f"{self.num_envs} x {self.rollout_length}",
            "updates a round": self.updates_per_round,
        }
        if self.bonus.coefficient:
            shown["coefficient"] = self.bonus.coefficient
        if self.cover is not None:
            shown["rounds an epoch"] = self.rounds
        return shown

    def evaluated_by(self, evaluation: Evaluation) -> Evaluation:
        if self.episodes == "episodic" and evaluation.first is None:
            return replace(evaluation, first=self.rollout_length)
        return evaluation

    def resolve(
        self, env: Environment | HostEnv, name: str, options: Mapping[str, Any]
    ) -> DeepConfig:
        del name, options
        num_envs, visit_envs, length = self.num_envs, self.visit_envs, self.rollout_length
        longest = env.longest_episode
        if self.fit_episodes and longest is not None:
            rows = num_envs * length
            if self.episodes == "continuing":
                length = max(length, longest // 4)
            length = max(min(length, longest), 2)
            if length != self.rollout_length:
                num_envs = 10 * max(round(rows / length / 10), 1)
        if self.episodes == "episodic":
            visit_envs = max(self.visit_steps // length, 1)
        if isinstance(env, HostEnv):
            # A vector environment of the user's is the only one, and all is done in it.
            num_envs = env.num_envs or num_envs
            visit_envs = env.num_envs or min(visit_envs, num_envs)
        steps = num_envs * length * self.updates_per_round
        incumbent = self.incumbent.resolve(
            steps, longest, (env.num_envs or 0) if isinstance(env, HostEnv) else 0
        )
        # Groups of equal size, as large as was asked for where that is possible.
        group = math.gcd(num_envs, self.roll_in.group)
        return replace(
            self,
            num_envs=num_envs,
            rollout_length=length,
            visit_envs=visit_envs,
            incumbent=incumbent,
            update=self.update.resolve(longest),
            roll_in=replace(self.roll_in, group=group),
        )

    def memory(self, env: Environment | HostEnv, evaluation: Evaluation) -> dict[str, int]:
        spaces = Spaces(env.observation_space, env.action_space)
        pair = element_bytes(spaces.observation) + element_bytes(emitted(spaces.action))
        # Five numbers and three truths in a row of a trajectory; two keys, a draw of the action.
        row = pair + 5 * 4 + 3
        sizes = {
            "num_envs x rollout_length": self.num_envs * self.rollout_length * (row + 2 * 8 + 4),
            "updates_per_round": 12 * 4 * self.updates_per_round,
            "rounds": 12 * 4 * (self.rounds + self.extra_rounds),
            **evaluation.memory(spaces),
            **self.update.working_memory(row, self.hidden),
            **self.bonus.working_memory(pair, self.hidden),
        }
        if self.incumbent.episodes:
            # Two policies, or two ways to act, side by side.
            sizes["incumbent.episodes"] = 2 * self.incumbent.episodes * (pair + 32)
        if self.cover is not None:
            sizes["visit_steps"] = self.visit_rows * row
        if isinstance(env, HostEnv) and env.num_envs is None:
            # A Python object each, or a process.
            each = 2**10 if env.vectorization == "sync" else 2**23
            sizes["num_envs"] = sum(self.host_pools(evaluation)) * each
        return sizes

    def host_pools(self, evaluation: Evaluation) -> set[int]:
        """How many environments are opened side by side on the host, in each pool of them: to
        train, to visit, to decide and to judge. Pools of the same size are the same."""
        most = [self.num_envs, evaluation.episodes]
        if self.cover is not None:
            most.append(self.visit_envs)
        if self.incumbent.episodes:
            most.append(2 * self.incumbent.episodes)
        return {min(self.num_envs, size) for size in most}

    def network_bytes(self, observation: gymnasium.Space[Any]) -> int:
        """Bytes of all networks, from below: filters for pictures and heads are left out."""
        encoder, roles = Encoder(observation), 1 if self.cover is None else 2
        layers = self.hidden if encoder.images else (encoder.size, *self.hidden)
        floats = sum(a * b for a, b in itertools.pairwise(layers)) + sum(self.hidden)
        # Those that are improved, what the optimiser knows of each weight, and the cover's.
        return 4 * floats * (2 * roles + (0 if self.cover is None else self.capacity))

    def build(
        self,
        env: Environment | HostEnv,
        evaluation_env: Environment | HostEnv,
        evaluation: Evaluation,
    ) -> DeepLearner:
        """The learner of these settings, which must be resolved, in `env`.

        **Raises** ConfigError for spaces that no policy can be made for or that the bonus has no
        use for, and for an action box without bounds where the settings ask for uniform actions.
        """
        check_spaces(env.observation_space, env.action_space)
        finite = isinstance(env, Environment) and is_finite(env)
        self.bonus.check(Spaces(env.observation_space, env.action_space), finite)
        where = "hidden" if self.cover is None else "hidden and capacity"
        require_memory({where: self.network_bytes(env.observation_space)}, "its networks")
        action = env.action_space
        if self.cover is not None and isinstance(action, gymnasium.spaces.Box):
            require(
                self.roll_in.epsilon == 0 or action.is_bounded(),
                "the action space",
                action,
                "bounded on all sides for uniform actions after a roll-in; bound it, for example "
                "by gymnasium.wrappers.RescaleAction, or set roll_in.epsilon to 0",
            )
        return DeepLearner(make_sampler(env, evaluation_env, self.num_envs), self, evaluation)


@dataclass(frozen=True)
class DeepSpec:
    """A deep algorithm of the table: what it is made of, and where its settings come from."""

    name: str
    description: str
    cover: str
    bonus: str
    update: str
    source: str
    ours: Callable[[int], DeepConfig]
    """our settings at a depth"""
    paper: Callable[[int], DeepConfig]
    """the paper's settings at a depth"""

    choices: ClassVar[tuple[str, ...]] = ("depth", "preset", "episodes", "cover", "bonus", "update")
    """what can be chosen by name before all other settings"""

    def settings(
        self,
        depth: int = 2,
        preset: str | None = None,
        episodes: EpisodeKind = "continuing",
        **parts: Any,
    ) -> DeepConfig:
        """The settings at `depth`, or those of `preset`, one of `PRESETS`; with other `parts`."""
        if preset is not None:
            require(preset in PRESETS, "preset", preset, f"one of {', '.join(PRESETS)}")
            settings = replace(self.paper(PRESETS[preset]), incumbent=NO_INCUMBENT)
            return replace(settings, episodes=episodes, **parts)
        require(depth in DEPTHS, "depth", depth, f"one of {', '.join(map(str, DEPTHS))}")
        require(
            episodes in ("continuing", "episodic"),
            "episodes",
            episodes,
            "'continuing' or 'episodic'",
        )
        settings = replace(self.ours(depth), episodes=episodes)
        return replace(settings, **parts)

    @property
    def default(self) -> DeepConfig:
        return self.settings()


PRESETS: dict[str, int] = {f"paper-depth{depth}": depth for depth in DEPTHS}

NO_INCUMBENT = IncumbentRule(episodes=0)
"""The paper judges the exploiting policy as it is, and counts no episodes to choose another."""


def paper_eniac(depth: int) -> DeepConfig:
    """Tables 1 and 2 of the paper's appendix, and its program where they are silent."""
    width = Width(
        training="lagrangian",
        of="state",
        reinitialise=False,
        uniform_share=0.0,
        normaliser="max",
        learning_rate=1.5e-3 if depth == 6 else 1e-3,
        query_batch=10 if depth == 6 else 20,
    )
    # The program fits the width when the exploring policy has gathered its query pool, about two
    # thirds into the first of three rounds.
    return DeepConfig("eniac", DEPTHS[depth], rounds=3, cover=Uniform(), bonus=width, fit_after=6)


def our_update(explores: bool = True) -> PPO:
    """Adam; a critic whose error is measured by the spread of its targets, so that it does not fill
    a gradient that is cut to norm 5; a discount by the length of episodes; and where there is a
    cover, imitation of what its policies did well, and an exploring policy that stays undecided for
    longer."""
    settings = PPO(optimizer="adam", scale_targets=True, gamma=None)
    return replace(settings, explore_entropy=0.05, imitate=True) if explores else settings


def our_sizes(settings: DeepConfig) -> DeepConfig:
    """5,000 rows an update, in trajectories that are a part of an episode; observations and rewards
    on the scale of what was seen, so that one step size fits all."""
    return replace(
        settings,
        num_envs=50,
        updates_per_round=30,
        fit_episodes=True,
        normalise_observations=True,
        normalise_rewards=True,
        incumbent=IncumbentRule(share=0.025, always=True),
    )


def ours(settings: DeepConfig) -> DeepConfig:
    """What we set otherwise than the paper in every algorithm with a cover.

    Small epochs: a new policy for the cover every 30 updates. The exploring policy earns the bonus
    alone, so that no reward holds it back; the exploiting policy is there for the reward, learns
    from what the cover did, goes on from the incumbent, or from the exploring policy where that is
    ahead, and has three rounds where the exploring policy has one, once that has found a reward; in
    half of its environments it begins where episodes begin. The bonus is fitted before the policy
    is improved, as in Algorithm 1, and where observations are codes or bytes, it is paid once an
    episode for each. docs/eniac.md has what each of them brings.
    """
    settings = our_sizes(settings)
    return replace(
        settings,
        incumbent=replace(settings.incumbent, rollouts=True),
        rounds=1,
        extra_rounds=2,
        roll_in=replace(settings.roll_in, alone=0.5),
        fit_after=0,
        exploit_from=1,
        capacity=100,
        combine="bonus",
        first_visits=True,
        update=our_update(),
    )


def our_eniac(depth: int) -> DeepConfig:
    return ours(replace(paper_eniac(depth), bonus=Width()))


def paper_pc_pg(depth: int) -> DeepConfig:
    return DeepConfig(
        "pc-pg",
        DEPTHS[depth],
        rounds=3,
        cover=LogDet(bandwidth="paper"),
        bonus=Kernel(bandwidth="paper"),
    )


def our_pc_pg(depth: int) -> DeepConfig:
    return ours(replace(paper_pc_pg(depth), cover=LogDet(), bonus=Kernel()))


def without_bonus(settings: DeepConfig) -> DeepConfig:
    """Without a bonus the exploring policy has the reward: max(r, 0)."""
    return replace(settings, name="zero", bonus=Zero(), combine="max")


def paper_ppo(depth: int) -> DeepConfig:
    """10 workers and 100 steps an update, as in the paper's program; 500,000 steps an epoch."""
    return DeepConfig("ppo", DEPTHS[depth], num_envs=10, updates_per_round=500)


def paper_rnd(depth: int) -> DeepConfig:
    return replace(
        paper_ppo(depth),
        name="ppo-rnd",
        update=PPO(learning_rate=1e-4),
        bonus=RND(coefficient=5e3 if depth == 2 else 1e3),
        combine="add",
    )


DEEP = (
    DeepSpec(
        name="eniac",
        description="policy cover and width bonus: the paper's deep algorithm",
        cover="uniform",
        bonus="trained width, 0.5 w / max w, max(r, b)",
        update="PPO",
        source="Feng et al. 2021, Section 5, Algorithm 5, Tables 1-2",
        ours=our_eniac,
        paper=paper_eniac,
    ),
    DeepSpec(
        name="ppo",
        description="proximal policy optimisation: no cover, no bonus",
        cover="none",
        bonus="none",
        update="PPO",
        source="Schulman et al. 2017; the paper's baseline",
        ours=lambda depth: replace(
            our_sizes(DeepConfig("ppo", DEPTHS[depth])), update=our_update(explores=False)
        ),
        paper=paper_ppo,
    ),
    DeepSpec(
        name="ppo-rnd",
        description="PPO with the prediction error of a random network added to the reward",
        cover="none",
        bonus="random network distillation, r + b",
        update="PPO",
        source="Burda et al. 2019; the paper's Table 3",
        ours=lambda depth: replace(our_sizes(paper_rnd(depth)), update=our_update(explores=False)),
        paper=paper_rnd,
    ),
    DeepSpec(
        name="pc-pg",
        description="policy cover with log-det weights and a kernel bonus",
        cover="log-det",
        bonus="sqrt(phi' Sigma^-1 phi) of random Fourier features, max(r, b)",
        update="PPO",
        source="Agarwal et al. 2020; the paper's Table 2",
        ours=our_pc_pg,
        paper=paper_pc_pg,
    ),
    DeepSpec(
        name="zero",
        description="the cover of PC-PG and a bonus of zero",
        cover="log-det",
        bonus="0, max(r, b)",
        update="PPO",
        source="the paper's baseline ZERO",
        ours=lambda depth: without_bonus(our_pc_pg(depth)),
        paper=lambda depth: without_bonus(paper_pc_pg(depth)),
    ),
)
