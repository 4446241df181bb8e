"""Observation noise, inside or outside of the readout scale."""

from typing import Any

import equinox as eqx
import numpy as np

from widetail.checks import as_parameter, check_variance
from widetail.files import savable
from widetail.priors import InverseGamma, ScalePrior


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


@savable("process.RowNoise")
class RowNoise(eqx.Module):
    r"""A scale of its own for every row: $\varepsilon_i \mid \beta, w_i \sim N(0, \beta s^2 w_i)$, $w_i \sim H$.

    Rows that fit no smooth function get a large $w_i$ and pull no more: with an inverse gamma law,
    `InverseGamma(nu / 2, nu / 2)`, the noise is Student's t with nu degrees of freedom and scale s. Given the scales
    everything is exact; the scales themselves are inferred by a variational bound (`ScaleMixture.posterior`), which is
    what `log_evidence` then is.

    Args:
        prior: law of the scales of the rows, any prior of widetail; by default that of Student's t with four degrees
            of freedom.
        variance: $s^2$, relative to the readout variance $\beta$ (a variance, not a standard deviation).

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
        >>> y = np.sin(3.0 * x[:, 0])
        >>> y[7] += 5.0
        >>> process = wt.ScaleMixture(wt.kernels.RBF(0.5), noise=wt.RowNoise(variance=1e-3))
        >>> process.posterior(x, y).outliers().tolist()
        [7]
    """

    prior: ScalePrior
    variance: Any = eqx.field(converter=as_parameter)

    def __init__(self, prior: Any = None, variance: Any = 1e-2):
        self.prior = InverseGamma(2.0, 2.0) if prior is None else prior
        self.variance = as_parameter(variance)
        if not isinstance(self.prior, ScalePrior) or np.shape(self.prior.log_middle) != ():
            raise ValueError(
                f"RowNoise: prior must be one prior of widetail, such as wt.InverseGamma(2.0, 2.0); got {prior!r}. "
                f"Wrap a scipy or numpyro distribution with wt.ScalePrior.wrap."
            )
        check_variance("RowNoise: variance", self.variance, positive=True)


Noise = ScaledNoise | IndependentNoise | RowNoise
