"""The provable algorithms: ENIAC with SPI and NPG, SAMPLE and COMPUTE, and their baselines."""

from eniac.provable.config import Provable as Provable
from eniac.provable.config import ProvableRow as ProvableRow
from eniac.provable.learner import ProvableLearner as ProvableLearner
from eniac.provable.table import PROVABLE as PROVABLE
