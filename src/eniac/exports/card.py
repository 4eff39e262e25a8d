"""The model card of a policy: what it is, how good it is, how it was made and how it is loaded.

It is Markdown under a head of YAML, in the words that model hubs look for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces as gym

from eniac.errors import shown
from eniac.exports.onnx_graph import inputs_of
from eniac.report.statistics import Interval, mean_interval
from eniac.runs.config import GIVEN
from eniac.runs.export import Exported
from eniac.runs.identity import flat_fields
from eniac.spaces import Space

CARD = "README.md"


class SeedResult(NamedTuple):
    """What one seed of a run came to."""

    seed: int
    env_steps: int
    return_mean: float | None


class History(NamedTuple):
    """How a policy came about."""

    records: Sequence[Mapping[str, Any]]
    """the run's log"""
    made_with: Mapping[str, Any]
    """`versions`, and the `commit` of eniac's source where that is known"""
    seeds: Sequence[SeedResult]


class Judged(NamedTuple):
    """The last evaluation of a policy."""

    mean: float
    spread: float
    episodes: int
    interval: Interval | None
    deterministic: bool


def model_card(exported: Exported, format: str, history: History) -> bytes:
    """The card as a file."""
    about, config = exported.about, exported.about["config"]
    algorithm, env = config["algorithm"]["name"], config["env"].removeprefix(GIVEN)
    judged = _judged(exported, history.records)
    lines = [
        *_head(algorithm, env, about["seed"], judged),
        f"# {algorithm} on {_span(env)}",
        "",
        f"A policy for {_span(env)}, trained by the algorithm {_span(algorithm)} of eniac,",
        "a library for exploration in reinforcement learning.",
        "",
        *_table(("", ""), _facts(exported, judged)),
        "",
        "## Load it",
        "",
        *_LOADING[format](exported),
        "",
        "## How it was made",
        "",
        *_made(config, history.made_with),
        "",
    ]
    if len(history.seeds) > 1:
        rows = [(f"{x.seed}", f"{x.env_steps:,}", _number(x.return_mean)) for x in history.seeds]
        lines += ["All seeds of the run, each with the mean return of its last evaluation:", ""]
        lines += [*_table(("seed", "environment steps", "return"), rows), ""]
    lines += ["## Settings", "", "As in `config.json`:", "", "```"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in flat_fields(config)]
    return "\n".join([*lines, "```", ""]).encode()


def _judged(exported: Exported, records: Iterable[Mapping[str, Any]]) -> Judged | None:
    """The evaluation after the policy's last round, if it was that policy which was evaluated."""
    about = exported.about
    evaluation = about["config"]["evaluation"]
    last = [
        x for x in records if (x.get("seed"), x.get("epoch")) == (about["seed"], about["epoch"])
    ]
    if about["return_mean"] is None or not last or last[-1].get("return_std") is None:
        return None
    mean, spread = float(last[-1]["return_mean"]), float(last[-1]["return_std"])
    episodes = evaluation["episodes"]
    interval = mean_interval(mean, spread, episodes)
    deterministic = about["deterministic"] or evaluation["deterministic"]
    return Judged(mean, spread, episodes, interval, deterministic)


def _head(algorithm: str, env: str, seed: int, judged: Judged | None) -> list[str]:
    """The head in YAML, of which every JSON text is one."""
    kind = "reinforcement-learning"
    tags = dict.fromkeys([kind, "eniac", algorithm, env])
    lines = ["---", "library_name: eniac", f"pipeline_tag: {kind}", "tags:"]
    lines += [f"- {json.dumps(tag)}" for tag in tags]
    if judged is not None:
        metric = {
            "type": "mean_reward",
            "name": "mean_reward",
            "value": f"{_number(judged.mean)} +/- {_number(judged.spread)}",
        }
        lines += [
            "model-index:",
            f"- name: {json.dumps(f'{algorithm}-{env}-seed-{seed}')}",
            "  results:",
            f"  - task: {json.dumps({'type': kind, 'name': kind})}",
            f"    dataset: {json.dumps({'type': env, 'name': env})}",
            f"    metrics: {json.dumps([metric])}",
        ]
    return [*lines, "---", ""]


def _facts(exported: Exported, judged: Judged | None) -> list[tuple[str, str]]:
    about, config = exported.about, exported.about["config"]
    horizon = config["evaluation"]["horizon"] or config["horizon"]
    options = ", ".join(f"{name} {value}" for name, value in config["env_options"].items())
    task = _span(config["env"].removeprefix(GIVEN))
    task += f" with {_span(options)}" if options else ""
    task += f", episodes of at most {horizon:,} steps" if horizon else ""
    seeds = range(config["seed"], config["seed"] + config["seeds"])
    number = f"{about['seed']}"
    number += f", of {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else ""
    return [
        ("task", task),
        ("return", _told_return(about, judged)),
        ("policy", _span(about["policy_name"])),
        ("epochs", f"{about['epoch']:,}"),
        ("environment steps", f"{about['env_steps']:,}"),
        ("seed", number),
        ("observations", _span(shown(exported.spaces.observation))),
        ("actions", _span(shown(exported.spaces.action))),
    ]


def _told_return(about: Mapping[str, Any], judged: Judged | None) -> str:
    if judged is None:
        known = about["return_mean"]
        return "this policy was not evaluated" if known is None else f"mean {_number(known)}"
    ends = ""
    if judged.interval is not None:
        ends = f", 95% interval {_number(judged.interval[0])} to {_number(judged.interval[1])}"
    acts = "most likely" if judged.deterministic else "random"
    return (
        f"mean {_number(judged.mean)}{ends} (Student's t; {judged.episodes:,} episodes of the last "
        f"evaluation, undiscounted, with {acts} actions; standard deviation "
        f"{_number(judged.spread)})"
    )


