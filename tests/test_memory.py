"""What fits no memory is refused before it is asked for, with how much it takes."""

from dataclasses import replace

import pytest

from eniac import Config, ConfigError, Evaluation
from eniac.algorithms import ALGORITHMS
from eniac.bonuses.kernel import Kernel
from eniac.bonuses.rnd import RND
from eniac.cover import LogDet
from eniac.functions.inputs import one_hot_pairs
from eniac.memory import available, in_bytes, require_memory

GIB = 2**30
ENIAC, PPO, SPI = (ALGORITHMS[name].default for name in ("eniac", "ppo", "spi"))


@pytest.fixture(autouse=True)
def _sixteen(monkeypatch):
    """What is refused must not depend on the machine that the tests run on."""
    monkeypatch.setattr("eniac.memory.available", lambda: 16 * GIB)


def machine(root, meminfo="", cgroup="", **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(meminfo)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = f"MemTotal: {32 * 2**20} kB\nMemAvailable: {20 * 2**20} kB\nSwapFree: {4 * 2**20} kB\n"


def test_the_machine_has_what_is_available_and_what_can_be_swapped(tmp_path):
    assert available(machine(tmp_path, MEMINFO)) == 24 * GIB


def test_a_group_leaves_its_limit_less_what_it_uses_and_cannot_give_back(tmp_path):
    files = {
        "jobs/mine/memory.max": "max\n",
        "jobs/memory.max": f"{8 * GIB}\n",
        "jobs/memory.current": f"{5 * GIB}\n",
        "jobs/memory.stat": f"anon 1\ninactive_file {2 * GIB}\n",
    }
    root = machine(tmp_path, MEMINFO, "0::/jobs/mine\n", **files)
    assert available(root) == 5 * GIB


def test_groups_of_the_first_version_count_too(tmp_path):
    files = {
        "memory/memory.limit_in_bytes": f"{3 * GIB}\n",
        "memory/memory.usage_in_bytes": f"{GIB}\n",
    }
    cgroup = "4:cpu,cpuacct:/\n3:cpuset,memory:/docker/0123\n"
    assert available(machine(tmp_path, MEMINFO, cgroup, **files)) == 2 * GIB


def test_a_group_that_is_full_leaves_nothing(tmp_path):
    files = {"memory.max": f"{GIB}\n", "memory.current": f"{2 * GIB}\n"}
    assert available(machine(tmp_path, MEMINFO, "0::/\n", **files)) == 0


def test_where_nothing_can_be_told_nothing_is_refused(tmp_path, monkeypatch):
    assert available(tmp_path) is None
    monkeypatch.setattr("eniac.memory.available", lambda: None)
    require_memory({"it": 10**30}, "that")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        *((0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.00 KiB"), (149 * GIB, "149 GiB")),
        *((3 * GIB // 2, "1.50 GiB"), (2**70 - 1, "1024 EiB"), (10**400, "1,000 EiB")),
    ],
)
def test_numbers_of_bytes_are_told_in_words(number, words):
    assert in_bytes(number) == words


def test_the_refusal_names_the_largest_and_how_much_there_is():
    with pytest.raises(ConfigError) as caught:
        require_memory({"a": 20 * GIB, "b": 100 * GIB}, "this")
    assert str(caught.value) == (
        "this would take at least 120 GiB of memory, 100 GiB of it for b, and 16 GiB are free. "
        "Make that smaller."
    )
    require_memory({"a": 8 * GIB, "b": 8 * GIB}, "this")


def deep(**changes):
    return Config(replace(ENIAC, **changes), env="DeepSea-5")


def ppo(env="DeepSea-5", evaluation=None, seeds=1, **changes):
    config = Config(replace(PPO, **changes), env=env, evaluation=evaluation or Evaluation())
    return replace(config, seeds=seeds)


def spi(env="DeepSea-5", **changes):
    return Config(replace(SPI, **changes), env=env)


ABSURD = {
    "environments": (lambda: ppo(num_envs=10**12), "num_envs is 1000000000000"),
    "many environments": (
        lambda: ppo(num_envs=5 * 10**6, updates_per_round=1),
        "for num_envs x rollout_length",
    ),
    "steps": (lambda: ppo(rollout_length=10**12), "rollout_length is 1000000000000"),
    "steps in 32 bits": (
        lambda: ppo(num_envs=10**5, rollout_length=10**5),
        "num_envs x rollout_length x updates_per_round",
    ),
    "minibatches": (
        lambda: ppo(update=replace(PPO.update, minibatch=10**30)),
        "minibatch is 1000000000000000000000000000000",
    ),
    "a minibatch": (lambda: ppo(update=replace(PPO.update, minibatch=10**9)), "update.minibatch"),
    "passes": (lambda: ppo(seeds=1, update=replace(PPO.update, passes=2**31 - 1)), "update.passes"),
    "updates": (lambda: ppo(num_envs=1, rollout_length=2, updates_per_round=10**9), "updates_per"),
    "rounds": (lambda: deep(rounds=2**31 - 1), "for rounds"),
    "a layer": (lambda: deep(hidden=(10**9,)), "for hidden and capacity"),
    "layers": (lambda: deep(hidden=(2**31 - 1,) * 3), "for hidden and capacity"),
    "policies": (lambda: deep(capacity=10**9), "for hidden and capacity"),
    "visits": (lambda: deep(visit_steps=10**15), "visit_steps is 1000000000000000"),
    "many visits": (lambda: deep(visit_steps=2 * 10**9), "for visit_steps"),
    "fits": (lambda: deep(bonus=replace(ENIAC.bonus, outer=10**9)), "bonus.outer x"),
    "RND's minibatch": (lambda: ppo(bonus=RND(minibatch=10**9)), "bonus.minibatch"),
    "features": (lambda: deep(bonus=Kernel(features=10**6)), "the state of all seeds"),
    "features of the cover": (lambda: deep(cover=LogDet(features=10**5)), "the state of all seeds"),
    "episodes": (
        lambda: ppo(evaluation=Evaluation(episodes=10**12)),
        "evaluation.episodes is 1000000000000",
    ),
    "many episodes": (
        lambda: ppo(evaluation=Evaluation(episodes=10**9)),
        "for evaluation.episodes",
    ),
    "seeds": (lambda: ppo(seeds=10**9), "seeds is 1000000000"),
    "many seeds": (lambda: replace(deep(), seeds=10**4), "the state of all seeds"),
    "a sea": (lambda: ppo("DeepSea-200000"), "at least 149 GiB of memory for size"),
    "a sea of 190 digits": (lambda: ppo("DeepSea-" + "9" * 190), "1,000 EiB of memory for size"),
    "a chain": (lambda: ppo("Chain-100000"), "its transitions"),
    "a river": (lambda: ppo("RiverSwim-100000"), "its transitions"),
    "a random table": (lambda: ppo("RandomMDP-100000"), "its transitions"),
    "a linear table": (lambda: ppo("LinearMDP-100000"), "its transitions"),
    "a logistic table": (lambda: ppo("LogisticMDP-100000"), "its transitions"),
    "a lock": (lambda: ppo("CombinationLock-" + "9" * 12), "for length"),
    "the table of a sea": (lambda: spi("DeepSea-300"), "its transitions"),
    "the table of a lock": (lambda: spi("CombinationLock-10000"), "its transitions"),
    "epochs of SPI": (lambda: spi(N=10**9), "for N x T"),
    "updates of SPI": (lambda: spi(N=1, T=10**9), "for N x T"),
    "samples of SPI": (lambda: spi(K=2**31 - 1), "for K"),
    "environments of gymnasium's": (
        lambda: ppo(
            "CartPole-v1",
            num_envs=10**8,
            rollout_length=1,
            fit_episodes=False,
            updates_per_round=1,
        ),
        "for num_envs",
    ),
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_size_is_refused_by_name_before_memory_is_asked_for(name):
    make, words = ABSURD[name]
    with pytest.raises(ConfigError) as caught:
        make().build().require_memory()
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ppo(num_envs=20_000, rollout_length=128),
        lambda: ppo(num_envs=100_000, rollout_length=20),
        lambda: deep(hidden=(1024, 1024)),
        lambda: deep(visit_steps=10**6, capacity=200),
        lambda: ppo("DeepSea-50", evaluation=Evaluation(episodes=10_000)),
        lambda: ppo(update=replace(PPO.update, minibatch=50_000)),
        lambda: ppo("CartPole-v1", num_envs=1000),
        lambda: spi("DeepSea-20"),
        lambda: replace(ppo(), seeds=100),
    ],
)
def test_large_settings_that_fit_are_taken(make):
    make().build().require_memory()


def test_the_estimate_of_a_rollout_is_below_what_its_arrays_take():
    # The arrays of a trajectory and its keys, counted by hand: 25 + 1 numbers of a pair, five
    # more, three truths, two keys of two words each, and a draw of two numbers for the action.
    config = ppo(num_envs=10, rollout_length=7)
    built = config.build()
    told = built.config.algorithm.memory(built.env, config.evaluation)["num_envs x rollout_length"]
    assert told <= 70 * (25 * 4 + 4 + 5 * 4 + 3 + 2 * 8 + 2 * 4)
    assert told >= 70 * (25 * 4 + 4)


def test_inputs_with_a_coordinate_for_each_pair_are_counted_too(monkeypatch):
    assert one_hot_pairs(101, 2).shape == (101, 2, 202)
    monkeypatch.setattr("eniac.memory.available", lambda: 10**5)
    with pytest.raises(ConfigError, match="a coordinate for each of 202 pairs"):
        one_hot_pairs(101, 2)
