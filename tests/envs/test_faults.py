"""Environments that misbehave: each fault is one line that names the environment and what came."""

import functools
import json
import re
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from eniac import Config, load_run, resume, train
from eniac.algorithms import ALGORITHMS
from eniac.algorithms.deep import NO_INCUMBENT
from eniac.envs.base import Environment, Step, TimeLimit
from eniac.envs.faults import Patience
from eniac.envs.names import env_from, find_env
from eniac.envs.stepping import MOST_RESTARTS
from eniac.errors import ConfigError, EniacError, NonFiniteError, RunError
from eniac.policies import actor_critic
from eniac.report.episodes import play
from eniac.runs.diagnostics import Adviser, blame
from eniac.sampling.base import LONGEST_EPISODE, NONFINITE, Evaluation, Trajectory, nonfinite
from eniac.sampling.compiled import CompiledSampler
from eniac.sampling.host import HostSampler
from eniac.sampling.watch import Watch
from eniac.spaces import canonical
from envs.faulty import BOX, Faulty, FaultyVector, dies_once

NAME = "given: envs.faulty.Faulty"


@pytest.fixture(autouse=True)
def nothing_made_yet():
    Faulty.made = 0


def makes(fault="", **options):
    return functools.partial(Faulty, fault, **options)


def drive(source, num_envs=2, steps=9):
    """Steps environments, and looks at all that they give."""
    watch, space = Watch(source.observation_space), source.observation_space
    with source.open(num_envs) as envs:
        watch.check_step(envs, canonical(space, envs.begin(0)), np.zeros(num_envs))
        for _ in range(steps):
            step = envs.step(np.zeros(num_envs, int))
            watch.check_step(envs, canonical(space, step.observation), step.reward)


