"""Pictures of an agent as figures of matplotlib's: what `eniac plot` draws of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from eniac.errors import ConfigError
from eniac.report.curves import make_curves
from eniac.report.figures import draw_curves
from eniac.report.pictures import picture
from eniac.runs.config import Config
from eniac.runs.dataclass_io import conform
from eniac.runs.load import Run
from eniac.runs.log import Record


class Plots:
    """Pictures of an agent.

        >>> agent.plot.learning_curve().savefig(folder / "curve.png")

    Each raises `ConfigError` before anything was learned, `RunError` where there is no such picture
    of the algorithm or its environment, and says why.
    """

    def __init__(self, config: Config, records: Sequence[Record], run: Callable[[], Run]):
        """`run` gives the agent as a run, if its environment is there."""
        self._config, self._records, self._run = config, records, run

    def learning_curve(self, metric: str = "return_mean") -> Figure:
        """The return over environment steps, or another number in the agent's metrics."""
        metric = conform(str, metric, "metric")
        self._require_records()
        config: dict[str, Any] = self._config.to_dict()
        curves = make_curves(Path("the agent"), config, self._records, metric)
        return draw_curves([curves], metric)

    def visits(self) -> Figure:
        """Where each policy of the cover went, and episodes of the incumbent."""
        return self._picture("visits")

    def bonus(self) -> Figure:
        """Which states were visited, and the bonus that they get."""
        return self._picture("bonus")

    def _picture(self, what: str) -> Figure:
        self._require_records()
        return picture(self._run(), what)

    def _require_records(self) -> None:
        if not self._records:
            raise ConfigError("the agent has not learned yet, so there is nothing to draw.")
