"""Agents: learning, acting, saving and loading as one object."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from tensorboardX.proto.event_pb2 import Event

import eniac
from eniac import agents
from eniac.algorithms import ALGORITHMS
from eniac.bonuses.rnd import RND
from eniac.cli.main import main
from eniac.envs.deep_sea import DeepSea
from eniac.runs.tensors import flatten
from eniac.updates.ppo import PPO

TINY = {
    "num_envs": 2,
    "rollout_length": 4,
    "updates_per_round": 1,
    "hidden": (4,),
    "visit_steps": 8,
    "visit_envs": 2,
    "fit_episodes": False,
    "horizon": 4,
    "evaluation": {"episodes": 2},
    "incumbent": {"episodes": 1, "share": 0.0},
}
# Short rounds on the host are told of, as on the command line.
pytestmark = pytest.mark.filterwarnings("ignore:environments begin afresh")


class Places(gymnasium.Env):
    """Any spaces: rewards for nothing, episodes of four steps. It refuses what is no action."""

    def __init__(self, observation=None, action=None):
        default = (spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3, start=5))
        self.observation_space = default[0] if observation is None else observation
        self.action_space = default[1] if action is None else action

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.left = 4
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.left -= 1
        return self.observation_space.sample(), 1.0, self.left == 0, False, {}


def dict_env():
    parts = {"place": spaces.Box(-1, 1, (2,), np.float64), "door": spaces.Discrete(3)}
    return Places(spaces.Dict(parts), spaces.Box(-2, 2, (1,), np.float32))


def same(one, other):
    """Whether two agents have the same states and metrics, bit for bit."""
    a, b = flatten(one._states), flatten(other._states)
    assert a.keys() == b.keys()
    equal = all(np.array_equal(a[name], b[name]) for name in a)
    return equal and one.metrics == other.metrics and one.epochs == other.epochs


@pytest.fixture
def toy(toy_is_an_algorithm):
    """Makes agents of the toy, which compiles in no time."""
    kind = agents.make_agent("toy")
    return lambda **settings: kind("Chain-4", horizon=5, evaluation={"episodes": 2}, **settings)


# The classes


@pytest.mark.parametrize("row", ALGORITHMS.values(), ids=lambda row: row.name)
def test_every_algorithm_has_a_class_with_a_docstring(row):
    kind = agents.AGENTS_OF[row.name]
    assert issubclass(kind, eniac.Agent)
    assert getattr(eniac, kind.__name__) is kind
    assert kind.algorithm == row.name
    assert kind.__name__ in eniac.__all__
    assert kind.__doc__ is not None
    assert row.source in kind.__doc__
    assert f"eniac.{kind.__name__}(" in kind.__doc__


def test_the_names_in_the_package_are_those_of_the_table():
    assert set(eniac.AGENTS) == agents.AGENTS.keys()
    assert {"ENIAC", "PCPG", "ZERO", "PPORND", "PPO", "ENIACSPISample"} <= agents.AGENTS.keys()


# Settings


def test_settings_are_keywords_nested_dotted_or_ready_made():
    agent = eniac.PPO(Places, **TINY, seed=3, update={"clip": 0.1}, **{"update.passes": 2})
    algorithm = agent.config.algorithm
    assert (algorithm.update.clip, algorithm.update.passes) == (0.1, 2)
    assert algorithm.update.optimizer == "adam", "the rest of a part stays"
    assert (agent.config.seed, algorithm.num_envs) == (3, 2)
    settings = {**TINY, "hidden": [4]}
    ready = eniac.ENIAC("DeepSea-3", **settings, bonus=RND(coefficient=2.0), update=PPO(clip=0.3))
    assert ready.config.algorithm.bonus == RND(coefficient=2.0)
    assert ready.config.algorithm.update == PPO(clip=0.3)
    named = eniac.ENIAC("DeepSea-3", **TINY, bonus={"type": "rnd", "coefficient": 3.0}, cover=None)
    assert named.config.algorithm.bonus == RND(coefficient=3.0)
    assert named.config.algorithm.cover is None
    dotted = eniac.ENIAC("DeepSea-3", **TINY, bonus="rnd", **{"bonus.coefficient": 4.0})
    assert dotted.config.algorithm.bonus == RND(coefficient=4.0)
    deep = {name: value for name, value in TINY.items() if name != "hidden"}
    assert eniac.PPO("DeepSea-3", **deep, depth=4).config.algorithm.hidden == (64, 128, 128, 64)
    assert not eniac.PPO("DeepSea-3", preset="paper-depth2").config.algorithm.incumbent.episodes


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_env": 3}, "num_env is not a setting of ppo. Did you mean 'num_envs'?"),
        ({"num_envs": 0}, "num_envs is 0; it must be 1 or more"),
        ({"num_envs": "many"}, "num_envs is 'many'; it must be a whole number"),
        ({"update": {"clipp": 1}}, "update.clipp is not a setting. Did you mean 'clip'?"),
        ({"update": 3}, "update is 3; it must be a"),
        ({"update": "poo"}, "update is 'poo'; no update has that name. Did you mean 'ppo'?"),
        ({"depth": 3}, "depth is 3; it must be one of 2, 4, 6"),
        ({"depth": "two"}, "depth is 'two'; it must be a whole number"),
        ({"depth": 2, "preset": "paper-depth2"}, "are both given"),
        ({"preset": "paper"}, "preset is 'paper'; it must be one of paper-depth2"),
        ({"seeds": 2}, "seeds is 2; an agent has one seed"),
        ({"steps": 2}, "steps is 2; give it to learn()"),
        ({"out": "x"}, "out is 'x'; give it to learn()"),
        ({"seed": -1}, "seed is -1; it must be 0 or more"),
        ({"update": {"clip": 0.1}, "update.clip": 0.2}, "update.clip is given twice: 0.1 and 0.2"),
        ({"name": "zero"}, "name is not a setting"),
    ],
)
def test_a_wrong_setting_is_refused_in_a_line(settings, words):
    with pytest.raises(eniac.ConfigError) as error:
        eniac.PPO("DeepSea-3", **settings)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("env", [3, None, "DeepSee-3", object()])
def test_what_is_no_environment_is_refused(env):
    with pytest.raises(eniac.ConfigError):
        eniac.PPO(env)


def test_agent_itself_is_not_made():
    with pytest.raises(eniac.ConfigError, match=r"make one of: ENIAC, "):
        eniac.Agent("DeepSea-3")


# Learning


def test_learning_twice_is_learning_once_with_the_sum(toy):
    assert same(toy(seed=1).learn(epochs=2).learn(epochs=3), toy(seed=1).learn(epochs=5))


def test_rules_count_from_where_the_agent_is(toy):
    agent = toy().learn(epochs=2)
    before = agent.steps
    agent.learn(steps=1)
    assert agent.epochs == 3
    assert agent.steps > before
    agent.learn(1)
    assert agent.epochs == 4
    agent.learn(seconds=1e-9)
    assert agent.epochs == 5
    agent.learn(until=-1e9)
    assert agent.epochs == 5, "it is above that already"


def test_without_a_rule_it_learns_for_a_while_and_ends_when_the_cover_is_full(toy):
    agent = toy(room=60).learn()
    assert agent.epochs == 50
    assert agent.learn().epochs == 60
    with pytest.raises(eniac.ConfigError, match="60 epochs, and its cover has room for no more"):
        agent.learn()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"steps": 0}, "steps is 0; it must be 1 or more"),
        ({"steps": 1e6}, "steps is 1000000.0; it must be a whole number"),
        ({"epochs": -1}, "epochs is -1; it must be 1 or more"),
        ({"epochs": True}, "epochs is True; it must be a whole number"),
        ({"seconds": 0}, "seconds is 0; it must be more than 0"),
        ({"until": "solved"}, "until is 'solved'; it must be a number"),
        ({"callback": 3}, "callback is 3; it must be a function"),
        ({"progress": 3}, "progress is 3; it must be true or false"),
        ({"out": ""}, "the folder is ''; it must be a path"),
    ],
)
def test_a_wrong_stop_rule_is_refused_and_changes_nothing(toy, rules, words):
    agent = toy()
    with pytest.raises(eniac.ConfigError) as error:
        agent.learn(**rules)
    assert words in str(error.value)
    assert agent.epochs == 0


def test_nothing_is_written_without_out(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agent = toy().learn(epochs=2, progress=True)
    agent.predict(0)
    assert len(agent.metrics) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_callback_sees_each_record_may_use_the_agent_and_stops(toy, tmp_path):
    agent, seen = toy(), []

    def callback(record):
        seen.append(record)
        assert agent.epochs == record["epoch"]
        agent.predict(0)
        agent.save(tmp_path / "saved")
        return record["epoch"] < 3

    agent.learn(epochs=10, callback=callback)
    assert agent.epochs == 3
    assert seen == agent.metrics
    assert same(eniac.load(tmp_path / "saved"), agent)


def test_what_a_callback_raises_is_raised_and_the_epoch_is_kept(toy):
    def callback(record):
        raise ZeroDivisionError

    agent = toy()
    with pytest.raises(ZeroDivisionError):
        agent.learn(epochs=5, callback=callback)
    assert agent.epochs == len(agent.metrics) == 1
    assert same(agent.learn(epochs=1), toy().learn(epochs=2))


def test_ctrl_c_keeps_what_was_learned_and_returns(toy):
    agent = toy()
    handler = signal.getsignal(signal.SIGINT)

    def callback(record):
        if record["epoch"] == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    assert agent.learn(epochs=1000, callback=callback) is agent
    assert agent.epochs == 2
    assert signal.getsignal(signal.SIGINT) is handler
    assert same(agent.learn(epochs=1), toy().learn(epochs=3))


def test_a_keyboard_interrupt_in_a_callback_ends_the_learning(toy):
    def callback(record):
        raise KeyboardInterrupt

    assert toy().learn(epochs=5, callback=callback).epochs == 1


def test_ctrl_c_twice_aborts_with_the_agent_as_it_was(toy, monkeypatch):
    agent = toy().learn(epochs=1)

    def interrupted(*arguments):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

    monkeypatch.setattr(agent._program, "epoch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(epochs=1)
    assert agent.epochs == 1
    assert same(agent.learn(epochs=1), toy().learn(epochs=2))


def test_another_thread_may_learn(toy):
    agent = toy()
    thread = threading.Thread(target=lambda: agent.learn(epochs=2))
    thread.start()
    thread.join()
    assert agent.epochs == 2


def test_an_epoch_that_fails_leaves_the_agent_as_it_was(toy):
    agent = toy(nan_at=3)
    with pytest.raises(eniac.NonFiniteError, match="in epoch"):
        agent.learn(epochs=10)
    assert agent.epochs == len(agent.metrics) > 0


# Saving and loading


def test_loaded_and_gone_on_is_as_never_saved(toy, tmp_path):
    agent = toy(seed=2).learn(epochs=2)
    assert agent.save(tmp_path / "saved") == tmp_path / "saved"
    loaded = eniac.load(tmp_path / "saved")
    assert type(loaded).algorithm == "toy"
    assert same(loaded, agent)
    loaded.learn(epochs=2)
    assert same(loaded, toy(seed=2).learn(epochs=4))
    loaded.save(tmp_path / "saved")
    assert same(eniac.load(tmp_path / "saved"), loaded)
    with pytest.raises(eniac.ConfigError, match="has this agent after 4 epochs"):
        agent.save(tmp_path / "saved")


def test_out_is_a_run_that_can_be_resumed_by_the_command_line(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("eniac.training.draw", lambda run: [])
    out = tmp_path / "run"
    agent = toy(seed=2, checkpoint_every=2).learn(epochs=1).learn(epochs=2, out=out)
    names = [path.name for path in sorted((out / "checkpoints").iterdir())]
    assert names == [f"epoch-00000{epoch}.safetensors" for epoch in (1, 2, 3)]
    assert eniac.load_run(out).progress.epoch == 3
    assert main(["resume", str(out), "--epochs", "5"]) == 0
    assert same(eniac.load(out), agent.learn(epochs=2))


def test_a_run_of_the_command_line_is_loaded_seed_by_seed(toy_config, toy):
    config = toy_config(seeds=2)
    eniac.train(config)
    for seed in config.seed_numbers:
        with pytest.warns(UserWarning, match="devices 2 then and 1 now"):
            loaded = eniac.load(config.out, seed=seed)
        assert loaded.epochs == config.epochs
        assert {record["seed"] for record in loaded.metrics} == {seed}
        assert loaded.learn(epochs=1).epochs == config.epochs + 1
    with pytest.raises(eniac.ConfigError, match=r"seed is 99; it must be one of 0, 1"):
        eniac.load(config.out, seed=99)


def test_a_folder_with_something_else_is_refused(toy, tmp_path):
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(eniac.ConfigError, match="is not empty"):
        toy().save(tmp_path)
    with pytest.raises(eniac.ConfigError, match="is not empty"):
        toy().learn(epochs=1, out=tmp_path)
    with pytest.raises(eniac.ConfigError, match=r"it has no config\.json"):
        eniac.load(tmp_path)
    one = toy().learn(epochs=1)
    one.save(tmp_path / "one")
    with pytest.raises(eniac.ConfigError, match="already holds a run"):
        toy().learn(epochs=1).save(tmp_path / "one")


def test_a_checkpoint_of_another_version_is_refused(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("eniac.runs.checkpoint.FORMAT", 1)
    toy().learn(epochs=1).save(tmp_path / "old")
    monkeypatch.undo()
    monkeypatch.setitem(ALGORITHMS, "toy", __import__("toy").Row())
    with pytest.raises(eniac.CheckpointError, match="has format 1; this version of eniac reads 2"):
        eniac.load(tmp_path / "old")


# Agents with networks, in gymnasium's environments

ELSEWHERE = """
import json, sys
import numpy as np
import eniac