def told(call, *words):
    """What a call raises: one line, in our words."""
    with pytest.raises(EniacError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600, text
    for word in words:
        assert word in text, text
    return text


STEP = "(copy 1 of 2, seed "
IN_A_STEP = {
    "step raises": "step 3) raised ZeroDivisionError: the motor in step() (faulty.py, line ",
    "step exits": "step 3) raised SystemExit: 3 in step()",
    "second reset raises": "step 6) raised ValueError: no second start in reset()",
    "observation is NaN": "step 3) returned an observation that is nan at [1]; expected a finite",
    "observation is infinite": "returned an observation that is inf at [0]",
    "observation has another shape": "is an array of shape (3,) and type float32; its "
    "observation_space says shape (2,) and type float32. Correct the environment",
    "observation is a number": "an observation that is 0.5 (float); its observation_space says",
    "observation has an axis too many": "an array of shape (1, 2)",
    "observation is None": "an observation that is None (NoneType); its",
    "observation is a text": "an observation that is 'far left' (str); its",
    "observation is complex": "type complex128; its observation_space says shape (2,)",
    "observation is ragged": "an observation that is [[1.0], [1.0, 2.0]] (list); its",
    "observation is far outside its box": "1000000.0 at [1], which its observation_space does not "
    "have: Box(-1.0, 1.0, (2,), float32)",
    "choice does not exist": "that is 7, which its observation_space does not have: Discrete(5)",
    "choice is a float": "an observation that is 2.5 (float); its",
    "choice is an array": "an array of shape (1,) and type int64; its observation_space says shape "
    "()",
    "bits are not binary": "that is 3 at [1], which its observation_space does not have: MultiBin",
    "bytes do not fit": "shape (2,) and type int64; its observation_space says shape (2,) and type "
    "uint8",
    "a key is missing": "without 'b': {'a': array([0., 0.], dtype=float32)} (dict)",
    "a key has another shape": "an observation['b'] that is an array of shape (2,)",
    "dict is no dict": "an observation without 'a': array([0., 0.], dtype=float32) (ndarray)",
    "tuple is too short": "an observation without 1: (1,) (tuple)",
    "reward is None": "a reward that is None (NoneType); expected a number",
    "reward is an array": "a reward that is an array of shape (1,) and type float64; expected a",
    "reward is a text": "a reward that is '1.0' (str); expected a number",
    "reward is NaN": "step 3) returned a reward that is nan; expected a finite number",
    "reward is infinite": "step 3) returned a reward that is -inf; expected a finite number",
    "terminated is a text": "a terminated that is 'no' (str); expected True or False",
    "terminated is a number": "a terminated that is 1 (int); expected True or False",
    "terminated is None": "a terminated that is None (NoneType); expected True or False",
    "truncated is an array": "a truncated that is an array of shape (1,) and type bool; expected",
    "step gives four": "returned 4 values from step(); expected 5: observation, reward, "
    "terminated, truncated and info. That is the API of gym before 0.26",
    "step gives six": "returned 6 values from step(); expected 5",
    "step gives nothing": "returned None (NoneType) from step(); expected 5",
}
AT_THE_START = {
    "reset raises": "step 0) raised ValueError: no in reset() (faulty.py, line ",
    "reset gives an observation only": "returned an array of shape (2,) and type float32 alone "
    "from reset(); expected 2: observation and info. That is the API of gym before 0.26",
    "reset gives three": "returned a tuple of 3 (ndarray, dict, int) from reset(); expected 2",
    "reset gives another shape": "is an array of shape (3,)",
    "reset changes spaces": "has another action_space than the first copy had when it was made: "
    "Discrete(5), not Discrete(2)",
}


@pytest.mark.parametrize("fault", IN_A_STEP)
def test_what_goes_wrong_in_a_step_is_told_with_the_copy_and_the_step(fault):
    told(lambda: drive(env_from(makes(fault))), NAME, STEP, IN_A_STEP[fault])


@pytest.mark.parametrize("fault", AT_THE_START)
def test_what_goes_wrong_in_a_reset_is_told_with_the_copy(fault):
    told(lambda: drive(env_from(makes(fault))), NAME, STEP, AT_THE_START[fault])


def test_an_environment_without_fault_is_left_alone():
    drive(env_from(makes()))
    drive(env_from(Faulty()), 1)
    drive(env_from(FaultyVector()))


MAKING = {
    "make raises": "raised OSError: no licence in make() (faulty.py, line ",
    "make exits": "raised SystemExit: no screen in make()",
    "no spaces": "has no observation_space (AttributeError",
    "spaces of somebody else": "the action_space of given: envs.faulty.Faulty is (0, 1), a tuple",
}


@pytest.mark.parametrize("fault", MAKING)
def test_what_goes_wrong_in_making_is_told_before_there_is_a_run(fault, tmp_path):
    config = Config(ALGORITHMS["ppo"].default, out=tmp_path / "run")
    text = told(lambda: train(config, makes(fault)), NAME, MAKING[fault])
    assert text.count(NAME) <= 2
    assert not (tmp_path / "run").exists()


def test_what_goes_wrong_in_making_a_later_copy_is_told_with_its_number():
    told(
        lambda: drive(env_from(makes("spaces differ")), 3),
        f"{NAME} (copy 2 of 3, step 0) has another observation_space than the first copy",
    )

    Faulty.made = 0

    def second_fails():
        if Faulty.made == 1:
            raise MemoryError
        return Faulty()

    told(lambda: drive(env_from(second_fails), 3), "(copy 2 of 3) raised MemoryError in make()")


GIVEN = ["step raises", "observation is NaN", "reward is None", "step gives four"]


@pytest.mark.parametrize("fault", GIVEN)
def test_an_environment_that_was_given_is_told_the_same_way(fault):
    told(lambda: drive(env_from(Faulty(fault)), 1), NAME, "(copy 1 of 1, ", IN_A_STEP[fault])


def test_a_time_limit_around_it_does_not_hide_the_old_api():
    told(lambda: drive(env_from(makes("step gives four"), horizon=50)), "returned 4 values from st")


# Vector environments

SYNC = {
    "step raises": "raised ZeroDivisionError: the motor in step() (faulty.py, line ",
    "reset raises": "raised ValueError: no in reset()",
    "observation is NaN": "(copy 1 of 2, ",
    "observation has another shape": "raised ValueError: ",
    "observation is far outside its box": "1000000.0 at [1]",
    "reward is None": "a reward that is nan",
    "reward is NaN": "a reward that is nan",
    "step gives four": "returned 4 values from step(); expected 5",
}


@pytest.mark.parametrize("fault", SYNC)
def test_a_sync_vector_environment_is_told_in_a_line(fault):
    vector = SyncVectorEnv([makes(fault)] * 2)
    told(lambda: drive(env_from(vector)), "SyncVectorEnv (", SYNC[fault])


NATIVE = {
    "step raises": "(2 copies, step 3) raised ZeroDivisionError: the motor in step() (faulty.py,",
    "step gives four": "returned 4 values from step()",
    "reset gives an observation only": "returned an array of shape (2, 2) and type float32 alone",
    "observations of one": "is an array of shape (1, 2) and type float32; its observation_space "
    "says shape (2, 2)",
    "observations of another type": "type complex128",
    "an observation is NaN": "step 3) returned an observation that is nan at [0]",
    "an observation is far outside": "(copy 2 of 2, seed ",
    "rewards of one": "rewards that are an array of shape (1,) and type float64; expected 2 num",
    "a reward is None": "rewards that are [1.0, None] (list); expected 2 numbers",
    "a reward is NaN": "(copy 2 of 2, seed ",
    "terminated are numbers": "a terminated that is an array of shape (2,) and type float64; exp",
    "truncated is one for all": "a truncated that is False (bool); expected 2 of True or False",
}


@pytest.mark.parametrize("fault", NATIVE)
def test_a_native_vector_environment_is_told_in_a_line(fault):
    told(lambda: drive(env_from(FaultyVector(fault))), "envs.faulty.FaultyVector (", NATIVE[fault])


class Pool:
    """In the place of an EnvPool: does `fault` in its third step."""

    def __init__(self, fault, pool):
        self.fault, self.pool, self.time = fault, pool, 0
        self.num_envs, self.metadata, self.unwrapped = pool.num_envs, pool.metadata, self

    def reset(self):
        return self.pool.reset()

    def step(self, actions):
        self.time += 1
        result = list(self.pool.step(actions))
        if self.time == 3:
            if self.fault == "raises":
                raise RuntimeError("a thread has died")
            result[0] = self.fault(result[0])
        return tuple(result)

    def close(self):
        self.pool.close()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raises", "(2 copies, step 3) raised RuntimeError: a thread has died in step()"),
        (lambda x: x * np.nan, "(copy 1 of 2, seed "),
        (lambda x: x[:1], "is an array of shape (1, 4)"),
        (lambda x: x + 1e9, "which its observation_space does not have"),
    ],
)
def test_an_envpool_is_told_in_a_line(fault, words):
    source = find_env("envpool:CartPole-v1", {})
    make = source._make
    source._make = lambda *a: Pool(fault, make(*a))
    told(lambda: drive(source), "envpool:CartPole-v1 (", words)


