"""The predictive distribution that a law of the readout variance leads to."""

from typing import Any

from widetail.mixing import ClosedPosterior, ScalePosterior
from widetail.predictive._elliptical import Elliptical
from widetail.predictive._normal import Normal
from widetail.predictive._scale_mixture import NormalScaleMixture
from widetail.predictive._student_t import StudentT
from widetail.priors import PointMass


def from_scale(scale: ScalePosterior, loc: Any, dispersion: Any, matrix: Any = None) -> Elliptical:
    r"""$y_d \mid \beta \sim \mathcal N(\mathrm{loc}_d, \beta V)$, $\beta \sim$ `scale`: Normal, StudentT or a mixture.

    Args:
        scale: law of the readout variance $\beta$, shared by the outputs or one for each.
        loc: location, of shape (m,) or (m, D): $k_*^\top A^{-1} Y$.
        dispersion: diagonal of V, of shape (m,): $\bar k_{**} - k_*^\top A^{-1} k_*$, plus the noise for y; or a
            function without arguments that returns it, called when first needed: means and medians do not.
        matrix: V, or a function without arguments that returns it, called when first needed.

    Example:
        >>> import numpy as np
        >>> from widetail import mixing, predictive, priors
        >>> data = mixing.ScaledNoiseLikelihood(count=10, quad=5.0)
        >>> scale = mixing.scale_posterior(priors.InverseGamma(2.0, 2.0), data)
        >>> dist = predictive.from_scale(scale, np.zeros(3), np.ones(3))
        >>> type(dist).__name__, float(dist.df)
        ('StudentT', 14.0)
    """
    if not isinstance(scale, ClosedPosterior):
        return NormalScaleMixture(scale, loc, dispersion, matrix)
    law = scale.law
    if isinstance(law, PointMass):
        return Normal(loc, dispersion, matrix, scale=law.v)
    return StudentT(2 * law.a, loc, dispersion, matrix, scale=law.b / law.a)
