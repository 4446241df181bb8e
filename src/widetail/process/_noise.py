"""Observation noise, inside or outside of the readout scale."""

from typing import Any

import equinox as eqx
import numpy as np

from widetail.checks import as_parameter, check_variance
from widetail.files import savable
from widetail.kernels import Kernel
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
    costs some twenty times that of `ScaledNoise`, and the predictive is a mixture of normals with one location
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
        _check_law("RowNoise: prior", self.prior)
        check_variance("RowNoise: variance", self.variance, positive=True)


@savable("process.InputNoise")
class InputNoise(eqx.Module):
    r"""Noise that depends on the input: $\varepsilon_i \mid \beta, g \sim N(0, \beta s^2 e^{g(x_i)} w_i)$.

    The logarithm g of the noise variance is a wide network of the inputs, $g \sim GP(0, v K)$, and is inferred together
    with the function by a variational bound (`ScaleMixture.posterior`), which is what `log_evidence` then is. With a
    prior for `rows` every row has a scale of its own besides: $w_i \sim H$, as in `RowNoise`; without, $w_i = 1$.

    Args:
        net: a network of `widetail.nn` or a kernel, of the same inputs as that of the function.
        variance: $s^2$, relative to the readout variance $\beta$ (a variance, not a standard deviation).
        spread: v, the variance of the logarithm of the noise variance, per unit of the kernel's.
        rows: law of the scales of single rows, any prior of widetail; None for none.

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 200)[:, None]
        >>> rng = np.random.default_rng(0)
        >>> y = np.sin(3.0 * x[:, 0]) + np.where(x[:, 0] > 0, 0.5, 0.05) * rng.normal(size=200)
        >>> noise = wt.InputNoise(wt.kernels.RBF(0.5), variance=0.03)
        >>> posterior = wt.ScaleMixture(wt.kernels.RBF(0.7), noise=noise).posterior(x, y)
        >>> quiet, loud = posterior(np.array([[-1.0], [1.0]])).std
        >>> bool(loud > 5 * quiet)
        True
    """

    net: Any
    variance: Any = eqx.field(converter=as_parameter)
    spread: Any = eqx.field(converter=as_parameter)
    rows: ScalePrior | None

    def __init__(self, net: Any, variance: Any = 1e-2, spread: Any = 1.0, rows: Any = None):
        self.net, self.rows = net, rows
        self.variance, self.spread = as_parameter(variance), as_parameter(spread)
        if not isinstance(net, Kernel):
            raise ValueError(
                f"InputNoise: net must be a network of widetail.nn or a kernel of widetail.kernels; got {net!r}."
            )
        if rows is not None:
            _check_law("InputNoise: rows", rows)
        check_variance("InputNoise: variance", self.variance, positive=True)
        check_variance("InputNoise: spread", self.spread, positive=True)


def _check_law(name: str, prior: Any) -> None:
    if not isinstance(prior, ScalePrior) or np.shape(prior.log_middle) != ():
        raise ValueError(
            f"{name} must be one prior of widetail, such as wt.InverseGamma(2.0, 2.0); got {prior!r}. "
            f"Wrap a scipy or numpyro distribution with wt.ScalePrior.wrap."
        )


Noise = ScaledNoise | IndependentNoise | RowNoise | InputNoise