def test_bounds_that_mean_nothing_are_none():
    source = find_env("envpool:CartpoleSwingupSparse-v1", {})
    assert any(0 < box.low.min() < 1e-300 for box in source.observation_space.values())
    with source.open(2) as envs:
        watch = Watch(source.observation_space)
        observation = canonical(source.observation_space, envs.begin(0))
        assert min(leaf.min() for leaf in observation.values()) < 0
        watch.check_step(envs, observation, np.zeros(2))


def test_a_box_may_be_overstepped_by_its_width():
    class Oversteps(Faulty):
        def observe(self):
            return np.array([2.9, -2.9], np.float32)

    drive(env_from(Oversteps))


# Processes, and what hangs


def test_an_environment_in_a_process_that_raises_or_dies_is_told():
    for fault, words in (
        ("step raises", "step 3) raised ZeroDivisionError: the motor in step() (faulty.py, line "),
        ("dies", "step 3) died with its process (killed by SIGKILL)"),
    ):
        source = env_from(makes(fault))
        source.configure("async")
        told(lambda source=source: drive(source), NAME, STEP, words)


def test_a_process_that_hangs_is_ended_and_told():
    source = env_from(makes("step hangs"))
    source.configure("async", timeout=0.5)
    told(lambda: drive(source), STEP, "step 3) did not come back within 0.5 s (env_timeout)")


