"""Questions that the records of a run answer: what is seen, whether that is good, what to try.

There is one list of them, `CHECKS`. A run warns of what is bad while it goes on (`diagnostics`);
`eniac diagnose` tells all, with what only a checkpoint can say (`report.diagnose`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Literal

from eniac.runs.config import Config
from eniac.sampling.base import LONGEST_EPISODE

Verdict = Literal["good", "look", "bad", "unknown"]

RECENT = 5
"""Records at the end of a run that stand for how it is now."""
FEWEST = 4
"""Evaluations below which nobody can say whether there is progress."""
UNHEARD = 0.001
"""Share of steps at which the bonus exceeds the reward, below which it has no say."""
FADED = 0.01
"""Share of its largest value below which a bonus has faded."""
OUTWEIGHS = 20
"""How many times the reward a bonus may be for a policy that has to heed both."""
TELLS, HARDLY_TELLS = 0.75, 0.6
"""How often an unvisited pair must have a larger bonus than a visited one; chance is 0.5."""
GROWS = 0.01
"""Share of all that a cover has reached which its newest policies must have added."""
COVERED = 0.95
"""Share of all there is from which on there is hardly anything left to reach."""
BEYOND, HARDLY_BEYOND = 0.2, 0.05
"""Share of the cover's visits that are where the exploiting policy does not come."""
OPTIMAL = 0.99
"""Share of the optimum, where it is known, that is good enough."""
EXPLAINED = 0.3
"""Share of the variance of returns that a useful critic explains."""
CLIPPED, MUCH_CLIPPED = 0.12, 0.25
"""Share of probability ratios that leave the clip. On the tasks of the tests and the README 0.02 to
0.1 is usual; at a step size a hundred times too large it is 0.2."""
KL, MUCH_KL = 0.02, 0.2
"""Kullback-Leibler divergence of a policy from itself before an update; usual: 0.002 to 0.015."""
STILL_CLIPPED, STILL_KL = 0.001, 0.0005
"""The same of a policy that hardly moves."""
DETERMINISTIC = 0.02
"""Entropy of a choice below which a policy always takes the same."""


@dataclass(frozen=True)
class Finding:
    """What a check has found."""

    verdict: Verdict
    number: float | None
    """what the verdict is about"""
    seen: str
    """the same in words, with whatever explains it; why nothing can be told if it is unknown"""
    trouble: str = ""
    """what that means, if it is not good"""
    advice: str = ""
    """what to try"""


@dataclass(frozen=True)
class Evidence:
    """What is known of one seed of a run."""

    config: Config
    records: Sequence[Mapping[str, Any]]
    """oldest first; of a run that is going on those in between may be missing"""
    looked: Mapping[str, Any]
    """what the newest checkpoint says, as `report.diagnose.look` has it; empty if nobody looked"""
    unseen: str = "that takes a checkpoint"
    """why nobody looked"""

    @property
    def last(self) -> Mapping[str, Any]:
        return self.records[-1]

    def rounds(self, prefix: str) -> list[Mapping[str, Any]]:
        """The records of the rounds in which the policy has learned whose metrics begin so: in all
        others its entropy is exactly 0, and so is everything."""
        return [row for row in self.records if row.get(f"{prefix}entropy", 1) != 0]

    @property
    def algorithm(self) -> Any:
        return self.config.algorithm

    @property
    def explorer(self) -> str:
        """How the names of the exploring policy's metrics begin."""
        return "explore/" if self.algorithm.has_cover else ""

    @property
    def learners(self) -> list[str]:
        """How the names of the metrics of all policies begin that learn by now."""
        names = ["explore/", "exploit/"] if self.algorithm.has_cover else [""]
        return [name for name in names if self.rounds(name)]


@dataclass(frozen=True)
class Check:
    """A question, for whom it is one, and its answer."""

    name: str
    question: str
    applies: Callable[[Any, Mapping[str, Any]], str]
    """why the settings of an algorithm and a record leave it out; empty if they do not"""
    answer: Callable[[Evidence], Finding]
    each_fit: bool = False
    """whether it is a matter of the last fit of the bonus, and told again after the next"""


