"""A compilation cache on disk, so that the second start of a program is fast."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jax


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
    identity = f"{_processor()} {jax.__version__} {os.environ.get('XLA_FLAGS', '')}"
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
    """Makes every core a device of JAX, over which the seeds of a run are spread.

    Does nothing once JAX has started its backend: the number of devices is fixed from then on.
    """
    try:
        jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    except RuntimeError:
        return


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    wanted = ("model name", "flags", "Features")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))