@pytest.mark.parametrize("fault", ["step hangs", "reset hangs"])
def test_what_hangs_in_this_process_is_told_and_left_behind(fault):
    source = env_from(makes(fault))
    source.configure(timeout=0.2)
    told(
        lambda: drive(source),
        f"{NAME} (2 copies, step {3 if 'step' in fault else 0}) did not come back within 0.2 s",
        "(faulty.py, line ",
        "with --vectorization async each environment has a process, which can.",
    )


def test_making_that_hangs_is_told(tmp_path):
    config = Config(ALGORITHMS["ppo"].default, env_timeout=0.2, out=tmp_path / "run")
    told(lambda: train(config, makes("make hangs")), NAME, "did not come back within 0.2 s")
    assert not (tmp_path / "run").exists()


def test_a_time_limit_changes_nothing_for_one_that_comes_back():
    source = env_from(makes())
    source.configure(timeout=60)
    drive(source)
    patience = Patience(60)
    assert patience(int, "3") == 3
    with pytest.raises(ValueError, match="invalid literal"):
        patience(int, "three")
    patience.end()


def test_gymnasiums_processes_that_die_are_told_and_can_be_closed():
    source = env_from(lambda: AsyncVectorEnv([makes("dies")] * 2, context="forkserver"))
    told(
        lambda: drive(source),
        "<lambda> (2 copies, step 3) lost a process in step() (EOFError): one of its workers has",
    )


# Playing and drawing


def a_policy(observation_space, action_space):
    return actor_critic(jax.random.key(0), observation_space, action_space, (4,))


def test_what_goes_wrong_while_it_is_played_or_drawn_is_told():
    policy = a_policy(BOX, spaces.Discrete(2))
    for fault, words in (
        ("render raises", "(step 0) raised OSError: no screen in render() (faulty.py, line "),
        ("render draws no picture", "no picture: an array of shape (3, 3) and type float64"),
        ("step gives four", "(step 3) returned 4 values from step()"),
        ("reset gives an observation only", "alone from reset(); expected 2"),
        ("reward is a text", "a reward that is '1.0' (str)"),
        ("observation has another shape", "is an array of shape (3,)"),
    ):
        source = env_from(makes(fault))
        told(lambda s=source: play(s, policy, jax.random.key(0), draw=True), NAME, words)


def test_closing_never_fails():
    drive(env_from(makes("close raises")))
    play(
        env_from(makes("close raises")),
        a_policy(BOX, spaces.Discrete(2)),
        jax.random.key(0),
        max_steps=2,
    )


# Environments in JAX


class Pure(Environment):
    """A walk in two dimensions that does `fault`."""

    fault: str = eqx.field(static=True, default="")

    @property
    def observation_space(self):
        if self.fault == "space raises":
            raise LookupError("no map")
        return BOX

    @property
    def action_space(self):
        return spaces.Discrete(2)

    def reset(self, key):
        state = jnp.zeros(2)
        if self.fault == "reset raises":
            raise KeyError("start")
        if self.fault == "reset gives an observation only":
            return state
        if self.fault == "reset gives another shape":
            return state, jnp.zeros(3)
        return state, state

    def step(self, key, state, action):
        state = state + 0.1 * action
        step = Step(state, state, jnp.ones(()), state[0] > 1, jnp.asarray(False))
        if self.fault == "step asks for a number":
            assert state[0] > 0
        wrong = {
            "step gives another type": {"observation": state.astype(jnp.int32)},
            "step gives a dict": {"observation": {"a": state}},
            "reward has an axis": {"reward": jnp.ones(1)},
            "terminated is a number": {"terminated": jnp.ones(())},
            "truncated is a number": {"truncated": jnp.zeros((), jnp.int32)},
            "state grows": {"state": jnp.zeros(3)},
            "state changes": {"state": (state, state)},
            "observation is NaN": {
                "observation": jnp.where(state[0] > 0.25, jnp.nan, state),
            },
            "never ends": {"terminated": jnp.asarray(False)},
        }
        step = step._replace(**wrong.get(self.fault, {}))
        return tuple(step)[:4] if self.fault == "step gives four" else step

    def render(self, state):
        raise ValueError("no colours")


