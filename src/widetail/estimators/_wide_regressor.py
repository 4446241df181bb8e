"""Regression with an ensemble of finite networks, as a scikit-learn estimator."""

import math
from typing import Any

import numpy as np
import scipy.optimize

from widetail.estimators._files import PATHS
from widetail.estimators._predicting import PredictiveRegressor
from widetail.estimators._scaling import Scaling
from widetail.estimators._wide import WideEnsemble
from widetail.files import savable
from widetail.finite import member_outputs
from widetail.predictive import NormalMixture, Predictive


@savable("estimators.WideEnsembleRegressor", without=PATHS)
class WideEnsembleRegressor(PredictiveRegressor, WideEnsemble):
    """An ensemble of finite networks, each with a readout scale of its own, trained on the squared error.

    The predictive distribution gives every member the same probability, and adds Gaussian noise of one variance (in
    units of the standardised targets), chosen by the likelihood of held-out rows under the members that held them out.

    Args:
        net, prior, members, width, learning_rate, batch_size, max_epochs: as in `WideEnsembleClassifier`.
        early_stopping, validation_fraction, patience: as there.
        readout, parametrisation, checkpoint, random_state, verbose, table: as there.
        standardise: whether to standardise inputs and targets.

    Attributes:
        noise_: variance of the noise, in units of the standardised targets. Without early stopping it is estimated from
            the training rows, and too small.
        scales_, parameters_, history_, net_, network_: as in `WideEnsembleClassifier`.

    Example:
        >>> import numpy as np
        >>> import widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
        >>> model = wt.WideEnsembleRegressor(members=3, width=32, max_epochs=60).fit(x, np.abs(x[:, 0]))
        >>> lower, upper = model.predict_dist(np.array([[1.0]])).interval(0.95)
        >>> bool(lower[0] < 1.0 < upper[0])
        True
    """

    y_scaling_: Scaling
    noise_: float
    is_vector_: bool
    _kept = ("y_scaling_", "noise_", "is_vector_")

    def fit(self, X: Any, y: Any) -> "WideEnsembleRegressor":
        """Train all members.

        Args:
            X: inputs, shape (n, d), or images (n, height, width[, channels]).
            y: targets, shape (n,) or (n, outputs), in any units.
        """
        self._check_parameters()
        checked = self._checked(X, y, y_numeric=True, multi_output=True, allow_nd=True)
        x, y = (np.asarray(part, dtype=np.float64) for part in checked)
        columns = y.reshape(len(y), -1)
        self.is_vector_ = y.ndim == 1
        self.y_scaling_ = Scaling.of(columns) if self.standardise else Scaling.identity(columns.shape[1])
        x, targets = self._first_inputs(x), self.y_scaling_.apply(columns)
        held_out = self._train(x, targets, "squared", columns.shape[1], self._key())
        unseen = held_out if held_out.any() else np.ones_like(held_out)
        rows = unseen.any(axis=0)
        f = member_outputs(self.network_, self.parameters_, self.scales_, x[rows])
        self.noise_ = _best_noise(f, targets[rows], unseen[:, rows])
        return self

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of y, in the units of y: one Gaussian for each member."""
        f = self._outputs(X)
        members, rows = f.shape[:2]
        variance = np.full((members, rows), self.noise_)
        location = f[..., 0] if self.is_vector_ else f
        dist = NormalMixture(
            np.full(members, -math.log(members)), location, variance, lambda _: self.noise_ * np.eye(rows)
        )
        shift, factor = self.y_scaling_.shift, self.y_scaling_.factor
        return dist.rescale(shift[0], factor[0]) if self.is_vector_ else dist.rescale(shift, factor)

    def _location(self, X: Any) -> np.ndarray:
        """The mean of the members."""
        mean = self._outputs(X).mean(axis=0) * self.y_scaling_.factor + self.y_scaling_.shift
        return mean[:, 0] if self.is_vector_ else mean


def _best_noise(f: np.ndarray, y: np.ndarray, unseen: np.ndarray) -> float:
    """The variance with the largest likelihood of y under an equal mixture of normals around members.

    Args:
        f: outputs of the members, shape (members, n, outputs).
        y: targets, shape (n, outputs).
        unseen: members to take for a row, booleans (members, n).
    """
    squared = (f - y) ** 2
    log_weights = np.where(unseen, 0.0, -np.inf)[..., None]

    def loss(log_variance: float) -> float:
        log_density = log_weights - 0.5 * (squared * math.exp(-log_variance) + log_variance)
        return -float(np.mean(np.logaddexp.reduce(log_density, axis=0)))

    largest = math.log(max(float(squared[unseen].mean()), 1e-12)) + 1.0
    found: Any = scipy.optimize.minimize_scalar(loss, bounds=(largest - 15.0, largest), method="bounded")
    return math.exp(float(found.x))
