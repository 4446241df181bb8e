"""Width and tails of a predictive distribution, measured on left-out rows."""

import dataclasses

import numpy as np
import scipy.interpolate
import scipy.optimize
import scipy.special

from widetail.files import savable
from widetail.predictive import Predictive, Recalibrated
from widetail.process import LeftOut

# A handful of rows says little of tails: until there are more, the predictive stays as it is.
SPREAD_OF_LOG_FACTOR = 0.5
MEAN_OF_INVERSE_DEGREES = 0.1
INVERSE_DEGREES = (1e-3, 0.9)  # all but normal, and all but without a mean
LOG_FACTORS = (-3.0, 3.0)
END = 0.95  # the level where 90 % intervals end
NORMAL_END = float(scipy.special.ndtri(END))
# Where the log likelihood of rows that are not kept is remembered: roots of inverse degrees, and log factors.
ROOTS_KEPT = np.linspace(INVERSE_DEGREES[0] ** 0.5, INVERSE_DEGREES[1] ** 0.5, 12)
FACTORS_KEPT = np.linspace(LOG_FACTORS[0], LOG_FACTORS[1], 61)


@savable("estimators.Tails")
@dataclasses.dataclass(frozen=True)
class Tails:
    """How targets scatter around their predictions from the other rows, beside what the model says.

    One output after the other.

    Attributes:
        degrees: degrees of freedom of a Student-t distribution; many where the scatter is normal.
        factor: its width, in units of the width that the model says.
        log_likelihood: of the rows that were measured, at `ROOTS_KEPT` and `FACTORS_KEPT` for every output, in models
            that may meet more of them; else None.
    """

    degrees: np.ndarray
    factor: np.ndarray
    log_likelihood: np.ndarray | None = None

    def __post_init__(self):
        if self.degrees.ndim != 1 or self.degrees.shape != self.factor.shape:
            raise ValueError(f"tails need a factor for every output; got {self.degrees} and {self.factor}.")
        if not (np.all(self.degrees > 0) and np.all(self.factor > 0)):
            raise ValueError(f"degrees and factor must be positive; got {self.degrees} and {self.factor}.")
        of_outputs = (len(self.degrees), len(ROOTS_KEPT), len(FACTORS_KEPT))
        if self.log_likelihood is not None and self.log_likelihood.shape != of_outputs:
            raise ValueError(f"log_likelihood must have shape {of_outputs}; got {self.log_likelihood.shape}.")

    @classmethod
    def measure(
        cls,
        y: np.ndarray,
        left_out: LeftOut,
        counts: np.ndarray,
        half_a_step: float = 0.0,
        least_width: float = 0.0,
        learned: int = 0,
    ) -> "Tails":
        """By maximum likelihood, with a weak prior on what the model says; rows count as often as observed.

        Hyperparameters were learned from the rows that are left out, which are met too well by that: a log density by
        their number over that of the rows, on average (what Akaike found). Scores are made larger accordingly.

        Args:
            y: targets.
            left_out: what the others say of each of them.
            counts: how often each row was observed.
            half_a_step: of targets that were seen rounded, how far off they may be; what counts is then the probability
                of the interval.
            least_width: how wide 90 % intervals are at least, in units of those of the model: 1 where hyperparameters
                are integrated out, and have had their say in the width.
            learned: how many hyperparameters were learned from these rows.
        """
        too_near = np.sqrt(1 + 2 * learned / np.sum(counts))
        scores = (too_near * (y - left_out.location) / left_out.scale).reshape(len(y), -1)
        if half_a_step:
            halves = half_a_step / left_out.scale
            return cls(*(np.array([part]) for part in _fit_rounded(scores[:, 0], halves, counts, least_width)))
        return cls(*np.array([_fit(column, counts, least_width) for column in scores.T]).T)

    @classmethod
    def of_stream(
        cls,
        y: np.ndarray,
        left_out: LeftOut,
        counts: np.ndarray,
        half_a_step: float = 0.0,
        before: "Tails | None" = None,
    ) -> "Tails":
        """What `measure` finds, of these rows and those `before`, of which nothing but their log likelihood is kept."""
        if before is not None and before.log_likelihood is None:
            return before  # of a file of an earlier version
        scores = ((y - left_out.location) / left_out.scale).reshape(len(y), -1)
        halves = np.broadcast_to(half_a_step / left_out.scale, y.shape).reshape(len(y), -1)
        tables = np.stack([_log_likelihoods(*columns, counts) for columns in zip(scores.T, halves.T, strict=True)])
        if before is None:
            measured = cls.measure(y, left_out, counts, half_a_step)
            return dataclasses.replace(measured, log_likelihood=tables)
        tables = tables + before.log_likelihood
        found = np.array([_fit_table(table) for table in tables])
        return cls(*found.T, log_likelihood=tables)

    def apply(self, dist: Predictive) -> Predictive:
        """The predictive distribution with the width and tails that were measured."""
        one = len(dist.event_shape) == 1
        return Recalibrated(dist, *(part[0] if one else part for part in (self.degrees, self.factor)))


