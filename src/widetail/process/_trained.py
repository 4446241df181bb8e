"""Wide networks after training by gradient flow (theorems 3.2 and 3.3 of the paper)."""

import dataclasses
import math
from typing import Any, Literal

import numpy as np
import scipy.linalg

from widetail.checks import like_targets, two_dimensional
from widetail.kernels import Kernel
from widetail.mixing import ScalePosterior
from widetail.numerics import CholeskyFactor
from widetail.predictive import NormalMixture, Predictive, from_scale
from widetail.process._adapter import CallableKernel
from widetail.process._base import as_double, check_new

Layers = Literal["readout", "all"]
Readout = Literal["scaled", "direct"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TrainedLimit:
    r"""The law of infinitely wide networks at training time t, each with a readout variance from the prior.

    A network starts at $f_0 \sim N(0, \beta \bar K)$ and follows $f_t(x_*) = f_0(x_*) + B\,(y - f_0(x))$ with
    $B = M_* M^{-1} (I - e^{-2 t M / n})$ for its tangent kernel M, so given $\beta$ it is normal with location $B y$.
    Calling the object gives the predictive distribution of the network's output; there is no noise.

    Attributes:
        scale: law of the readout variance: the prior, not the posterior.
    """

    kernel: Kernel | CallableKernel
    scale: ScalePosterior
    layers: Layers
    readout: Readout
    time: float
    x: Any
    y: np.ndarray
    nngp: np.ndarray
    hidden: np.ndarray | None  # tangent kernel without the readout's part; None when only the readout is trained

    @property
    def _depends_on_scale(self) -> bool:
        """Whether networks with different readout variances have different locations."""
        if math.isinf(self.time):
            return self.layers == "all" and self.readout == "direct"
        return self.layers == "all" or self.readout == "scaled"

    def __call__(self, x_new: Any) -> Predictive:
        """The law of the trained networks' outputs at the rows of `x_new`."""
        x_new = check_new(self.kernel, self.x, x_new)
        get = "nngp" if self.layers == "readout" else "both"
        values = self.kernel.kernel(x_new, self.x, get=get)
        cross = as_double(values.nngp)
        cross_hidden = None if self.hidden is None else as_double(values.ntk) - cross
        own = np.asarray(self.kernel.diagonal(x_new, get="nngp").nngp, dtype=np.float64)
        targets = two_dimensional(self.y)

        def own_matrix() -> np.ndarray:
            return as_double(self.kernel.kernel(x_new, get="nngp").nngp)

        if not self._depends_on_scale:
            gain = self._gain(1.0, cross, cross_hidden)
            location = like_targets(gain @ targets, self.y)
            return from_scale(
                self.scale,
                location,
                self._variance(gain, cross, own),
                lambda: self._covariance(gain, cross, own_matrix()),
            )
        scales, log_weights = (np.asarray(part) for part in self.scale.nodes())
        gains = [self._gain(scale, cross, cross_hidden) for scale in scales]
        location = like_targets(np.stack([gain @ targets for gain in gains]), self.y)
        dispersion = np.stack(
            [scale * self._variance(gain, cross, own) for scale, gain in zip(scales, gains, strict=True)]
        )

        def matrix(node: int) -> np.ndarray:
            return scales[node] * self._covariance(gains[node], cross, own_matrix())

        return NormalMixture(log_weights, location, dispersion, matrix, self.scale.tail_index)

    def f(self, x_new: Any) -> Predictive:
        """The same as calling: trained networks have no observation noise."""
        return self(x_new)

    def _gain(self, scale: float, cross: np.ndarray, cross_hidden: np.ndarray | None) -> np.ndarray:
        """B for networks of one readout variance, shape (m, n)."""
        # v = sqrt(beta) u with u trained multiplies the whole tangent kernel by beta, which is a speed;
        # v trained directly leaves the readout's part alone
        tangent, cross_tangent, speed = self.nngp, cross, scale if self.readout == "scaled" else 1.0
        if self.hidden is not None and cross_hidden is not None:
            share = 1.0 if self.readout == "scaled" else scale
            tangent, cross_tangent = tangent + share * self.hidden, cross + share * cross_hidden
        if math.isinf(self.time):
            return CholeskyFactor.of(tangent.copy()).solve(cross_tangent.T).T
        values, vectors = scipy.linalg.eigh(tangent)
        rate = 2 * self.time * speed / len(self.y)
        values = np.maximum(values, np.finfo(float).tiny)
        learned = -np.expm1(-rate * values) / values
        return ((cross_tangent @ vectors) * learned) @ vectors.T

    def _variance(self, gain: np.ndarray, cross: np.ndarray, own: np.ndarray) -> np.ndarray:
        moved = gain @ self.nngp - 2 * cross
        return np.maximum(own + np.einsum("mn,mn->m", moved, gain), 0.0)

    def _covariance(self, gain: np.ndarray, cross: np.ndarray, own: np.ndarray) -> np.ndarray:
        mixed = gain @ cross.T
        return own + gain @ self.nngp @ gain.T - mixed - mixed.T
