"""Running algorithms, and what is left of a run: configuration, logs, checkpoints, figures.

The names are imported when they are first used, so that a command that needs none of them, such as
`eniac --help`, does not wait for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eniac.experiments.config import Config, Evaluation
    from eniac.experiments.errors import (
        CheckpointError,
        ConfigError,
        EniacError,
        NonFiniteError,
        RunError,
    )
    from eniac.experiments.evaluate import evaluate_run
    from eniac.experiments.export import export_run, load_policy
    from eniac.experiments.figures import learning_curves
    from eniac.experiments.load import Run, load_run
    from eniac.experiments.play import play_episode, save_gif
    from eniac.experiments.run import Result, resume, train

_HOMES = {
    "config": ("Config", "Evaluation"),
    "errors": ("CheckpointError", "ConfigError", "EniacError", "NonFiniteError", "RunError"),
    "evaluate": ("evaluate_run",),
    "export": ("export_run", "load_policy"),
    "figures": ("learning_curves",),
    "load": ("Run", "load_run"),
    "play": ("play_episode", "save_gif"),
    "run": ("Result", "resume", "train"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "CheckpointError",
    "Config",
    "ConfigError",
    "EniacError",
    "Evaluation",
    "NonFiniteError",
    "Result",
    "Run",
    "RunError",
    "evaluate_run",
    "export_run",
    "learning_curves",
    "load_policy",
    "load_run",
    "play_episode",
    "resume",
    "save_gif",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
