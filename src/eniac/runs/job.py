"""One job in a process of its own: what is called there, on a core of its own, by one at a time.

`python -m eniac.runs.job` reads an order, a line of JSON, and carries it out. Nothing heavy is
imported before it is known that the job is ours: what JAX and linear algebra take for themselves
depends on the cores that they find.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import eniac
from eniac.errors import ConfigError, EniacError, one_line
from eniac.lazy import resolve
from eniac.runs.lock import claim
from eniac.runs.signals import STOPPING

DONE, FAILED, REFUSED, UNFIT, ELSEWHERE = 0, 1, 2, 69, 75
"""Exit codes: the product is there; it is not; it cannot be made at all; no job can be done on this
machine; another process is making it."""

_MOST_ON_A_CORE = 100


def carry_out(order: dict[str, Any]) -> int:
    """Calls the function of a job, unless its product is there or being made; the exit code.

    What goes wrong is told on standard error, in its last line.
    """
    product = Path(order["product"])
    unfit = _unfit(order, product)
    if unfit:
        print(unfit, file=sys.stderr)
        return UNFIT
    try:
        with claim(lock_of(product)) as ours:
            if not ours:
                return ELSEWHERE
            if product.exists():  # by now
                return DONE
            with _core():
                resolve(order["call"])(**order["arguments"])
    except EniacError as error:
        print(f"Error: {error}", file=sys.stderr)
        return REFUSED if isinstance(error, ConfigError) else FAILED
    except KeyboardInterrupt as error:
        print(str(error) or "Aborted.", file=sys.stderr)
        return 128 + signal.SIGINT
    except Exception as error:
        traceback.print_exc()
        print(one_line(error), file=sys.stderr)
        return FAILED
    if product.exists():
        return DONE
    print(f"It ended without {product}.", file=sys.stderr)
    return FAILED


def lock_of(product: Path) -> Path:
    """The file that whoever makes `product` holds."""
    return product.with_name(product.name + ".lock")


def _unfit(order: dict[str, Any], product: Path) -> str:
    """What is missing on this machine, if it is another one than that which the order is from."""
    host = socket.gethostname()
    if order["version"] != eniac.__version__:
        return (
            f"{host} has eniac {eniac.__version__}, and the work is given out by eniac "
            f"{order['version']}. Install the same version on all machines."
        )
    if not product.parent.is_dir():
        return (
            f"{host} has no folder {product.parent}. All machines need the same folder under the "
            "same name, by NFS for instance."
        )
    return ""


@contextlib.contextmanager
def _core() -> Iterator[None]:
    """Keeps this process, and those that it starts, to one core: one of those that the fewest jobs
    of this user have.

    Who has which is told by names that the system forgets with the process that has them.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
        for place, core in itertools.product(range(_MOST_ON_A_CORE), cores):
            with contextlib.suppress(OSError):
                name.bind(f"\0eniac-core-{os.getuid()}-{core}-{place}")
                os.sched_setaffinity(0, {core})
                break
        yield


def _end(number: int, frame: FrameType | None) -> None:
    """Ends what knows nothing better to do about a signal, in order: locks are let go."""
    raise KeyboardInterrupt("Asked to end.")


def _end_with_parent() -> None:
    """Asks this process to save and end as soon as nobody holds the other end of its input: so a
    parent that was killed, in whatever way and on whatever system, leaves nothing behind."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Carries out the order on standard input, and ends with its exit code."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 2**16)
        if not part:
            sys.exit(FAILED)  # nobody wants it any more
        line += part
    for number in STOPPING:
        signal.signal(number, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = carry_out(json.loads(line))
    if code != DONE:
        # What was interrupted, an epoch or the compiler, may still compute in a thread; leave
        # without waiting for it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
