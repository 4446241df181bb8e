"""The public names of the package, each once; `widetail.__getattr__` looks here when one is first used."""

from widetail import distributed as distributed
from widetail import estimators as estimators
from widetail import finite as finite
from widetail import kernels as kernels
from widetail import learning as learning
from widetail import mixing as mixing
from widetail import nn as nn
from widetail import predictive as predictive
from widetail import priors as priors
from widetail import process as process
from widetail import programs as programs
from widetail import sparse as sparse
from widetail.distributed import posterior as _posteriors_on_clusters  # noqa: F401  (enters itself)
from widetail.estimators import ScaleMixtureClassifier as ScaleMixtureClassifier
from widetail.estimators import ScaleMixtureRegressor as ScaleMixtureRegressor
from widetail.estimators import SparseMixtureClassifier as SparseMixtureClassifier
from widetail.estimators import SparseMixtureRegressor as SparseMixtureRegressor
from widetail.estimators import WideEnsembleClassifier as WideEnsembleClassifier
from widetail.estimators import WideEnsembleRegressor as WideEnsembleRegressor
from widetail.estimators import load as load
from widetail.learning import Choice as Choice
from widetail.learning import EvidenceFit as EvidenceFit
from widetail.learning import choose as choose
from widetail.learning import fit_evidence as fit_evidence
from widetail.priors import BetaPrime as BetaPrime
from widetail.priors import BurrXII as BurrXII
from widetail.priors import Gamma as Gamma
from widetail.priors import HalfCauchy as HalfCauchy
from widetail.priors import InverseGamma as InverseGamma
from widetail.priors import LogNormal as LogNormal
from widetail.priors import PointMass as PointMass
from widetail.priors import ScalePrior as ScalePrior
from widetail.process import IndependentNoise as IndependentNoise
from widetail.process import ScaledNoise as ScaledNoise
from widetail.process import ScaleMixture as ScaleMixture
