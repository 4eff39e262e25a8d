"""How an attack ended. Whatever is neither survived nor refused in a line is a fault of ours."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from eniac.errors import EniacError, one_line
from runs.random_configs import check_line

Ended = Literal["survived", "refused", "else"]


class Outcome(NamedTuple):
    """What became of one attack."""

    what: str
    """the line of the table that it counts for"""
    ended: Ended
    told: str = ""
    """which attack it was, and what was seen, where that is a fault"""


def judge(
    what: str,
    call: Callable[[], Any],
    expected: Ended,
    words: str = "",
    after: Callable[[], Any] = lambda: None,
) -> Outcome:
    """Calls, and requires what is expected: no error, or one line in our words that has `words` in
    it. `after` looks at what is left, and raises if that is not as it should be."""
    try:
        line = _line(call)
        assert line is None or words in line, f"{words!r} is not in {line!r}"
        after()
    except (Exception, SystemExit) as error:
        return Outcome(what, "else", shown(error))
    ended: Ended = "survived" if line is None else "refused"
    told = "" if ended == expected else f"it was {ended}: {line}"
    return Outcome(what, ended if ended == expected else "else", told)


def _line(call: Callable[[], Any]) -> str | None:
    """The line that a call is refused in, None if it is not."""
    try:
        call()
    except EniacError as error:
        check_line(str(error))
        return str(error)
    return None


def shown(error: BaseException) -> str:
    """An error and the line that it comes from."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{one_line(error)[:500]} ({place.filename.rpartition('/')[2]}: {place.line})"
