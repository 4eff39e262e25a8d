"""The theorem's own settings, for those who want to see them: `--theory-constants`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from eniac.errors import ConfigError
from eniac.theory.bounds import Algorithm, Guarantee, format_number
from eniac.theory.guarantees import THEOREMS, tabular_class

if TYPE_CHECKING:
    from eniac.provable.config import ProvableConfig

MOST_STEPS = 10**11
"""Environment steps that a run may take: hours on one core."""
MOST_NUMBERS = 10**9
"""Entries that the policies N T |S| |A| may have in memory."""


def theory_settings(
    config: ProvableConfig, gamma: float, num_states: int, num_actions: int
) -> dict[str, Any]:
    """The N, K, T, M, eta, beta, epsilon and alpha of the theorem of `config`.

    **Raises** `ConfigError` for an algorithm or class without a theorem, and, with the number of
    samples, where the run could not end.
    """
    found = theorem(config, gamma, num_states, num_actions)
    numbers = found.N * found.T * num_states * num_actions
    if found.expected_steps > MOST_STEPS or numbers > MOST_NUMBERS:
        raise ConfigError(
            f"with the theorem's constants for accuracy {config.accuracy:g} it takes "
            f"N (K + T M) = {format_number(found.total_samples)} samples, about "
            f"{format_number(found.expected_steps)} environment steps "
            f"(N = {format_number(found.N)}, K = {format_number(found.K)}, "
            f"T = {format_number(found.T)}, M = {format_number(found.M)}), which cannot finish: "
            f"{MOST_STEPS:.0e} steps take hours. "
            "Leave theory_constants off for settings that work."
        )
    names = ("N", "K", "T", "M", "eta", "beta", "epsilon", "alpha")
    return {name: getattr(found, name) for name in names}


def theorem(config: ProvableConfig, gamma: float, num_states: int, num_actions: int) -> Guarantee:
    """The guarantee of the tabular class, corrected constants."""
    if config.bonus != "width" or config.cover != "uniform":
        raise ConfigError(f"{config.name} has no theorem in the paper; leave theory_constants off.")
    if config.function_class != "tabular":
        raise ConfigError(
            f"function_class is {config.function_class!r}; the theorem's constants need its eluder "
            "dimension and covering number, which eniac has exactly for 'tabular'. "
            "`eniac guarantee` takes them for any class."
        )
    variant = cast(Algorithm, f"{config.update}-{config.version}")
    about = tabular_class(variant, num_states, num_actions, gamma, config.bound, config.norm_bound)
    if config.version == "compute":
        about["alpha"] = config.alpha
    return THEOREMS[variant](
        config.accuracy, gamma=gamma, num_actions=num_actions, delta=config.delta, **about
    )
