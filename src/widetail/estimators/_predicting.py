"""What every regressor here says of new rows: location, spread, intervals, quantiles, scores."""

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from widetail.predictive import Predictive


class PredictiveRegressor(RegressorMixin, abc.ABC):
    """Base of regressors with a predictive distribution; not for direct use."""

    @abc.abstractmethod
    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of y, in the units of y."""

    @abc.abstractmethod
    def _location(self, X: Any) -> np.ndarray:
        """What `predict` returns."""

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """The location of the predictive distribution, and its spread where asked for, as scikit-learn's
        `GaussianProcessRegressor` has it.

        Args:
            X: inputs, as in `fit`.
            return_std: whether to return the standard deviation of y as well, noise included; infinite where the tails
                are too heavy for one (intervals and quantiles always exist).
            return_cov: whether to return the covariances of y between the rows as well, shape (n, n), or
                (n, n, outputs) with those of every output.

        Returns:
            An array of shape (n,) or (n, outputs); a pair with `return_std` or `return_cov`.
        """
        if return_std and return_cov:
            raise ValueError(
                "return_std and return_cov cannot both be True: standard deviations are the roots of the "
                "diagonal of the covariances."
            )
        location = self._location(X)
        if return_std:
            return location, np.asarray(self.predict_dist(X).std)
        if return_cov:
            return location, np.asarray(self.predict_dist(X).cov)
        return location

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central interval that holds y with probability `coverage`."""
        lower, upper = self.predict_dist(X).interval(coverage)
        return np.asarray(lower), np.asarray(upper)

    def predict_quantiles(self, X: Any, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of y, shape (n, number of quantiles), or (n, outputs, number of quantiles)."""
        return np.moveaxis(np.asarray(self.predict_dist(X).quantile(np.asarray(quantiles, dtype=np.float64))), 0, -1)

    def log_score(self, X: Any, y: Any) -> float:
        """Mean over rows and outputs of the log predictive density of y, in its units; higher is better."""
        return float(np.mean(self.predict_dist(X).log_prob(np.asarray(y, dtype=np.float64))))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