PURE = {
    "space raises": "has no observation_space (LookupError: no map)",
    "reset raises": "raised KeyError: 'start' in reset() (test_faults.py, line ",
    "reset gives an observation only": "returned an array of shape (2,) and type float32 from "
    "reset(key); expected two: a state and an observation",
    "reset gives another shape": "an observation that is an array of shape (3,) and type float32 "
    "from reset(); its observation_space says shape (2,) and type float32",
    "step asks for a number": "raised TracerBoolConversionError: ",
    "step gives four": "returned a tuple of 4 from step(key, state, action); expected an eniac.envs"
    ".Step of state, observation, reward, terminated, truncated",
    "step gives another type": "is an array of shape (2,) and type int32 from step(); its",
    "step gives a dict": "an observation that is a dict with the keys 'a' from step()",
    "reward has an axis": "a reward that is an array of shape (1,) and type float32 from step(); "
    "expected a number",
    "terminated is a number": "a terminated that is an array of shape () and type float32",
    "truncated is a number": "a truncated that is an array of shape () and type int32",
    "state grows": "is an array of shape (3,) and type float32, and an array of shape (2,)",
    "state changes": "returned a state from step() of another structure than reset() did",
}


@pytest.mark.parametrize("fault", PURE)
def test_what_is_wrong_with_an_environment_in_jax_is_told_before_a_run(fault, tmp_path):
    config = Config(ALGORITHMS["ppo"].default, horizon=9, out=tmp_path / "run")
    call = functools.partial(train, config, Pure(fault))
    told(call, "given: tests.envs.test_faults.Pure", PURE[fault])
    assert not (tmp_path / "run").exists()


def test_an_environment_in_jax_without_fault_is_left_alone():
    env_from(Pure())
    env_from(lambda: Pure(), horizon=3)


def test_drawing_an_environment_in_jax_that_fails_is_told():
    policy = a_policy(BOX, spaces.Discrete(2))
    env = TimeLimit(Pure(), 3)
    told(
        lambda: play(env, policy, jax.random.key(0), draw=True),
        "Pure raised ValueError: no colours in render() (test_faults.py, line ",
    )


# NaN is blamed on what produced it


def seen(time=3, envs=2, **wrong):
    """A rollout, with NaN in the second environment at these times."""
    columns = {
        "observation": np.zeros((time, envs, 2), np.float32),
        "action": np.zeros((time, envs, 1), np.float32),
        **{name: np.zeros((time, envs), np.float32) for name in Trajectory._fields[2:6]},
        **{name: np.zeros((time, envs), bool) for name in Trajectory._fields[6:9]},
        "num_steps": np.asarray(6, np.int32),
    }
    for name, times in wrong.items():
        columns[name][times, 1] = np.nan
    return Trajectory(**columns)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        ({}, "nothing"),
        ({"observation": [1, 2], "action": [1, 2], "reward": [1, 2]}, "observations"),
        ({"action": [1, 2], "reward": [1, 2], "observation": [2]}, "actions"),
        ({"reward": [1, 2], "observation": [2], "action": [2]}, "rewards"),
        ({"log_prob": [0]}, "actions"),
        ({"next_value": [2]}, "observations"),
        ({"next_value": [0], "observation": [1]}, "observations"),
        ({"next_value": [0], "action": [1]}, "observations"),
        ({"next_value": [1], "action": [1]}, "actions"),
    ],
)
def test_what_is_found_is_what_came_first(wrong, found):
    assert NONFINITE[int(nonfinite(seen(**wrong)))] == found


def metrics(rounds):
    """Metrics of rounds, each with the first kind of number that was not finite."""
    return {
        "ran": np.ones(len(rounds), bool),
        "return_mean": np.zeros(len(rounds)),
        "nonfinite": np.array([NONFINITE.index(kind) for kind in rounds]),
    }


