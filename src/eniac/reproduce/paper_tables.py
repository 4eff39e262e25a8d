"""Tables 1 to 3 of the paper's appendix, beside what the presets have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from eniac.algorithms.deep import DEEP
from eniac.networks import DEPTHS
from eniac.reproduce.choice import Choice, Report


@dataclass(frozen=True)
class Entry:
    """A line of a table: a number for each depth, and where it is in the settings."""

    table: str
    name: str
    paper: tuple[Any, Any, Any]
    """for 2, 4 and 6 layers"""
    algorithms: tuple[str, ...]
    setting: str
    note: str = ""


def _line(table: str, algorithms: tuple[str, ...]) -> Any:
    def entry(name: str, setting: str, *paper: Any, note: str = "") -> Entry:
        return Entry(
            table, name, paper * 3 if len(paper) == 1 else paper, algorithms, setting, note
        )  # pyright: ignore[reportArgumentType]

    return entry


_width = _line("Table 1, width training of ENIAC", ("eniac",))
_cover = _line("Table 2, optimisation of ENIAC and PC-PG", ("eniac", "pc-pg", "zero"))
_rnd = _line("Table 3, PPO-RND", ("ppo-rnd",))
_text = _line("Section 5", ("eniac", "pc-pg", "zero", "ppo-rnd", "ppo"))

ENTRIES: tuple[Entry, ...] = (
    _width("lambda", "bonus.weight", 0.1),
    _width("lambda_1", "bonus.push", 0.01),
    _width("size of Z_Q", "bonus.query_size", 20_000),
    _width("learning rate", "bonus.learning_rate", 1e-3, 1e-3, 1.5e-3),
    _width("size of D_j", "bonus.buffer_batch", 160),
    _width("size of D_Q", "bonus.query_batch", 20, 20, 10),
    _width("gradient clipping", "bonus.max_gradient_norm", 5.0),
    _width("I", "bonus.outer", 1000),
    _width("J", "bonus.inner", 10),
    _cover("learning rate", "update.learning_rate", 5e-4),
    _cover("tau of GAE", "update.gae_lambda", 0.95),
    _cover("gradient clipping", "update.max_gradient_norm", 5.0),
    _cover("entropy bonus", "update.entropy", 0.01),
    _cover("PPO ratio clip", "update.clip", 0.2),
    _cover("PPO minibatch", "update.minibatch", 160),
    _cover("PPO optimisation epochs", "update.passes", 5),
    _cover(
        *("epsilon-greedy sampling", "roll_in.epsilon", 0.05),
        note="of the first action after a roll-in, as in the paper's program",
    ),
    _rnd(
        *("learning rate", "update.learning_rate", 1e-4),
        note="of the policy, and of the predictor too",
    ),
    _rnd("tau of GAE", "update.gae_lambda", 0.95),
    _rnd("gradient clipping", "update.max_gradient_norm", 5.0),
    _rnd("entropy bonus", "update.entropy", 0.01),
    _rnd("PPO ratio clip", "update.clip", 0.2),
    _rnd("PPO minibatch", "update.minibatch", 160),
    _rnd("PPO optimisation epochs", "update.passes", 5),
    _rnd("intrinsic reward normalisation", "bonus.normalise", False),
    _rnd(
        *("intrinsic reward coefficient", "bonus.coefficient", 5e3, 1e3, 1e3),
        note="the table prints 10 as e; the paper's program has 1000 at every depth",
    ),
    _text("hidden layers", "hidden", (64, 64), (64, 128, 128, 64), (64, 64, 128, 128, 64, 64)),
    _text("gamma", "update.gamma", 0.99),
    _text(
        *("horizon", "rollout_length", 100),
        note="of a trajectory; it ends the episode with `--episodes episodic`, and does not with "
        "`continuing`, as in the paper's program",
    ),
)
"""The numbers that the paper prints: Tables 1-3 of its appendix ("Algorithm Hyperparameters"), and
Sections 5.2 and 5.3."""


def in_preset(entry: Entry, algorithm: str) -> tuple[Any, ...]:
    """What `--preset paper-depth2`, `4` and `6` of an algorithm have for a line."""
    row = next(row for row in DEEP if row.name == algorithm)
    settings = [row.settings(preset=f"paper-depth{depth}") for depth in DEPTHS]
    return tuple(reduce(getattr, entry.setting.split("."), each) for each in settings)


def report(choice: Choice) -> Report:
    """The tables, line by line."""
    del choice
    text = ""
    for table in dict.fromkeys(entry.table for entry in ENTRIES):
        entries = [entry for entry in ENTRIES if entry.table == table]
        text += f"\n### {table}\n\n"
        text += "| hyper-parameter | setting | paper | preset | same |\n"
        text += "| --- | --- | --- | --- | --- |\n"
        for entry in entries:
            found = {name: in_preset(entry, name) for name in entry.algorithms}
            others = {name: values for name, values in found.items() if values != entry.paper}
            told = "; ".join(f"{name} {_shown(values)}" for name, values in others.items())
            cells = [
                entry.name,
                f"`{entry.setting}`",
                _shown(entry.paper),
                told or _shown(entry.paper),
                ("no" if others else "yes") + (f": {entry.note}" if entry.note else ""),
            ]
            text += f"| {' | '.join(cells)} |\n"
    return Report(text, {})


def _shown(values: tuple[Any, ...]) -> str:
    """A value, or those of the three depths where they differ."""
    words = [
        " x ".join(map(str, x)) if isinstance(x, tuple) else f"{x:g}" if x is not False else "false"
        for x in values
    ]
    return words[0] if len(set(words)) == 1 else ", ".join(words)
