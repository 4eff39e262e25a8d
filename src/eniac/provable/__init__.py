"""The provable algorithms: ENIAC with SPI and NPG, SAMPLE and COMPUTE, and their baselines."""

from eniac.provable.learner import ProvableLearner as ProvableLearner
from eniac.provable.settings import Provable as Provable
from eniac.provable.settings import ProvableRow as ProvableRow
from eniac.provable.table import PROVABLE as PROVABLE