@pytest.mark.parametrize(
    ("rounds", "leaves", "words"),
    [
        (["nothing"], [], None),
        (["nothing", "observations"], ["policy"], "The environment X gave observations"),
        (["actions", "observations"], ["policy"], "The policy gave actions"),
        (["rewards", "observations"], ["policy"], "The environment X gave rewards"),
        (["nothing"], ["policy.a", "b"], "NaN or infinity in policy.a, b"),
    ],
)
def test_the_first_round_and_in_it_the_first_cause_is_blamed(rounds, leaves, words):
    found = blame(metrics(rounds), leaves, "X")
    assert found is None if words is None else found[0].startswith(words)


def test_an_evaluation_that_is_paid_nan_is_blamed_on_the_environment():
    told = metrics(["nothing"]) | {"return_mean": np.array([np.nan])}
    assert "to an evaluation" in blame(told, [], "X")[0]


def tiny(**changes):
    """PPO that is quick to compile, and whose steps can be counted by hand."""
    default = ALGORITHMS["ppo"].default
    settings = {
        "hidden": (4,),
        "num_envs": 2,
        "rollout_length": 5,
        "updates_per_round": 2,
        "update": replace(default.update, minibatch=8, passes=1),
        "incumbent": NO_INCUMBENT,
    }
    return replace(default, **(settings | changes))


def test_a_compiled_run_names_the_environment_that_gave_nan(tmp_path, console):
    config = Config(tiny(), horizon=9, epochs=2, out=tmp_path / "run")
    config = replace(config, evaluation=Evaluation(episodes=2))
    with pytest.raises(NonFiniteError) as caught:
        train(config, Pure("observation is NaN"), console=console)
    expected = r"test_faults.Pure gave observations that are NaN or infinite in epoch 1 of seed 0"
    assert re.search(expected, str(caught.value))


# Episodes without an end


def test_an_evaluation_without_an_end_is_cut_and_said(monkeypatch):
    for module in ("eniac.sampling.host", "eniac.sampling.compiled"):
        monkeypatch.setattr(f"{module}.LONGEST_EPISODE", 7)
    asked = Evaluation(episodes=3)
    policy = a_policy(BOX, spaces.Discrete(2))

    class Endless(Faulty):
        def step(self, action):
            return np.zeros(2, np.float32), 1.0, False, False, {}

    host = HostSampler(env_from(Endless), 2)
    compiled = CompiledSampler(Pure("never ends"))
    for found in (
        host.evaluate(jax.random.key(0), policy, asked),
        jax.jit(lambda: compiled.evaluate(jax.random.key(0), policy, asked))(),
    ):
        assert set(np.asarray(found.lengths).tolist()) == {7}
        assert np.asarray(found.cut).all()
    host.close()


def test_that_episodes_were_cut_is_said_once():
    adviser = Adviser(Config(ALGORITHMS["eniac"].default))
    record = {"seed": 0, "epoch": 1, "episodes_cut": 3, "cover/count": 1}
    text = adviser.advice([record])
    assert f"did not end within {LONGEST_EPISODE:,} steps" in text[0]
    assert "--evaluation.horizon" in text[0]
    assert adviser.advice([record | {"epoch": 2, "cover/count": 2}]) == []
    assert adviser.advice([record | {"seed": 1, "episodes_cut": 0}]) == []


# Replacing what fails


def restarting(make, **options):
    source = env_from(make)
    source.configure(restart_failed=True, **options)
    return source


@pytest.mark.parametrize("fault", ["step raises", "reward is None", "second reset raises"])
def test_an_environment_that_fails_is_replaced_and_the_others_go_on(fault):
    Faulty.made = 0
    # The first two that are made fail; those in their place do not.
    with restarting(makes(fault, first=2)).open(3) as envs:
        envs.begin(0)
        when = 6 if "reset" in fault else 3
        for k in range(1, 9):
            step = envs.step(np.zeros(3, int))
            assert step.failed == ((0, 1) if k == when else ())
            assert step.real.tolist() == [k != when, k != when, True]
            expected = k % 6 if k < when else k - when
            assert step.observation[0, 0] == pytest.approx(expected / 100)
            assert step.observation[2, 0] == pytest.approx(k % 6 / 100)
        assert [text.startswith(f"{NAME} (copy ") for text in envs.restarts] == [True] * 2
        assert Faulty.made == 5


