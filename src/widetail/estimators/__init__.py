"""scikit-learn estimators, and saving and loading them."""

from widetail.estimators._classifier import ScaleMixtureClassifier as ScaleMixtureClassifier
from widetail.estimators._files import load as load
from widetail.estimators._files import load_with_metadata as load_with_metadata
from widetail.estimators._files import save as save
from widetail.estimators._mixture import MixtureClassifier as MixtureClassifier
from widetail.estimators._mixture import MixtureRegressor as MixtureRegressor
from widetail.estimators._regressor import ScaleMixtureRegressor as ScaleMixtureRegressor
from widetail.estimators._scaling import Scaling as Scaling
from widetail.estimators._sparse_classifier import SparseMixtureClassifier as SparseMixtureClassifier
from widetail.estimators._sparse_regressor import SparseMixtureRegressor as SparseMixtureRegressor
from widetail.estimators._tails import Tails as Tails
from widetail.estimators._treatment import ImageTreatment as ImageTreatment
from widetail.estimators._wide import default_network as default_network
from widetail.estimators._wide_classifier import WideEnsembleClassifier as WideEnsembleClassifier
from widetail.estimators._wide_regressor import WideEnsembleRegressor as WideEnsembleRegressor
