"""Exploration in reinforcement learning that you can trust: ENIAC, its baselines and its theory.

The names are imported when they are first used, so that `import eniac` costs next to nothing and
JAX is loaded by whoever computes.
"""

from typing import TYPE_CHECKING

from eniac.envs.gymnasium_plugin import register_when_imported
from eniac.lazy import lazy_names

__version__ = "0.2.0"

if TYPE_CHECKING:
    from eniac.agent import Agent
    from eniac.agents import load
    from eniac.algorithms import ALGORITHMS
    from eniac.bonuses.base import Bonus, BonusRule
    from eniac.cover import CoverRule
    from eniac.envs import Environment, Step, make
    from eniac.errors import CheckpointError, ConfigError, EniacError, NonFiniteError, RunError
    from eniac.exports.write import export_run
    from eniac.functions import FunctionClass
    from eniac.incumbent import Acting
    from eniac.page.write import write_report
    from eniac.report.audit import audit_bonus
    from eniac.report.certificate import certify_run
    from eniac.report.compare import compare_runs
    from eniac.report.coverage import cover_report
    from eniac.report.diagnose import Diagnosis, diagnose_run
    from eniac.report.evaluate import evaluate_run
    from eniac.report.figures import learning_curves
    from eniac.report.play import play_episode, save_gif
    from eniac.runs.config import Config, Evaluation
    from eniac.runs.engine import Result
    from eniac.runs.export import load_policy
    from eniac.runs.load import Run, load_run
    from eniac.runs.log import TensorBoard, WandB
    from eniac.runs.sweep import sweep
    from eniac.sampling.base import Trajectory, rollout_advantages
    from eniac.spaces import Spaces
    from eniac.training import resume, train
    from eniac.updates.base import UpdateRule

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
    "Acting",
    "Agent",
    "Bonus",
    "BonusRule",
    "CheckpointError",
    "Config",
    "ConfigError",
    "CoverRule",
    "Diagnosis",
    "ENIACNPGCompute",
    "ENIACNPGSample",
    "ENIACSPICompute",
    "ENIACSPISample",
    "EniacError",
    "Environment",
    "Evaluation",
    "FunctionClass",
    "NonFiniteError",
    "PCPGLinear",
    "Result",
    "Run",
    "RunError",
    "Spaces",
    "Step",
    "TensorBoard",
    "Trajectory",
    "UpdateRule",
    "WandB",
    "__version__",
    "audit_bonus",
    "certify_run",
    "compare_runs",
    "cover_report",
    "diagnose_run",
    "evaluate_run",
    "export_run",
    "learning_curves",
    "load",
    "load_policy",
    "load_run",
    "make",
    "play_episode",
    "resume",
    "rollout_advantages",
    "save_gif",
    "sweep",
    "train",
    "write_report",
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
        "agent": ("Agent",),
        "agents": ("load", *AGENTS),
        "algorithms": ("ALGORITHMS",),
        "bonuses.base": ("Bonus", "BonusRule"),
        "cover": ("CoverRule",),
        "envs": ("Environment", "Step", "make"),
        "errors": ("CheckpointError", "ConfigError", "EniacError", "NonFiniteError", "RunError"),
        "exports.write": ("export_run",),
        "functions": ("FunctionClass",),
        "incumbent": ("Acting",),
        "report.audit": ("audit_bonus",),
        "report.certificate": ("certify_run",),
        "report.compare": ("compare_runs",),
        "report.coverage": ("cover_report",),
        "report.diagnose": ("Diagnosis", "diagnose_run"),
        "report.evaluate": ("evaluate_run",),
        "report.figures": ("learning_curves",),
        "page.write": ("write_report",),
        "report.play": ("play_episode", "save_gif"),
        "runs.config": ("Config", "Evaluation"),
        "runs.engine": ("Result",),
        "runs.export": ("load_policy",),
        "runs.load": ("Run", "load_run"),
        "runs.log": ("TensorBoard", "WandB"),
        "runs.sweep": ("sweep",),
        "sampling.base": ("Trajectory", "rollout_advantages"),
        "spaces": ("Spaces",),
        "training": ("resume", "train"),
        "updates.base": ("UpdateRule",),
    },
)

register_when_imported()
