import re

import pytest

from eniac.envs import (
    ENVS,
    CombinationLock,
    DeepSea,
    MountainCarContinuous,
    TimeLimit,
    chain,
    make,
    river_swim,
    tabular,
    unwrap,
)


def test_the_table_has_every_environment_and_says_what_it_is():
    assert list(ENVS) == [
        "MountainCarContinuous-v0",
        "DeepSea-v0",
        "CombinationLock-v0",
        "RiverSwim-v0",
        "Chain-v0",
        "RandomMDP-v0",
        "LinearMDP-v0",
        "LogisticMDP-v0",
    ]
    for id, entry in ENVS.items():
        assert entry.id == id
        assert entry.description.endswith(".")
        assert entry.size is None or entry.size in entry.parameters


@pytest.mark.parametrize(
    ("id", "same"),
    [
        ("DeepSea-6", DeepSea(6)),
        ("CombinationLock-5", CombinationLock(5)),
        ("Chain-4", TimeLimit(chain(4), 100)),
        ("RiverSwim-7", TimeLimit(river_swim(7), 200)),
        ("RiverSwim-v0", TimeLimit(river_swim(6), 200)),
        ("MountainCarContinuous-v0", TimeLimit(MountainCarContinuous(), 999)),
    ],
)
def test_a_number_sets_the_size_and_the_table_the_time_limit(id, same):
    assert make(id) == same


def test_parameters_and_horizon_are_passed_on():
    assert make("DeepSea-6", seed=3, horizon=2) == TimeLimit(DeepSea(6, seed=3), 2)
    env = make("MountainCarContinuous-v0", goal_velocity=0.02)
    assert unwrap(env) == MountainCarContinuous(0.02)


def test_unwrap_and_tabular_see_through_time_limits():
    env = TimeLimit(make("RiverSwim-v0"), 5)
    assert unwrap(env) == river_swim()
    assert tabular(env) == tabular("RiverSwim-6") == river_swim()


@pytest.mark.parametrize("id", ["DeepSee-v0", "deepsea-v0", "DeepSee-10"])
def test_an_unknown_id_is_answered_with_the_nearest_and_with_all(id):
    with pytest.raises(ValueError) as error:
        make(id)
    assert f"no environment is called {id!r}. Did you mean 'DeepSea-v0'" in str(error.value)
    assert all(known in str(error.value) for known in ENVS)


@pytest.mark.parametrize(
    ("id", "parameters", "error", "message"),
    [
        ("Nonsense", {}, ValueError, "There are: MountainCarContinuous-v0"),
        ("MountainCarContinuous-5", {}, ValueError, "MountainCarContinuous-v0 has no size"),
        ("DeepSea-5", {"size": 6}, TypeError, "size is given twice: 5 in 'DeepSea-5' and 6"),
        ("DeepSea-v0", {"length": 6}, TypeError, "takes no 'length'; it takes size=10, seed=0"),
        ("DeepSea-0", {}, ValueError, "size is 0"),
        ("Chain-v0", {"horizon": 0}, ValueError, "horizon is 0"),
    ],
)
def test_a_wrong_call_is_refused_with_what_would_be_right(id, parameters, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make(id, **parameters)
