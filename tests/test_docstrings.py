"""The examples in the docstrings of public names give what they say."""

import contextlib
import copy
import doctest
import io

import gymnasium
import pytest

import eniac
from eniac.agents import AGENTS

TINY = {
    "num_envs": 2,
    "rollout_length": 4,
    "updates_per_round": 1,
    "hidden": (4,),
    "visit_steps": 8,
    "visit_envs": 2,
    "fit_episodes": False,
    "extra_rounds": 0,
    "horizon": 4,
    "evaluation": {"episodes": 2},
    "incumbent": {"episodes": 1, "share": 0.0},
}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

# Of the classes that are made of the table one of each kind: their docstrings are all alike.
PUBLIC = [name for name in eniac.__all__ if name not in AGENTS.keys() - {"ZERO", "NPG"}]
EXAMPLES = [
    test
    for name in PUBLIC
    for test in doctest.DocTestFinder().find(getattr(eniac, name), name)
    if any(not example.options.get(doctest.SKIP) for example in test.examples)
]
"""One for each docstring that has any."""


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """An agent that has learned for an epoch, and a folder with it as a run."""
    folder = tmp_path_factory.mktemp("docstrings")
    agent = eniac.ENIAC("DeepSea-4", **TINY, bonus={"outer": 2}).learn(epochs=1)
    agent.save(folder / "run")
    return agent, folder


@pytest.fixture
def names(learned, tmp_path):
    """What the examples take for granted."""
    agent, folder = learned
    agent = copy.copy(agent)
    agent._records, agent._timings = list(agent._records), list(agent._timings)
    (tmp_path / "run").symlink_to(folder / "run")
    env = gymnasium.make("eniac/DeepSea-v0", size=4)
    observation, _ = env.reset(seed=0)
    return {
        "eniac": eniac,
        "gymnasium": gymnasium,
        "agent": agent,
        "env": env,
        "observation": observation,
        "folder": tmp_path,
    }


@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name)
def test_the_examples_of_a_docstring_are_true(test, names):
    test.globs |= names
    told = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    # doctest prints to a standard output of its own.
    with contextlib.redirect_stdout(told):
        failed, tried = runner.run(test, out=told.write)
    assert (failed, tried > 0) == (0, True), told.getvalue()


def test_what_users_call_most_has_examples():
    shown = {test.name for test in EXAMPLES}
    verbs = ("learn", "predict", "evaluate", "bonus", "save", "diagnose", "plot", "metrics")
    assert {f"Agent.{verb}" for verb in verbs} <= shown
    assert {"Agent", "load", "load_policy", "evaluate_run", "ZERO", "NPG", "TensorBoard"} <= shown
