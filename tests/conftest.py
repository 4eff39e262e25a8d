"""What holds in all tests."""

import atexit
import os
import shutil
import tempfile

# A cache of its own: compiled programs of earlier runs of the tests must not decide what a test
# sees, but tests that run the same program need not all wait for the compiler.
os.environ["ENIAC_CACHE"] = tempfile.mkdtemp(prefix="eniac-tests-")
atexit.register(shutil.rmtree, os.environ["ENIAC_CACHE"], ignore_errors=True)

import jax  # noqa: E402, after the choice of the cache

# Silent broadcasting between ranks hides mistakes in shapes.
jax.config.update("jax_numpy_rank_promotion", "raise")
# Two devices, so that seeds are spread over devices in the tests too.
jax.config.update("jax_num_cpu_devices", 2)
