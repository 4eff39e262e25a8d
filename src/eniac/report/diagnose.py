"""What is the matter with a run: every check of `runs.checks`, with what only its newest checkpoint
can say: where its policies go, what the bonus makes of that, and what the critic knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from eniac.actors import take
from eniac.buffer import Pairs
from eniac.deep import DeepLearner
from eniac.errors import EniacError
from eniac.report.audit import judge_all, judge_held_out, scores
from eniac.report.coverage import Cells, visits_of
from eniac.report.far import apart, buffered, halves
from eniac.report.run_list import describe_run
from eniac.report.states import list_states
from eniac.runs.checks import CHECKS, Evidence, Finding, find
from eniac.runs.config import Config
from eniac.runs.load import Run, load_config, load_run
from eniac.runs.log import METRICS, read_records
from eniac.runs.program import take_seed
from eniac.sampling.base import Trajectory, flat, rollout_advantages

NUM_STEPS = 5000
"""Steps of the exploiting policy that are looked at, or as many as ten episodes have."""
NUM_ENVS = 10
NUM_PAIRS = 1000
"""Pairs of each kind, visited or not, that a bonus is judged on where not all can be listed."""


@dataclass(frozen=True)
class Answer:
    """What a check has found in one seed of a run."""

    check: str
    question: str
    seed: int
    finding: Finding

    def to_dict(self) -> dict[str, Any]:
        about = {"check": self.check, "question": self.question, "seed": self.seed}
        return about | asdict(self.finding)


@dataclass(frozen=True)
class Diagnosis:
    """What there is to say of a run. As text it is what `eniac diagnose` prints."""

    title: str
    answers: list[Answer]
    """of every check, seed by seed"""
    left_out: dict[str, str]
    """checks that are none for this algorithm, and why"""
    about: dict[str, Any]
    """which run, how far it is, how it ended"""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        answers = [answer.to_dict() for answer in self.answers]
        return self.about | {"answers": answers, "left_out": self.left_out}

    def lines(self) -> list[tuple[str, str, list[str]]]:
        """For each check its worst verdict, the question, and what there is to say: of the first
        seed with that verdict, and which other seeds have it."""
        found: dict[str, list[Answer]] = {}
        for answer in self.answers:
            found.setdefault(answer.check, []).append(answer)
        return [_told(answers) for answers in found.values()]

    def __str__(self) -> str:
        rows = [
            f"{SHOWN[verdict]:<8}{question}\n" + "".join(f"{' ' * 8}{text}\n" for text in texts)
            for verdict, question, texts in self.lines()
        ]
        left = "".join(f"left out: {name} ({why})\n" for name, why in self.left_out.items())
        return "\n".join([f"{self.title}\n", *rows, left]).strip()


SHOWN = {"good": "good", "look": "look", "bad": "bad", "unknown": "?"}
"""Verdicts as they are printed."""

_WORST = ("bad", "look", "unknown", "good")


def _told(answers: Sequence[Answer]) -> tuple[str, str, list[str]]:
    by_verdict: dict[str, list[Answer]] = {}
    for answer in answers:
        by_verdict.setdefault(answer.finding.verdict, []).append(answer)
    worst = next(verdict for verdict in _WORST if verdict in by_verdict)
    first, *others = by_verdict[worst]
    finding = first.finding
    seen = f"cannot be told: {finding.seen}" if worst == "unknown" else finding.seen
    if len(answers) > 1:
        seen = f"seed {first.seed}: {seen}"
    texts = [_sentence(seen)]
    if others:
        texts.append(f"The same verdict: {_seeds(others)}.")
    texts += [
        f"{SHOWN[verdict].capitalize()}: {_seeds(by_verdict[verdict])}."
        for verdict in _WORST
        if verdict in by_verdict and verdict != worst
    ]
    if finding.trouble:
        texts += [_sentence(finding.trouble), f"Try {finding.advice}."]
    return worst, first.question, texts


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _seeds(answers: Sequence[Answer]) -> str:
    numbers = ", ".join(str(answer.seed) for answer in answers)
    return f"seed{'s' * (len(answers) > 1)} {numbers}"


def diagnose_run(folder: Path | str) -> Diagnosis:
    """Asks all checks of the run in `folder`: running, finished, interrupted or failed.

        >>> print(eniac.diagnose_run(folder / "run"))
        eniac on DeepSea-4, seed 0: 1 epoch, ... steps; ended: saved ...

    Records come from metrics.jsonl, the rest from the newest checkpoint, in whose environment some
    thousand steps are taken. What can only be told with a checkpoint is unknown where there is
    none, or where its environment cannot be made. Nothing of the run is changed. **Raises**
    `ConfigError` if there is no run in the folder.
    """
    folder = Path(folder)
    config = load_config(folder)
    records = read_records(folder / METRICS)
    run, unseen = None, ""
    try:
        run = load_run(folder)
    except EniacError as error:
        unseen = str(error).removesuffix(".")
    about = {"run": str(folder), "ended": describe_run(folder)["ended"]}
    about["warnings"] = [] if run is None else run.warnings
    try:
        return diagnose(config if run is None else run.config, records, run, unseen, about)
    finally:
        if run is not None:
            run.learner.close()


def diagnose(
    config: Config,
    records: Sequence[Mapping[str, Any]],
    run: Run | None,
    unseen: str = "",
    about: Mapping[str, Any] | None = None,
) -> Diagnosis:
    """The answers of all checks for the `records` of all seeds, and what `run` was saved as; None,
    and why (`unseen`), if that is not to be had."""
    last = records[-1] if records else {}
    why = {check.name: check.applies(config.algorithm, last) for check in CHECKS}
    looker, evidences = None if run is None else Looker(run), []
    for seed in config.seed_numbers:
        own = [record for record in records if record.get("seed") == seed]
        looked: dict[str, Any] = {}
        if looker is not None:
            try:
                looked = looker.look(seed)
            except EniacError as error:
                unseen = str(error).removesuffix(".")
        evidences.append(Evidence(config, own, looked, unseen or "there is nothing to look at"))
    answers = [
        Answer(check.name, check.question, seed, find(check, evidence))
        for check in CHECKS
        for seed, evidence in zip(config.seed_numbers, evidences, strict=True)
        if not why[check.name]
    ]
    facts = {
        "algorithm": config.algorithm.name,
        "env": config.env,
        "seeds": list(config.seed_numbers),
        "epoch": max((record.get("epoch") or 0 for record in records), default=0),
        "env_steps": max((record.get("env_steps") or 0 for record in records), default=0),
        "checkpoint": None if run is None else run.progress.epoch,
    } | dict(about or {})
    left_out = {name: reason for name, reason in why.items() if reason}
    return Diagnosis(_title(facts), answers, left_out, facts)


def _title(facts: Mapping[str, Any]) -> str:
    seeds = facts["seeds"]
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    epochs = f"{facts['epoch']} epoch{'s' * (facts['epoch'] != 1)}"
    title = f"{facts['algorithm']} on {facts['env']}, {which}: {epochs}, "
    title += f"{facts['env_steps']:,} steps"
    if facts.get("ended"):
        title += f"; ended: {facts['ended']}"
    saved = facts["checkpoint"]
    if saved is not None and saved != facts["epoch"]:
        title += f"; the newest checkpoint is of epoch {saved}"
    return title


# What a checkpoint says


class Looker:
    """Looks at the states of a run's seeds, with what takes time done once for all of them."""

    def __init__(self, run: Run):
        self.run, self.learner = run, run.learner

    def look(self, seed: int) -> dict[str, Any]:
        """What the state of one seed says, in numbers: `bonus` as `audit.scores` has it, `cells`
        that each policy of the cover was the first in, `reach` of the cover beyond the exploiting
        policy, `critic` on a fresh rollout of the latter, and `bonus_to_reward`, how many times the
        rewards the bonus is that is added to them. Nothing of an algorithm without networks, or
        before the first epoch.

        **Raises** `EniacError` where the environment cannot be stepped.
        """
        run, learner = self.run, self.learner
        state = take_seed(run.states, run.index(seed))
        if not isinstance(learner, DeepLearner) or int(state.epoch) == 0:
            return {}
        state, config = jax.device_get(state), learner.config
        actor = jax.tree.map(jnp.asarray, take(state.actors, -1))
        seen = jax.device_get(self._rollout(actor.policy, jax.random.key(0)))
        if config.normalise_rewards:
            seen = seen._replace(reward=np.asarray(actor.scale(jnp.asarray(seen.reward))))
        found: dict[str, Any] = {}
        bonus = learner.bonus(state)
        if bonus is not None:
            bonus = jax.tree.map(jnp.asarray, bonus)
            found["bonus"] = self._judge(state, bonus, seen, actor.policy)
        if bonus is not None and state.cover is None:
            # There is one policy, which learns from both.
            earned = np.asarray(_along(bonus, seen))
            if config.combine == "add":
                found["bonus_to_reward"] = _ratio(earned, seen)
            both = {"max": np.maximum(seen.reward, earned), "add": seen.reward + earned}
            seen = seen._replace(reward=both.get(config.combine, earned))
        gamma = getattr(config.update, "gamma", None)
        if gamma:
            found["critic"] = critic(seen, gamma)
        if state.cover is not None:
            found["cells"], found["reach"] = self._where(state, seen)
        return found

    @cached_property
    def _rollout(self) -> Callable[[Any, Any], Trajectory]:
        """Fresh steps of a policy from the start, in axes of time and environments."""
        assert isinstance(self.learner, DeepLearner)
        sampler, most = self.learner.sampler, NUM_STEPS // NUM_ENVS
        steps = min(self.learner.evaluation.horizon or most, most)

        def go(policy: Any, key: Any) -> Trajectory:
            begin_key, rollout_key = jax.random.split(key)
            envs = sampler.begin(begin_key, NUM_ENVS)
            return sampler.rollout(rollout_key, policy, envs, steps)[1]

        return jax.jit(go) if sampler.compiled else go

    @cached_property
    def _listed(self) -> np.ndarray | None:
        """All states that can be reached, if these are finitely many."""
        return list_states(self.run.env, [])

    def _where(self, state: Any, seen: Trajectory) -> tuple[dict[str, Any], dict[str, Any]]:
        """The cells that each policy of the cover was the first in; and how much of what the cover
        visits is in cells where the policy of the rollout does not come in as many steps, and the
        other way round."""
        cells = Cells(self.run.env.observation_space)
        visits, met, new = visits_of(self.run, state), set(), []
        for visited in visits:
            touched = cells.touched(visited.observations)
            new.append(len(touched - met))
            met |= touched
        total = cells.total if self._listed is None else len(cells.touched(self._listed))
        own = _on_policy(seen, seen.observation)
        num = len(jax.tree.leaves(own)[0])
        # As many of the cover's visits, all its policies alike.
        chances = np.concatenate([x.weights / max(x.weights.sum(), 1e-9) for x in visits])
        every = jax.tree.map(lambda *x: np.concatenate(x), *(x.observations for x in visits))
        rows = np.random.default_rng(0).choice(len(chances), num, p=chances / chances.sum())
        theirs = jax.tree.map(lambda x: x[rows], every)
        a, b = cells.of_each(theirs), cells.of_each(own)
        beyond, other = (
            float(np.mean([place not in known for place in places]))
            for places, known in ((a, set(b)), (b, set(a)))
        )
        reach = {"beyond": beyond, "other": other, "steps": num}
        return {"new": new, "total": total}, reach

    def _judge(self, state: Any, bonus: Any, seen: Trajectory, policy: Any) -> dict[str, Any]:
        """How well the bonus tells what was visited from what was not: on all pairs where they can
        be listed, else on visits in the buffer, or in the rollout, and on pairs far from them."""
        env = self.run.env
        if state.cover is not None and self._listed is not None:
            num_actions = int(env.action_space.n)  # pyright: ignore[reportAttributeAccessIssue]
            judged, unit = judge_all(bonus, state.buffer, self._listed, num_actions, 1.0)
        else:
            covered = state.cover is not None
            pairs = Pairs(seen.observation, seen.action)
            near, before = halves(buffered(state.buffer) if covered else _on_policy(seen, pairs))
            space, key = env.observation_space, jax.random.key(0)
            held = apart(space, near, before, policy, key, NUM_PAIRS, [])
            judged, unit = judge_held_out(bonus, held), "pairs"
        constant = bool(np.all(judged.bonus == judged.bonus[:1]))
        return scores(judged) | {"unit": unit, "constant": constant}


