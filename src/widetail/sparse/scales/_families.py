"""Which family of laws goes with a prior."""

import numpy as np

from widetail.priors import InverseGamma, PointMass, ScalePrior
from widetail.sparse.scales._base import ScaleLaw
from widetail.sparse.scales._grid import GridScale
from widetail.sparse.scales._inverse_gamma import InverseGammaScale
from widetail.sparse.scales._point import PointScale


def law_for(prior: ScalePrior, *, learn: bool = True) -> ScaleLaw:
    """The family that goes with a prior, at the prior.

    Args:
        prior: of the scale.
        learn: whether the value of a `PointMass` is learned (empirical Bayes) rather than kept.
    """
    if np.ndim(getattr(prior, "a", getattr(prior, "v", 0.0))):
        raise ValueError("prior must be one law of one scale that all outputs share; got parameters that are arrays.")
    if isinstance(prior, PointMass):
        return PointScale(float(prior.v), learn)
    if isinstance(prior, InverseGamma):
        a, b = float(prior.a), float(prior.b)
        return InverseGammaScale(a, b, a, b)
    return GridScale.of(prior)
