"""Exploration in reinforcement learning that you can trust."""

__version__ = "0.1.0"
