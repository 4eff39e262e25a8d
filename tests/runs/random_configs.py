"""Configurations and command lines that nobody would write, drawn with a seed.

Each is a valid one that was changed in a few places: values of wrong types, far too large, far too
small; fields that are missing, misspelt or in the wrong table; parts of one algorithm in another.
`judge_config` and `judge_command` say whether it was taken or refused; whatever else comes of it is
an `AssertionError`.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
from typing import Any

from eniac import Config, ConfigError
from eniac.algorithms import ALGORITHMS
from eniac.cli.main import check_words
from eniac.runs.options import parse_config

ROWS = ("eniac", "pc-pg", "zero", "ppo", "ppo-rnd", "eniac-spi-sample", "eniac-npg-compute", "spi")
ENVS = ("DeepSea-5", "Chain-4", "MountainCarContinuous-v0", "CartPole-v1", "here.there:make")


def _nested(depth: int) -> Any:
    data: Any = 0
    for _ in range(depth):
        data = [data]
    return data


VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        7,
        100,
        2**31 - 1,
        2**31,
        2**32,
        2**63 - 1,
        2**63,
        -(2**63),
    ),
    *(10**12, 10**15, 10**30, 10**400, 10**5000, -(10**400), -(10**5000)),
    *(0.0, -0.0, 0.5, 1.0, 1.5, -1.0, 1e-300, 1e30, 1e39, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf")),
    *("", " ", "x", "none", "null", "true", "no", "uniform", "width", "ppo", "eniac", "DeepSea-5"),
    *(
        "a" * 300,
        "a" * 10_000,
        "a\0b",
        "a\nb",
        "\x1b[2J",
        "\ud800",
        "\u202egpj",
        "é",
        "٣",
        "..",
        "/",
    ),
    *("os:system", "nowhere:thing", "nowhere.at.all:thing", ":", "a:", ":a", "json:loads", "1:2"),
    *(
        "DeepSea-" + "9" * 30,
        "DeepSea-" + "9" * 5000,
        "DeepSea-0",
        "DeepSea--1",
        "gymnasium:",
        "envpool:",
    ),
    *([], [0], [1, 2, 3], [-1], ["x"], [None], [[1]], [1] * 200, [10**400], list(range(20_000))),
    *(
        {},
        {"x": 1},
        {"type": "width"},
        {"type": "rnd"},
        {"type": 3},
        {"type": ["a"]},
        {"name": "ppo"},
    ),
    *(
        {"": 1},
        {"a" * 300: 1},
        {"a\0": 1},
        {"x": float("nan")},
        {"x": [1]},
        {"x": {"y": 1}},
        {1: 2},
    ),
    *(_nested(50), _nested(900)),
)
"""What takes the place of a value."""

NAMES = ("", "x", "typo", "type", "name", "bonus", "a" * 300, "a\nb", "seed ", "__class__", "é", 3)
"""What takes the place of the name of a field, or is added."""

WORDS = (
    *(
        "1",
        "2",
        "3",
        "8",
        "0.5",
        "0.9",
        "1e-3",
        "sync",
        "log-det",
        "DeepSea-4",
        "Chain-5",
        "tabular",
    )
    * 3,
    *(
        "",
        "0",
        "1",
        "-1",
        "1e3",
        "1e400",
        "nan",
        "inf",
        "9" * 30,
        "9" * 400,
        "9" * 5000,
        "0.5",
        "-0",
    ),
    *(
        "x",
        "none",
        "None",
        "true",
        "no",
        "a" * 300,
        "a\0b",
        "a\nb",
        "é",
        "\ud800",
        "os:system",
        ":",
        "=",
    ),
    *("--", "-", "--x", "[" * 3000, "{}", "[1]", "٣", "1_0", "0x1", "uniform", "rnd", "width"),
)
"""What takes the place of a word on the command line."""


def draw_config(seed: int) -> Any:
    """Plain data of a configuration, changed in one to four places."""
    draw = random.Random(seed)
    config = Config(ALGORITHMS[draw.choice(ROWS)].default, env=draw.choice(ENVS))
    data: Any = json.loads(json.dumps(config.to_dict()))
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        data = _change(draw, data)
    return data


def _change(draw: random.Random, data: Any) -> Any:
    data = _copy(data)
    tables = [data] if isinstance(data, dict) else []
    for table in tables:  # which grows
        tables.extend(x for x in table.values() if isinstance(x, dict))
    tables = [table for table in tables if table]
    kind = draw.choice(("value",) * 8 + ("drop", "rename", "add", "swap", "list", "all"))
    if kind == "all" or not tables:
        return _copy(draw.choice(VALUES)) if draw.random() < 0.5 else [data]
    table = draw.choice(tables)
    name = draw.choice(list(table))
    if kind == "value":
        table[name] = _copy(draw.choice(VALUES))
    elif kind == "drop":
        del table[name]
    elif kind == "rename":
        table[draw.choice(NAMES)] = table.pop(name)
    elif kind == "add":
        table[draw.choice(NAMES)] = _copy(draw.choice(VALUES))
    elif kind == "list":
        table[name] = [table[name]]
    else:
        other = draw.choice(tables)
        place = draw.choice(list(other))
        table[name], other[place] = _copy(other[place]), _copy(table[name])
    return data


def _copy(value: Any) -> Any:
    """`value` with tables of its own; lists are never changed."""
    return {k: _copy(x) for k, x in value.items()} if isinstance(value, dict) else value


def judge_config(data: Any) -> str:
    """`taken` or `refused`, after `Config.from_dict`; nothing is run."""
    try:
        config = Config.from_dict(data)
    except ConfigError as error:
        check_line(str(error))
        return "refused"
    # What was taken can be written, and read again.
    assert Config.from_dict(json.loads(json.dumps(config.to_dict(), allow_nan=False))) == config
    return "taken"


def check_line(text: str) -> None:
    """Requires an error to be one line that a person can read, on any terminal."""
    assert text.strip()
    assert len(text) < 2000, text
    assert text.isprintable(), repr(text)


OPTIONS = (
    *("--env", "--env-options", "--observation-keys", "--horizon", "--seed", "--seeds", "--epochs"),
    *(
        "--steps",
        "--seconds",
        "--return-above",
        "--evaluation.episodes",
        "--evaluation.first",
        "--keep",
    ),
    *(
        "--checkpoint-every",
        "--out",
        "--wandb",
        "--depth",
        "--preset",
        "--episodes",
        "--cover",
        "--bonus",
    ),
    *(
        "--update",
        "--hidden",
        "--num-envs",
        "--rollout-length",
        "--update.clip",
        "--update.minibatch",
    ),
    *(
        "--bonus.coefficient",
        "--cover.features",
        "--roll-in.share",
        "--N",
        "--gamma",
        "--class-options",
    ),
    *("--function-class", "--theory-constants", "--name", "--unknown", "--vectorization"),
)


def draw_command(seed: int) -> list[str]:
    """The arguments of `eniac train`, with one to three options that may not belong there."""
    draw = random.Random(seed)
    words = [draw.choice((*ROWS, *ROWS, "config.json", draw.choice(WORDS)))]
    for _ in range(draw.choice((1, 1, 2, 3))):
        option, values = (
            draw.choice(OPTIONS),
            draw.choices(WORDS, k=draw.choice((0, 1, 1, 1, 2, 3))),
        )
        if values and draw.random() < 0.2:
            words.append(f"{option}={values[0]}")
        else:
            words += [option, *values]
    return words


def judge_command(words: list[str]) -> str:
    """`taken` or `refused`, after the command line was read; nothing is run."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            check_words(["train", *words])
            parse_config(words)
    except ConfigError as error:
        check_line(str(error))
        return "refused"
    except SystemExit as end:
        # tyro has told what is no option, or no number, in a small panel; or has helped.
        return {0: "taken", 2: "refused"}[end.code]  # pyright: ignore
    return "taken"
