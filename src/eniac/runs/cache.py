"""JAX as every run has it: all cores as devices, and a compilation cache on disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
from pathlib import Path

import jax

from eniac.cores import num_cores


def prepare_jax() -> None:
    """What a run does before it computes, from Python and the command line alike: the same devices
    and the same cache, so that the same config gives the same bits."""
    use_all_cores()
    use_compilation_cache()
    compute_at_once()


def compute_at_once() -> None:
    """Lets a call of a small program compute in the thread that calls it.

    Handing it to another and waiting for that takes longer than choosing the actions of a few
    environments; programs for several devices still run side by side. Does nothing once JAX has
    started its backend.
    """
    jax.config.update("jax_cpu_enable_async_dispatch", False)


def use_compilation_cache() -> Path | None:
    """Keeps compiled programs in `$ENIAC_CACHE`, by default `~/.cache/eniac`, for the next start.

    A cache that was already chosen is left alone; `ENIAC_CACHE=` (empty) switches it off. Each kind
    of processor and version of JAX has a folder of its own: XLA compiles for the processor at hand
    and warns, or worse, when a program of another one is loaded.
    """
    chosen = jax.config.values["jax_compilation_cache_dir"]
    if chosen:
        return Path(chosen)
    root = os.environ.get("ENIAC_CACHE", "~/.cache/eniac")
    if not root:
        return None
    identity = f"{processor()} {jax.__version__} {os.environ.get('XLA_FLAGS', '')}"
    name = "xla-" + hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = Path(root).expanduser() / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None  # a cache is a convenience: without one everything works, only slower
    if not os.access(folder, os.W_OK):
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


def use_all_cores() -> None:
    """Makes every core that this process may use a device of JAX, for seeds to be spread over.

    A number that was already chosen is left alone. Does nothing once JAX has started its backend:
    the number of devices is fixed from then on (`default_devices` tells what it would have been).
    """
    if _chosen_devices() is None:
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", num_cores())


def default_devices() -> int:
    """Devices that JAX has if a run is the first to use it: as many as were chosen, or cores."""
    return _chosen_devices() or num_cores()


def _chosen_devices() -> int | None:
    chosen = jax.config.values["jax_num_cpu_devices"]
    if chosen is not None and chosen > 0:
        return chosen
    flag = re.search(r"xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return int(flag[1]) if flag else None


def processor() -> str:
    """Name and abilities of the processor, by lines."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    wanted = ("model name", "flags", "Features")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))
