"""The theorems' hyper-parameters, and what each error term of the final bound is worth with them.

    spi_sample(0.1, gamma=0.9, num_actions=4, eluder_dimension=40, log_cover=400.0)

returns a frozen `Guarantee` with the paper's names: beta, T, N, eta, alpha, epsilon_1, epsilon_2,
K, M, epsilon. Theorems C.1 (SPI-SAMPLE), C.2 (SPI-COMPUTE), D.1 (NPG-SAMPLE); NPG-COMPUTE, which
the paper leaves to the reader, is ours.

**Two sets of constants.** The first line of each bonus lemma (C.1, C.5, D.2) loses a factor
1/(1 - gamma): V_b - V is the bonus mass over (1 - gamma)^2. `constants="printed"` are the paper's;
five of nine terms of the true bound then exceed the accuracy. `"corrected"` (default) has one more
power of 1 - gamma in N, K, M, epsilon_1 and epsilon_2, and every term is within it. Corrected also
means
- for NPG, that 2D, which bounds tangent functions (2BG), stands wherever the SPI proof has W. The
  paper has D in some places and 2BG in others: N and K fit together only if BG >= 1/(1 - gamma);
- for COMPUTE, that |A|/alpha stands where the paper has 12 W |A| log|A| / (varepsilon (1 - gamma)),
  which drops the 1 of 1 + sqrt(T) and is too small for |A| = 2.

**Accuracy.** Nine terms, each within varepsilon: the detailed theorems end in 9 varepsilon, the
main ones in varepsilon. `rescale=True` (default) divides by nine: the gap is the accuracy asked.

**Left open or said twice in the paper.** N is a lower bound (`>=`), taken with equality. Lemma D.4
holds with probability 1 - (n+1) delta, but its proof, and the theorem, use 1 - delta. T, N, K and M
are rounded up. Samples are not environment steps: `expected_steps` counts 1/(1 - gamma) for one of
the K samples, (1 + gamma)/(1 - gamma) for one of SPI's M samples (reach a pair, then a return), and
(2 + gamma)/(1 - gamma) for NPG's, whose advantage needs two returns. See `docs/errata.md`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from eniac.theory.bounds import Algorithm, Constants, Guarantee
from eniac.theory.eluder import tabular_eluder_dimension
from eniac.theory.planning import check_gamma

Complexity = float | Callable[[float], float]


def spi_sample(
    accuracy: float,
    *,
    gamma: float,
    num_actions: int,
    eluder_dimension: Complexity,
    log_cover: Complexity,
    W: float | None = None,
    delta: float = 0.05,
    C: float = 1.0,
    epsilon_0: float = 0.0,
    constants: Constants = "corrected",
    rescale: bool = True,
) -> Guarantee:
    """Theorem C.1. `eluder_dimension` is a number or a function of beta, `log_cover` of the radius.

    `W` bounds the class, 1/(1 - gamma)^2 unless given: exactly what realisability needs.
    """
    basics = _basics("spi-sample", accuracy, gamma, num_actions, delta, C, epsilon_0, constants)
    W = _class_bound(W, basics.gamma)
    leap = 8 * W * math.sqrt(math.log(num_actions))
    return _assemble(
        basics,
        rescale=rescale,
        eluder_dimension=eluder_dimension,
        log_cover=log_cover,
        bounds=_Bounds(W, W, W),
        step_scale=16 * W**2,
        regret_scale=leap,
        T_scale=leap**2,
    )


def spi_compute(
    accuracy: float,
    *,
    gamma: float,
    num_actions: int,
    eluder_dimension: Complexity,
    log_cover: Complexity,
    W: float | None = None,
    alpha: float | None = None,
    delta: float = 0.05,
    C: float = 1.0,
    epsilon_0: float = 0.0,
    constants: Constants = "corrected",
    rescale: bool = True,
) -> Guarantee:
    """Theorem C.2. `alpha` is 1/(1 + sqrt(T)) unless given; then look at `Guarantee.holds`.

    A realisable class would need W above `Guarantee.critic_bound`, which no finite W is: the
    theorem speaks of misspecified classes only. N K grows with |A|^3 in the printed constants.
    """
    basics = _basics("spi-compute", accuracy, gamma, num_actions, delta, C, epsilon_0, constants)
    W = _class_bound(W, basics.gamma)
    root = W * math.sqrt(math.log(num_actions))
    return _assemble(
        basics,
        rescale=rescale,
        eluder_dimension=eluder_dimension,
        log_cover=log_cover,
        bounds=_Bounds(W, W, W),
        step_scale=16 * W**2,
        regret_scale=8 * root,
        T_scale=144 * root**2,
        alpha=alpha,
    )


def npg_sample(
    accuracy: float,
    *,
    gamma: float,
    num_actions: int,
    eluder_dimension: Complexity,
    log_cover: Complexity,
    B: float,
    G: float,
    Lambda: float,
    d: int,
    delta: float = 0.05,
    constants: Constants = "corrected",
    rescale: bool = True,
) -> Guarantee:
    """Theorem D.1, with |u| <= B, |grad f| <= G, |hess f| <= Lambda and u in R^d.

    `eluder_dimension` and `log_cover` are those of the tangent class. C = 1 and epsilon_0 = 0 by
    Lemma D.1, which needs U convex: a ball.
    """
    basics = _basics("npg-sample", accuracy, gamma, num_actions, delta, 1.0, 0.0, constants)
    D, bounds = _tangent_bounds(B, G, Lambda, d, basics)
    smooth = Lambda * B**2
    return _assemble(
        basics,
        rescale=rescale,
        eluder_dimension=eluder_dimension,
        log_cover=log_cover,
        bounds=bounds,
        step_scale=16 * D**2 + smooth,
        regret_scale=2 * math.sqrt((16 * D**2 + smooth) * math.log(num_actions)),
        T_scale=64 * (D**2 + smooth) * math.log(num_actions),
        parameters=(D, d),
    )


def npg_compute(
    accuracy: float,
    *,
    gamma: float,
    num_actions: int,
    eluder_dimension: Complexity,
    log_cover: Complexity,
    B: float,
    G: float,
    Lambda: float,
    d: int,
    alpha: float | None = None,
    delta: float = 0.05,
    constants: Constants = "corrected",
    rescale: bool = True,
) -> Guarantee:
    """NPG-COMPUTE: **ours**; the paper says only that it can be adapted.

    Theorem D.1 with the bonus and the mixing of Theorem C.2: the regret gains 2D alpha/(1 - alpha),
    with A-hat centred under the policy executed; T makes both parts fit. No printed constants.
    """
    if constants == "printed":
        raise ValueError(
            'NPG-COMPUTE has no printed constants, the paper omits it; use constants="corrected".'
        )
    basics = _basics("npg-compute", accuracy, gamma, num_actions, delta, 1.0, 0.0, constants)
    D, bounds = _tangent_bounds(B, G, Lambda, d, basics)
    scale = 16 * D**2 + Lambda * B**2
    leap = 2 * math.sqrt(scale * math.log(num_actions))
    return _assemble(
        basics,
        rescale=rescale,
        eluder_dimension=eluder_dimension,
        log_cover=log_cover,
        bounds=bounds,
        step_scale=scale,
        regret_scale=leap,
        T_scale=(leap + 2 * D) ** 2,
        alpha=alpha,
        parameters=(D, d),
    )


THEOREMS: dict[Algorithm, Callable[..., Guarantee]] = {
    "spi-sample": spi_sample,
    "spi-compute": spi_compute,
    "npg-sample": npg_sample,
    "npg-compute": npg_compute,
}
"""What computes the hyper-parameters of each of the four variants."""


def tabular_class(
    algorithm: Algorithm,
    num_states: int,
    num_actions: int,
    gamma: float,
    W: float | None = None,
    B: float | None = None,
    G: float = 1.0,
) -> dict[str, Any]:
    """What a theorem asks about its class, for the tabular one: arguments of `THEOREMS`.

    `W` bounds the class (SPI), 1/(1 - gamma)^2 unless given; `B` the norm of u (NPG), `G` the
    gradient: one unit a pair, and u holds a bonus-free advantage of at most 1/(1 - gamma)^2 each.
    """
    if num_states < 1:
        raise ValueError(f"num_states is {num_states}; expected one state or more.")
    pairs = tabular_eluder_dimension(num_states * num_actions)
    squared = 1 / (1 - check_gamma(gamma)) ** 2
    if algorithm.startswith("spi"):
        W = squared if W is None else W
        return {"eluder_dimension": pairs, "W": W, "log_cover": _tabular_cover(pairs, W)}
    B = math.sqrt(pairs) * squared if B is None else B
    # A cover lies inside the class (Assumptions 4.3, 4.6). The tangent class is only a subset of a
    # tabular one, so moving the centres into it costs half the radius.
    return {
        "eluder_dimension": pairs,
        "log_cover": _tabular_cover(pairs, 4 * B * G),
        "B": B,
        "G": G,
        "Lambda": 0.0,
        "d": pairs,
    }


def _tabular_cover(pairs: int, bound: float) -> Callable[[float], float]:
    """log N(r) of all functions with |f| <= bound: intervals of radius r, one choice a pair."""
    return lambda radius: pairs * math.log(max(1, math.ceil(bound / radius)))


@dataclasses.dataclass(frozen=True)
class _Basics:
    algorithm: Algorithm
    accuracy: float
    gamma: float
    num_actions: int
    delta: float
    C: float
    epsilon_0: float
    constants: Constants


@dataclasses.dataclass(frozen=True)
class _Bounds:
    """What stands for W: in the proof, in the printed N, and in the printed K, M and epsilons."""

    proof: float
    printed_count: float
    printed: float


def _basics(algorithm, accuracy, gamma, num_actions, delta, C, epsilon_0, constants) -> _Basics:
    gamma = check_gamma(gamma)
    if isinstance(num_actions, bool) or num_actions != int(num_actions) or num_actions < 2:
        raise ValueError(
            f"num_actions is {num_actions}; expected an integer of 2 or more (with one action T "
            "would be zero, and there is nothing to learn)."
        )
    if not (math.isfinite(accuracy) and accuracy > 0):
        raise ValueError(f"accuracy is {accuracy}; expected a finite positive number.")
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta}; expected a probability strictly between 0 and 1.")
    if not (math.isfinite(C) and C >= 1):
        raise ValueError(f"C is {C}; Assumption C.2 has C >= 1.")
    if not (math.isfinite(epsilon_0) and epsilon_0 >= 0):
        raise ValueError(f"epsilon_0 is {epsilon_0}; expected a number that is not negative.")
    if constants not in ("corrected", "printed"):
        raise ValueError(f'constants is {constants!r}; expected "corrected" or "printed".')
    return _Basics(
        algorithm, float(accuracy), gamma, int(num_actions), delta, C, epsilon_0, constants
    )


def _class_bound(W: float | None, gamma: float) -> float:
    if W is None:
        return 1 / (1 - gamma) ** 2
    if not (math.isfinite(W) and W * (1 - gamma) >= 1 - 1e-12):
        raise ValueError(
            f"W is {W}; Assumption 4.2 has W >= 1/(1 - gamma) = {1 / (1 - gamma):g}, and a "
            f"realisable class needs 1/(1 - gamma)^2 = {1 / (1 - gamma) ** 2:g}."
        )
    return float(W)


def _tangent_bounds(
    B: float, G: float, Lambda: float, d: int, basics: _Basics
) -> tuple[float, _Bounds]:
    for name, given in (("B", B), ("G", G), ("d", d)):
        if not (math.isfinite(given) and given > 0):
            raise ValueError(f"{name} is {given}; expected a finite positive number.")
    if not (math.isfinite(Lambda) and Lambda >= 0):
        raise ValueError(f"Lambda is {Lambda}; expected a finite number that is not negative.")
    D = max(B * G, 1 / (1 - basics.gamma))
    return D, _Bounds(proof=2 * D, printed_count=2 * B * G, printed=D)


def _assemble(
    basics: _Basics,
    *,
    rescale: bool,
    eluder_dimension: Complexity,
    log_cover: Complexity,
    bounds: _Bounds,
    step_scale: float,
    regret_scale: float,
    T_scale: float,
    alpha: float | None = None,
    parameters: tuple[float, int] | None = None,
) -> Guarantee:
    """The formulas the four share. `parameters` = (D, d) gives NPG's critic its linear cover."""
    gamma, delta, C = basics.gamma, basics.delta, basics.C
    varepsilon = basics.accuracy / 9 if rescale else basics.accuracy
    if varepsilon >= 1 / (1 - gamma):
        raise ValueError(
            f"the accuracy of each term is {varepsilon:g}; the theorems need less than "
            f"1/(1 - gamma) = {1 / (1 - gamma):g}, which every policy attains. Ask for less."
        )
    short = 1 - gamma
    beta = varepsilon * short / 2
    dimension = _evaluate(eluder_dimension, beta, "the eluder dimension", at_least=1.0)
    T = _ceil(T_scale / (varepsilon * short) ** 2)
    scale = 1.0
    compute = basics.algorithm.endswith("compute")
    if compute:
        if alpha is None:
            alpha = 1 / (1 + math.sqrt(T))
        elif not 0 < alpha < 1:
            raise ValueError(f"alpha is {alpha}; expected a probability strictly between 0 and 1.")
        scale = basics.num_actions / alpha
    if basics.constants == "corrected":
        bound = count_bound = bounds.proof
        unit = scale * dimension / (varepsilon**3 * short**4)
        unit_1, unit_2, K_scale, K_floor = 128 * unit, 110 * unit, 128.0, scale**2
    else:
        bound, count_bound = bounds.printed, bounds.printed_count
        unit = dimension / (varepsilon * short) ** 3
        unit_1, unit_2, K_scale, K_floor = 128 * unit, 110 * unit, 128.0, 0.0
        if compute:  # SPI-COMPUTE: 12 W |A| log|A| / (epsilon (1 - gamma)) in place of |A|/alpha
            log_actions = math.log(basics.num_actions)
            unit *= 12 * bound * basics.num_actions * log_actions / (varepsilon * short)
            unit_1, unit_2 = 128 * unit, 104 * unit
            K_scale *= basics.num_actions * log_actions
        elif parameters is not None:
            K_scale = 32.0
    N = _ceil(32 * count_bound**2 * unit)
    log_union = math.log(3 / delta) + math.log(N) + math.log(T)
    epsilon_1 = 1 / (bound * unit_1)
    epsilon_2 = 1 / (C * bound**2 * unit_2)
    log_cover_1 = _evaluate(log_cover, epsilon_1, "the log covering number")
    if parameters is None:
        log_cover_2 = _evaluate(log_cover, epsilon_2, "the log covering number")
        log_2 = log_union + log_cover_2
    else:
        D, d = parameters
        # Lemma E.2 with the 6 of its proof; d also multiplies log(3NT/delta), as printed.
        log_2 = d * (max(math.log(6 * D / epsilon_2), 0.0) + log_union)
        log_cover_2 = log_2 - log_union
    log_1, log_hoeffding = log_union + log_cover_1, log_union + math.log(2)
    K = _ceil(
        max(
            K_scale * bound**2 * unit * log_1**2 * log_hoeffding,
            K_floor * log_hoeffding / (2 * varepsilon**2 * short**4),
        )
    )
    M = _ceil(4000 * C**2 * bound**4 * unit * log_2)
    statistical = 500 * C * bound**4 * log_2 / M + 13 * bound**2 * epsilon_2 + basics.epsilon_0
    fit_error = C * statistical + basics.epsilon_0 + 16 * bound * epsilon_1
    concentration = 8 * bound**2 * log_1
    root_nk = math.sqrt(N) * math.sqrt(K)
    epsilon = math.sqrt(fit_error + concentration / root_nk) * root_nk
    return Guarantee(
        **dataclasses.asdict(basics),
        varepsilon=varepsilon,
        eluder_dimension=dimension,
        class_bound=bounds.proof,
        regret_scale=regret_scale,
        beta=beta,
        T=T,
        N=N,
        K=K,
        M=M,
        eta=math.sqrt(math.log(basics.num_actions) / step_scale / T),
        alpha=alpha,
        epsilon_1=epsilon_1,
        epsilon_2=epsilon_2,
        epsilon=epsilon,
        log_cover_1=log_cover_1,
        log_cover_2=log_cover_2,
        fit_error=fit_error,
        concentration=concentration,
    )


def _evaluate(complexity: Complexity, scale: float, name: str, at_least: float = 0.0) -> float:
    given = float(complexity(scale) if callable(complexity) else complexity)
    if not (math.isfinite(given) and given >= at_least):
        raise ValueError(f"{name} at {scale:.3g} is {given}; expected {at_least:g} or more.")
    return given


def _ceil(number: float) -> int:
    if not math.isfinite(number):
        raise ValueError(
            "a hyper-parameter is beyond 1e308; gamma is too near one or the accuracy too small "
            "for these constants to mean anything."
        )
    return max(1, math.ceil(number))
