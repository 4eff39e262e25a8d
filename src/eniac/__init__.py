"""Exploration in reinforcement learning that you can trust."""

from eniac.envs import make
from eniac.envs.gymnasium import register

__version__ = "0.1.0"
__all__ = ["__version__", "make"]

register()
