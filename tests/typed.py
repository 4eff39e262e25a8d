"""Types that are checked when functions are called, shapes of arrays too: in tests only.

`install` must come before the first import of eniac. Processes that tests start do not have it:
they are what a user runs.
"""

import io
import typing

import beartype
import jaxtyping

check = beartype.beartype(
    conf=beartype.BeartypeConf(
        is_pep484_tower=True,  # an int is a float, as for every static type checker
        hint_overrides=beartype.FrozenDict(
            {
                # beartype knows the class of `Self` only where it decorates the whole class.
                typing.Self: typing.Any,
                # What pytest puts in the place of standard output has no `mode`.
                typing.TextIO: io.TextIOBase,
            }
        ),
    )
)


def install():
    jaxtyping.install_import_hook("eniac", "typed.check")