def test_an_environment_that_cannot_begin_is_replaced():
    with restarting(makes("reset raises", first=2)).open(2) as envs:
        assert envs.begin(0).shape == (2, 2)
        assert len(envs.restarts) == 2


def test_only_so_many_are_replaced():
    source = restarting(makes("step raises"))
    told(
        lambda: drive(source, steps=99),
        "raised ZeroDivisionError",
        f"No more are replaced: {MOST_RESTARTS} in one rollout were",
    )
    told(lambda: drive(restarting(makes("reset raises"))), "No more are replaced")


def test_a_vector_environment_is_replaced_as_a_whole():
    faults = iter(["step raises", ""])
    source = restarting(lambda: FaultyVector(next(faults)))
    with source.open(2) as envs:
        envs.begin(0)
        steps = [envs.step(np.zeros(2, int)) for _ in range(5)]
    assert [step.failed for step in steps] == [(), (), (0, 1), (), ()]
    assert [step.real.any() for step in steps] == [True, True, False, True, True]


def test_an_envpool_is_replaced_as_a_whole():
    source = find_env("envpool:CartPole-v1", {})
    source.configure(restart_failed=True)
    make, faults = source._make, iter(["raises", None])
    source._make = lambda *a: make(*a) if (fault := next(faults)) is None else Pool(fault, make(*a))
    with source.open(2) as envs:
        envs.begin(0)
        failed = [envs.step(np.zeros(2, int)).failed for _ in range(5)]
    assert failed == [(), (), (0, 1), (), ()]


def test_a_process_that_dies_or_hangs_is_replaced(tmp_path):
    source = restarting(
        functools.partial(dies_once, str(tmp_path)), vectorization="async", timeout=20
    )
    with source.open(3) as envs:
        envs.begin(0)
        steps = [envs.step(np.zeros(3, int)) for _ in range(5)]
    (died,) = steps[2].failed
    assert [step.failed for step in steps] == [(), (), (died,), (), ()]
    expected = [0.02 if i == died else 0.05 for i in range(3)]
    assert steps[-1].observation[:, 0].tolist() == pytest.approx(expected)
    assert "died with its process" in envs.restarts[0]


def test_what_was_given_ready_made_cannot_be_replaced():
    for given in (Faulty(), FaultyVector()):
        with pytest.raises(ConfigError, match="was given ready-made, and nobody here can make ano"):
            restarting(given)


@pytest.fixture(scope="module")
def broken_rollout():
    """A rollout of nine steps in which the first environment fails in the third, and the second in
    the second of its second episode."""

    class Late(Faulty):
        def step(self, action):
            fails = {"first": (1, 3), "second": (2, 2)}.get(self.fault)
            if fails == (self.episode, self.time + 1):
                raise ZeroDivisionError
            return super().step(action)

    faults = iter(["first", "second", "", "", ""])
    sampler = HostSampler(restarting(lambda: Late(next(faults))), 3)
    policy = a_policy(BOX, spaces.Discrete(2))
    envs = sampler.begin(jax.random.key(0), 3)
    _, rollout = sampler.rollout(jax.random.key(1), policy, envs, 9)
    return sampler, rollout


def test_the_episode_of_an_environment_that_failed_is_not_learned_from(broken_rollout):
    _, rollout = broken_rollout
    expected = np.ones((9, 3), bool)
    expected[:3, 0] = False  # all of its first episode
    expected[6:8, 1] = False  # its second one, that began after six steps; the first is kept
    np.testing.assert_array_equal(rollout.on_policy, expected)
    assert int(rollout.num_steps) == 9 * 3 - 2


