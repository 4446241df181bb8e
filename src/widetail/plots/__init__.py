"""Figures and tables. Matplotlib is imported when something is drawn; `pip install widetail[plot]` brings it.

Every figure takes `ax=None` and returns the Axes it drew on; calling again with the same axes adds a model.
"""

from widetail.plots._calibration import coverage_curve as coverage_curve
from widetail.plots._calibration import pit_histogram as pit_histogram
from widetail.plots._calibration import reliability_curve as reliability_curve
from widetail.plots._calibration import reliability_diagram as reliability_diagram
from widetail.plots._comparison import cdf_differences as cdf_differences
from widetail.plots._comparison import comparison as comparison
from widetail.plots._effects import dependences as dependences
from widetail.plots._effects import effects as effects
from widetail.plots._functions import density_tails as density_tails
from widetail.plots._functions import predictive_band as predictive_band
from widetail.plots._outliers import left_out as left_out
from widetail.plots._table import ResultTable as ResultTable
