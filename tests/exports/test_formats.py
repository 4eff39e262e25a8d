"""What leaves the library acts as the policy, over every kind of space."""

import json
from functools import cache

import jax
import numpy as np
import onnx
import onnxruntime
import pytest
import scipy.stats
from gymnasium.spaces import Dict, Discrete

from eniac import ConfigError, RunError
from eniac.exports import numpy_policy
from eniac.exports.comparison import HUGE, observations_to_try, own_answers, require_same
from eniac.exports.numpy_files import numpy_files
from eniac.exports.onnx_graph import inputs_of, onnx_file
from eniac.runs.tensors import flatten, tensor_bytes
from eniac.spaces import Spaces
from exports.kinds import ACTIONS, OBSERVATIONS, SPACES, VECTOR, own_actions, policy_of, rows, table

STATES = Spaces(Discrete(5), Discrete(3))


def with_onnx(policy, spaces):
    """Answers to batches, by the graph in onnxruntime."""
    content = onnx_file(policy, spaces, {"seed": 7})
    model = onnx.ModelProto.FromString(content)
    assert (model.ir_version, [(x.domain, x.version) for x in model.opset_import]) == (
        8,
        [("", 18)],
    )
    session = onnxruntime.InferenceSession(content)
    assert session.get_modelmeta().custom_metadata_map == {"seed": "7"}
    names = [output.name for output in session.get_outputs()]

    def answer(observations):
        given = {}
        for each in inputs_of(spaces.observation):
            array = observations
            for key in each.path:
                array = array[key]
            given[each.name] = array
        return dict(zip(names, session.run(None, given), strict=True))

    return answer


@cache
def numpy_for(seen, done):
    """The Python file's policy for these kinds of spaces."""
    spaces = Spaces(OBSERVATIONS[seen], ACTIONS[done])
    return in_numpy(policy_of(spaces), spaces, deterministic=False)


def in_numpy(policy, spaces, deterministic=True):
    """The policy of the Python file, from its own files."""
    tensors = tensor_bytes(flatten(policy), {})
    layout = numpy_files(policy, spaces, tensors, deterministic)["policy.json"]
    return numpy_policy.Policy(numpy_policy.read_safetensors(tensors), json.loads(layout))


def with_numpy(policy, spaces):
    made = in_numpy(policy, spaces)
    return lambda observations: {"action": made(observations), **made.distribution(observations)}


@cache
def case(kind):
    """Spaces, a policy for them, observations, and what the policy itself answers."""
    spaces = {"table": STATES, "as they are": Spaces(VECTOR, ACTIONS["box"])}.get(kind)
    spaces = spaces or SPACES[kind]
    policy = table() if kind == "table" else policy_of(spaces, normalise=kind != "as they are")
    observations = observations_to_try(spaces.observation, num=40, seed=3)
    ours = own_answers(policy, spaces, observations)
    return spaces, policy, observations, ours, own_actions(policy, spaces, observations)


@pytest.mark.parametrize("kind", [*SPACES, "table", "as they are"])
@pytest.mark.parametrize("by", [with_onnx, with_numpy], ids=["onnx", "numpy"])
def test_actions_are_those_of_the_policy(kind, by):
    spaces, policy, observations, ours, own = case(kind)
    answer = by(policy, spaces)
    found = answer(observations)
    assert found.keys() == ours.keys()
    assert (found["action"].dtype, found["action"].shape) == (own.dtype, own.shape)
    if own.dtype.kind == "f":
        np.testing.assert_allclose(found["action"], own, rtol=1e-4, atol=1e-4)
    else:
        np.testing.assert_array_equal(found["action"], own)
    assert len(np.unique(own.reshape(len(own), -1), axis=0)) > 1, "nothing was compared"
    assert all(spaces.action.contains(np.asarray(action)) for action in found["action"])
    for name in ours.keys() - {"action"}:
        a, b = (x.reshape((len(x), -1)).astype(np.float64) for x in (found[name], ours[name]))
        scale = np.maximum(1.0, np.abs(b).max(axis=1))  # observations far away have large answers
        assert (np.abs(a - b).max(axis=1) / scale).max() < 1e-4
    for place in (slice(0, 1), slice(5, 12)):  # any number of rows
        part = answer(rows(observations, place))["action"]
        np.testing.assert_allclose(part, found["action"][place], rtol=1e-5, atol=1e-5)


def test_what_is_tried_has_every_extreme():
    tried = observations_to_try(Dict({**OBSERVATIONS, "tuple": OBSERVATIONS["tuple"]}), num=2)
    assert np.all(tried["vector"][2] == 0)
    for row, value in ((3, -1), (4, 1), (5, -HUGE), (6, HUGE)):
        np.testing.assert_array_equal(tried["vector"][row], np.float32(value))
    assert np.isfinite(tried["float16"]).all()
    assert [x.tolist() for x in tried["image"].reshape(7, -1)[[2, 3, 4], 0]] == [0, 0, 255]
    assert tried["discrete"][2:].tolist() == [0, -2, 2, -2, 2]
    assert tried["multi-discrete"][4].tolist() == [[2, 3], [1, 1]]
    np.testing.assert_array_equal(tried["tuple"][0][4], np.float32([HUGE, HUGE]))
    for name, space in OBSERVATIONS.items():
        if name not in ("dict", "tuple"):
            assert tried[name].dtype == space.dtype
            assert all(space.contains(np.asarray(x)) for x in tried[name][:5])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x | {"logits": x["logits"] * 1.01}, "logits is off by 1.0e-02"),
        (lambda x: x | {"logits": x["logits"] * np.nan}, "logits is off by"),
        (lambda x: x | {"logits": x["logits"][:-1]}, r"logits is float32 of shape \(20, 4\)"),
        (lambda x: {"action": x["action"]}, "logits is missing"),
        (lambda x: x | {"action": x["action"][::-1]}, "action is not the most likely one"),
        (lambda x: x | {"action": x["action"].astype(np.int32)}, "action is int32 of shape"),
    ],
)
def test_what_does_not_act_as_the_policy_is_found_out(change, words):
    answer, policy, spaces = answered()
    require_same("it", lambda _: answer, policy, spaces)
    with pytest.raises(RunError, match=words):
        require_same("it", lambda _: change(answer), policy, spaces)