def test_the_next_episode_is_kept_apart_from_one_that_failed(broken_rollout):
    _, rollout = broken_rollout
    ends = np.zeros((9, 3), bool)
    ends[2, 0], ends[8, 0] = True, True  # failed; its own end, six steps later
    ends[5, 1], ends[7, 1] = True, True
    ends[5, 2] = True
    np.testing.assert_array_equal(rollout.truncated, ends)
    assert not rollout.terminated.any()
    assert np.isfinite(rollout.next_value).all()
    assert (rollout.reward[[2, 7], [0, 1]] == 0).all()


def test_replaced_environments_are_counted_and_told(broken_rollout):
    sampler, _ = broken_rollout
    assert int(sampler.counts()["restarted_envs"]) == 2
    events = sampler.events()
    assert len(events) == 2
    assert all("raised ZeroDivisionError" in text for text in events)
    assert all(text.endswith("It was replaced by a new one.") for text in events)
    assert (int(sampler.counts()["restarted_envs"]), sampler.events()) == (0, [])


def test_a_rollout_that_is_lost_as_a_whole_is_taken_again():
    sampler = HostSampler(restarting(makes("step raises", first=1)), 1)
    policy = a_policy(BOX, spaces.Discrete(2))
    envs = sampler.begin(jax.random.key(0), 1)
    _, rollout = sampler.rollout(jax.random.key(1), policy, envs, 3)
    assert rollout.on_policy.all()
    assert int(rollout.num_steps) == 2 + 3


def test_an_evaluation_plays_an_episode_that_failed_again():
    sampler = HostSampler(restarting(makes("step raises", first=1)), 2)
    policy = a_policy(BOX, spaces.Discrete(2))
    found = sampler.evaluate(jax.random.key(0), policy, Evaluation(episodes=4, horizon=6))
    assert found.lengths.tolist() == [6] * 4
    assert int(sampler.counts()["restarted_envs"]) == 1


# Whole runs


class Flaky(Faulty):
    """Raises in one step of the whole of its process, when `left` has come to zero."""

    left = 10**9

    def step(self, action):
        Flaky.left -= 1
        if Flaky.left == 0:
            raise ZeroDivisionError("only once")
        return super().step(action)


def flaky_config(path, **changes):
    config = Config(tiny(), epochs=3, checkpoint_every=10, out=path, **changes)
    return replace(config, evaluation=Evaluation(episodes=2))


def test_a_run_whose_environment_fails_can_be_resumed_and_ends_the_same(tmp_path, console):
    Flaky.left = 10**9
    whole = train(flaky_config(tmp_path / "whole"), Flaky, console=console)
    # 32 steps to see whether it is deterministic, then 20 to learn and 12 to judge in each epoch.
    Flaky.left = 32 + 2 * 32 + 10
    with pytest.raises(RunError) as caught:
        train(flaky_config(tmp_path / "run"), Flaky, console=console)
    text = str(caught.value)
    assert "test_faults.Flaky (copy " in text
    assert "raised ZeroDivisionError: only once in step()" in text
    assert "It was in epoch 3." in text
    assert text.endswith("epoch-000002.safetensors.")
    assert load_run(tmp_path / "run", Flaky).progress.epoch == 2
    resume(tmp_path / "run", Flaky, console=console)
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == (
        whole.path / "metrics.jsonl"
    ).read_bytes()


def test_a_run_with_restarts_goes_on_and_says_so(tmp_path, console):
    Flaky.left = 60
    config = flaky_config(tmp_path / "run", restart_failed_envs=True)
    result = train(config, Flaky, console=console)
    assert result.progress.epoch == 3
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["restarted_envs"] for line in lines) == 1
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    warnings = manifest["sessions"][-1]["warnings"]
    assert any("It was replaced by a new one." in text for text in warnings)
    assert "only once" in console.file.getvalue()


def test_settings_that_make_no_sense_are_refused(unchecked):
    for name, value in (("env_timeout", 0), ("env_timeout", -1.0), ("env_timeout", "soon")):
        with pytest.raises(ConfigError, match=name):
            Config(tiny(), **{name: value})
    with pytest.raises(ConfigError, match="restart_failed_envs"):
        Config(tiny(), restart_failed_envs="false")
