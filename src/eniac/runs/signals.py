"""Signals as wishes: a run that is asked to stop finishes what is worth finishing, and saves."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a cluster that takes its machine back, a terminal that was closed."""


class Interrupted(BaseException):
    """A signal came while there was nothing worth finishing."""


class Signals:
    """Turns the first signal into a wish to stop, which `caught` tells; a second Ctrl-C aborts.

    `notice` is called when a signal is noticed whose wish has to wait. Python delivers signals to
    the main thread alone; in any other they are the caller's affair.
    """

    def __init__(self, notice: Callable[[], None], numbers: tuple[int, ...] = STOPPING):
        self.caught: int | None = None
        self._notice, self._numbers = notice, numbers
        self._at_once = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                handler = signal.getsignal(number)
                # Ignored on purpose, as by nohup; or a handler that we could not put back.
                if handler not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: Any) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """While nothing is computed that would be lost, as in compiling, a signal raises
        `Interrupted` instead of waiting; and so does one that came before."""
        self._at_once = True
        try:
            if self.caught is not None:
                raise Interrupted
            yield
        finally:
            self._at_once = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.caught == signal.SIGINT:
            raise KeyboardInterrupt
        self.caught = number
        if self._at_once:
            raise Interrupted
        self._notice()
