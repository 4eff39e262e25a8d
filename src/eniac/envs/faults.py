"""Environments that misbehave, told in a line: what came, and what was expected.

A `Fault` says what one did, as a sentence that lacks its subject; who knows the environment's name,
which copy of it this is and at which step, puts those in front. NumPy only, as `stepping.py`.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

import numpy as np

from eniac.errors import EniacError, one_line

FAILURES = (Exception, SystemExit)
"""What may come out of an environment; some call sys.exit()."""
_BOOL = np.dtype(bool)
BOOLS = frozenset({bool, np.bool_})
"""Types that flags usually have. Others are looked at more closely."""
CLOSE_SECONDS = 10.0
"""How long an environment may take to close; nothing depends on it any more."""

_STEP = "observation, reward, terminated, truncated and info"
_OLD_GYM = (
    "That is the API of gym before 0.26: let it inherit from gymnasium.Env and return these, or "
    "wrap it with shimmy."
)
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARIES = ("site-packages", f"{os.sep}lib{os.sep}python", "<frozen")

Place = tuple[str, int]
"""A file and a line in it."""


class Fault(Exception):
    """What an environment did wrong: `returned 4 values from step(); ...`."""

    def __init__(self, text: str, nonfinite: bool = False):
        super().__init__(text)
        self.nonfinite = nonfinite


def raised(error: BaseException, doing: str) -> Fault:
    """What an exception out of `doing`, a function of the environment, comes to."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, EniacError):
        return Fault(str(error))
    # Wrappers of gymnasium's take results apart before we see them.
    unpacking = re.match(r"(?:not enough|too many) values to unpack \(expected (\d)", str(error))
    if isinstance(error, ValueError) and unpacking:
        got = re.search(r"got (\d+)", str(error))
        if (doing, unpacking[1]) == ("step", "5"):
            return wrong_step(f"{got[1] if got else 'more than 5'} values")
        if (doing, unpacking[1]) == ("reset", "2"):
            return wrong_reset(f"{got[1] if got else 'more than 2'} values")
    if isinstance(error, EOFError | BrokenPipeError | ConnectionResetError):
        return Fault(
            f"lost a process in {doing}() ({type(error).__name__}): one of its workers has crashed "
            "or was killed, for instance for want of memory."
        )
    return Fault(f"raised {one_line(error).removesuffix('.')} in {doing}(){_at(_place_of(error))}.")


def wrong_step(came: str) -> Fault:
    old = f" {_OLD_GYM}" if came == "4 values" else ""
    return Fault(f"returned {came} from step(); expected 5: {_STEP}.{old}")


def wrong_reset(came: str) -> Fault:
    return Fault(f"returned {came} from reset(); expected 2: observation and info. {_OLD_GYM}")


def first_observation(result: Any) -> Any:
    """The observation of what `reset` returned. **Raises** Fault if that is no pair."""
    if type(result) is tuple and len(result) == 2 and isinstance(result[1], dict):
        return result[0]
    if isinstance(result, tuple):
        kinds = ", ".join(type(part).__name__ for part in result)
        raise wrong_reset(f"a tuple of {len(result)} ({kinds})")
    raise wrong_reset(f"{_kind(result)} alone")


def check_step(result: Any) -> None:
    """**Raises** Fault unless `result` can be what `step` returned."""
    if type(result) is tuple and len(result) == 5:
        return
    if not isinstance(result, tuple):
        raise wrong_step(_kind(result))
    if len(result) != 5:
        raise wrong_step(f"{len(result)} values")


def number(reward: Any) -> float:
    """A reward as a number. **Raises** Fault if it is none."""
    array = np.asarray(reward)
    if array.ndim or array.dtype.kind not in "biuf":
        raise Fault(
            f"returned a reward that is {_kind(reward)}; expected a number. Return float(reward)."
        )
    return float(array)


def flag(name: str, given: Any) -> bool:
    """`terminated` or `truncated` as a bool. **Raises** Fault if it is none."""
    array = np.asarray(given)
    if array.ndim or array.dtype != bool:
        raise Fault(
            f"returned a {name} that is {_kind(given)}; expected True or False. Return "
            f"bool({name})."
        )
    return bool(array)


def rewards(given: Any, num: int) -> np.ndarray:
    """The rewards of a vector environment. **Raises** Fault if they are not one number each."""
    if type(given) is np.ndarray and given.dtype.kind in "fiub" and given.shape == (num,):
        return given
    array = np.asarray(given)
    if array.shape != (num,) or array.dtype.kind not in "fiub":
        raise Fault(f"returned rewards that are {_kind(given)}; expected {num} numbers.")
    return array