def find(check: Check, evidence: Evidence) -> Finding:
    """The answer to one check."""
    if not evidence.records:
        return _unknown("no epoch has been finished yet")
    return check.answer(evidence)


def _numbers(records: Sequence[Mapping[str, Any]], *names: str) -> list[float]:
    """All values of some metrics that there are."""
    return [row[name] for row in records for name in names if row.get(name) is not None]


def _unknown(why: str) -> Finding:
    return Finding("unknown", None, why)


# The bonus


def _has_bonus(algorithm: Any, record: Mapping[str, Any]) -> str:
    del record
    bonus = getattr(algorithm, "bonus", None)
    if getattr(bonus, "coefficient", 0):
        return ""
    exact = isinstance(bonus, str) and bonus != "none"
    return f"the bonus of {algorithm.name} is exact" if exact else f"{algorithm.name} has no bonus"


def _bonus(evidence: Evidence) -> Finding:
    name = f"{evidence.explorer}bonus"
    rounds = evidence.rounds(evidence.explorer)
    told, last = _numbers(rounds, name), evidence.last
    if not told:
        return _unknown(f"no record has {name}")
    now, most = fmean(told[-RECENT:]), max(told)
    whose = "the exploring policy" if evidence.explorer else "the policy"
    seen = f"a step of {whose} earns a bonus of {now:.3g}"
    seen += f"; {most:.3g} in the best round" if len(told) > 1 else ""
    if last.get("width/diverged"):
        return Finding("bad", now, seen, DIVERGED, TRAIN_WIDTH)
    if last.get("width/collapsed"):
        return Finding("bad", now, seen, COLLAPSED, MORE_WIDTH)
    share = rounds[-1].get(f"{name}_decides")
    if share is not None:
        seen += f", and more than the reward in {share:.3%} of the steps"
        if most > 0 and share < UNHEARD:
            return Finding("bad", share, seen, NO_SAY, LOUDER)
    if most <= 0:
        return Finding("bad", now, seen, NO_BONUS, _other_bonus(evidence))
    if now < FADED * most:
        return Finding("look", now, seen, IS_KNOWN, _other_bonus(evidence))
    ratio = evidence.looked.get("bonus_to_reward")
    if ratio is not None and not evidence.algorithm.has_cover:
        seen += f"; {ratio:.3g} times the reward that it learns from"
        if ratio > OUTWEIGHS:
            return Finding("look", ratio, seen, OUTWEIGHED, QUIETER)
    return Finding("good", now, seen)


def _visited(evidence: Evidence) -> Finding:
    found = evidence.looked.get("bonus")
    if found is None:
        return _unknown(evidence.unseen)
    if found["constant"]:
        return _unknown(f"the bonus of {_one(found['unit'])} is the same for all of them")
    share, means = found["auc"], (found["visited_mean"], found["unvisited_mean"])
    if share is None:
        how = "unvisited" if found["visited"] else "visited"
        return _unknown(f"of the {found['unit']} that were looked at none is {how}")
    seen = (
        f"{_one(found['unit'])} that was not visited has the larger bonus in {share:.0%} of all "
        f"comparisons with one that was (chance: 50%); means {means[1]:.3g} and {means[0]:.3g}"
    )
    if share >= TELLS:
        return Finding("good", share, seen)
    advice = f"{SHARPER}, or " * ("width/diverged" in evidence.last) + _other_bonus(evidence)
    return Finding("look" if share >= HARDLY_TELLS else "bad", share, seen, BLIND, advice)


def _other_bonus(evidence: Evidence) -> str:
    """Another bonus than the run has. Without a cover there is no buffer to fit one to."""
    if not evidence.algorithm.has_cover:
        return (
            "an algorithm with a cover, whose bonus knows all visits, such as `eniac train eniac`"
        )
    other = "width" if "kernel/inverse_width" in evidence.last else "kernel"
    return f"another bonus (--bonus {other})"


