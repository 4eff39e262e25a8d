"""The layers of the package: every import goes down."""

import ast
from pathlib import Path

import pytest

import eniac
from programs import load_program

ROOT = Path(eniac.__file__).parent

LAYERS = (
    ("errors",),
    ("cores", "lazy", "memory"),
    ("boxes", "child_process"),
    ("spaces", "draws", "minibatches"),
    ("envs",),
    ("networks",),
    ("policies",),
    ("widths",),
    ("functions",),
    ("sampling",),
    ("features", "buffer", "cover", "bonuses", "rewards", "updates", "visits"),
    ("actors",),
    ("incumbent",),
    ("algorithm1",),
    ("deep",),
    ("theory",),
    ("provable",),
    ("algorithms",),
    ("runs",),
    ("report",),
    ("reproduce",),
    ("page",),
    ("exports",),
    ("training", "agent"),
    ("agents",),
    ("cli",),
)
"""From the bottom to the top. A module imports from its own layer and from those before it."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FRONT = {"", "__init__", "__main__"}
"""`eniac/__init__.py` has names of all layers, imported when they are used, and the version;
`eniac/__main__.py` is the command."""

MODULES = sorted(ROOT.rglob("*.py"))

GRAPH = load_program("tools/package_graph.py")


def _layer(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_every_module_has_a_layer():
    names = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
    assert names - FRONT == LEVEL.keys()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if own in FRONT:
        return
    found = {
        name for name in GRAPH.imports(ast.parse(path.read_text())) if name.split(".")[0] == "eniac"
    }
    up = {name for name in found if LEVEL.get(_layer(name), -1) > LEVEL[own]}
    assert up == set()


def test_the_picture_of_the_packages_is_that_of_the_imports():
    drawn = GRAPH.draw(GRAPH.package_graph())
    assert GRAPH.PICTURE.read_text() == drawn, "run `python tools/package_graph.py`"


def test_an_arrow_that_follows_from_others_is_not_drawn():
    graph = {"cli": {"runs", "envs"}, "runs": {"envs"}, "envs": set()}
    assert GRAPH.reduced(graph) == {"cli": {"runs"}, "runs": {"envs"}, "envs": set()}
    assert GRAPH.levels(graph) == {"envs": 0, "runs": 1, "cli": 2}
