"""The parts that an algorithm is made of, by name: ours, and a user's own by `module:name`."""

from __future__ import annotations

from typing import Any

from eniac.bonuses import BONUSES
from eniac.bonuses.base import BonusRule
from eniac.cover import COVERS, CoverRule
from eniac.errors import ConfigError, shown, suggestion
from eniac.lazy import import_named
from eniac.updates.base import UpdateRule
from eniac.updates.ppo import PPO

PARTS: dict[type, dict[str, type]] = {
    BonusRule: dict(BONUSES),
    CoverRule: dict(COVERS),
    UpdateRule: {"ppo": PPO},
}
"""For each kind of part its base class, and those that have a name."""

FIELDS = "__dataclass_fields__"
"""What a dataclass has."""

KINDS: dict[str, type] = {"bonus": BonusRule, "cover": CoverRule, "update": UpdateRule}
"""The settings that are parts."""


def find_part(base: type, name: Any, path: str) -> type:
    """The dataclass of the part called `name`, below `base`; `path` is the setting it is for."""
    known = PARTS[base]
    if not isinstance(name, str):
        raise ConfigError(f"{path}.type is {shown(name)}; it must be the name of a {path}.")
    if name in known:
        return known[name]
    if ":" not in name:
        raise ConfigError(
            f"{path} is {shown(name)}; no {path} has that name.{suggestion(name, known)} "
            f"There are: {', '.join(known)}; one of your own is module:name."
        )
    found = import_named(name, path)
    if isinstance(found, type) and issubclass(found, base) and hasattr(found, FIELDS):
        return found
    raise ConfigError(
        f"{path} is {shown(name)}, which is {shown(found)}; it must be a dataclass that inherits "
        f"from {base.__module__}.{base.__name__}."
    )


def part_name(part: Any) -> str:
    """The name that `find_part` finds the class of `part` by."""
    kind = type(part)
    for base, known in PARTS.items():
        if isinstance(part, base):
            for name, each in known.items():
                if each is kind:
                    return name
    return f"{kind.__module__}:{kind.__qualname__}"
