"""What every conditioned process offers."""

import abc
import dataclasses
from typing import Any, NamedTuple

import numpy as np

from widetail.checks import check_targets
from widetail.kernels import Kernel
from widetail.mixing import ScaleDiagnostics, ScalePosterior
from widetail.predictive import Normal, Predictive
from widetail.process._adapter import CallableKernel
from widetail.process._influence import Influence
from widetail.process._rows import RowFactors, check_counts, check_noise_weights
from widetail.progress import Progress


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """How a posterior was computed.

    Attributes:
        jitter: what had to be added to the diagonal of the covariance matrix; 0 if nothing.
        scale: how the posterior of the readout variance was computed, and how accurately.
    """

    jitter: float
    scale: ScaleDiagnostics


class LeftOut(NamedTuple):
    """Predictions of the targets, each from all other observations; shapes (n,) or (n, outputs).

    The learned numbers and the readout scale are those of all rows.
    """

    location: np.ndarray
    scale: np.ndarray  # of y, like a standard deviation


class MoreRows(NamedTuple):
    """New rows, and all rows together: inputs, targets, noise factors and counts."""

    new_x: Any
    new_rows: RowFactors
    x: np.ndarray
    y: np.ndarray
    rows: RowFactors


class Posterior(abc.ABC):
    """A process conditioned on data: holds the factorisation, predicts anywhere.

    Calling it gives the predictive distribution of noisy targets y; `f` that of the noise-free function.

    Attributes:
        kernel, noise, x, y, rows: what it was conditioned with.
        scale: posterior of the readout variance.
        log_evidence: log density of the targets under the model, in nats.
        diagnostics: jitter and accuracy.
    """

    kernel: Kernel | CallableKernel
    noise: float
    x: Any
    y: np.ndarray
    rows: RowFactors
    scale: ScalePosterior
    log_evidence: float

    @property
    @abc.abstractmethod
    def diagnostics(self) -> Diagnostics:
        """Jitter and accuracy."""

    def __call__(self, x_new: Any) -> Predictive:
        """The predictive distribution of y at the rows of `x_new`."""
        return self._predict(x_new, with_noise=True)

    def f(self, x_new: Any) -> Predictive:
        """The predictive distribution of the noise-free function at the rows of `x_new`."""
        return self._predict(x_new, with_noise=False)

    def location(self, x_new: Any) -> np.ndarray:
        """The median of f at the rows of `x_new`, shape (m,) or (m, outputs); with `IndependentNoise` the mean.

        No variances are computed for it where it does not depend on them.
        """
        return np.asarray(self.f(x_new).median)

    @abc.abstractmethod
    def update(self, x: Any, y: Any, *, noise_weights: Any = None, counts: Any = None) -> "Posterior":
        """The posterior with more rows; equal to conditioning on all of them at once."""

    def _more_rows(self, x: Any, y: Any, noise_weights: Any, counts: Any) -> MoreRows:
        """What `update` was given, checked, and put behind the rows that are there."""
        x = check_new(self.kernel, self.x, x)
        y = check_targets(x, y)
        if y.shape[1:] != self.y.shape[1:]:
            raise ValueError(
                f"y must have the outputs of the first call, shape (m, *{self.y.shape[1:]}); got {y.shape}."
            )
        rows = RowFactors.of(len(x), check_noise_weights(noise_weights, len(x)), check_counts(counts, len(x)))
        joined = np.concatenate([np.asarray(self.x), np.asarray(x)])
        return MoreRows(x, rows, joined, np.concatenate([self.y, y]), self.rows.and_then(rows))

    @abc.abstractmethod
    def left_out(self) -> LeftOut:
        """What every row is predicted to be when one observation of it is left out.

        Costs as much as the factorisation that the posterior holds.
        """

    def left_out_dist(self) -> Predictive:
        """The law of every target given all others, for scores of left-out rows; marginals only.

        The learned numbers and the readout scale are those of all rows.
        """
        left = self.left_out()
        return Normal(left.location, left.scale**2)

    def influence(self, x_new: Any) -> Influence:
        """Predictions of y at `x_new`, and what every observed row contributes to them; the readout scale stays.

        Costs n^2 m, and the first time as much as the factorisation that the posterior holds.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no closed form for leaving rows out; relearn without them "
            f"(widetail.conformal.CrossFits, or method='cv+')."
        )

    @abc.abstractmethod
    def _predict(self, x_new: Any, *, with_noise: bool) -> Predictive: ...


def check_new(kernel: Kernel | CallableKernel, x: Any, x_new: Any) -> Any:
    """New inputs with the dtype of the old ones; the kernel checks the rest."""
    if not hasattr(x_new, "dtype"):
        x_new = np.asarray(x_new)
    if isinstance(kernel, Kernel) and x_new.dtype in (np.float32, np.float64) and x_new.dtype != x.dtype:
        x_new = x_new.astype(x.dtype)
    return x_new


def covariance_of(kernel: Kernel | CallableKernel, x: Any, progress: Progress = False) -> np.ndarray:
    """The kernel matrix of the rows of x, for a factorisation in place."""
    if isinstance(kernel, Kernel):
        return as_double(kernel.kernel(x, get="nngp", progress=progress).nngp)
    return as_double(kernel.kernel(x, get="nngp").nngp)


def as_double(matrix: Any) -> np.ndarray:
    """A kernel matrix in the precision of factorisations, writable."""
    matrix = np.asarray(matrix)
    return matrix if matrix.dtype == np.float64 and matrix.flags.writeable else np.array(matrix, dtype=np.float64)
