"""The provable rows of the table of algorithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from eniac.provable.config import ProvableConfig


@dataclass(frozen=True)
class ProvableSpec:
    """A provable algorithm of the table: what it is made of."""

    name: str
    description: str
    cover: str
    bonus: str
    update: str
    source: str
    default: ProvableConfig

    choices: ClassVar[tuple[str, ...]] = ()
    """what can be chosen by name before all other settings: nothing, since there is no network to
    choose a depth of, no preset of the paper's, and no episodes: sampling stops geometrically"""

    def settings(self) -> ProvableConfig:
        """The settings, which are the same whatever was chosen."""
        return self.default


PROVABLE: dict[str, ProvableSpec] = {
    row.name: row
    for row in (
        ProvableSpec(
            "eniac-spi-sample",
            "provable ENIAC: soft policy iteration, acting by the known set",
            "uniform",
            "exact width of F >= beta, 1/(1 - gamma)",
            "SPI on known states, uniform over unknown actions elsewhere",
            "Feng et al. 2021, Section 3, Theorem 4.1",
            ProvableConfig("eniac-spi-sample"),
        ),
        ProvableSpec(
            "eniac-spi-compute",
            "provable ENIAC: soft policy iteration that looks at no bonus when it acts",
            "uniform",
            "exact width of F >= beta, |A|/((1 - gamma) alpha)",
            "SPI, mixed with alpha uniform actions",
            "Feng et al. 2021, Section 3, Theorem C.2",
            ProvableConfig("eniac-spi-compute", version="compute"),
        ),
        ProvableSpec(
            "eniac-npg-sample",
            "provable ENIAC: natural policy gradient, acting by the known set",
            "uniform",
            "exact width of the gradients' class >= beta, 1/(1 - gamma)",
            "NPG on known states, uniform over unknown actions elsewhere",
            "Feng et al. 2021, Section 3, Theorem 4.2, with the appendix's actor",
            ProvableConfig("eniac-npg-sample", update="npg"),
        ),
        ProvableSpec(
            "eniac-npg-compute",
            "provable ENIAC: natural policy gradient that looks at no bonus when it acts",
            "uniform",
            "exact width of the gradients' class >= beta, |A|/((1 - gamma) alpha)",
            "NPG, mixed with alpha uniform actions",
            "after Feng et al. 2021, who leave it to the reader",
            ProvableConfig("eniac-npg-compute", update="npg", version="compute"),
        ),
        ProvableSpec(
            "pc-pg-linear",
            "PC-PG with exact features: log-det cover and ellipsoid bonus",
            "log-det",
            "phi' Sigma^-1 phi >= threshold, 1/(1 - gamma)",
            "NPG on known states, uniform over unknown actions elsewhere",
            "Agarwal et al. 2020",
            ProvableConfig("pc-pg-linear", update="npg", cover="log-det", bonus="ellipsoid"),
        ),
        ProvableSpec(
            "spi",
            "soft policy iteration over the cover, without a bonus",
            "uniform",
            "none",
            "SPI",
            "the loop of ENIAC with b = 0",
            ProvableConfig("spi", bonus="none"),
        ),
        ProvableSpec(
            "npg",
            "natural policy gradient over the cover, without a bonus",
            "uniform",
            "none",
            "NPG",
            "the loop of ENIAC with b = 0",
            ProvableConfig("npg", update="npg", bonus="none"),
        ),
    )
}
