"""Regression with a sparse scale mixture, as a scikit-learn estimator."""

import dataclasses
from typing import Any

import numpy as np

from widetail.estimators._files import PATHS
from widetail.estimators._inputs import with_weights
from widetail.estimators._predicting import PredictiveRegressor
from widetail.estimators._scaling import Scaling
from widetail.estimators._sparse import SparseEstimator
from widetail.estimators._sparse_tails import left_out
from widetail.estimators._tails import Tails
from widetail.estimators._targets import TARGETS, Target, recognise
from widetail.files import savable
from widetail.predictive import Predictive
from widetail.priors import PointMass
from widetail.sparse import TrainingOptions
from widetail.sparse.likelihoods import Gaussian, Likelihood, Poisson, StudentT

ROWS_FOR_TAILS = 2000
LIKELIHOODS = {"gaussian": Gaussian, "student_t": StudentT, "poisson": Poisson}


@savable("estimators.SparseMixtureRegressor", without=PATHS)
class SparseMixtureRegressor(PredictiveRegressor, SparseEstimator):
    """Regression with an infinitely wide network for data sets of any length, robust noise and counts included.

    Args:
        net, prior, inducing, random_state, learn, learn_rows, options, cache, checkpoint, verbose, table: as in
            `SparseMixtureClassifier`.
        likelihood: "gaussian" (noise inside of the scale), "student_t" (heavy tails point by point: outliers in y
            hardly move it), "poisson" (counts with mean exp(f), or softplus(f) unless the prior is a `PointMass`), or
            a likelihood of `widetail.sparse` or of your own.
        standardise: whether to standardise inputs, and targets unless they are counts.
        calibrate: whether to measure width and tails of Gaussian noise on left-out rows (up to 2,000), as
            `ScaleMixtureRegressor` does; in a stream, of the rows that everything was learned from.
        target: what y can be, as in `ScaleMixtureRegressor`; other likelihoods than the Gaussian take y as it is.

    Attributes:
        kernel_, model_, fit_, choice_: as in `SparseMixtureClassifier`.
        tails_: what was measured; else None.
        target_: what y was taken for, and the map; `target_.describe()` says it in words.

    Example:
        >>> import numpy as np
        >>> import widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
        >>> model = wt.SparseMixtureRegressor(wt.nn.mlp(1, "erf"), inducing=15, learn=False)
        >>> model = model.fit(x, np.sin(2.0 * x[:, 0]))
        >>> bool(abs(model.predict(np.array([[0.5]]))[0] - np.sin(1.0)) < 0.1)
        True
    """

    y_scaling_: Scaling
    is_vector_: bool
    tails_: Tails | None = None  # files of earlier versions have none, nor a target
    target_: Target = Target()
    _kept = ("y_scaling_", "is_vector_")

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        inducing: Any = 400,
        random_state: int = 0,
        likelihood: Any = "gaussian",
        learn: bool = True,
        learn_rows: int = 800,
        standardise: bool = True,
        options: TrainingOptions | None = None,
        cache: str | None = None,
        checkpoint: str | None = None,
        verbose: bool = False,
        table: Any = None,
        calibrate: bool = True,
        target: Any = "auto",
    ):
        super().__init__(
            net, prior, inducing, random_state, learn, learn_rows, standardise, options, cache, checkpoint, verbose
        )
        self.likelihood = likelihood
        self.table = table
        self.calibrate = calibrate
        self.target = target

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.target not in TARGETS:
            raise ValueError(f"target must be one of {', '.join(map(repr, TARGETS))}; got {self.target!r}.")
        if self.target not in ("auto", "real") and not isinstance(self._likelihood(), Gaussian):
            raise ValueError(f"target={self.target!r} needs likelihood='gaussian'; got {self.likelihood!r}.")

    def _likelihood(self) -> Likelihood:
        if isinstance(self.likelihood, Likelihood) and not self.likelihood.couples_outputs:
            return self.likelihood
        if not isinstance(self.likelihood, str) or self.likelihood not in LIKELIHOODS:
            raise ValueError(
                f"likelihood must be 'gaussian', 'student_t', 'poisson', or a Likelihood with a target for every "
                f"output; got {self.likelihood!r}."
            )
        if self.likelihood == "poisson" and not isinstance(self._prior, PointMass):
            return Poisson("softplus")  # exp(f) has no expectation under a scale with heavy tails
        return LIKELIHOODS[self.likelihood]()

    def _informed(self, likelihood: Likelihood, noise: float) -> Likelihood:
        if isinstance(self.likelihood, str) and isinstance(likelihood, (Gaussian, StudentT)):
            return dataclasses.replace(likelihood, noise=noise)
        return likelihood

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "SparseMixtureRegressor":
        """Learn the kernel, choose inducing inputs, train.

        Args:
            X: inputs, shape (n, d), as an array or a frame, or images (n, height, width[, channels]).
            y: targets, shape (n,) or (n, outputs), in any units.
            sample_weight: a row of weight w counts as w equal rows; shape (n,).
        """
        self._check_parameters()
        self._first_fit(*with_weights(*self._numbers(X, y), sample_weight), self.checkpoint)
        self.first_rows_ = None
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "SparseMixtureRegressor":
        """Learn from more rows in addition to those before, and end where one table of them all would.

        Kernel, scaling and inducing inputs are learned from all rows as long as there are fewer than `learn_rows` of
        them: they are kept for that, also in the file of `save`, and a call that adds a tenth or more ends exactly
        where `fit` would. From then on, or after `fit`, they stay, so early rows should be like later ones. Gaussian
        noise is remembered exactly by sums over rows, and its width and tails are measured with the rows of every call;
        with other likelihoods 4096 rows are kept as features and targets, also in the file of `save`. When there are
        more, near ones of one count become one, or the oldest leave a Gaussian factor, which is an approximation.
        """
        self._check_parameters()
        is_first = not hasattr(self, "model_")
        x, y, counts = with_weights(*self._numbers(X, y, reset=is_first), sample_weight)
        if is_first:
            self._begin_stream(x, y, counts)
            return self
        columns = y.reshape(len(y), -1)
        if columns.shape[1] != len(self.y_scaling_.shift):
            raise ValueError(f"y must have {len(self.y_scaling_.shift)} outputs, as before; got {columns.shape[1]}.")
        inputs = self._more_inputs(x)
        if not self._begins_anew(x, columns[:, 0] if self.is_vector_ else columns, counts):
            mapped = self.target_.forward(columns)
            if not np.all(np.isfinite(mapped)):
                raise ValueError(
                    f"y holds {columns[~np.isfinite(mapped)][0]:g}; before it was {self.target_.describe()}."
                )
            targets = self.y_scaling_.apply(mapped)
            self._fit_more(inputs, targets, counts)
            if self.tails_ is not None:
                self._measure_tails(inputs, targets, counts)
        return self

    def _numbers(self, X: Any, y: Any, *, reset: bool = True) -> tuple[np.ndarray, np.ndarray]:
        checked = self._checked(X, y, y_numeric=True, multi_output=True, allow_nd=True, reset=reset)
        x, y = (np.asarray(part, dtype=np.float64) for part in checked)
        self._likelihood().check_targets(y)
        return x, y

    def _first_fit(self, x: np.ndarray, y: np.ndarray, counts: np.ndarray, checkpoint: str | None) -> None:
        self.is_vector_ = y.ndim == 1
        likelihood, inputs = self._likelihood(), self._first_inputs(x, counts)
        self.target_ = self._recognised(inputs, y, likelihood)
        columns = self.target_.forward(y).reshape(len(y), -1)
        has_units = self.standardise and likelihood.has_units
        self.y_scaling_ = Scaling.of_targets(columns, counts) if has_units else Scaling.identity(columns.shape[1])
        targets = self.y_scaling_.apply(columns)
        guide = likelihood.guide(targets)
        self._fit_all(inputs, targets, counts, guide, None, likelihood, columns.shape[1], checkpoint)
        self.tails_ = None
        if self.calibrate and isinstance(self.model_.likelihood, Gaussian):
            self._measure_tails(inputs, targets, counts)

    def _measure_tails(self, inputs: np.ndarray, targets: np.ndarray, counts: np.ndarray) -> None:
        """Of rows that the model has just learned from, and of those before."""
        rows = np.random.default_rng(self._seed).permutation(len(inputs))[:ROWS_FOR_TAILS]
        left = left_out(self.model_, inputs[rows], targets[rows])
        half_a_step = 0.5 / float(self.y_scaling_.factor[0]) if self.target_.kind == "integer" else 0.0
        self.tails_ = Tails.of_stream(targets[rows], left, counts[rows], half_a_step, self.tails_)

    def _recognised(self, inputs: np.ndarray, y: np.ndarray, likelihood: Likelihood) -> Target:
        """What the target is: real, unless said otherwise, for models that take it as it is."""
        is_plain = not (self.learn and self.standardise) or not isinstance(likelihood, Gaussian) or inputs.ndim > 2
        kind = "real" if self.target == "auto" and is_plain else self.target
        places = self.table_.places_ if self._is_encoded and self.table_ is not None else None
        return recognise(kind, inputs, y, places, self._seed)

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of y, in the units of y."""
        x = self._new_inputs(X)
        dist = self.model_.y(x, is_vector=self.is_vector_)
        return self._in_units(dist if self.tails_ is None else self.tails_.apply(dist))

    def _location(self, X: Any) -> np.ndarray:
        """The location of the predictive distribution; its mean where y does not lie symmetrically around f."""
        x = self._new_inputs(X)
        if not self.model_.likelihood.is_centred_at_f:
            return np.asarray(self._in_units(self.model_.y(x, is_vector=self.is_vector_)).mean)
        mean = self.target_.inverse(self.model_.location(x) * self.y_scaling_.factor + self.y_scaling_.shift)
        return mean[:, 0] if self.is_vector_ else mean

    def _in_units(self, dist: Predictive) -> Predictive:
        if not self.model_.likelihood.has_units:
            return dist
        shift, factor = self.y_scaling_.shift, self.y_scaling_.factor
        return self.target_.apply(dist.rescale(shift[0], factor[0]) if self.is_vector_ else dist.rescale(shift, factor))
