"""How much memory there is, and the refusal of what would take more, before it is asked for.

Estimates are from below: what is refused could not have run, and what passes may still be too much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from eniac.errors import ConfigError

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def require_memory(sizes: Mapping[str, int], what: str) -> None:
    """Raises a `ConfigError` if `what` takes more memory than there is.

    `sizes` are bytes that it takes at least, by the settings that they come from.
    """
    total, free = sum(sizes.values()), available()
    if free is None or total <= free:
        return
    name, most = max(sizes.items(), key=lambda item: item[1])
    share = f", {in_bytes(most)} of it for {name}" if len(sizes) > 1 else f" for {name}"
    raise ConfigError(
        f"{what} would take at least {in_bytes(total)} of memory{share}, and {in_bytes(free)} are "
        "free. Make that smaller."
    )


def in_bytes(number: int) -> str:
    """A number of bytes in words: `149 GiB`."""
    if number >= 1024**7:
        return "1,000 EiB"
    power = max((number.bit_length() - 1) // 10, 0)
    scaled = number / 1024**power
    return f"{scaled:.{2 if scaled < 10 and power else 0}f} {_UNITS[power]}"


def available(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this process may still take: what the machine has free, or what the
    limits of the groups it is in (containers, cluster jobs) leave, if that is less. None where that
    cannot be told, as on systems other than Linux."""
    found = [*_of_machine(root), *_of_groups(root)]
    return max(min(found), 0) if found else None


def _of_machine(root: Path) -> Iterator[int]:
    lines = _read(root / "proc/meminfo").splitlines()
    table = {line.partition(":")[0]: line.split() for line in lines if line.endswith(" kB")}
    if "MemAvailable" in table:
        yield sum(int(table[x][1]) * 1024 for x in ("MemAvailable", "SwapFree") if x in table)


def _of_groups(root: Path) -> Iterator[int]:
    """What is left to each control group that this process is in, in both versions of these."""
    mount = root / "sys/fs/cgroup"
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if number == "0":
            base, limit, usage, cache = mount, "memory.max", "memory.current", "inactive_file"
        elif "memory" in kinds.split(","):
            base, cache = mount / "memory", "total_inactive_file"
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        inner = base / path.strip("/")
        for folder in (inner, *inner.parents):
            # In a container the path may be that of the machine, and only its top be there.
            if not folder.is_relative_to(base):
                break
            most, used = _read(folder / limit).strip(), _read(folder / usage).strip()
            if most.isdecimal() and used.isdecimal():
                # Pages of files that were read count as used, but are given back when needed.
                stat = dict(x.split() for x in _read(folder / "memory.stat").splitlines())
                yield int(most) - int(used) + int(stat.get(cache, 0))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
