"""Function classes F of the provable algorithms."""

from eniac.functions.base import FunctionClass, tangent_features
from eniac.functions.finite import Finite
from eniac.functions.glm import GeneralisedLinear
from eniac.functions.linear import Linear
from eniac.functions.make import CLASSES, find_function_class, make_function_class
from eniac.functions.network import Network
from eniac.functions.tabular import Aggregation, Tabular
from eniac.functions.trees import Trees

__all__ = [
    "CLASSES",
    "Aggregation",
    "Finite",
    "FunctionClass",
    "GeneralisedLinear",
    "Linear",
    "Network",
    "Tabular",
    "Trees",
    "find_function_class",
    "make_function_class",
    "tangent_features",
]
