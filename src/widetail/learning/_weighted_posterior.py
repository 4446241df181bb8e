"""Posteriors of several processes on the same data, and what they say together."""

import dataclasses
from typing import Any

import numpy as np
import scipy.special

from widetail.numerics import in_parallel
from widetail.predictive import Predictive, Weighted, student_mixture_root
from widetail.process import LeftOut, Posterior

ONE_SIGMA = float(scipy.special.ndtr(1.0))


@dataclasses.dataclass(frozen=True, eq=False)
class WeightedPosterior:
    """Posteriors of several processes on the same data, and what they say together.

    Attributes:
        posteriors: one per process.
        weights: their probabilities.
    """

    posteriors: list[Posterior]
    weights: np.ndarray

    def __call__(self, x_new: Any) -> Predictive:
        """The predictive distribution of y at the rows of `x_new`."""
        return Weighted([posterior(x_new) for posterior in self.posteriors], self.weights)

    def f(self, x_new: Any) -> Predictive:
        """The predictive distribution of the noise-free function at the rows of `x_new`."""
        return Weighted([posterior.f(x_new) for posterior in self.posteriors], self.weights)

    def location(self, x_new: Any) -> np.ndarray:
        """The average of the locations, shape (m,) or (m, outputs): the mean, at a much lower cost than a median."""
        return np.tensordot(self.weights, [posterior.location(x_new) for posterior in self.posteriors], 1)

    def left_out(self) -> LeftOut:
        """What every row is predicted to be when one observation of it is left out.

        A process that explains a row well owes some of its weight to that row. So weights are those without it: divided
        by the density that the process gives to the row from the others. The location is the median of the mixture, the
        scale half the width of its central 68.3 %.
        """
        # each of them inverts a factor, and keeps what comes of it
        left = in_parallel(lambda one: one.left_out(), self.posteriors, float(len(self.posteriors[0].y)) ** 3)
        location, scale = (np.stack(part) for part in zip(*left, strict=True))  # (J, n[, outputs])
        observed = self.posteriors[0].y
        degrees = float(self.posteriors[0].rows.observations)
        weights = scipy.special.softmax(self._log_weights_over_left_out(), axis=0)  # (J, n)
        outputs = location[0].size // location.shape[1]
        weights = np.repeat(weights, outputs, axis=1)
        location, scale = (part.reshape(len(part), -1) for part in (location, scale))
        levels = np.array([1 - ONE_SIGMA, 0.5, ONE_SIGMA])[:, None] * np.ones(location.shape[1])
        ends = location + scale * scipy.special.stdtrit(degrees, levels)[:, None]  # (3, J, n)
        roots = student_mixture_root(
            np.full((len(left), 1), degrees),
            location,
            scale,
            weights,
            levels,
            ends.min(axis=1),
            ends.max(axis=1),
            np.sum(weights * ends, axis=1),
        )
        low, middle, high = roots.reshape(3, *observed.shape)
        return LeftOut(middle, 0.5 * (high - low))

    def left_out_log_prob(self) -> np.ndarray:
        """The log density of every row given all others, shape (n,), all outputs together; weights are those without
        the row.
        """
        return -np.asarray(scipy.special.logsumexp(self._log_weights_over_left_out(), axis=0))

    def _log_weights_over_left_out(self) -> np.ndarray:
        """Logarithms of the weights over the density that each process gives to a row from the others, (J, n)."""
        observed = self.posteriors[0].y
        log_density = np.stack([np.asarray(one.left_out_dist().log_prob(observed)) for one in self.posteriors])
        return np.log(self.weights)[:, None] - log_density.reshape(*log_density.shape[:2], -1).sum(-1)
