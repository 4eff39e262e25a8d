"""`eniac guarantee`: the theorems' hyper-parameters, printed."""

from __future__ import annotations

import math

from rich.console import Console

from eniac.theory import guarantees
from eniac.theory.bounds import Algorithm, Constants, Guarantee
from eniac.theory.eluder import tabular_eluder_dimension


def guarantee_command(
    algorithm: Algorithm,
    /,
    accuracy: float,
    gamma: float,
    num_actions: int,
    num_states: int | None = None,
    eluder: float | None = None,
    log_cover: float | None = None,
    delta: float = 0.05,
    W: float | None = None,
    C: float = 1.0,
    epsilon_0: float = 0.0,
    alpha: float | None = None,
    B: float | None = None,
    G: float | None = None,
    Lambda: float | None = None,
    d: int | None = None,
    constants: Constants = "corrected",
    rescale: bool = True,
) -> Guarantee:
    """Print what a theorem asks for, and what each term of its bound is then worth.

    Give the class either by `num_states`, for the tabular class, or by its eluder dimension and log
    covering number (and, for NPG, B, G, Lambda and d).

    Args:
        algorithm: which of the four variants.
        accuracy: the gap to the best policy that you allow.
        gamma: discount.
        num_actions: number of actions.
        num_states: number of states; supplies every property of the tabular class left out.
        eluder: eluder dimension of the class (NPG: of the tangent class) at beta.
        log_cover: log covering number of the class (NPG: of the tangent class).
        delta: allowed probability of failure.
        W: bound on the class (SPI); 1/(1 - gamma)^2 unless given.
        C: constant of Assumption C.2 (SPI); 1 for a realisable class.
        epsilon_0: error of Assumption C.2 (SPI); 0 for a realisable class.
        alpha: uniform exploration (COMPUTE); 1/(1 + sqrt(T)) unless given.
        B: bound on the norm of u (NPG).
        G: bound on the gradient of f (NPG).
        Lambda: bound on the Hessian of f (NPG).
        d: number of parameters (NPG).
        constants: the paper's, or those with its slips mended.
        rescale: make the whole gap, not each of its nine terms, the accuracy.
    """
    spi = algorithm.startswith("spi")
    _refuse_foreign(algorithm, spi=spi, given={"W": W, "alpha": alpha, "B": B, "G": G, "d": d})
    horizon = 1 / (1 - guarantees.check_gamma(gamma))
    if num_states is not None:
        if num_states < 1:
            raise ValueError(f"num_states is {num_states}; expected one state or more.")
        pairs = tabular_eluder_dimension(num_states * num_actions)
        eluder = pairs if eluder is None else eluder
        # One unit of gradient per pair; u holds a bonus-free advantage of at most horizon^2 each.
        B = math.sqrt(pairs) * horizon**2 if B is None else B
        G = 1.0 if G is None else G
        Lambda = 0.0 if Lambda is None else Lambda
        d = pairs if d is None else d
        cover = log_cover
        if cover is None:
            # A cover lies inside the class (Assumptions 4.3, 4.6). The tangent class is only a
            # subset of a tabular one, so moving the centres into it costs half the radius.
            bound = horizon**2 if W is None else W
            cover = _tabular_cover(pairs, bound if spi else 4 * B * G)
    elif eluder is None or log_cover is None:
        raise ValueError(
            "the class is not described: give num_states for the tabular class, or both eluder and "
            "log_cover."
        )
    else:
        cover = log_cover
    common = {
        "gamma": gamma,
        "num_actions": num_actions,
        "eluder_dimension": eluder,
        "log_cover": cover,
        "delta": delta,
        "constants": constants,
        "rescale": rescale,
    }
    if algorithm.endswith("compute"):
        common["alpha"] = alpha
    if spi:
        theorem = guarantees.spi_sample if algorithm == "spi-sample" else guarantees.spi_compute
        found = theorem(accuracy, **common, W=W, C=C, epsilon_0=epsilon_0)
    else:
        if B is None or G is None or Lambda is None or d is None:
            raise ValueError(
                f"{algorithm} needs B, G, Lambda and d, or num_states for the tabular class."
            )
        theorem = guarantees.npg_sample if algorithm == "npg-sample" else guarantees.npg_compute
        found = theorem(accuracy, **common, B=B, G=G, Lambda=Lambda, d=d)
    Console().print(found.table())
    return found


def _tabular_cover(pairs: int, bound: float):
    """log N(r) of all functions with |f| <= bound: intervals of radius r, one choice a pair."""
    return lambda radius: pairs * math.log(max(1, math.ceil(bound / radius)))


def _refuse_foreign(algorithm: Algorithm, *, spi: bool, given: dict[str, float | None]) -> None:
    foreign = ["B", "G", "d"] if spi else ["W"]
    if not algorithm.endswith("compute"):
        foreign.append("alpha")
    extra = [name for name in foreign if given[name] is not None]
    if extra:
        raise ValueError(
            f"{algorithm} has no {', '.join(extra)}; leave it out, or choose another variant."
        )
