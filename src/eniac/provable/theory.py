"""The theorem's own settings, for those who want to see them: `--theory-constants`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from eniac.envs.registry import make
from eniac.provable.presets import preset
from eniac.theory import guarantees
from eniac.theory.bounds import Guarantee, format_number
from eniac.theory.eluder import tabular_eluder_dimension

if TYPE_CHECKING:
    from eniac.provable.config import Provable

MOST_STEPS = 10**11
"""Environment steps that a run may take: hours on one core."""
MOST_NUMBERS = 10**9
"""Entries that the policies N T |S| |A| may have in memory."""


def theory_settings(parts: Provable, env: str, options: Mapping[str, Any]) -> Provable:
    """`parts` with the N, K, T, M, eta, beta, epsilon (and alpha) of its theorem.

    **Raises** ValueError for an algorithm or class without a theorem, and, with the number of
    samples, where the run could not end.
    """
    chosen = preset(parts, env, options) or {}
    gamma = parts.gamma or chosen.get("gamma")
    if gamma is None:
        return parts
    mdp = make(env, **options).tabular()
    found = theorem(parts, gamma, mdp.num_states, mdp.num_actions)
    numbers = found.N * found.T * mdp.num_states * mdp.num_actions
    if found.expected_steps > MOST_STEPS or numbers > MOST_NUMBERS:
        raise ValueError(
            f"with the theorem's constants for accuracy {parts.accuracy:g} it takes "
            f"N (K + T M) = {format_number(found.total_samples)} samples, about "
            f"{format_number(found.expected_steps)} environment steps "
            f"(N = {format_number(found.N)}, K = {format_number(found.K)}, "
            f"T = {format_number(found.T)}, M = {format_number(found.M)}), which cannot finish: "
            f"{MOST_STEPS:.0e} steps take hours. "
            "Leave theory_constants off for settings that work."
        )
    return replace(
        parts,
        gamma=gamma,
        N=found.N,
        K=found.K,
        T=found.T,
        M=found.M,
        eta=found.eta,
        beta=found.beta,
        m=None,
        epsilon=found.epsilon,
        alpha=found.alpha,
        rewards=parts.rewards or chosen.get("rewards", "refuse"),
        theory_constants=False,
    )


def theorem(parts: Provable, gamma: float, num_states: int, num_actions: int) -> Guarantee:
    """The guarantee of the tabular class, corrected constants."""
    if parts.bonus != "width" or parts.cover != "uniform":
        raise ValueError(f"{parts.name} has no theorem in the paper; leave theory_constants off.")
    if parts.function_class != "tabular":
        raise ValueError(
            f"function_class is {parts.function_class!r}; the theorem's constants need its eluder "
            "dimension and covering number, which eniac has exactly for 'tabular'. "
            "`eniac guarantee` takes them for any class."
        )
    pairs = tabular_eluder_dimension(num_states * num_actions)
    horizon = 1 / (1 - gamma)
    common = {
        "gamma": gamma,
        "num_actions": num_actions,
        "eluder_dimension": pairs,
        "delta": parts.delta,
    }
    if parts.version == "compute":
        common["alpha"] = parts.alpha
    if parts.update == "spi":
        W = parts.bound or horizon**2
        rule = guarantees.spi_compute if parts.version == "compute" else guarantees.spi_sample
        return rule(parts.accuracy, log_cover=_cover(pairs, W), W=W, **common)
    B = parts.norm_bound or math.sqrt(pairs) * horizon**2
    rule = guarantees.npg_compute if parts.version == "compute" else guarantees.npg_sample
    return rule(
        parts.accuracy, log_cover=_cover(pairs, 4 * B), B=B, G=1.0, Lambda=0.0, d=pairs, **common
    )


def _cover(pairs: int, bound: float):
    """log N(r) of all functions with |f| <= bound: intervals of radius r, one choice a pair."""
    return lambda radius: pairs * math.log(max(1, math.ceil(bound / radius)))
