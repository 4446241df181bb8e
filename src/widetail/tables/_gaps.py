"""What the known cells of a row say of the missing ones."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from widetail.files import savable

MOST_ROWS = 1000  # from which a covariance is learned
MOST_FEATURES = 300  # beyond, each feature is taken by itself
ROUNDS = 15
TOLERANCE = 1e-3  # change of the covariance, in standard units, below which a round is the last


@savable("tables.JointNormal")
@dataclass(frozen=True)
class JointNormal:
    """A normal law of the features of a row, by which a missing one has a mean and a variance given the others.

    Learned by expectation and maximisation from rows with gaps, with the covariance pulled a little towards its
    diagonal, as if there were as many more rows as features that know nothing of each other.

    Attributes:
        mean: of every feature, shape (d,).
        covariance: shape (d, d).

    Example:
        >>> import numpy as np
        >>> from widetail.tables import JointNormal
        >>> x = np.random.default_rng(0).normal(size=(500, 1)) @ [[1.0, 2.0]] + 1.0
        >>> law = JointNormal.learn(x)
        >>> mean, variance = law.complete(np.array([[2.0, np.nan]]))
        >>> bool(abs(mean[0, 1] - 3.0) < 0.1), bool(variance[0, 1] < 0.1)
        (True, True)
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def learn(cls, x: np.ndarray, seed: int = 0) -> "JointNormal":
        """From rows (n, d) with NaN for what is missing; of no feature all."""
        if len(x) > MOST_ROWS:
            x = x[np.sort(np.random.default_rng(seed).choice(len(x), MOST_ROWS, replace=False))]
        is_missing = np.isnan(x)
        known = np.maximum(np.sum(~is_missing, axis=0), 1)
        mean = np.sum(np.where(is_missing, 0.0, x), axis=0) / known
        centred = np.where(is_missing, 0.0, x - mean)
        variances = np.maximum(np.sum(centred**2, axis=0) / known, 1e-12)
        n, d = x.shape
        if d > MOST_FEATURES or d == 1:
            return cls(mean, np.diag(variances))
        law = cls(mean, np.diag(variances))
        for _ in range(ROUNDS):
            filled, _, lost = law._expected(x)
            mean = np.mean(filled, axis=0)
            centred = filled - mean
            scatter = centred.T @ centred + lost
            covariance = (scatter + d * np.diag(np.diag(scatter) / n)) / (n + d)
            covariance[np.diag_indices(d)] += 1e-9 * variances
            unit = np.sqrt(np.diag(covariance))
            change = np.max(np.abs(covariance - law.covariance) / np.outer(unit, unit))
            law = cls(mean, covariance)
            if change < TOLERANCE or not is_missing.any():
                break
        return law

    def complete(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of all features given those that are known, which stay as they are, with variance 0."""
        filled, variance, _ = self._expected(x)
        return filled, variance

    def _expected(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same, and the sum over the rows of the covariance of what is missing."""
        filled, variance = np.array(x), np.zeros(x.shape)
        lost = np.zeros(self.covariance.shape)
        patterns, places = np.unique(np.isnan(x), axis=0, return_inverse=True)
        order = np.argsort(places.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(places.ravel(), minlength=len(patterns)))
        for is_missing, rows in zip(patterns, np.split(order, ends[:-1]), strict=True):
            if not is_missing.any():
                continue
            gaps, known = np.flatnonzero(is_missing), np.flatnonzero(~is_missing)
            inner = self.covariance[np.ix_(gaps, gaps)]
            guess = np.broadcast_to(self.mean[gaps], (len(rows), len(gaps)))
            if len(known):
                factor = scipy.linalg.cho_factor(self.covariance[np.ix_(known, known)])
                slopes = scipy.linalg.cho_solve(factor, self.covariance[np.ix_(known, gaps)])
                guess = guess + (x[np.ix_(rows, known)] - self.mean[known]) @ slopes
                inner = inner - self.covariance[np.ix_(gaps, known)] @ slopes
            filled[np.ix_(rows, gaps)] = guess
            variance[np.ix_(rows, gaps)] = np.maximum(np.diag(inner), 0.0)
            lost[np.ix_(gaps, gaps)] += len(rows) * inner
        return filled, variance, lost
