"""Priors of the readout variance."""

from widetail.priors._base import ScalePrior as ScalePrior
from widetail.priors._base import prior_from_config as prior_from_config
from widetail.priors._burr import BurrXII as BurrXII
from widetail.priors._contaminated import Contaminated as Contaminated
from widetail.priors._distribution import ScaleDistribution as ScaleDistribution
from widetail.priors._gammas import BetaPrime as BetaPrime
from widetail.priors._gammas import Gamma as Gamma
from widetail.priors._gammas import InverseGamma as InverseGamma
from widetail.priors._half_cauchy import HalfCauchy as HalfCauchy
from widetail.priors._log_normal import LogNormal as LogNormal
from widetail.priors._parameters import Numbers as Numbers
from widetail.priors._parameters import Values as Values
from widetail.priors._point_mass import PointMass as PointMass
from widetail.priors._wrapped import ScipyPrior as ScipyPrior