def _fit(scores: np.ndarray, counts: np.ndarray, least_width: float) -> tuple[float, float]:
    def loss_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        inverse, log_factor = point
        nu = 1 / inverse
        square = (scores * np.exp(-log_factor)) ** 2
        tail = np.log1p(square / nu)
        log_density = -scipy.special.betaln(0.5, 0.5 * nu) - 0.5 * np.log(nu) - log_factor - 0.5 * (nu + 1) * tail
        pull = (nu + 1) * square / (nu + square)
        digammas = scipy.special.digamma(0.5 * (nu + 1)) - scipy.special.digamma(0.5 * nu)
        by_nu = 0.5 * (digammas - tail + (pull - 1) / nu)
        prior = 0.5 * (log_factor / SPREAD_OF_LOG_FACTOR) ** 2 + inverse / MEAN_OF_INVERSE_DEGREES
        prior_gradient = np.array([1 / MEAN_OF_INVERSE_DEGREES, log_factor / SPREAD_OF_LOG_FACTOR**2])
        gradient = np.array([-(nu**2) * (counts @ by_nu), counts @ (pull - 1)])
        return prior - float(counts @ log_density), prior_gradient - gradient

    found = scipy.optimize.minimize(
        loss_and_gradient,
        [0.1, 0.0],
        jac=True,
        bounds=[INVERSE_DEGREES, LOG_FACTORS],
        method="L-BFGS-B",
        options={"ftol": 1e-14, "gtol": 1e-10},
    )
    return _wide_enough(found.x, least_width)


def _fit_rounded(scores: np.ndarray, halves: np.ndarray, counts: np.ndarray, least_width: float) -> tuple[float, float]:
    """The same of intervals `scores - halves` to `scores + halves`."""

    def loss(point: np.ndarray) -> float:
        inverse, log_factor = point
        factor, nu = np.exp(log_factor), 1 / inverse
        near = np.abs(scores)  # on the lower side, where probabilities are not near one
        share = scipy.special.stdtr(nu, (halves - near) / factor) - scipy.special.stdtr(nu, (-halves - near) / factor)
        prior = 0.5 * (log_factor / SPREAD_OF_LOG_FACTOR) ** 2 + inverse / MEAN_OF_INVERSE_DEGREES
        return prior - float(counts @ np.log(np.maximum(share, 1e-300)))

    bounds = [INVERSE_DEGREES, LOG_FACTORS]
    found = scipy.optimize.minimize(loss, [0.1, 0.0], bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-12})
    return _wide_enough(found.x, least_width)


def _wide_enough(point: np.ndarray, least_width: float) -> tuple[float, float]:
    """Degrees and factor; the factor is larger where 90 % intervals would be narrower than they have to be."""
    degrees, factor = float(1 / point[0]), float(np.exp(point[1]))
    return degrees, max(factor, float(least_width * NORMAL_END / scipy.special.stdtrit(degrees, END)))


def _log_likelihoods(scores: np.ndarray, halves: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Of scores, or of intervals around them, at the numbers at which it is remembered."""
    degrees, factor = (1 / ROOTS_KEPT**2)[:, None], np.exp(FACTORS_KEPT)
    total = np.zeros((len(ROOTS_KEPT), len(FACTORS_KEPT)))
    constant = -scipy.special.betaln(0.5, 0.5 * degrees) - 0.5 * np.log(degrees) - FACTORS_KEPT
    for score, half, count in zip(np.abs(scores), halves, counts, strict=True):
        if half:
            below, above = (scipy.special.stdtr(degrees, (side * half - score) / factor) for side in (-1, 1))
            total += count * np.log(np.maximum(above - below, 1e-300))
        else:
            tail = np.log1p((score / factor) ** 2 / degrees)
            total += count * (constant - 0.5 * (degrees + 1) * tail)
    return total


def _fit_table(log_likelihood: np.ndarray) -> tuple[float, float]:
    """The maximum between the numbers of a table, with the prior of `_fit`."""
    spline = scipy.interpolate.RectBivariateSpline(ROOTS_KEPT, FACTORS_KEPT, log_likelihood, s=0)

    def loss(point: np.ndarray) -> float:
        root, log_factor = point
        prior = 0.5 * (log_factor / SPREAD_OF_LOG_FACTOR) ** 2 + root**2 / MEAN_OF_INVERSE_DEGREES
        return prior - float(spline.ev(root, log_factor))

    prior = 0.5 * (FACTORS_KEPT / SPREAD_OF_LOG_FACTOR) ** 2 + (ROOTS_KEPT**2 / MEAN_OF_INVERSE_DEGREES)[:, None]
    root, factor = np.unravel_index(np.argmax(log_likelihood - prior), prior.shape)
    bounds = [(ROOTS_KEPT[0], ROOTS_KEPT[-1]), LOG_FACTORS]
    start = [ROOTS_KEPT[root], FACTORS_KEPT[factor]]
    found = scipy.optimize.minimize(loss, start, bounds=bounds, method="L-BFGS-B").x
    return 1 / found[0] ** 2, float(np.exp(found[1]))
