"""What holds in all tests."""

import atexit
import os
import shutil
import tempfile

# A cache of its own: compiled programs of earlier runs of the tests must not decide what a test
# sees, but tests that run the same program need not all wait for the compiler.
os.environ["ENIAC_CACHE"] = tempfile.mkdtemp(prefix="eniac-tests-")
atexit.register(shutil.rmtree, os.environ["ENIAC_CACHE"], ignore_errors=True)

# What is compiled here runs for a moment, and two thirds of the compiler's time go into making it
# faster. The numbers are the same but for rounding. `XLA_FLAGS= pytest ...` compiles as for users.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

import typed  # noqa: E402, and before anything of eniac

typed.install()

import jax  # noqa: E402, after the choice of the cache

# Silent broadcasting between ranks hides mistakes in shapes.
jax.config.update("jax_numpy_rank_promotion", "raise")
# Two devices, so that seeds are spread over devices in the tests too.
jax.config.update("jax_num_cpu_devices", 2)

import io  # noqa: E402

import jaxtyping  # noqa: E402
import pytest  # noqa: E402
from rich.console import Console  # noqa: E402

import toy  # noqa: E402
from eniac import Config, Evaluation  # noqa: E402
from eniac.algorithms import ALGORITHMS  # noqa: E402
from eniac.runs import program  # noqa: E402
from made_runs import kept_car, run_of  # noqa: E402, F401

if os.environ["XLA_FLAGS"]:
    program._ON_CPU = program._ONCE_ON_CPU  # runs are short as well


@pytest.fixture
def toy_is_an_algorithm(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "toy", toy.Row())


@pytest.fixture
def unchecked(monkeypatch):
    """Types are not checked, as for users: for what is given a wrong type on purpose."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture
def console():
    """A console that is no terminal, and keeps what is printed."""
    return Console(file=io.StringIO(), width=200)


@pytest.fixture
def toy_config(tmp_path, toy_is_an_algorithm):
    """Makes a config of the toy that is quick to run."""

    def make(algorithm=None, **changes):
        fields = {
            "env": "Chain-4",
            "horizon": 5,
            "epochs": 4,
            "evaluation": Evaluation(episodes=3),
            "checkpoint_every": 2,
            "out": tmp_path / "run",
        }
        return Config(algorithm or toy.Toy(), **(fields | changes))

    return make