def _made(config: Mapping[str, Any], made_with: Mapping[str, Any]) -> list[str]:
    versions = made_with.get("versions")
    versions = versions if isinstance(versions, dict) else {}
    told = [_span(f"{name} {number}") for name, number in versions.items()]
    commit = made_with.get("commit")
    if told and isinstance(commit, str):
        told[0] += f" (commit {_span(commit)})"
    lines = [f"With {', '.join(told)}.", ""] if told else []
    if config["env"].startswith(GIVEN):
        return [
            *lines,
            "The environment was given as a Python object. With it, the same training again:",
            "",
            *_code(
                "import json",
                "import eniac",
                "",
                'config = json.load(open("config.json"))["config"]',
                "eniac.train(eniac.Config.from_dict(config), env)",
            ),
        ]
    return [
        *lines,
        "The same training again, from the settings in this folder:",
        "",
        *_code("eniac train config.json --out again", language="sh"),
    ]


# How a policy is loaded, format by format


def _load_safetensors(exported: Exported) -> list[str]:
    lines = _code(
        "import eniac",
        "",
        'agent = eniac.load("FOLDER")  # this folder',
        f"action = agent.predict(observation{_best(exported)})  # what env.step takes",
    )
    return [*lines, "", _states(exported) + _how_it_acts(exported, "`deterministic=False`")]


def _load_numpy(exported: Exported) -> list[str]:
    lines = _code(
        "from policy import load  # policy.py of this folder, which needs NumPy alone",
        "",
        'policy = load("FOLDER")  # this folder',
        f"action = policy(observation{_best(exported)})  # what env.step takes",
    )
    return [*lines, "", _states(exported) + _how_it_acts(exported, "`deterministic=False`")]


def _load_onnx(exported: Exported) -> list[str]:
    observation, action = exported.spaces
    inputs = inputs_of(observation)
    given = [
        f"    {_text(each.name)}: np.asarray(observation{''.join(map(_key, each.path))}, "
        f'"{_dtype(each.space)}")[None],'
        for each in inputs
    ]
    lines = _code(
        "import numpy as np",
        "import onnxruntime",
        "",
        'session = onnxruntime.InferenceSession("policy.onnx")',
        "inputs = {",
        *given,
        "}",
        'action = session.run(["action"], inputs)[0][0]  # what env.step takes',
    )
    rows = [("input", f"`{x.name}`", _dtype(x.space), _axes(x.space)) for x in inputs]
    rows.append(("output", "`action`", _dtype(action), _axes(action)))
    law, draw = _law(exported)
    rows += [("output", f"`{name}`", "float32", axes) for name, axes in law.items()]
    return [
        *lines,
        "",
        *_table(("", "name", "type", "shape"), rows),
        "",
        _states(exported) or "Encoding, normalisation, scaling and clipping are inside the graph. ",
        f"`action` is the most likely one. {_how_it_acts(exported, draw)}",
    ]


_LOADING = {"safetensors": _load_safetensors, "onnx": _load_onnx, "numpy": _load_numpy}


def _law(exported: Exported) -> tuple[dict[str, str], str]:
    """The other outputs of the graph with their shapes, and how an action is drawn from them."""
    action = exported.spaces.action
    if exported.about["policy"]["kind"] == "table":
        return {"probabilities": f"batch, {action.n}"}, "drawn by `probabilities`"  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(action, gym.Box):
        axes = _axes(action)
        draw = "`mean` plus `std` times a standard normal number, clipped into the box"
        return {"mean": axes, "std": axes}, draw
    if isinstance(action, gym.MultiBinary):
        return {"logits": _axes(action)}, "each bit 1 with the probability sigmoid(`logits`)"
    if isinstance(action, gym.Discrete):
        draw = "drawn by softmax(`logits`), counted from the start of the space"
        return {"logits": f"batch, {action.n}"}, draw
    assert isinstance(action, gym.MultiDiscrete)
    sizes = ", ".join(map(str, action.nvec.ravel()))
    draw = f"each choice by the softmax of its part of `logits` ({sizes})"
    return {"logits": f"batch, {int(action.nvec.sum())}"}, draw


def _best(exported: Exported) -> str:
    return "" if exported.about["deterministic"] else ", deterministic=False"


def _how_it_acts(exported: Exported, random: str) -> str:
    if exported.about["deterministic"]:
        return f"It was judged best with its most likely actions; random ones: {random}."
    return f"It was judged with random actions: {random}."


def _states(exported: Exported) -> str:
    if exported.about["policy"]["kind"] != "table":
        return ""
    return "An observation is the number of a state in the table of the environment. "


# Text


def _code(*lines: str, language: str = "python") -> list[str]:
    return [f"```{language}", *lines, "```"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    line = ["---"] * len(head)
    return ["| " + " | ".join(cells) + " |" for cells in (head, line, *rows)]


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _key(key: str | int) -> str:
    return f"[{key}]" if isinstance(key, int) else f"[{_text(key)}]"


def _number(x: float | None) -> str:
    return "unknown" if x is None else f"{x:.4g}"


def _axes(space: Space) -> str:
    return ", ".join(["batch", *map(str, space.shape or ())])


def _dtype(space: Space) -> str:
    return np.dtype(space.dtype).name


def _span(text: str) -> str:
    """`text` as a span of code in a line or a table, without what would end these."""
    plain = re.sub(r"[`|\x00-\x1f]", " ", text)
    return f"`{plain}`"