def flags(name: str, given: Any, num: int) -> np.ndarray:
    """The flags of a vector environment. **Raises** Fault if they are not one bool each."""
    if type(given) is np.ndarray and given.dtype is _BOOL and given.shape == (num,):
        return given
    array = np.asarray(given)
    if array.shape != (num,) or array.dtype != _BOOL:
        raise Fault(f"returned a {name} that is {_kind(given)}; expected {num} of True or False.")
    return array


def wrong_observation(part: str, came: Any, space: Any, lead: tuple[int, ...] = ()) -> Fault:
    """An observation, or the `part` of one, of a shape or type that its space does not have; with
    axes `lead` in front where it is of many environments."""
    return Fault(
        f"returned an observation{part} that is {_kind(came)}; its observation_space says shape "
        f"{(*lead, *space.shape)} and type {space.dtype}. Correct the environment, or its "
        "observation_space."
    )


def picture(frame: Any) -> np.ndarray:
    """What `render` returned, as bytes of shape (height, width, 3). **Raises** Fault if it is no
    picture."""
    array = np.asarray(frame) if isinstance(frame, np.ndarray | list) else np.zeros(0)
    if array.ndim != 3 or array.shape[-1] not in (3, 4) or array.dtype != np.uint8:
        raise Fault(
            f"returned from render() what is no picture: {_kind(frame)}; expected bytes (uint8) of "
            "shape (height, width, 3), as with render_mode='rgb_array'."
        )
    return np.array(array[..., :3])


def _kind(x: Any) -> str:
    """What something is, in a few words."""
    array = None
    if isinstance(x, np.ndarray | list | tuple | np.generic):
        with suppress(ValueError):  # lists of different lengths
            array = np.asarray(x)
    if array is not None and array.dtype.kind != "O":
        shown = repr(x.item()) if isinstance(x, np.generic) else f"shape {array.shape}"
        kind = "an array" if isinstance(x, np.ndarray) else f"a {type(x).__name__}"
        return f"{kind} of {shown} and type {array.dtype}"
    text = " ".join(repr(x).split())
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(x).__name__})"


class Patience:
    """Makes calls in a thread of its own, and gives up on one that takes longer than `seconds`.

    Nothing in Python can end a call that hangs. Its thread is left behind and does not keep the
    program from ending; what it was called on must not be used again.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._calls: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def __call__(self, call: Callable[..., Any], *arguments: Any) -> Any:
        self._calls.put((call, arguments))
        try:
            error, result = self._answers.get(timeout=self.seconds)
        except Empty:
            frame = sys._current_frames().get(self._thread.ident or 0)
            raise Hangs(self.seconds, _at(_place_in(frame))) from None
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        """Ends the thread, if nothing hangs in it."""
        self._calls.put(None)

    def _answer(self) -> None:
        while (request := self._calls.get()) is not None:
            call, arguments = request
            try:
                self._answers.put((None, call(*arguments)))
            except BaseException as error:  # handed on to whoever called
                self._answers.put((error, None))


class Hangs(Fault):
    """An environment that does not come back."""

    def __init__(self, seconds: float, where: str = ""):
        super().__init__(f"did not come back within {seconds:g} s (env_timeout){where}.")


def impatient(seconds: float | None, call: Callable[..., Any], *arguments: Any) -> Any:
    """One call, given up after `seconds` if there is such a limit."""
    if seconds is None:
        return call(*arguments)
    patience = Patience(seconds)
    try:
        return patience(call, *arguments)
    finally:
        patience.end()


def close_quietly(close: Callable[[], Any]) -> None:
    """Closes an environment, whatever that comes to: nothing depends on it any more."""
    with warnings.catch_warnings(), suppress(*FAILURES):
        warnings.simplefilter("ignore")
        impatient(CLOSE_SECONDS, close)


def _place_of(error: BaseException) -> Place | None:
    """Where `error` was raised: in the user's code, or in somebody else's if it has no part."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return _innermost(frames)


def _place_in(frame: FrameType | None) -> Place | None:
    """Where a thread is."""
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return _innermost(frames[::-1])


def _innermost(frames: list[Place]) -> Place | None:
    theirs = [place for place in frames if not os.path.abspath(place[0]).startswith(_OURS)]
    users = [place for place in theirs if not any(part in place[0] for part in _LIBRARIES)]
    return (users or theirs or [None])[-1]


def _at(place: Place | None) -> str:
    return "" if place is None else f" ({Path(place[0]).name}, line {place[1]})"
