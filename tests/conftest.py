"""What holds in all tests."""

import os

# Compiled programs of earlier runs of the tests must not decide what a test sees.
os.environ["ENIAC_CACHE"] = ""

import jax

# Silent broadcasting between ranks hides mistakes in shapes.
jax.config.update("jax_numpy_rank_promotion", "raise")
# Two devices, so that seeds are spread over devices in the tests too.
jax.config.update("jax_num_cpu_devices", 2)
