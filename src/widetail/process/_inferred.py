"""What posteriors share whose noise is inferred row by row, and which are exact given that noise."""

import abc
import functools
from typing import Any

import numpy as np
import scipy.special

from widetail.checks import like_targets, two_dimensional
from widetail.mixing import ScalePosterior
from widetail.predictive import OwnScales
from widetail.priors import ScalePrior
from widetail.process._base import Diagnostics, LeftOut, Posterior
from widetail.process._row_scales import Cavities, RowLaw
from widetail.process._rows import RowFactors
from widetail.process._scaled import ScaledPosterior

ONE_SIGMA = float(scipy.special.ndtr(1.0))


class InferredNoisePosterior(Posterior):
    """A posterior that holds the exact one given the noise of every row (`given`).

    Attributes:
        given: the exact posterior with the inferred factors of the noise variance.
        factors: noise factors and counts of the rows, as they were given.
        cavities: what all other rows say of each.
    """

    given: ScaledPosterior
    factors: RowFactors
    cavities: Cavities

    @property
    def kernel(self) -> Any:  # type: ignore[override]
        return self.given.kernel

    @property
    def noise(self) -> float:  # type: ignore[override]
        return self.given.noise

    @property
    def x(self) -> Any:  # type: ignore[override]
        return self.given.x

    @property
    def y(self) -> np.ndarray:  # type: ignore[override]
        return self.given.y

    @property
    def rows(self) -> RowFactors:  # type: ignore[override]
        return self.factors

    @property
    def scale(self) -> ScalePosterior:  # type: ignore[override]
        return self.given.scale

    @property
    @abc.abstractmethod
    def noise_weights(self) -> np.ndarray:
        """The factor of the noise variance of every row that the function sees, shape (n,)."""

    @property
    def diagnostics(self) -> Diagnostics:
        """Jitter and accuracy; how the noise was found is in `scales`."""
        return self.given.diagnostics

    def update(self, x: Any, y: Any, *, noise_weights: Any = None, counts: Any = None) -> Any:
        """The posterior with more rows; the noise of all rows is inferred anew."""
        more = self._more_rows(x, y, noise_weights, counts)
        return self._again(more.x, more.y, more.rows)

    def left_out(self) -> LeftOut:
        """What every row is predicted to be from the others; the scale is half the width of the central 68.3 %."""
        location, around = self._left_out_location(), self._left_out_around(np.zeros_like(self.given.y))
        # the law is symmetric; its width would be lost beside a target of 1e30 that others do not predict
        return LeftOut(location, np.asarray(around.quantile(ONE_SIGMA)))

    def left_out_dist(self) -> OwnScales:
        """The law of every target given all others; marginals only, the readout scale and the numbers as learned."""
        return self._left_out_around(self._left_out_location())

    def _left_out_location(self) -> np.ndarray:
        residual, _ = self._left_out_function
        return like_targets(two_dimensional(self.given.y) - residual, self.given.y)

    def _left_out_around(self, location: np.ndarray) -> OwnScales:
        _, variance = self._left_out_function
        nodes, log_weights, tail_index, thin = self._left_out_noise()
        return OwnScales(self.scale, location, variance[:, 0], nodes, log_weights, None, tail_index, thin=thin)

    @abc.abstractmethod
    def _left_out_noise(self) -> tuple[np.ndarray, np.ndarray, Any, bool]:
        """Noise variances of every row from what the others say, (Q, n), logs of their chances, tail, trapezoidal."""

    @abc.abstractmethod
    def _again(self, x: Any, y: np.ndarray, rows: RowFactors) -> Any:
        """The same model with these rows."""

    @functools.cached_property
    def _left_out_function(self) -> tuple[np.ndarray, np.ndarray]:
        """Residual of every row from the others, and the variance of the function there, per readout variance."""
        given = self.given
        precision = np.maximum(given.factor.inverse_diagonal(), np.finfo(float).tiny)[:, None]
        residual, variance = given.rows.left_out(given.weights, precision, given.noise)
        return residual, np.maximum(variance - (given.noise * given.rows.single)[:, None], 0.0)

    @functools.cached_property
    def one_left_out(self) -> Cavities:
        """What all other observations say of each."""
        return Cavities.of_one(self.given, self.factors)

    def _outliers(self, threshold: float, prior: ScalePrior, weights: np.ndarray) -> np.ndarray:
        if not (np.ndim(threshold) == 0 and threshold > 1):
            raise ValueError(f"outliers: threshold must be a number above 1; got {threshold!r}.")
        outputs = self.cavities.outputs
        ordinary = RowLaw.of(prior, np.full(1, float(outputs)), np.ones(1), outputs).weights[0]
        ratio = np.sqrt(weights / ordinary)
        order = np.argsort(-ratio, kind="stable")
        return order[ratio[order] >= threshold]
