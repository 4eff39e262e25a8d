"""Makes our environments known to gymnasium: `import eniac`, in any order, and that is all.

gymnasium takes longer to import than `eniac --help` may, so it is not imported for this. Where it
is there already, they are registered at once; else as soon as somebody imports it.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

NAMESPACE = "eniac"


def register() -> None:
    """Register every environment of the table with gymnasium as `eniac/<id>`. Again is harmless."""
    import gymnasium

    from eniac.envs.registry import ENVS

    for entry in ENVS.values():
        id = f"{NAMESPACE}/{entry.id}"
        if id not in gymnasium.registry:
            gymnasium.register(
                id,
                entry_point="eniac.envs.gymnasium:GymnasiumEnv",
                max_episode_steps=entry.horizon,
                kwargs={"env": entry.id},
            )


def register_when_imported() -> None:
    """`register()`, now or when gymnasium is imported."""
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Watcher())


class _Watcher(MetaPathFinder):
    """Finds gymnasium as Python would, and registers when it has been executed."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module: Any) -> None:
            execute(module)
            register()

        spec.loader.exec_module = execute_and_register
        return spec
