"""Observation noise, inside or outside of the readout scale."""

from typing import Any

import equinox as eqx

from widetail.checks import as_parameter, check_variance
from widetail.files import savable


@savable("process.ScaledNoise")
class ScaledNoise(eqx.Module):
    r"""Noise inside the scale: $y = f + \varepsilon$, $\varepsilon \mid \beta \sim N(0, \beta s^2)$.

    It is as if the network had a random readout noise of its own. Conjugate: for an inverse-gamma prior
    everything stays a Student-t process, for any other prior a one-dimensional integral.

    Args:
        variance: $s^2$, relative to the readout variance $\beta$ (a variance, not a standard deviation).
    """

    variance: Any = eqx.field(default=1e-2, converter=as_parameter)

    def __check_init__(self):
        check_variance("ScaledNoise: variance", self.variance)


@savable("process.IndependentNoise")
class IndependentNoise(eqx.Module):
    r"""Ordinary noise outside of the scale: $y = f + \varepsilon$, $\varepsilon \sim N(0, s^2)$ whatever $\beta$ is.

    Not conjugate, still exact: one eigendecomposition, then O(n) per value of $\beta$. The factorisation
    costs some ten times that of `ScaledNoise`, and the predictive is a mixture of normals with one location
    per node of the scale.

    Args:
        variance: $s^2$, in squared units of y (a variance, not a standard deviation).
    """

    variance: Any = eqx.field(default=1e-2, converter=as_parameter)

    def __check_init__(self):
        check_variance("IndependentNoise: variance", self.variance, positive=True)


Noise = ScaledNoise | IndependentNoise
