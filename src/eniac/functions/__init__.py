"""Function classes F of the provable algorithms."""

from eniac.functions.base import FunctionClass as FunctionClass
from eniac.functions.base import tangent_features as tangent_features
from eniac.functions.linear import Linear as Linear
from eniac.functions.tabular import Aggregation as Aggregation
from eniac.functions.tabular import Tabular as Tabular
