"""Sparse variational inference: SVGP and SVTP for any likelihood and any prior of the scale."""

from widetail.sparse._adam import AdamFit as AdamFit
from widetail.sparse._adam import train_adam as train_adam
from widetail.sparse._counts import CountMixture as CountMixture
from widetail.sparse._features import Whitening as Whitening
from widetail.sparse._inducing import choose_inducing as choose_inducing
from widetail.sparse._model import SparseModel as SparseModel
from widetail.sparse._natural import Ascent as Ascent
from widetail.sparse._natural import Sites as Sites
from widetail.sparse._probabilities import ClassProbabilities as ClassProbabilities
from widetail.sparse._probabilities import class_probabilities as class_probabilities
from widetail.sparse._rows import Rows as Rows
from widetail.sparse._rows import variances as variances
from widetail.sparse._scale import GridScale as GridScale
from widetail.sparse._scale import InverseGammaScale as InverseGammaScale
from widetail.sparse._scale import PointScale as PointScale
from widetail.sparse._scale import ScaleLaw as ScaleLaw
from widetail.sparse._scale import law_for as law_for
from widetail.sparse._train import SparseFit as SparseFit
from widetail.sparse._train import train as train
from widetail.sparse._variational import Variational as Variational
from widetail.sparse.likelihoods import Bernoulli as Bernoulli
from widetail.sparse.likelihoods import Categorical as Categorical
from widetail.sparse.likelihoods import Gaussian as Gaussian
from widetail.sparse.likelihoods import Likelihood as Likelihood
from widetail.sparse.likelihoods import Poisson as Poisson
from widetail.sparse.likelihoods import StudentT as StudentT