def _on_policy(seen: Trajectory, tree: Any) -> Any:
    """The rows of a rollout that are the policy's own, times and environments in one axis."""
    rows = np.asarray(flat(seen.on_policy))
    return jax.tree.map(lambda x: np.asarray(flat(x))[rows], tree)


def _ratio(earned: np.ndarray, seen: Trajectory) -> float | None:
    reward = float(np.abs(seen.reward[seen.on_policy]).mean())
    return float(earned[seen.on_policy].mean()) / reward if reward > 0 else None


@eqx.filter_jit
def _along(bonus: Any, seen: Trajectory) -> Any:
    return bonus.along(seen)


def critic(seen: Trajectory, gamma: float) -> dict[str, float]:
    """The range of a policy's values along a rollout, and of the returns that came of it; and how
    much of the variance of these the values explain. A rollout that goes on is bootstrapped, as in
    training."""
    rows = jax.tree.map(jnp.asarray, seen)
    _, returns = jax.jit(lambda rows: rollout_advantages(rows, gamma, 1.0))(rows)
    returns = np.asarray(returns)[seen.on_policy]
    values = np.asarray(seen.value)[seen.on_policy]
    spread = float(np.var(returns))
    explained = 1 - float(np.var(returns - values)) / spread if spread > 0 else math.nan
    return {
        "value_low": float(values.min()),
        "value_high": float(values.max()),
        "return_low": float(returns.min()),
        "return_high": float(returns.max()),
        "explained_variance": explained,
    }
