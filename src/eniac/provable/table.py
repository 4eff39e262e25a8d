"""The provable rows of the table of algorithms."""

from __future__ import annotations

from eniac.provable.config import Provable, ProvableRow

PROVABLE: dict[str, ProvableRow] = {
    row.name: row
    for row in (
        ProvableRow(
            "eniac-spi-sample",
            "provable ENIAC: soft policy iteration, acting by the known set",
            "uniform",
            "exact width of F >= beta, 1/(1 - gamma)",
            "SPI on known states, uniform over unknown actions elsewhere",
            "Feng et al. 2021, Section 3, Theorem 4.1",
            Provable("eniac-spi-sample"),
        ),
        ProvableRow(
            "eniac-spi-compute",
            "provable ENIAC: soft policy iteration that looks at no bonus when it acts",
            "uniform",
            "exact width of F >= beta, |A|/((1 - gamma) alpha)",
            "SPI, mixed with alpha uniform actions",
            "Feng et al. 2021, Section 3, Theorem C.2",
            Provable("eniac-spi-compute", version="compute"),
        ),
        ProvableRow(
            "eniac-npg-sample",
            "provable ENIAC: natural policy gradient, acting by the known set",
            "uniform",
            "exact width of the gradients' class >= beta, 1/(1 - gamma)",
            "NPG on known states, uniform over unknown actions elsewhere",
            "Feng et al. 2021, Section 3, Theorem 4.2, with the appendix's actor",
            Provable("eniac-npg-sample", update="npg"),
        ),
        ProvableRow(
            "eniac-npg-compute",
            "provable ENIAC: natural policy gradient that looks at no bonus when it acts",
            "uniform",
            "exact width of the gradients' class >= beta, |A|/((1 - gamma) alpha)",
            "NPG, mixed with alpha uniform actions",
            "after Feng et al. 2021, who leave it to the reader",
            Provable("eniac-npg-compute", update="npg", version="compute"),
        ),
        ProvableRow(
            "pc-pg-linear",
            "PC-PG with exact features: log-det cover and ellipsoid bonus",
            "log-det",
            "phi' Sigma^-1 phi >= threshold, 1/(1 - gamma)",
            "NPG on known states, uniform over unknown actions elsewhere",
            "Agarwal et al. 2020",
            Provable("pc-pg-linear", update="npg", cover="log-det", bonus="ellipsoid"),
        ),
        ProvableRow(
            "spi",
            "soft policy iteration over the cover, without a bonus",
            "uniform",
            "none",
            "SPI",
            "the loop of ENIAC with b = 0",
            Provable("spi", bonus="none"),
        ),
        ProvableRow(
            "npg",
            "natural policy gradient over the cover, without a bonus",
            "uniform",
            "none",
            "NPG",
            "the loop of ENIAC with b = 0",
            Provable("npg", update="npg", bonus="none"),
        ),
    )
}
