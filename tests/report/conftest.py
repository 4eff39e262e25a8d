import pytest


@pytest.fixture(autouse=True)
def _toy(toy_is_an_algorithm):
    """The toy is an algorithm in all tests of runs."""