agent = eniac.load(sys.argv[1])
seen = {"place": np.linspace(-1, 1, 10).reshape(5, 2), "door": np.array([0, 1, 2, 0, 1])}
try:
    agent.learn(epochs=1)
except eniac.ConfigError as error:
    refused = str(error)
print(json.dumps([agent.predict(seen).tolist(), len(agent.metrics), refused]))
"""


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """An agent that has learned for two epochs, and where it was saved after the first."""
    env, folder = dict_env(), tmp_path_factory.mktemp("agent") / "saved"
    agent = eniac.PPO(env, **TINY, seed=1)
    agent.learn(epochs=1).save(folder)
    return agent.learn(epochs=1), folder


def test_an_environment_given_as_an_object_goes_on_after_loading(learned):
    agent, folder = learned
    assert same(eniac.load(folder, dict_env()).learn(epochs=1), agent)
    with pytest.raises(eniac.ConfigError):
        eniac.load(folder, 3)


def test_a_loaded_agent_predicts_without_the_environment_in_another_process(learned, tmp_path):
    agent, _ = learned
    agent.save(tmp_path / "saved")
    source = Path(eniac.__file__).parents[1]
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", ELSEWHERE, str(tmp_path / "saved")],
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    actions, records, refused = json.loads(told.stdout.splitlines()[-1])
    seen = {"place": np.linspace(-1, 1, 10).reshape(5, 2), "door": np.array([0, 1, 2, 0, 1])}
    assert actions == agent.predict(seen).tolist()
    assert records == 2
    assert "was loaded without its environment" in refused
    assert refused.endswith("give it to eniac.load(folder, env).")


@pytest.mark.usefixtures("unchecked")
def test_evaluation_has_an_interval_and_leaves_the_learning_alone(learned):
    agent, folder = learned
    found = agent.evaluate(4)
    assert found["return_mean"] == 4.0
    assert found["interval"] == (4.0, 4.0)
    assert (found["episodes"], found["length_mean"]) == (4, 4.0)
    assert agent.evaluate(1)["interval"] is None
    assert same(eniac.load(folder, dict_env()).learn(epochs=1), agent)
    for wrong, words in [
        ({"episodes": 0}, "^episodes is 0; it must be 1 or more"),
        ({"deterministic": "no"}, "deterministic is 'no'; it must be True, False or None"),
    ]:
        with pytest.raises(eniac.ConfigError, match=words):
            agent.evaluate(**wrong)


def test_observations_in_a_dict(learned):
    agent, _ = learned
    one = {"place": [0.5, -0.5], "door": 2}
    action = agent.predict(one)
    assert action.shape == (1,)
    assert action.dtype == np.float32
    np.testing.assert_allclose(agent.predict([one, one]), [action, action], rtol=1e-6)
    np.testing.assert_allclose(agent.predict({**one, "more": 1}), action)
    for wrong, words in [
        ({"place": [0.5, 0.5]}, "has not the key 'door'; it has 'place'"),
        ([0.5, 0.5], "it must be a dict with the keys 'door', 'place'"),
        ({"place": [0.5], "door": 2}, r"at 'place' has the shape \(1,\); it must have \(2,\)"),
        ({"place": [0.5, 0.5], "door": 3}, "at 'door' is 3, which is no element"),
        ({"place": [0.5, np.nan], "door": 2}, "which is no element"),
        ({"place": [0.5, -np.inf], "door": 2}, "which is no element"),
        ({"place": [0.5, 1e39], "door": 2}, "which is no element"),  # infinite in 32 bits
        ({"place": "here", "door": 2}, "it must be numbers"),
        ({"place": [0.5, 0.5], "door": [1, 2]}, "is one in some parts and a batch in others"),
    ]:
        with pytest.raises(eniac.ConfigError, match=words):
            agent.predict(wrong)


@pytest.mark.parametrize(
    ("observation", "action"),
    [
        (spaces.Box(-1, 1, (2, 2), np.float64), spaces.Box(0, 9, (2, 3), np.float64)),
        (spaces.Discrete(4, start=2), spaces.Discrete(3, start=5)),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([[2, 3], [4, 5]])),
        (spaces.MultiBinary(3), spaces.MultiBinary([2, 2])),
        (spaces.Box(-1, 1, (), np.float32), spaces.Box(-1, 1, (), np.float32)),
        (spaces.Box(0, 255, (3, 3, 1), np.uint8), spaces.Box(-3, 3, (2,), np.int16)),
        (spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (1,)))), spaces.Discrete(2)),
    ],
    ids=lambda space: type(space).__name__,
)
def test_predict_gives_what_the_environment_takes(observation, action, monkeypatch):
    env = Places(observation, action)
    agent = eniac.PPO(env, **TINY)
    # The first policy acts in the same way, and need not be compiled to learn.
    monkeypatch.setattr(eniac.Agent, "epochs", 1)
    observation.seed(0)
    seen = [observation.sample() for _ in range(3)]
    for deterministic in (True, False, None):
        assert action.contains(agent.predict(seen[0], deterministic))
        batch = agent.predict(seen, deterministic)
        assert len(batch) == 3
        assert all(action.contains(np.asarray(each)) for each in batch)
    np.testing.assert_array_equal(agent.predict(seen)[1], agent.predict(seen[1]))


def test_an_agent_that_has_not_learned_is_told_to(toy):
    agent = toy()
    with pytest.raises(eniac.ConfigError, match=r"has not learned yet, .* call learn\(\) first"):
        agent.predict(0)
    assert agent.evaluate(2)["episodes"] == 2


def test_a_vector_environment_learns_and_acts_as_a_batch():
    env = gymnasium.vector.SyncVectorEnv([Places] * 2)
    agent = eniac.PPO(env, **TINY | {"horizon": None}).learn(epochs=1)
    seen, _ = env.reset(seed=0)
    actions = agent.predict(seen)
    assert env.action_space.contains(actions)
    agent.close()
    assert agent.learn(epochs=1).epochs == 2, "it opens again what it needs"


def test_a_closed_environment_is_told_in_a_line():
    class Closing(Places):
        closed = False

        def close(self):
            self.closed = True

        def reset(self, **options):
            if self.closed:
                raise ValueError("it is closed")
            return super().reset(**options)

    env = Closing()
    agent = eniac.PPO(env, **TINY)
    env.close()
    with pytest.raises(eniac.RunError, match="it is closed"):
        agent.learn(epochs=1)
    assert agent.epochs == 0
    copies = gymnasium.vector.SyncVectorEnv([Places] * 2)
    copies.close()
    with pytest.raises(eniac.ConfigError, match="SyncVectorEnv was closed already; give an open"):
        eniac.PPO(copies, **TINY | {"horizon": None})


def test_eniac_has_a_cover_an_incumbent_and_a_bonus(tmp_path):
    agent = eniac.ENIAC(DeepSea(3), **TINY)
    seen = np.zeros((2, 9), np.float32)
    agent.learn(epochs=2)
    assert len(agent.cover) == 2
    assert agent.incumbent.policy is not None
    one, both = agent.bonus(seen[0], 1), agent.bonus(seen, [1, 0])
    assert isinstance(one, float)
    assert both.shape == (2,)
    assert both[0] == pytest.approx(one)
    with pytest.raises(eniac.ConfigError, match="the observation is a batch of 2, and the action"):
        agent.bonus(seen, 1)
    with pytest.raises(eniac.ConfigError, match="the action is 2, which is no element"):
        agent.bonus(seen[0], 2)
    assert "ENIAC(" in repr(agent)
    agent.save(tmp_path / "saved")
    assert same(eniac.load(tmp_path / "saved", DeepSea(3)), agent)


def test_ppo_has_neither_cover_nor_bonus(learned):
    agent, _ = learned
    assert agent.cover == []
    with pytest.raises(eniac.ConfigError, match="ppo has no bonus"):
        agent.bonus({"place": [0, 0], "door": 1}, [0.0])


def test_a_provable_agent_observes_the_number_of_the_state(tmp_path):
    agent = eniac.ENIACSPISample("RiverSwim-v0", K=20, T=2, M=20, N=3)
    agent.learn(epochs=2)
    assert agent.predict(0) in (0, 1)
    assert agent.predict([0, 1, 2]).shape == (3,)
    assert agent.bonus([0, 1, 2], [1, 0, 1]).shape == (3,)
    with pytest.raises(eniac.ConfigError, match="no element of the space"):
        agent.predict(99)
    agent.save(tmp_path / "saved")
    loaded = eniac.load(tmp_path / "saved")
    assert same(loaded.learn(), agent.learn())
    assert agent.epochs == 3
    lake = gymnasium.make("FrozenLake-v1")
    eniac.SPI(lake, K=20, T=2, M=20, N=3).learn(epochs=1).save(tmp_path / "lake")
    assert eniac.load(tmp_path / "lake", lake).epochs == 1
    assert agent.evaluate(3)["episodes"] == 3


def test_metrics_are_a_frame_where_pandas_is_installed(toy, monkeypatch):
    class Pandas:
        DataFrame = tuple

    monkeypatch.setitem(sys.modules, "pandas", Pandas)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert isinstance(toy().metrics, tuple)


# Callbacks, pictures and a diagnosis


class FakeWandB:
    """What `WandB` needs of the package of that name."""

    def __init__(self):
        self.told, self.options, self.rows, self.ended = [], {}, [], False

    def init(self, **options):
        self.options = options
        return self

    def log(self, row):
        self.rows.append(row)

    def finish(self):
        self.ended = True


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name == "wandb" else None)
    return fake


@pytest.mark.usefixtures("unchecked")
def test_several_callbacks_are_all_called_and_any_of_them_stops(toy):
    seen = [], []
    callbacks = [
        lambda record: seen[0].append(record["epoch"]) or record["epoch"] < 2,
        lambda record: seen[1].append(record["epoch"]),
    ]
    assert toy().learn(epochs=5, callback=callbacks).epochs == 2
    assert seen == ([1, 2], [1, 2])
    with pytest.raises(eniac.ConfigError, match=r"callback is 3; it must be a function, or some"):
        toy().learn(epochs=1, callback=[print, 3])


def test_wandb_is_a_callback_offline_with_the_settings_of_the_agent(toy, wandb):
    agent = toy(seed=4)
    with eniac.WandB(project="mine", tags=["a"]) as log:
        agent.learn(epochs=2, callback=log).learn(epochs=1, callback=log)
        assert not wandb.ended
    assert wandb.ended
    assert wandb.options["mode"] == "offline"
    assert (wandb.options["project"], wandb.options["tags"]) == ("mine", ["a"])
    assert wandb.options["config"]["seed"] == 4
    assert [row["return_mean"] for row in wandb.rows] == [x["return_mean"] for x in agent.metrics]
    assert all(row["time/seconds"] > 0 for row in wandb.rows)


def test_a_run_of_several_seeds_has_one_row_a_round_in_wandb(toy_config, wandb):
    eniac.train(toy_config(seeds=2, wandb=True, epochs=3))
    assert len(wandb.rows) == 3
    assert {"seed-0/return_mean", "seed-1/return_mean", "time/seconds"} <= wandb.rows[0].keys()
    assert (wandb.options["mode"], wandb.options["name"], wandb.ended) == ("offline", "run", True)


def test_wandb_that_is_not_installed_is_told_in_a_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(eniac.ConfigError, match=r"pip install 'eniac\[wandb\]'"):
        eniac.WandB()


def test_tensorboard_is_a_callback_with_every_round(toy, tmp_path):
    with eniac.TensorBoard(tmp_path / "board") as board:
        agent = toy().learn(epochs=2, callback=board)
        board({"epoch": 3, "round": 1, "seed": 0, "env_steps": 99, "return_mean": 0.5})
    (path,) = (tmp_path / "board").iterdir()
    content, place, values = path.read_bytes(), 0, []
    while place < len(content):
        length = int.from_bytes(content[place : place + 8], "little")
        event = Event.FromString(content[place + 12 : place + 12 + length])
        values += [(event.step, v.tag, v.simple_value) for v in event.summary.value]
        place += length + 16
    returns = [(step, value) for step, tag, value in values if tag == "return_mean"]
    expected = [(x["env_steps"], x["return_mean"]) for x in agent.metrics] + [(99, 0.5)]
    assert returns == [(step, pytest.approx(value)) for step, value in expected]
    assert {tag for _, tag, _ in values} >= {"time/seconds", "loss"}


def test_pictures_are_figures_and_there_are_none_before_learning(toy):
    agent = toy()
    with pytest.raises(eniac.ConfigError, match="has not learned yet"):
        agent.plot.learning_curve()
    agent.learn(epochs=2)
    figure = agent.plot.learning_curve()
    (axes,) = figure.axes
    assert axes.get_title() == "toy on Chain-4 horizon=5"
    assert list(axes.lines[-1].get_ydata()) == [x["return_mean"] for x in agent.metrics]
    assert agent.plot.learning_curve("loss").axes[0].get_ylabel() == "loss"
    with pytest.raises(eniac.ConfigError, match=r"metric is 'los'; .* Did you mean 'loss'\?"):
        agent.plot.learning_curve("los")
    assert "2 epochs" in agent.plot.visits().get_suptitle()
    with pytest.raises(eniac.RunError, match="toy has no bonus that can be drawn"):
        agent.plot.bonus()


def test_an_agent_is_diagnosed_as_its_run_is(toy, tmp_path):
    agent = toy().learn(epochs=5)
    found = agent.diagnose()
    assert str(found).startswith("toy on Chain-4, seed 0: 5 epochs, 35 steps\n")
    run = eniac.diagnose_run(agent.save(tmp_path / "run"))
    assert run.answers == found.answers
    assert run.left_out == found.left_out
    assert run.about["ended"] == "saved"


def test_an_agent_without_its_environment_is_diagnosed_and_drawn_by_its_records(learned):
    _, folder = learned
    agent = eniac.load(folder)
    answers = {answer.check: answer.finding for answer in agent.diagnose().answers}
    assert "without its environment" in answers["critic"].seen
    assert agent.plot.learning_curve().axes
    with pytest.raises(eniac.ConfigError, match="was loaded without its environment"):
        agent.plot.visits()


# Loaded elsewhere


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (Places, r"observation space Box\(-1.0, 1.0, \(2,\), float32\); .* is Dict\("),
        (lambda: other_bounds(9), r"action space Box\(-9.0, 9.0, .* is Box\(-2.0, 2.0"),
    ],
    ids=["another shape", "other bounds"],
)
def test_an_environment_with_other_spaces_is_refused_at_loading(learned, env, words):
    _, folder = learned
    with pytest.raises(eniac.ConfigError, match=words) as error:
        eniac.load(folder, env())
    assert "\n" not in str(error.value)


def other_bounds(high):
    seen = dict_env().observation_space
    return Places(seen, spaces.Box(-high, high, (1,), np.float32))


def test_what_is_no_agent_is_told_from_one(learned, tmp_path, monkeypatch):
    agent, folder = learned
    with pytest.raises(eniac.ConfigError, match=r"holds a policy, and nothing to go on"):
        eniac.load(folder / "policy" / "seed-1").learn(epochs=1)
    assert eniac.load_policy(folder).greedy == eniac.load_policy(folder / "policy").greedy
    copied = agent.save(tmp_path / "old")
    config = json.loads((copied / "config.json").read_text())
    config["algorithm"]["soon"] = True
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        eniac.ConfigError, match=r"algorithm.soon is not a field\. Fields of"
    ) as told:
        eniac.load(copied)
    assert "made with" not in str(told.value)
    monkeypatch.setattr(eniac, "__version__", "99.0")
    with pytest.raises(eniac.ConfigError, match=r"It was made with eniac \d+\.\d+\.\d+\.$"):
        eniac.load(copied)


def test_a_log_that_cannot_be_written_is_told_in_a_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(eniac.RunError, match=r"Cannot write to .*file"):
        eniac.TensorBoard(tmp_path / "file")


def test_loading_on_another_machine_is_warned_of_once_and_works(toy, tmp_path, monkeypatch):
    agent = toy().learn(epochs=1)
    agent.save(tmp_path / "saved")
    eniac.load(tmp_path / "saved")  # warnings are errors here
    here = agents.made_with(1)
    monkeypatch.setattr(agents, "made_with", lambda devices: here | {"processor": "another"})
    with pytest.warns(UserWarning, match=r"processor .* then and another now") as told:
        loaded = eniac.load(tmp_path / "saved")
    assert len(told) == 1
    assert same(loaded, agent)
