"""Scale mixtures of wide-network Gaussian processes: prior, posterior, trained networks."""

from widetail.process._adapter import CallableKernel as CallableKernel
from widetail.process._adapter import as_kernel as as_kernel
from widetail.process._base import Diagnostics as Diagnostics
from widetail.process._base import LeftOut as LeftOut
from widetail.process._base import Posterior as Posterior
from widetail.process._base import as_double as as_double
from widetail.process._base import check_new as check_new
from widetail.process._cluster import register_cluster as register_cluster
from widetail.process._draw import FunctionDraw as FunctionDraw
from widetail.process._independent import IndependentPosterior as IndependentPosterior
from widetail.process._noise import IndependentNoise as IndependentNoise
from widetail.process._noise import ScaledNoise as ScaledNoise
from widetail.process._options import Inference as Inference
from widetail.process._process import ScaleMixture as ScaleMixture
from widetail.process._rows import RowNoise as RowNoise
from widetail.process._rows import check_counts as check_counts
from widetail.process._rows import check_noise_weights as check_noise_weights
from widetail.process._scaled import ScaledPosterior as ScaledPosterior
from widetail.process._scaled import add_to_diagonal as add_to_diagonal
from widetail.process._scaled import scale_likelihood as scale_likelihood
from widetail.process._trained import Layers as Layers
from widetail.process._trained import Readout as Readout
from widetail.process._trained import TrainedLimit as TrainedLimit
