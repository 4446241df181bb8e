"""Scale mixtures of wide-network Gaussian processes: prior, posterior, trained networks."""

from widetail.process._base import Diagnostics as Diagnostics
from widetail.process._base import LeftOut as LeftOut
from widetail.process._base import Posterior as Posterior
from widetail.process._draw import FunctionDraw as FunctionDraw
from widetail.process._independent import IndependentPosterior as IndependentPosterior
from widetail.process._noise import IndependentNoise as IndependentNoise
from widetail.process._noise import ScaledNoise as ScaledNoise
from widetail.process._process import ScaleMixture as ScaleMixture
from widetail.process._scaled import ScaledPosterior as ScaledPosterior
from widetail.process._trained import TrainedLimit as TrainedLimit
