"""The layers of the package: every import goes down."""

import ast
from pathlib import Path

import pytest

import eniac

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
    ("exports",),
    ("training", "agent"),
    ("agents",),
    ("cli",),
)
"""From the bottom to the top. A module imports from its own layer and from those before it."""

LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FRONT = {"", "__init__"}
"""`eniac/__init__.py` has names of all layers, imported when they are used, and the version."""

MODULES = sorted(ROOT.rglob("*.py"))


def _imports(node):
    """The modules that are imported anywhere in `node`, but for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _imports(ast.Module([other], []))
        elif isinstance(child, ast.Import):
            yield from (name.name for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            if child.module == "eniac":
                yield from (f"eniac.{name.name}" for name in child.names)
            yield child.module
        else:
            yield from _imports(child)


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
        name for name in _imports(ast.parse(path.read_text())) if name.split(".")[0] == "eniac"
    }
    up = {name for name in found if LEVEL.get(_layer(name), -1) > LEVEL[own]}
    assert up == set()
