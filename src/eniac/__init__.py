"""Exploration in reinforcement learning that you can trust: ENIAC, its baselines and its theory.

The names are imported when they are first used, so that `import eniac` costs next to nothing and
JAX is loaded by whoever computes.
"""

from typing import TYPE_CHECKING

from eniac.envs.gymnasium_plugin import register_when_imported
from eniac.lazy import lazy_names

__version__ = "0.2.0"

if TYPE_CHECKING:
    from eniac.agent import Agent, load
    from eniac.algorithms import ALGORITHMS
    from eniac.envs import make
    from eniac.errors import (
        CheckpointError,
        ConfigError,
        EniacError,
        NonFiniteError,
        RunError,
    )
    from eniac.report.audit import audit_bonus
    from eniac.report.compare import compare_runs
    from eniac.report.evaluate import evaluate_run
    from eniac.report.figures import learning_curves
    from eniac.report.play import play_episode, save_gif
    from eniac.runs.config import Config, Evaluation
    from eniac.runs.engine import Result
    from eniac.runs.export import export_run, load_policy
    from eniac.runs.load import Run, load_run
    from eniac.training import resume, train

    # Made of the rows of the table of algorithms.
    ENIAC = PCPG = ZERO = PPORND = PPO = Agent
    ENIACSPISample = ENIACSPICompute = ENIACNPGSample = ENIACNPGCompute = Agent
    PCPGLinear = SPI = NPG = Agent

__all__ = [
    "ALGORITHMS",
    "ENIAC",
    "NPG",
    "PCPG",
    "PPO",
    "PPORND",
    "SPI",
    "ZERO",
    "Agent",
    "CheckpointError",
    "Config",
    "ConfigError",
    "ENIACNPGCompute",
    "ENIACNPGSample",
    "ENIACSPICompute",
    "ENIACSPISample",
    "EniacError",
    "Evaluation",
    "NonFiniteError",
    "PCPGLinear",
    "Result",
    "Run",
    "RunError",
    "__version__",
    "audit_bonus",
    "compare_runs",
    "evaluate_run",
    "export_run",
    "learning_curves",
    "load",
    "load_policy",
    "load_run",
    "make",
    "play_episode",
    "resume",
    "save_gif",
    "train",
]

AGENTS = (
    *("ENIAC", "PCPG", "ZERO", "PPORND", "PPO"),
    *("ENIACSPISample", "ENIACSPICompute", "ENIACNPGSample", "ENIACNPGCompute"),
    *("PCPGLinear", "SPI", "NPG"),
)
"""The names of the agents, known without the table that they are made of."""

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "agent": ("Agent", "load", *AGENTS),
        "algorithms": ("ALGORITHMS",),
        "envs": ("make",),
        "errors": ("CheckpointError", "ConfigError", "EniacError", "NonFiniteError", "RunError"),
        "report.audit": ("audit_bonus",),
        "report.compare": ("compare_runs",),
        "report.evaluate": ("evaluate_run",),
        "report.figures": ("learning_curves",),
        "report.play": ("play_episode", "save_gif"),
        "runs.config": ("Config", "Evaluation"),
        "runs.engine": ("Result",),
        "runs.export": ("export_run", "load_policy"),
        "runs.load": ("Run", "load_run"),
        "training": ("resume", "train"),
    },
)

register_when_imported()
