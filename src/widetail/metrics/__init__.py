"""Proper scores, calibration and detection; units and conventions are in each docstring.

Of distributions of a real target: `log_score`, `nll`, `rmse`, `crps`, `interval_score`, `pit`, `coverage`,
`coverage_of_steps`. Of class probabilities: `nll_from_probabilities`, `accuracy`, `brier`, `ece`. Of
out-of-distribution scores: `auroc`.
"""

from widetail.metrics._classification import Reliability as Reliability
from widetail.metrics._classification import accuracy as accuracy
from widetail.metrics._classification import brier as brier
from widetail.metrics._classification import ece as ece
from widetail.metrics._classification import nll_from_probabilities as nll_from_probabilities
from widetail.metrics._classification import reliability as reliability
from widetail.metrics._detection import auroc as auroc
from widetail.metrics._detection import predictive_entropy as predictive_entropy
from widetail.metrics._inputs import Array as Array
from widetail.metrics._inputs import real_array as real_array
from widetail.metrics._regression import coverage as coverage
from widetail.metrics._regression import coverage_of_interval as coverage_of_interval
from widetail.metrics._regression import coverage_of_steps as coverage_of_steps
from widetail.metrics._regression import crps as crps
from widetail.metrics._regression import crps_from_quantiles as crps_from_quantiles
from widetail.metrics._regression import crps_from_samples as crps_from_samples
from widetail.metrics._regression import crps_normal as crps_normal
from widetail.metrics._regression import crps_student_t as crps_student_t
from widetail.metrics._regression import interval_score as interval_score
from widetail.metrics._regression import log_score as log_score
from widetail.metrics._regression import nll as nll
from widetail.metrics._regression import pit as pit
from widetail.metrics._regression import rmse as rmse