@cache
def answered():
    spaces = Spaces(VECTOR, ACTIONS["discrete"])
    policy = policy_of(spaces)
    return own_answers(policy, spaces, observations_to_try(VECTOR)), policy, spaces


def test_where_the_policy_itself_has_no_answer_none_is_asked():
    spaces = Spaces(VECTOR, ACTIONS["box-unbounded"])
    policy = jax.tree.map(lambda x: 1e6 * x, policy_of(spaces, normalise=False))
    observations = observations_to_try(VECTOR)
    assert np.isnan(own_answers(policy, spaces, observations)["mean"][-2:]).any()
    made = in_numpy(policy, spaces)
    assert np.isfinite(made(observations[:-2])).all()
    assert onnx_file(policy, spaces, {})


def test_inputs_that_would_have_one_name_are_refused():
    space = Dict({"a.b": VECTOR, "a": Dict({"b": VECTOR})})
    with pytest.raises(ConfigError, match=r"both be the input 'observation\.a\.b'"):
        inputs_of(space)


# The Python file


@pytest.mark.parametrize("name", ["box", "discrete", "multi-discrete", "multi-binary"])
def test_random_actions_have_the_distribution_of_the_policy(name):
    made = numpy_for("vector", name)
    made.rng = np.random.default_rng(0)
    num = 20_000
    observation = np.array([0.2, -0.4, 0.1], np.float32)
    drawn = made(np.tile(observation, (num, 1)), deterministic=False)
    law = made.distribution(observation)
    if name == "box":
        exact = scipy.stats.norm(law["mean"], law["std"])
        for i in range(2):
            share = np.mean(drawn[:, i] < law["mean"][i])
            low, high = ACTIONS["box"].low[i], ACTIONS["box"].high[i]
            assert share == pytest.approx(0.5, abs=0.02)
            assert np.mean(drawn[:, i] == low) == pytest.approx(exact.cdf(low)[i], abs=0.02)
            assert np.mean(drawn[:, i] == high) == pytest.approx(exact.sf(high)[i], abs=0.02)
    elif name == "multi-binary":
        chance = 1 / (1 + np.exp(-law["logits"]))
        np.testing.assert_allclose(drawn.mean(axis=0), chance, atol=0.02)
    else:
        nvec = [4] if name == "discrete" else ACTIONS[name].nvec.ravel()
        start = [3] if name == "discrete" else ACTIONS[name].start.ravel()
        columns = drawn.reshape((num, -1)) - start
        parts = np.split(law["logits"], np.cumsum(nvec)[:-1])
        for column, logits in zip(columns.T, parts, strict=True):
            chance = np.exp(logits - logits.max())
            share = np.bincount(column, minlength=len(logits)) / num
            np.testing.assert_allclose(share, chance / chance.sum(), atol=0.02)
    assert np.ptp(drawn.reshape((num, -1)), axis=0).min() > 0
    undecided = made(np.tile(observation, (50, 1)), deterministic=None)
    assert np.ptp(undecided.reshape((50, -1)), axis=0).max() > 0, "it is not deterministic"
    again = made(np.tile(observation, (50, 1)))
    np.testing.assert_allclose(
        again, np.tile(made(observation), (50,) + (1,) * (again.ndim - 1)), 1e-5
    )


def test_one_observation_has_one_action_and_lists_will_do():
    made = numpy_for("dict", "box-without-axes")
    picture = np.zeros((16, 16, 1), int).tolist()
    one = {"place": [0.5, -0.5], "door": 2, "inside": {"bits": (0, 1), "picture": picture}}
    action = made(one)
    assert isinstance(action, np.ndarray)
    assert ACTIONS["box-without-axes"].contains(action)
    assert made.distribution(one).keys() == {"mean", "std"}
    assert isinstance(numpy_for("discrete", "discrete")(-1), np.int64)


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (
            "vector",
            [0.0, 0.0],
            r"the observation is float64 of shape \(2,\); it must be numbers of",
        ),
        ("vector", "left", "it must be numbers of shape"),
        ("vector", [0.0, np.nan, 0.0], "the observation has NaN"),
        ("discrete", 3, r"no element of its space, which has \[5\] whole numbers from \[-2\] on"),
        ("discrete", 0.5, "no element of its space"),
        ("tuple", ([0.0, 0.0],), "the observation has no '1'"),
        ("tuple", ([0.0, 0.0], [[0, 1, 0]]), "one in some parts and a batch in others"),
        ("dict", {"door": 1}, "the observation has no 'inside/bits'"),
        ("dict", 3.0, "the observation has no 'door'"),
        ("table", 5, r"the number of a state is not in 0\.\.4"),
    ],
)
def test_what_is_no_observation_is_refused_in_a_line(kind, given, words):
    done = {"dict": "box-without-axes"}.get(kind, "discrete")
    made = in_numpy(table(), STATES) if kind == "table" else numpy_for(kind, done)
    with pytest.raises(ValueError, match=words) as error:
        made(given)
    assert "\n" not in str(error.value)
