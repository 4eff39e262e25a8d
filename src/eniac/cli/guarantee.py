"""`eniac guarantee`: the theorems' hyper-parameters, printed."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from eniac.errors import ConfigError
from eniac.theory import guarantees
from eniac.theory.bounds import Algorithm, Constants, Guarantee, format_number


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
    _refuse_foreign(algorithm, given={"W": W, "alpha": alpha, "B": B, "G": G, "d": d})
    guarantees.check_gamma(gamma)
    names = ["eluder_dimension", "log_cover"]
    names += ["W"] if algorithm.startswith("spi") else ["B", "G", "Lambda", "d"]
    given = {
        "eluder_dimension": eluder,
        "log_cover": log_cover,
        "W": W,
        "B": B,
        "G": G,
        "Lambda": Lambda,
        "d": d,
    }
    about: dict[str, Any] = dict.fromkeys(names)
    if num_states is not None:
        slope = 1.0 if G is None else G
        about = guarantees.tabular_class(algorithm, num_states, num_actions, gamma, W, B, slope)
    elif eluder is None or log_cover is None:
        raise ConfigError(
            "the class is not described: give num_states for the tabular class, or both eluder and "
            "log_cover."
        )
    about |= {name: given[name] for name in names if given[name] is not None}
    missing = [name for name in ("B", "G", "Lambda", "d") if name in about and about[name] is None]
    if missing:
        raise ConfigError(
            f"{algorithm} needs B, G, Lambda and d, or num_states for the tabular class."
        )
    if algorithm.startswith("spi"):
        about |= {"C": C, "epsilon_0": epsilon_0}
    if algorithm.endswith("compute"):
        about["alpha"] = alpha
    found = guarantees.THEOREMS[algorithm](
        accuracy,
        gamma=gamma,
        num_actions=num_actions,
        delta=delta,
        constants=constants,
        rescale=rescale,
        **about,
    )
    Console().print(guarantee_table(found))
    return found


def guarantee_table(found: Guarantee) -> Table:
    """Hyper-parameters and terms, for a terminal."""
    title = f"ENIAC-{found.algorithm.upper()}, {found.constants} constants"
    if found.algorithm == "npg-compute":
        title += " (our adaptation)"
    table = Table(title=title, title_justify="left")
    for heading in ("", "value", "what it is"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for name, what in _MEANING.items():
        given = getattr(found, name)
        if given is not None:
            table.add_row(name, format_number(given), what)
    table.add_section()
    for name, term in found.terms().items():
        over = "" if term <= found.varepsilon * (1 + 1e-9) else "[red]above varepsilon[/red]"
        table.add_row(name, format_number(term), over or "term of the bound on the gap")
    table.add_row("gap", format_number(found.gap), "their sum, if the class is realisable")
    if not found.realisable:
        table.add_section()
        table.add_row(
            "sup |Q_b - b|",
            format_number(found.critic_bound),
            f"[red]above the class's bound {format_number(found.class_bound)}: no class so "
            "bounded is realisable, and epsilon_bias adds to the gap[/red]",
        )
    return table


_MEANING = {
    "accuracy": "the gap asked",
    "varepsilon": "the paper's accuracy; the gap is nine of them",
    "beta": "threshold on the width",
    "epsilon": "radius of the width's constraint",
    "N": "epochs",
    "K": "samples an epoch of the visited pairs",
    "T": "policy updates an epoch",
    "M": "samples a critic fit",
    "eta": "step size",
    "alpha": "uniform exploration",
    "epsilon_1": "radius of the cover behind the width",
    "epsilon_2": "radius of the cover behind the critic",
    "eluder_dimension": "at beta",
    "total_samples": "N (K + T M)",
    "expected_steps": "environment steps they take",
}


def _refuse_foreign(algorithm: Algorithm, given: dict[str, float | None]) -> None:
    foreign = ["B", "G", "d"] if algorithm.startswith("spi") else ["W"]
    if not algorithm.endswith("compute"):
        foreign.append("alpha")
    extra = [name for name in foreign if given[name] is not None]
    if extra:
        raise ConfigError(
            f"{algorithm} has no {', '.join(extra)}; leave it out, or choose another variant."
        )
