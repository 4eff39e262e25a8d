"""What an environment's name means, and what is said of one that means nothing."""

import functools
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from eniac.envs import DeepSea, TimeLimit, unwrap
from eniac.envs.names import check_name, describe, env_from, find_env
from eniac.envs.sources import EnvPoolSource, GivenEnv, HostEnv, MadeEnv, VectorEnvSource
from eniac.errors import ConfigError
from eniac.lazy import import_users_module
from envs.counting import Counting, NativeCounting

USER_MODULE = """
import gymnasium
from eniac.envs import DeepSea
from envs.counting import Counting, NativeCounting

def ours(size=4):
    return DeepSea(size)

def single(kind="box", render_mode=None):
    return Counting(kind, render_mode)

def vector(num_envs=2):
    return gymnasium.vector.SyncVectorEnv([Counting] * num_envs)

def raising():
    raise OSError("no licence\\nfor this machine")

def number():
    return 3

class Box:
    make = staticmethod(single)

thing = 3

gymnasium.register("theirs/Registered-v0", "envs.counting:Counting")
"""


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module of a user in the folder where the program is started."""
    (tmp_path / "their_envs.py").write_text(USER_MODULE)
    (tmp_path / "breaks.py").write_text("1 / 0\n")
    (tmp_path / "needs.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield "their_envs"
    for name in ("their_envs", "breaks", "needs"):
        sys.modules.pop(name, None)
    gymnasium.registry.pop("theirs/Registered-v0", None)


def refused(call, *texts):
    with pytest.raises(ConfigError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for text in texts:
        assert text in message, message


# Names


def test_our_ids_are_ours():
    assert unwrap(find_env("DeepSea-7", {})).size == 7
    assert unwrap(find_env("DeepSea-v0", {"size": 5})).size == 5
    car = find_env("MountainCarContinuous-v0", {})  # gymnasium has the same id
    assert isinstance(car, TimeLimit)
    assert car.horizon == 999
    assert find_env("MountainCarContinuous-v0", {}, 12).horizon == 12


@pytest.mark.usefixtures("unchecked")
def test_what_is_wrong_with_one_of_ours_is_told():
    refused(lambda: find_env("DeepSea-7", {"depth": 3}), "DeepSea-v0 takes no 'depth'; it takes")
    refused(lambda: find_env("DeepSea-7", {"size": 3}), "size is given twice: 7 in 'DeepSea-7'")
    refused(lambda: find_env("MountainCarContinuous-3", {}), "has no size")
    refused(lambda: find_env("DeepSea-7", {}, 0), "horizon is 0; it must be a whole number of 1")
    refused(lambda: find_env("DeepSea-7", {}, 1.5), "horizon is 1.5")
    refused(
        lambda: find_env("DeepSea-7", {}, None, ["a"]),
        "observation_keys is ['a'], but the observation of DeepSea-7 is no dict",
    )


def test_gymnasiums_ids_are_found():
    cart = find_env("CartPole-v1", {"sutton_barto_reward": True}, 9)
    assert isinstance(cart, MadeEnv)
    assert (cart.name, cart.horizon, cart.num_envs) == ("CartPole-v1", 9, None)
    assert cart.single().unwrapped._sutton_barto_reward
    car = find_env("gymnasium:MountainCarContinuous-v0", {})
    assert isinstance(car, HostEnv)
    assert car.horizon == 999
    sea = find_env("eniac/DeepSea-v0", {"size": 3})
    assert isinstance(sea, MadeEnv)
    assert sea.observation_space.shape == DeepSea(3).observation_space.shape


def test_an_id_with_only_a_native_vector_environment_makes_as_many_as_wanted():
    gymnasium.register(
        "theirs/Native-v0",
        vector_entry_point=lambda num_envs, max_episode_steps=None: NativeCounting(
            num_envs, AutoresetMode.NEXT_STEP
        ),
        max_episode_steps=8,
    )
    try:
        source = find_env("theirs/Native-v0", {})
        assert isinstance(source, VectorEnvSource)
        assert source.num_envs is None
        assert find_env("theirs/Native-v0", {}, 5).horizon == 5
        with source.open(3) as envs:
            assert envs.begin(0).shape == (3, 4)
    finally:
        gymnasium.registry.pop("theirs/Native-v0")


def test_near_names_come_from_both_registries():
    refused(
        lambda: find_env("DeepSee-20", {}),
        "no environment is called 'DeepSee-20'. Did you mean 'DeepSea-v0",
        "'envpool:ID'",
        "'package.module:function'",
    )
    refused(lambda: check_name("Cartpole-v1"), "Did you mean 'CartPole-v1")
    refused(lambda: check_name("CartPole-v7"), "Did you mean 'CartPole-v")
    refused(lambda: check_name("gymnasium:CartPol-v1"), "Did you mean 'gymnasium:CartPole-v1")
    refused(lambda: check_name("Qwxyz-v1"), "no environment is called 'Qwxyz-v1'. Write one of")


@pytest.mark.parametrize("name", ["", "  ", None, 3])
@pytest.mark.usefixtures("unchecked")
def test_a_name_must_be_there(name):
    refused(lambda: check_name(name), f"the environment is {name!r}; it must have a name")


@pytest.mark.parametrize(
    "name", [":", "envpool:", "gymnasium:", "a:", ":make", "a.:make", "1a:b c", "a b", "a/b/c:d e"]
)
def test_a_name_must_have_the_form_of_one(name):
    refused(lambda: check_name(name), f"the environment is {name!r}, which is no name of one")


def test_the_form_is_checked_without_importing_anything():
    for name in (
        "DeepSea-20",
        " DeepSea-20 ",
        "CartPole-v1",
        "envpool:Whatever-v9",
        "no.such.module:make",
        "no_module:Class.make",
        "no_module:Their/Env-v3",
        "gymnasium:no_module:Env-v3",
    ):
        check_name(name)
    code = (
        "import sys; from eniac.envs.names import check_name; check_name('DeepSea-20'); "
        "check_name('envpool:A-v0'); check_name('a.b:c'); "
        "print({'jax', 'gymnasium', 'envpool', 'a'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_what_gymnasium_cannot_make_is_told_in_a_line():
    refused(
        lambda: find_env("CartPole-v1", {"gravity": 3}),
        "CartPole-v1 with options gravity=3 raised TypeError",
        "It takes sutton_barto_reward",
    )
    refused(
        lambda: find_env("CartPole-v1", {"max_episode_steps": 3}),
        "options of CartPole-v1 have 'max_episode_steps', which eniac sets: use horizon instead.",
    )
    refused(lambda: find_env("CartPole-v1", {"render_mode": "human"}), "'render_mode'", "leave it")
    gymnasium.register("theirs/Missing-v0", "a_package_that_is_not_there:Env")
    try:
        refused(
            lambda: find_env("theirs/Missing-v0", {}),
            "theirs/Missing-v0 raised ModuleNotFoundError",
        )
    finally:
        gymnasium.registry.pop("theirs/Missing-v0")


# EnvPool


def test_envpools_ids_are_found():
    source = find_env("envpool:CartPole-v1", {"num_threads": 1}, 3)
    assert isinstance(source, EnvPoolSource)
    assert (source.name, source.num_envs, source.horizon) == ("envpool:CartPole-v1", None, 3)
    assert source.observation_space.shape == (4,)
    assert source.action_space.n == 2


def test_what_is_wrong_with_an_envpool_is_told(monkeypatch):
    refused(
        lambda: find_env("envpool:CartPol-v1", {}),
        "EnvPool has no environment 'CartPol-v1'. Did you mean 'envpool:CartPole-v1",
        "envpool.list_all_envs()",
    )
    refused(
        lambda: find_env("envpool:CartPole-v1", {"gravity": 3}),
        "envpool:CartPole-v1 takes no 'gravity'; EnvPool's own options for it are num_envs",
    )
    refused(
        lambda: find_env("envpool:CartPole-v1", {"num_threads": "two"}),
        "num_threads of envpool:CartPole-v1 is 'two'; it must be a number",
    )
    refused(
        lambda: find_env("envpool:CartPole-v1", {"num_threads": 1.5}),
        "envpool:CartPole-v1 could not be made with options num_threads=1.5",
    )
    for option, setting in (("seed", "seed"), ("num_envs", "num_envs"), ("batch_size", "num_envs")):
        refused(
            lambda option=option: find_env("envpool:CartPole-v1", {option: 3}),
            f"have {option!r}, which eniac sets: use {setting} instead",
        )
    monkeypatch.setitem(sys.modules, "envpool", None)
    refused(
        lambda: find_env("envpool:CartPole-v1", {}),
        "envpool:CartPole-v1 needs EnvPool, which cannot be imported",
        "pip install 'eniac[envpool]'",
    )


# Functions of the user


def test_a_users_function_may_make_any_kind(user_module):
    ours = find_env(f"{user_module}:ours", {"size": 6}, 4)
    assert isinstance(ours, TimeLimit)
    assert unwrap(ours).size == 6
    assert ours.horizon == 4
    assert unwrap(find_env(f"{user_module}:ours", {})).size == 4
    single = find_env(f"{user_module}:single", {"kind": "dict"}, 3, ["numbers"])
    assert isinstance(single, MadeEnv)
    assert (single.name, single.num_envs, single.horizon) == (f"{user_module}:single", None, 3)
    assert set(single.observation_space.spaces) == {"numbers"}
    assert single.single("rgb_array").render() is not None
    vector = find_env(f"{user_module}:vector", {"num_envs": 3})
    assert isinstance(vector, VectorEnvSource)
    assert vector.num_envs == 3
    assert isinstance(find_env(f"{user_module}:Box.make", {}), MadeEnv)
    assert isinstance(find_env("envs.counting:Counting", {}), MadeEnv)


def test_a_package_that_registers_an_id_is_imported_first(user_module):
    source = find_env(f"{user_module}:theirs/Registered-v0", {})
    assert source.name == f"{user_module}:theirs/Registered-v0"
    assert isinstance(source.single().unwrapped, Counting)
    again = find_env(f"gymnasium:{user_module}:theirs/Registered-v0", {"kind": "tuple"})
    assert isinstance(again.observation_space, gymnasium.spaces.Tuple)


def test_the_current_folder_is_on_the_path_for_the_import_only(user_module, tmp_path, monkeypatch):
    before = list(sys.path)
    assert str(tmp_path) not in before
    find_env(f"{user_module}:single", {})
    assert sys.path == before
    refused(lambda: import_users_module("breaks", "it", str(tmp_path)), "ZeroDivisionError")
    assert sys.path == before
    monkeypatch.chdir("/")
    sys.modules.pop(user_module)
    gymnasium.registry.pop("theirs/Registered-v0")
    refused(lambda: find_env(f"{user_module}:single", {}), "there is no module 'their_envs'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *before])
    find_env(f"{user_module}:single", {})
    assert sys.path == ["", *before]


def test_what_is_wrong_with_a_users_function_is_told(user_module, tmp_path):
    refused(
        lambda: find_env("not_there:make", {}),
        f"is 'not_there:make', but there is no module 'not_there': looked in {os.getcwd()}",
        "Start eniac in the folder that holds it, or install it.",
    )
    refused(lambda: find_env("eniac.not_there:make", {}), "no module 'eniac.not_there'")
    refused(
        lambda: find_env("needs:make", {}),
        "the environment is 'needs:make', but importing 'needs' failed: ModuleNotFoundError: No "
        "module named 'a_package_that_is_not_there'",
    )
    refused(
        lambda: find_env("breaks:make", {}),
        "is 'breaks:make', but importing 'breaks' failed: ZeroDivisionError: division by zero",
    )
    refused(
        lambda: find_env(f"{user_module}:singel", {}),
        f"module 'their_envs' ({tmp_path / 'their_envs.py'}) has no 'singel'",
        "Did you mean 'single'?",
    )
    refused(lambda: find_env(f"{user_module}:thing", {}), "'their_envs:thing' is a int, not a func")
    refused(
        lambda: find_env(f"{user_module}:raising", {}),
        "their_envs:raising raised OSError: no licence in make() (their_envs.py, line",
    )
    refused(
        lambda: find_env(f"{user_module}:number", {}),
        "their_envs:number returned 3, a int; expected an eniac Environment or a gymnasium Env",
    )
    refused(
        lambda: find_env(f"{user_module}:single", {"size": 2}),
        "their_envs:single cannot be called with size=2: got an unexpected keyword argument 'size'",
        "It takes kind='box', render_mode=None.",
    )
    refused(
        lambda: find_env(f"{user_module}:raising", {"a": 1}),
        "It takes no options.",
    )
    refused(
        lambda: find_env(f"{user_module}:vector", {}, 5),
        "horizon is 5, but their_envs:vector is a vector environment",
        "gymnasium.make_vec(id, max_episode_steps=5)",
    )


# What Python users give


def test_objects_and_functions_are_taken_as_names_are():
    sea = DeepSea(4)
    assert env_from(sea) is sea
    assert env_from(sea, horizon=3).horizon == 3
    assert unwrap(env_from("DeepSea-5")).size == 5
    assert unwrap(env_from(DeepSea, {"size": 6})).size == 6
    assert isinstance(env_from("CartPole-v1"), MadeEnv)
    given = env_from(Counting())
    assert isinstance(given, GivenEnv)
    assert given.num_envs == 1
    vector = env_from(SyncVectorEnv([Counting] * 3))
    assert isinstance(vector, VectorEnvSource)
    assert vector.num_envs == 3
    made = env_from(functools.partial(Counting, "tuple"))
    assert isinstance(made, MadeEnv)
    assert isinstance(made.observation_space, gymnasium.spaces.Tuple)
    assert unwrap(env_from(lambda: sea)) is sea


def test_what_python_users_give_wrongly_is_told():
    refused(
        lambda: env_from(Counting(), {"kind": "box"}),
        "options kind='box' cannot be set on given: envs.counting.Counting, which is made already",
    )
    refused(
        lambda: env_from(3),
        "the environment is 3, a int; expected a name, an eniac Environment, a gymnasium Env",
    )
    refused(
        lambda: env_from(SyncVectorEnv([Counting]), horizon=3),
        "is a vector environment, around which no time limit can be put",
    )
    refused(lambda: env_from(Counting, horizon=-1), "horizon is -1")
    refused(lambda: env_from(lambda: None), "returned None, a NoneType")

    class DictSea(DeepSea):
        observation_space = gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2)})

    refused(lambda: env_from(DictSea(3), observation_keys=["a"]), "is compiled, where no keys can")


def test_a_description_says_what_was_given():
    assert describe("CartPole-v1") == "CartPole-v1"
    assert describe(Counting()) == "given: envs.counting.Counting"
    assert describe(Counting) == "given: envs.counting.Counting"
    assert describe(functools.partial(Counting, "box")) == "given: envs.counting.Counting"
    assert describe(gymnasium.wrappers.TimeLimit(Counting(), 3)) == "given: envs.counting.Counting"
    assert describe(DeepSea(3)) == "given: eniac.envs.deep_sea.DeepSea"
    assert describe(SyncVectorEnv([Counting])) == (
        "given: gymnasium.vector.sync_vector_env.SyncVectorEnv"
    )
    assert describe(np.zeros).startswith("given: numpy")


# Kinds of options


@pytest.mark.parametrize("value", ["no", "off", "false", "False", "0", "", "yes", 0, 1, 0.0, None])
@pytest.mark.parametrize(
    ("name", "option"),
    [("DeepSea-4", "randomize_actions"), ("FrozenLake-v1", "is_slippery")],
)
def test_only_true_and_false_are_a_truth(name, option, value):
    refused(lambda: find_env(name, {option: value}), f"{option} of", "it must be True or False")
    find_env(name, {option: False})


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("DeepSea-v0", {"size": "4"}, "size of DeepSea-v0 is '4'; it must be a number"),
        ("DeepSea-v0", {"size": True}, "size of DeepSea-v0 is True; it must be a number"),
        ("DeepSea-v0", {"size": 4.0}, "size is 4.0; expected a whole number"),
        ("DeepSea-v0", {"size": 10**30}, "would take at least 1,000 EiB of memory"),
        ("Chain-4", {"lure": "much"}, "lure of Chain-v0 is 'much'; it must be a number"),
        ("FrozenLake-v1", {"map_name": 4}, "map_name of FrozenLake-v1 is 4; it must be text"),
        ("FrozenLake-v1", {"map_name": True}, "map_name of FrozenLake-v1 is True"),
        ("Pendulum-v1", {"g": "ten"}, "g of Pendulum-v1 is 'ten'; it must be a number"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_text_is_no_number_and_a_number_no_text(name, options, words):
    refused(lambda: find_env(name, options), words)


def test_options_of_a_users_function_are_of_the_kinds_that_it_says():
    def make(flag: bool, shape: tuple = (3,), other=False, size: "int | None" = None, free=None):
        return gymnasium.make("CartPole-v1")

    for options in (
        {"flag": "no"},
        {"flag": False, "other": "off"},
        {"flag": False, "size": "3"},
        {"flag": False, "size": True},
    ):
        refused(lambda options=options: env_from(make, options), "; it must be ")
    env_from(make, {"flag": False, "shape": "anything", "free": "no", "size": 3})
