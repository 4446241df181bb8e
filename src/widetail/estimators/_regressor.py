"""Regression with a scale mixture, as a scikit-learn estimator."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from sklearn.base import RegressorMixin

from widetail.estimators._exact import ExactEstimator
from widetail.estimators._inputs import check_weights
from widetail.estimators._scaling import Scaling
from widetail.estimators._tails import Tails
from widetail.files import savable
from widetail.predictive import Predictive


@savable("estimators.ScaleMixtureRegressor")
class ScaleMixtureRegressor(RegressorMixin, ExactEstimator):
    """Regression with an infinitely wide network whose readout variance has a prior: a Student-t process by default.

    With no arguments it standardises, chooses between a few architectures by their evidence, learns their
    hyperparameters (one relevance per feature among them), and conditions exactly on all rows. It needs memory for
    one n x n matrix and time for its Cholesky factorisation.

    Args:
        net: a network of `widetail.nn`, a kernel, or a function k(x1, x2); None to choose one.
        prior: prior of the readout variance in units of the standardised targets; InverseGamma(2, 2) by default,
            PointMass(1.0) gives a plain Gaussian process.
        noise: "scaled" (inside the scale, fast) or "independent" (ordinary Gaussian noise), or a noise object, whose
            variance is where learning starts.
        learn: whether to learn hyperparameters by evidence; False takes them as given.
        standardise: whether to standardise inputs and targets.
        choose_rows: rows of the random subset on which architectures are compared.
        learn_rows: rows of the random subset from which hyperparameters are learned; conditioning uses all rows.
        max_iterations: of each optimisation.
        random_state: an integer seed.
        calibrate: whether to measure, on rows that are left out one at a time, how wide the scatter around the
            predictions is and how heavy its tails are, and to predict with those (see `predictive.Recalibrated`);
            False gives the predictive distribution of the process itself. Costs one more factorisation. Where the
            measured tails are very heavy (two degrees of freedom or fewer), standard deviations are infinite; use
            intervals and quantiles.
        verbose: whether to show progress bars on a terminal.

    Attributes:
        process_: the `ScaleMixture` that was learned, in standard units.
        posterior_: its posterior.
        architecture_: which default architecture was chosen, or "given".
        tails_: what was measured (None without `calibrate`).
        choice_, evidence_fit_: what was compared and learned (None where nothing was).
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> import numpy as np
        >>> import widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
        >>> model = wt.ScaleMixtureRegressor(net=wt.nn.mlp(2, "erf")).fit(x, np.sin(3.0 * x[:, 0]))
        >>> lower, upper = model.predict_interval(np.array([[0.5]]), coverage=0.9)
        >>> bool(lower[0] < np.sin(1.5) < upper[0])
        True
    """

    y_scaling_: Scaling
    tails_: Tails | None
    _kept = ("y_scaling_", "tails_")

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        noise: Any = "scaled",
        learn: bool = True,
        standardise: bool = True,
        choose_rows: int = 800,
        learn_rows: int = 3000,
        max_iterations: int = 60,
        random_state: int = 0,
        calibrate: bool = True,
        verbose: bool = False,
    ):
        super().__init__(net, prior, noise, learn, standardise, choose_rows, learn_rows, max_iterations, random_state)
        self.calibrate = calibrate
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ScaleMixtureRegressor":
        """Choose, learn and condition.

        Args:
            X: inputs, shape (n, d): an array or a data frame of numbers. With a `net` for them, also sequences
                (n, time, features) or images (n, height, width, channels).
            y: targets, shape (n,) or (n, outputs), in any units.
            sample_weight: a row of weight w counts as w equal observations.
        """
        self._check_parameters()
        x, y = self._inputs(X, y, y_numeric=True, multi_output=True)
        y = y.astype(np.float64)
        weights = check_weights(sample_weight, x)
        columns = y.reshape(len(y), -1)
        seen = weights > 0
        scaling = Scaling.of(columns[seen], weights[seen]) if self.standardise else Scaling.identity(columns.shape[1])
        self.y_scaling_ = scaling
        self._learn_and_condition(x, scaling.apply(columns).reshape(y.shape), weights)
        posterior = self.posterior_
        self.tails_ = (
            Tails.measure(posterior.y, posterior.left_out(), posterior.rows.counts) if self.calibrate else None
        )
        return self

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of y, in the units of y."""
        dist = self.posterior(self._new_inputs(X))
        return self._in_units(dist if self.tails_ is None else self.tails_.apply(dist))

    def predict(self, X: Any) -> np.ndarray:
        """The location of the predictive distribution: its mean, where that exists, and its median."""
        return np.asarray(self._in_units(self.posterior.f(self._new_inputs(X))).median)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central interval that holds y with probability `coverage`."""
        lower, upper = self.predict_dist(X).interval(coverage)
        return np.asarray(lower), np.asarray(upper)

    def predict_quantiles(self, X: Any, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of y, shape (n, number of quantiles), or (n, outputs, number of quantiles)."""
        return np.moveaxis(np.asarray(self.predict_dist(X).quantile(np.asarray(quantiles, dtype=np.float64))), 0, -1)

    def log_score(self, X: Any, y: Any) -> float:
        """Mean over rows and outputs of the log predictive density of y, in its units; higher is better."""
        y = np.asarray(y, dtype=np.float64)
        return float(np.mean(self.predict_dist(X).log_prob(y)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: int = 0) -> np.ndarray:
        """Joint draws of y, shape (n, n_samples) or (n, outputs, n_samples); one readout scale for each draw."""
        draws = self.predict_dist(X).sample(jax.random.key(random_state), (n_samples,))
        return np.moveaxis(np.asarray(draws), 0, -1)

    def _in_units(self, dist: Predictive) -> Predictive:
        shift, factor = self.y_scaling_.shift, self.y_scaling_.factor
        if len(dist.event_shape) == 1:
            shift, factor = shift[0], factor[0]
        return dist.rescale(shift, factor)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
