"""Programs of the repository that are no part of the package, as modules."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def load_program(path):
    """The program at `path`, seen from the top of the repository."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
