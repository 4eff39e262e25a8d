"""The provable algorithms: ENIAC with SPI and NPG, SAMPLE and COMPUTE, and their baselines."""

from eniac.provable.config import ProvableConfig as ProvableConfig
from eniac.provable.learner import ProvableLearner as ProvableLearner
from eniac.provable.policies import StateIndexEnv as StateIndexEnv
from eniac.provable.policies import TablePolicy as TablePolicy
from eniac.provable.resolved import ResolvedProvable as ResolvedProvable
from eniac.provable.table import PROVABLE as PROVABLE
from eniac.provable.table import ProvableSpec as ProvableSpec
