"""The variational posterior of whitened inducing variables."""

import dataclasses

import numpy as np
import scipy.linalg
from jaxtyping import Float64

from widetail.sparse.scales import ScaleLaw

(_dtrtri,) = scipy.linalg.get_lapack_funcs(("trtri",), dtype=np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class Variational:
    r"""$q(\beta)\,\prod_c \mathcal N(u_c; m_c, \beta S_c)$ for whitened inducing variables u of every output c.

    Attributes:
        mean: $m_c$, shape (outputs, inducing).
        precision: $S_c^{-1}$, shape (outputs, inducing, inducing).
        root: lower triangular, with $S_c = \mathrm{root}^\top \mathrm{root}$; the same shape.
        law: $q(\beta)$.
    """

    mean: Float64[np.ndarray, "outputs inducing"]
    precision: Float64[np.ndarray, "outputs inducing inducing"]
    root: Float64[np.ndarray, "outputs inducing inducing"]
    law: ScaleLaw

    @classmethod
    def at_prior(cls, outputs: int, inducing: int, law: ScaleLaw) -> "Variational":
        """The prior, before any observation."""
        eye = np.broadcast_to(np.eye(inducing), (outputs, inducing, inducing)).copy()
        return cls(np.zeros((outputs, inducing)), eye, eye.copy(), law)

    def with_precision(self, precision: np.ndarray) -> "Variational":
        """The same with another covariance; a LinAlgError where it is not positive definite."""
        return dataclasses.replace(self, precision=precision, root=np.stack([_inverse_factor(p) for p in precision]))

    def with_mean(self, mean: np.ndarray) -> "Variational":
        """The same with other means."""
        return dataclasses.replace(self, mean=mean)

    def with_law(self, law: ScaleLaw) -> "Variational":
        """The same with another law of the scale."""
        return dataclasses.replace(self, law=law)

    @property
    def covariance(self) -> Float64[np.ndarray, "outputs inducing inducing"]:
        """$S_c$."""
        return np.swapaxes(self.root, 1, 2) @ self.root

    @property
    def quad(self) -> float:
        """Squared length of the means, all outputs together."""
        return float(np.sum(self.mean**2))

    @property
    def divergence(self) -> float:
        r"""KL divergence from the prior, in nats.

        $\frac12\sum_c\{\mathbb E[1/\beta]\,|m_c|^2 + \mathrm{tr} S_c - \log|S_c| - M\}$, and the divergence of the law.
        """
        log_diagonal = np.log(np.diagonal(self.root, axis1=1, axis2=2))
        spread = float(np.sum(self.root**2)) - 2 * float(np.sum(log_diagonal)) - self.mean.size
        return 0.5 * (self.law.mean_precision * self.quad + spread) + self.law.divergence


def _inverse_factor(precision: np.ndarray) -> np.ndarray:
    """The inverse of the lower Cholesky factor."""
    factor = scipy.linalg.cholesky(precision, lower=True, check_finite=False)
    return np.tril(_dtrtri(factor, lower=1)[0])
