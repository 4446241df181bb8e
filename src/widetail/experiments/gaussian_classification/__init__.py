"""Classification as regression on one-hot targets, with exact inference, on images and their shifts."""

from widetail.experiments.gaussian_classification._experiment import EXPERIMENT as EXPERIMENT
from widetail.experiments.gaussian_classification._experiment import (
    GaussianClassificationConfig as GaussianClassificationConfig,
)
from widetail.experiments.gaussian_classification._priors import best_prior as best_prior
