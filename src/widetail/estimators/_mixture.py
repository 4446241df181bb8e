"""One name for exact and for sparse models: which of them is fitted depends on the size of the table."""

import abc
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from widetail.checks import check_count
from widetail.estimators._classifier import ScaleMixtureClassifier
from widetail.estimators._predicting import PredictiveRegressor
from widetail.estimators._regressor import ScaleMixtureRegressor
from widetail.estimators._sparse_classifier import SparseMixtureClassifier
from widetail.estimators._sparse_regressor import SparseMixtureRegressor
from widetail.kernels import available_memory
from widetail.predictive import Predictive

BYTES_PER_PAIR = 1.3 * 8  # of an exact fit


MOST_EXACT_ROWS = 10_000


def _is_exact_affordable(rows: int, most: int) -> bool:
    return rows <= most and BYTES_PER_PAIR * rows**2 <= available_memory()


class _Mixture(abc.ABC):
    """What both share: parameters, and what they pass on."""

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        exact_rows: int = MOST_EXACT_ROWS,
        inducing: int = 400,
        random_state: int = 0,
        verbose: bool = False,
        table: Any = None,
    ):
        self.net = net
        self.prior = prior
        self.exact_rows = exact_rows
        self.inducing = inducing
        self.random_state = random_state
        self.verbose = verbose
        self.table = table

    @abc.abstractmethod
    def _chosen(self, rows: int) -> tuple[Any, str]:
        """The estimator for so many rows, and why."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose by the number of rows, and fit.

        Args:
            X: inputs, as in `ScaleMixtureRegressor.fit`: a frame as it is, or an array.
            y: targets or labels.
            sample_weight: a row of weight w counts as w equal rows.
        """
        check_count("exact_rows", self.exact_rows, least=0)
        check_count("inducing", self.inducing)
        rows = len(y) if hasattr(y, "__len__") else 0
        estimator, self.reason_ = self._chosen(rows)
        shared = ("net", "prior", "random_state", "verbose", "table")
        estimator.set_params(**{name: getattr(self, name) for name in shared})
        self.estimator_ = estimator = self._fit_chosen(estimator, X, y, sample_weight)
        for name in ("n_features_in_", "feature_names_in_", "classes_"):
            vars(self).pop(name, None)
            if hasattr(estimator, name):
                setattr(self, name, getattr(estimator, name))
        return self

    def _fit_chosen(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> Any:
        """The fitted model."""
        return estimator.fit(X, y, sample_weight)

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution, as of the model that was fitted."""
        return self._fitted.predict_dist(X)

    def log_score(self, X: Any, y: Any) -> float:
        """Mean over rows of the log predictive density of y, or of the log probability of the label."""
        return self._fitted.log_score(X, y)

    def save(self, path: Any) -> None:
        """Write the model that was fitted, `estimator_`; `wt.load` reads it."""
        self._fitted.save(path)

    @property
    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


class MixtureRegressor(_Mixture, PredictiveRegressor, BaseEstimator):
    """Regression on a table of any size: exact where that is affordable, with inducing inputs beyond.

    Exact is `ScaleMixtureRegressor`, which also finds out what the target can be and measures its tails; the other is
    `SparseMixtureRegressor`. What was fitted is in `estimator_`, with all of its own methods and parameters.

    Args:
        net, prior, random_state, verbose, table: as in both.
        exact_rows: with at most so many rows, and memory for an n x n matrix, the model is exact.
        inducing: inducing inputs beyond that.

    Attributes:
        estimator_: the fitted model; what `save` writes.
        reason_: which it is, and why.

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
        >>> model = wt.MixtureRegressor(net=wt.kernels.RBF()).fit(x, np.sin(3.0 * x[:, 0]))
        >>> model.reason_
        'exact: 40 rows'
    """

    def _chosen(self, rows: int) -> tuple[Any, str]:
        if _is_exact_affordable(rows, self.exact_rows):
            return ScaleMixtureRegressor(), f"exact: {rows:,} rows"
        limit = "memory allows" if rows <= self.exact_rows else f"exact_rows={self.exact_rows:,}"
        return (
            SparseMixtureRegressor(inducing=self.inducing),
            f"sparse, {self.inducing} inducing inputs: {rows:,} rows are more than {limit}",
        )

    def _location(self, X: Any) -> np.ndarray:
        return self._fitted.predict(X)

    def predict_interval(self, X: Any, coverage: float = 0.9, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that hold y with probability `coverage`.

        Args:
            X: inputs, as in `fit`.
            coverage: between 0 and 1.
            **options: of exact models, `method` and `groups` of `ScaleMixtureRegressor.predict_interval`.
        """
        return self._fitted.predict_interval(X, coverage, **options)


class MixtureClassifier(_Mixture, ClassifierMixin, BaseEstimator):
    """Classification of a table of any size, with a likelihood of classes.

    `SparseMixtureClassifier`: with every row as an inducing input up to `exact_rows`, so that nothing but the
    variational posterior approximates, with `inducing` of them beyond. With up to 10,000 rows, `ScaleMixtureClassifier`
    where that gives the labels of left-out rows clearly better probabilities (by two standard errors): it is exact, but
    regression on one-hot targets, which suits images and not most tables.

    Args:
        net, prior, random_state, verbose, table: as there.
        exact_rows: with at most so many rows, every row is an inducing input.
        inducing: inducing inputs beyond that.

    Attributes:
        classes_: the labels.
        estimator_: the fitted model; what `save` writes.
        reason_: which it is, and why.

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> model = wt.MixtureClassifier(net=wt.nn.mlp(1)).fit(x, x[:, 0] > 0)
        >>> model.predict(np.array([[2.0, 0.0], [-2.0, 0.0]])).tolist(), model.reason_
        ([True, False], 'all 60 rows are inducing inputs')
    """

    classes_: np.ndarray

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        exact_rows: int = 1000,
        inducing: int = 400,
        random_state: int = 0,
        verbose: bool = False,
        table: Any = None,
    ):
        super().__init__(net, prior, exact_rows, inducing, random_state, verbose, table)

    def _chosen(self, rows: int) -> tuple[Any, str]:
        if rows <= self.exact_rows:
            return SparseMixtureClassifier(inducing=max(rows, 1)), f"all {rows:,} rows are inducing inputs"
        limit = f"{rows:,} rows are more than exact_rows={self.exact_rows:,}"
        return SparseMixtureClassifier(inducing=self.inducing), f"{self.inducing} inducing inputs: {limit}"

    def _fit_chosen(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> Any:
        rows = len(y)
        if self.prior is not None or not _is_exact_affordable(rows, MOST_EXACT_ROWS):
            return super()._fit_chosen(estimator, X, y, sample_weight)
        if estimator.fit_unless_left(X, y, sample_weight):
            return estimator
        self.reason_ = f"exact: of {rows:,} rows, left-out labels are more probable by regression on one-hot targets"
        shared = ("random_state", "verbose", "table")
        exact = ScaleMixtureClassifier(**{name: getattr(self, name) for name in shared})
        return exact.fit(X, y, sample_weight)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, shape (m, classes)."""
        return self._fitted.predict_proba(X)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        return self._fitted.predict(X)
