"""What Figures 2 and 3 are taken from: a run of ENIAC on mountain car that goes on when it has
solved it, and of which every epoch is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from eniac.reproduce.theory_tasks import EpochsTask

if TYPE_CHECKING:
    from eniac.reproduce.wanted import Wanted
    from eniac.runs.load import Run

EPOCHS = {"paper": 5, "ours": 10}
"""Epochs of a run: with the paper's settings 13.5 million steps, with ours about 1.6."""


@dataclass(frozen=True)
class FigureTask(EpochsTask):
    """A figure, and the run that it is taken from."""

    figure: int

    folder: ClassVar[str] = ""
    """its files are in the folder of its name"""

    def options(self, seed: int, flags: Sequence[str] = ()) -> list[str]:
        """What `eniac train` has to know of the task, beside `flags`."""
        del seed
        epochs = EPOCHS["paper" if "--preset" in flags else "ours"]
        words = ["--env", "MountainCarContinuous-v0", "--epochs", str(epochs)]
        return [*words, "--keep", str(epochs + 1)]

    def outcome(self, run: Run, wanted: Wanted, compiled: float) -> dict[str, Any]:
        """The data of the figure."""
        del compiled
        if self.figure == 2:
            from eniac.report.figure2 import figure2_data

            return figure2_data(run)
        from eniac.report.figure3 import figure3_data

        preset = wanted.flags[wanted.flags.index("--preset") + 1] if wanted.flags else None
        return figure3_data(run, preset=preset)


FIGURE_TASKS: dict[str, FigureTask] = {f"figure{number}": FigureTask(number) for number in (2, 3)}