# Where it goes


def _has_cover(algorithm: Any, record: Mapping[str, Any]) -> str:
    del record
    if algorithm.has_cover or isinstance(getattr(algorithm, "cover", None), str):
        return ""
    return f"{algorithm.name} has no cover"


def _has_explorer(algorithm: Any, record: Mapping[str, Any]) -> str:
    del record
    return "" if algorithm.has_cover else f"{algorithm.name} has no exploring policy beside another"


def _cover(evidence: Evidence) -> Finding:
    if "visited/pairs" in evidence.last:
        counts, all_there_are = _numbers(evidence.records, "visited/pairs"), None
        new, unit = [b - a for a, b in zip([0, *counts], counts, strict=False)], "pairs"
    elif evidence.looked.get("cells") is None:
        return _unknown(evidence.unseen)
    else:
        new, unit = evidence.looked["cells"]["new"], "cells"
        all_there_are = evidence.looked["cells"]["total"]
    if len(new) < 2:
        return _unknown(f"there are {len(new)} policies in the cover, and it takes 2")
    newest, total = max(len(new) // 4, 1), sum(new)
    share = sum(new[-newest:]) / max(total, 1)
    seen = (
        f"{len(new)} policies have been in {total:,.0f} {unit}"
        + (f" of {all_there_are:,}" if all_there_are else "")
        + f", the first in {new[0]:,.0f}; the newest {_many(newest)} added {share:.1%} of them"
    )
    if share >= GROWS:
        return Finding("good", share, seen)
    if all_there_are and total >= COVERED * all_there_are:
        return Finding("good", share, f"{seen}; there is hardly anything left")
    known = evidence.last.get("known/pairs")
    if unit == "pairs" and evidence.algorithm.bonus != "none" and known and known >= total:
        return Finding("good", share, f"{seen}; they are all known")
    return Finding("look", share, seen, SAME_PLACES, FARTHER if unit == "cells" else MORE_SAMPLES)


def _reach(evidence: Evidence) -> Finding:
    found = evidence.looked.get("reach")
    if found is None:
        return _unknown(evidence.unseen)
    if "exploit/" not in evidence.learners:
        return _unknown("the exploiting policy does not learn yet")
    share, other = found["beyond"], found["other"]
    seen = (
        f"{share:.0%} of the cover's visits are in cells where the exploiting policy does not come "
        f"in as many steps ({found['steps']:,}); {other:.0%} the other way round"
    )
    if share >= BEYOND:
        return Finding("good", share, seen)
    return Finding("look" if share >= HARDLY_BEYOND else "bad", share, seen, NOT_BEYOND, COMPARE)


# How it learns


def _has_critic(algorithm: Any, record: Mapping[str, Any]) -> str:
    if "critic/bound" in record or hasattr(getattr(algorithm, "update", None), "gamma"):
        return ""
    return f"the update of {algorithm.name} has no discounted value"


def _critic(evidence: Evidence) -> Finding:
    if "critic/bound" in evidence.last:
        largest, bound = evidence.last["critic/largest"], evidence.last["critic/bound"]
        seen = f"the largest value of the critic is {largest:.3g}, the bound of its class {bound:g}"
        if largest < 0.999 * bound:
            return Finding("good", largest, seen)
        return Finding("look", largest, seen, AT_THE_BOUND, WIDER)
    found = _critic_numbers(evidence)
    if found is None:
        if evidence.last.get("exploit/handed_over"):
            return _unknown("the exploiting policy has just gone over to the incumbent's critic")
        return _unknown(evidence.unseen)
    low, high = found["return_low"], found["return_high"]
    seen = (
        f"values from {found['value_low']:.3g} to {found['value_high']:.3g}, returns from "
        f"{low:.3g} to {high:.3g} (of rewards as it learns from them)"
    )
    if high - low <= 1e-6 * max(abs(high), abs(low), 1e-3):
        return _unknown(f"{seen}: all returns are the same")
    beyond = max(found["value_high"] - high, low - found["value_low"]) / (high - low)
    explained = found["explained_variance"]
    seen += f"; they explain {explained:.0%} of the variance"
    if beyond > 1:
        return Finding("bad", beyond, seen, OUT_OF_RANGE, STEADIER_CRITIC)
    if explained < EXPLAINED:
        return Finding("look", explained, seen, EXPLAINS_LITTLE, STRONGER_CRITIC)
    return Finding("good", explained, seen)


CRITIC = ("value_low", "value_high", "return_low", "return_high", "explained_variance")
"""What is asked of a critic: of the last rollout if the records have it, else of a fresh one."""


def _critic_numbers(evidence: Evidence) -> Mapping[str, float] | None:
    prefix = "exploit/" if evidence.algorithm.has_cover else ""
    told = {name: evidence.last.get(f"{prefix}{name}") for name in CRITIC}
    if all(value is not None for value in told.values()):
        return told  # pyright: ignore[reportReturnType]
    return None if evidence.last.get("exploit/handed_over") else evidence.looked.get("critic")


def _has_ratios(algorithm: Any, record: Mapping[str, Any]) -> str:
    if any(name.endswith("clipped") for name in record) or not record:
        return ""
    return f"the update of {algorithm.name} has no probability ratios"


def _step_size(evidence: Evidence) -> Finding:
    learners = evidence.learners
    if not learners:
        return _unknown("no policy has been improved yet")
    found = [_moves(evidence, name) for name in learners]
    order = ("good", "look", "bad")
    return max(found, key=lambda finding: order.index(finding.verdict))


def _moves(evidence: Evidence, prefix: str) -> Finding:
    """How far the updates move the policy whose metrics begin with `prefix`."""
    recent = evidence.rounds(prefix)[-RECENT:]
    whose = {"explore/": "exploring policy: ", "exploit/": "exploiting policy: ", "": ""}[prefix]
    clipped = fmean(_numbers(recent, f"{prefix}clipped") or [0.0])
    # Its median, of some: the estimate has a heavy tail.
    divergences = _numbers(recent, f"{prefix}kl") or [0.0]
    kl, sure = median(divergences), len(divergences) >= 3
    seen = f"{whose}{clipped:.1%} of the ratios are clipped, KL divergence {kl:.2g} an update"
    if clipped > MUCH_CLIPPED or (kl > MUCH_KL and sure):
        return Finding("bad", clipped, seen, LARGE_STEPS, SMALLER_STEPS)
    lost = _fallen(evidence, recent, prefix)
    if lost > 1:
        seen += f"; it lost more than half of what was learned in {lost} of the last {len(recent)}"
        seen += " rounds"
    if clipped > CLIPPED or kl > KL or lost > 1:
        return Finding("look", clipped, seen, LARGE_STEPS, SMALLER_STEPS)
    if clipped < STILL_CLIPPED and kl < STILL_KL:
        entropy = fmean(_numbers(recent, f"{prefix}entropy") or [0.0])
        if 0 <= entropy < DETERMINISTIC:
            return Finding("look", clipped, f"{seen}, entropy {entropy:.2g}", DECIDED, MORE_RANDOM)
        return Finding("look", clipped, seen, SMALL_STEPS, LARGER_STEPS)
    return Finding("good", clipped, seen)


def _fallen(evidence: Evidence, recent: Sequence[Mapping[str, Any]], prefix: str) -> int:
    """After how many of these rounds a policy that learns from rewards alone earned less than half
    of what the incumbent does, above the lowest return of all."""
    if prefix == "explore/" or (not prefix and not _has_bonus(evidence.algorithm, {})):
        return 0
    ways = [f"{prefix}sampled_return", f"{prefix}greedy_return"]
    low = min(_numbers(evidence.records, *ways, "return_mean"), default=0.0)
    count = 0
    for record in recent:
        best, own = record.get("incumbent/estimate"), _numbers([record], *ways)
        if best is not None and own:
            count += max(own) < (best + low) / 2
    return count


# What comes of it


def _always(algorithm: Any, record: Mapping[str, Any]) -> str:
    del algorithm, record
    return ""


def _incumbent(evidence: Evidence) -> Finding:
    rows = [row for row in evidence.records if row.get("return_mean") is not None]
    if not rows:
        return _unknown("no evaluation has a mean return")
    returns = [row["return_mean"] for row in rows]
    goal, now = evidence.config.return_above, returns[-1]
    best = max(returns)
    if goal is not None and best > goal:
        row = next(row for row in rows if row["return_mean"] > goal)
        seen = f"return {now:.4g}, above {goal:g} for the first time after {_steps(row)}"
        return Finding("good", now, seen)
    share = evidence.last.get("share/last")
    if share is not None and share > OPTIMAL:
        return Finding("good", share, f"return {now:.4g}; its value is {share:.1%} of the optimum")
    if len(rows) < FEWEST:
        return _unknown(f"there are {len(rows)} evaluations so far, and it takes {FEWEST}")
    row = _last_progress(evidence, rows)
    seen = f"return {now:.4g}, {returns[0]:.4g} at first"
    if row is not None:
        seen += f"; it last got better after {row['env_steps']:,} of {_steps(rows[-1])}"
        if row["env_steps"] >= rows[0]["env_steps"] + 2 / 3 * (
            rows[-1]["env_steps"] - rows[0]["env_steps"]
        ):
            return Finding("good", now, seen)
    else:
        seen += f"; no better than that within {_steps(rows[-1])}"
    behind = _numbers(evidence.rounds("exploit/")[-RECENT:], "exploit/handed_over")
    if behind and sum(behind) == len(behind):
        seen += f"; the exploiting policy fell behind it in all of the last {len(behind)} rounds"
    trouble, advice = NO_PROGRESS, EXPLORE_MORE
    if not evidence.algorithm.has_cover:
        advice = MORE_SAMPLES if "visited/pairs" in evidence.last else EXPLORE_AT_ALL
    if goal is None:
        return Finding("look", now, seen, f"{trouble}, or this is as good as it gets", advice)
    return Finding("bad", now, seen, f"{trouble}, and the return is not above {goal:g}", advice)


def _last_progress(
    evidence: Evidence, rows: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The last evaluation that was better than all before it, by two standard errors and by more
    than a hundredth of all progress; None if there was none."""
    episodes = evidence.config.evaluation.episodes
    returns = [row["return_mean"] for row in rows]
    least = 0.01 * (max(returns) - returns[0])
    best, found = returns[0], None
    for row in rows[1:]:
        error = (row.get("return_std") or 0.0) / max(episodes - 1, 1) ** 0.5
        if row["return_mean"] > best + max(2 * error, least, 1e-6 * abs(best)):
            best, found = row["return_mean"], row
    return found


def _has_cut(algorithm: Any, record: Mapping[str, Any]) -> str:
    del algorithm
    if "episodes_cut" in record or not record:
        return ""
    return "episodes have a time limit"


def _episodes(evidence: Evidence) -> Finding:
    cut = evidence.last["episodes_cut"] or 0
    episodes = evidence.config.evaluation.episodes
    seen = f"{cut} of {episodes} episodes of the last evaluation were cut"
    if not cut:
        return Finding("good", cut, seen)
    return Finding("bad", cut, seen, ENDLESS, LIMIT)


CHECKS: tuple[Check, ...] = (
    Check("bonus", "Is the bonus alive?", _has_bonus, _bonus, each_fit=True),
    Check("visited", "Is it lower where the run has been?", _has_bonus, _visited),
    Check("cover", "Does the cover grow?", _has_cover, _cover),
    Check("reach", "Does the explorer reach what the exploiter cannot?", _has_explorer, _reach),
    Check("critic", "Are the critic's values in range?", _has_critic, _critic),
    Check("step-size", "Do updates take steps of a good size?", _has_ratios, _step_size),
    Check("incumbent", "Is the incumbent still improving?", _always, _incumbent),
    Check("episodes", "Do episodes end?", _has_cut, _episodes),
)
"""All questions, in the order in which one leads to the next."""


def _one(unit: str) -> str:
    return {"pairs": "a pair", "states": "a state"}[unit]


def _many(count: int) -> str:
    return "policy" if count == 1 else f"{count} policies"


def _steps(record: Mapping[str, Any]) -> str:
    return f"{record['env_steps']:,} steps"


# In words, each as the end of a sentence; what to try are settings of `eniac train`.

DIVERGED = "the width network diverged, so the bonus of the fit before stays in use"
TRAIN_WIDTH = "--bonus.training constrained, or a smaller --bonus.learning-rate"
COLLAPSED = (
    "the width is nearly the same everywhere, so the bonus tells no state from another and leads "
    "nowhere until the next fit"
)
MORE_WIDTH = "--bonus.training constrained, or more steps of it (--bonus.outer)"
NO_SAY = (
    "rewards exceed the bonus nearly everywhere, so under max(r, b) it has no say and nothing is "
    "explored for its sake"
)
LOUDER = "--combine add, a larger --bonus.coefficient, or smaller rewards"
NO_BONUS = "the bonus is 0 wherever the policy goes, so that nothing leads it on"
IS_KNOWN = (
    "all that the policy reaches is known by now: exploration is over, or the bonus does not lead "
    "on to what is left"
)
OUTWEIGHED = "one policy has to heed both, and hardly hears the reward"
QUIETER = "a smaller --bonus.coefficient, or an algorithm with a cover, which has a policy for each"
BLIND = "the bonus hardly tells what was visited from what was not"
SHARPER = "--bonus.of state-action, more --bonus.outer"
SAME_PLACES = "the newest policies reach nothing that the others have not reached before"
FARTHER = "--update.explore-entropy 0.1, more --updates-per-round, or another --bonus"
MORE_SAMPLES = "more samples of each policy (--K), or more updates (--T)"
NOT_BEYOND = "the cover goes where the exploiting policy goes anyway, and brings little that is new"
COMPARE = "`eniac train ppo` and `eniac compare`: the task may need no cover; or another --bonus"
AT_THE_BOUND = "values are cut at the bound of the class"
WIDER = "a larger --bound"
OUT_OF_RANGE = "the critic says values that no return comes near"
STEADIER_CRITIC = "--normalise-rewards, a smaller --update.learning-rate, --update.value-target gae"
EXPLAINS_LITTLE = "the critic knows little of which states are worth more than others"
STRONGER_CRITIC = "a larger --update.value-weight, or more --update.passes"
LARGE_STEPS = "updates change the policy much, and may spoil what it knew"
SMALLER_STEPS = "a smaller --update.learning-rate, fewer --update.passes, --update.max-clipped 0.3"
SMALL_STEPS = "updates hardly change the policy"
LARGER_STEPS = "a larger --update.learning-rate, or more --update.passes"
DECIDED = "the policy has decided on its actions, and tries nothing else"
MORE_RANDOM = "a larger --update.entropy"
NO_PROGRESS = "nothing better has been found for a third of the run or more"
EXPLORE_MORE = "more epochs with `eniac resume`; what the checks above say; another --bonus"
EXPLORE_AT_ALL = "an algorithm that explores, such as `eniac train eniac`"
ENDLESS = (
    f"episodes of the evaluation did not end within {LONGEST_EPISODE:,} steps and were cut there, "
    "so that returns are those of so many steps"
)
LIMIT = "a time limit: --evaluation.horizon, or --horizon for training too"
