"""A policy as an ONNX graph, from the observation to the action that `env.step` takes.

jax2onnx traces the policy: encoding, normalisation, network, distribution. Around that stand the
types of the environment's own spaces, and what `eniac.spaces.to_env` does to an action, node by
node: JAX has no 64-bit numbers; and jax2onnx 0.17.1 takes the wrong axis for an argmax over the
last one under vmap, and says nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import jax
import numpy as np
from gymnasium import spaces as gym

import eniac
from eniac.errors import ConfigError
from eniac.exports.comparison import Answers, parameters, require_same
from eniac.spaces import Path, Space, Spaces, action_bounds, empty, leaves, stored_dtype

OPSET, IR_VERSION = 18, 8
"""Old enough for onnxruntime 1.15."""
BATCH = "batch"
"""The name of the axis of observations, of which there may be any number."""


class Input(NamedTuple):
    """An array of an observation as an input of a graph."""

    name: str
    path: Path
    space: Space


def inputs_of(space: Space) -> list[Input]:
    """The inputs of a graph that reads observations of `space`: `observation`, or for the parts of
    a Dict or Tuple `observation.KEY` and so on."""
    found = [
        Input(".".join(["observation", *map(str, path)]), path, leaf)
        for path, leaf in leaves(space)
    ]
    names = [each.name for each in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(
            f"two parts of the observation would both be the input {min(twice)!r} of the ONNX "
            "graph; let no key of the Dict space have a dot in it."
        )
    return found


def onnx_file(policy: Any, spaces: Spaces, about: Mapping[str, Any]) -> bytes:
    """The graph of `policy` as a file; `about` goes into its metadata.

    Its inputs are the arrays of an observation, in the types of the space, with an axis for the
    batch in front. Its outputs are `action` and the parameters of the distribution. **Raises**
    `ConfigError` if what it takes is not installed, `RunError` if it does not act as the policy.
    """
    require_packages()
    import onnx
    from onnx import helper

    inputs = inputs_of(spaces.observation)
    stored = [f"stored_{i}" for i in range(len(inputs))]
    traced, names = _traced(policy, spaces, stored)
    head, tail = _Nodes("head"), _Nodes("tail")
    for name, each in zip(stored, inputs, strict=True):
        head.cast(each.name, stored_dtype(each.space), name)
    # Of a mean and its std, the mean is the first.
    tail.add("Identity", tail.action(spaces.action, names[0]), output="action")
    graph = helper.make_graph(
        [*head.nodes, *traced.node, *tail.nodes],
        "policy",
        [_value(each.name, each.space) for each in inputs],
        [_value("action", spaces.action), *traced.output],
        [*traced.initializer, *tail.constants],
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="eniac",
        producer_version=eniac.__version__,
    )
    helper.set_model_props(made, {name: str(value) for name, value in about.items()})
    onnx.checker.check_model(made, full_check=True)
    content = made.SerializeToString()
    require_same("the ONNX graph", _runtime(content, inputs), policy, spaces)
    return content


def _value(name: str, space: Space) -> Any:
    """A batch of elements of `space` as an input or output."""
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(space.dtype))
    return helper.make_tensor_value_info(name, kind, [BATCH, *(space.shape or ())])


def require_packages() -> None:
    """Raises `ConfigError` if what makes and runs graphs is not installed."""
    try:
        import jax2onnx  # noqa: F401
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"format is 'onnx', which needs the package {error.name or error}: install it with "
            "`pip install 'eniac[onnx]'`."
        ) from error


def _traced(policy: Any, spaces: Spaces, inputs: list[str]) -> tuple[Any, list[str]]:
    """The graph from the arrays of an observation, as stored, to the parameters of the
    distribution, and their names."""
    from jax2onnx import to_onnx

    rows, structure = jax.tree.flatten(empty(spaces.observation, 1))

    def answer(*rows: Any) -> dict[str, Any]:
        return parameters(policy, spaces.action, jax.tree.unflatten(structure, rows))

    outputs = list(jax.eval_shape(answer, *rows))
    like = [jax.ShapeDtypeStruct((BATCH, *row.shape[1:]), row.dtype) for row in rows]  # pyright: ignore[reportArgumentType]
    with _quiet():
        model = to_onnx(
            lambda *rows: tuple(answer(*rows).values()),
            like,
            opset=OPSET,
            input_names=inputs,
            output_names=outputs,
        )
    return model.graph, outputs


@contextmanager
def _quiet() -> Iterator[None]:
    """jax2onnx leaves out the types of some values inside, of which onnx_ir warns by the dozen."""
    logger = logging.getLogger("onnx_ir")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _runtime(content: bytes, inputs: Sequence[Input]) -> Callable[[Any], Answers]:
    """Answers by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content)
    names = [output.name for output in session.get_outputs()]

    def answer(observations: Any) -> Answers:
        given = {each.name: reduce(getitem, each.path, observations) for each in inputs}
        found = map(np.asarray, session.run(None, given))
        return dict(zip(names, found, strict=True))

    return answer


class _Nodes:
    """Nodes of a graph, one after another, and their constants; `name` is that of their values."""

    def __init__(self, name: str):
        self.name = name
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, op: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """The name of what the operator `op` makes of its inputs: names, or constant arrays."""
        from onnx import helper

        output = output or f"{self.name}_{len(self.nodes)}"
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(op, names, [output], **attributes))
        return output

    def constant(self, array: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"{self.name}_constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, x: str, dtype: np.dtype[Any], output: str | None = None) -> str:
        from onnx import helper

        return self.add("Cast", x, output=output, to=helper.np_dtype_to_tensor_dtype(dtype))

    def action(self, space: Space, x: str) -> str:
        """The most likely action for `env.step`, of the mean, logits or probabilities `x`."""
        dtype = np.dtype(space.dtype)
        if isinstance(space, gym.Box):
            low, high = action_bounds(space, dtype)
            x = self.cast(x, low.dtype)
            x = self.add("Min", self.add("Max", x, low[None]), high[None])
            return self.cast(x if dtype.kind == "f" else self.add("Round", x), dtype)
        if isinstance(space, gym.MultiBinary):
            return self.cast(self.add("Greater", x, np.zeros((), np.float32)), dtype)
        if isinstance(space, gym.Discrete):
            best = self.add("ArgMax", x, axis=1, keepdims=0)
            return self.cast(self.add("Add", best, np.asarray(space.start, np.int64)), dtype)
        assert isinstance(space, gym.MultiDiscrete)
        sizes = space.nvec.ravel()
        best = [
            self.add("ArgMax", self._columns(x, end - num, end), axis=1, keepdims=1)
            for end, num in zip(np.cumsum(sizes), sizes, strict=True)
        ]
        x = self.add("Concat", *best, axis=1)
        x = self.add("Add", x, space.start.ravel().astype(np.int64)[None])
        return self.cast(self.add("Reshape", x, np.asarray([-1, *space.shape], np.int64)), dtype)

    def _columns(self, x: str, start: Any, end: Any) -> str:
        return self.add("Slice", x, *(np.asarray([i], np.int64) for i in (start, end, 1)))
