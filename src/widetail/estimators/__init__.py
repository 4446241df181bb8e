"""scikit-learn estimators, and saving and loading them."""

from widetail.estimators._classifier import ScaleMixtureClassifier as ScaleMixtureClassifier
from widetail.estimators._files import load as load
from widetail.estimators._regressor import ScaleMixtureRegressor as ScaleMixtureRegressor
