"""How numbers and times are shown, and pictures that are redrawn while nobody may look."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from rich.console import Console, RenderableType
from rich.live import Live


class SafeLive(Live):
    """A live picture that goes on in silence when nobody looks any more."""

    def refresh(self) -> None:
        with nobody_there():
            super().refresh()


class LivePicture(ABC):
    """What is redrawn in place where `console` is a terminal, as long as the context is open."""

    per_second: ClassVar[int] = 4

    def __init__(self, console: Console):
        self._console = console
        self._live: SafeLive | None = None

    @abstractmethod
    def _render(self) -> RenderableType:
        """The picture of this moment."""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = SafeLive(
                console=self._console,
                refresh_per_second=self.per_second,
                transient=True,
                get_renderable=self._render,
            )
            with nobody_there():
                self._live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            with nobody_there():
                self._live.stop()
            self._live = None


def nobody_there() -> contextlib.AbstractContextManager[Any]:
    """A terminal that was closed, or a pipe whose reader has ended, is no reason to end a run: it
    goes on in silence. rich leaves the program when a pipe breaks."""
    return contextlib.suppress(OSError, SystemExit)


def number(value: float) -> str:
    """`-1,234`, `93.1`, `0.035`: about three digits that matter, never an exponent."""
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 3
    # Adding zero turns the -0.0 of a rounded small negative number into 0.0.
    return f"{round(float(value), digits) + 0.0:,.{digits}f}"


def duration(seconds: float) -> str:
    """`3 s`, `2 min 5 s`, `1 h 20 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
