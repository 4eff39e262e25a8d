import pytest

from processes import Starter


@pytest.fixture(autouse=True)
def _toy(toy_is_an_algorithm):
    """The toy is an algorithm in all tests of runs."""


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    """Starts runs in processes of their own."""
    starter = Starter(tmp_path_factory.mktemp("starter") / "output")
    yield starter
    starter.close()
