"""Types and shapes are checked whenever the tests call something, and never when users do."""

import ast
import builtins
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import eniac
from eniac.networks import Linear
from eniac.theory.planning import Model
from eniac.widths.exact import bonus_from_unknown

ROOT = Path(eniac.__file__).parent
SHAPES = {"Bool", "Float", "Inexact", "Int", "Integer", "Key", "Num", "Real", "Shaped", "UInt"}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: bonus_from_unknown(np.ones(3, bool), 0.9), "parameter 'unknown'"),
        (lambda: bonus_from_unknown(np.ones((3, 2)), 0.9), "parameter 'unknown'"),
        (lambda: Linear(jax.random.key(0), 2, 3)(jnp.ones((2, 2))), "parameter 'x'"),
        (
            lambda: Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), np.array([[1.0, 0.0]]), 0.9),
            "parameter 'start'",
        ),
    ],
    ids=["shape", "dtype", "method", "dataclass"],
)
def test_a_wrong_array_is_refused(call, words):
    with pytest.raises(jaxtyping.TypeCheckError, match=words):
        call()


def test_sizes_that_differ_are_refused():
    with pytest.raises(jaxtyping.TypeCheckError, match=r"states=2"):
        Model(np.full((2, 1, 2), 0.5), np.zeros((3, 1)), np.array([1.0, 0.0]), 0.9)


@pytest.mark.usefixtures("unchecked")
def test_what_is_unchecked_is_not_refused():
    assert bonus_from_unknown(np.ones(3, bool), 0.9).shape == (3,)


def test_users_are_not_checked_and_need_no_beartype():
    code = (
        "import sys, numpy; from eniac.widths.exact import bonus_from_unknown; "
        "print(bonus_from_unknown(numpy.ones(3, bool), 0.9).shape, 'beartype' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "(3,) False"


def _shapes_left_out(path):
    """Lines of functions whose shapes are annotated with a name that is not there in time."""
    module = ast.parse(path.read_text())
    bound = dict.fromkeys(dir(builtins), 0)  # names, and the lines from which on they are there
    for node in module.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {name.asname or name.name: node.lineno for name in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            bound[node.name] = node.end_lineno
        elif isinstance(node, ast.Assign):
            bound |= {name.id: node.lineno for name in _names(node)}
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef):
            arguments = [node for node in ast.walk(function.args) if isinstance(node, ast.arg)]
            for annotation in (*(one.annotation for one in arguments), function.returns):
                names = {name.id for name in _names(annotation)}
                there = all(bound.get(name, sys.maxsize) < function.lineno for name in names)
                if names & SHAPES and not there:
                    yield f"{path.relative_to(ROOT)}:{function.lineno}"


def _names(node):
    return [] if node is None else [x for x in ast.walk(node) if isinstance(x, ast.Name)]


def test_no_shape_goes_unchecked_because_a_name_in_its_annotation_is_not_there():
    # jaxtyping evaluates annotations when a function is defined, and takes one for Any that has a
    # name which only type checkers import, or which is defined further down.
    assert [line for path in sorted(ROOT.rglob("*.py")) for line in _shapes_left_out(path)] == []
