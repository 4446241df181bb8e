"""The interface of priors of the readout variance."""

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from widetail.files import from_config
from widetail.numerics import Bounds, Cuts, double_precision, is_traced, namespace
from widetail.priors._distribution import ScaleDistribution
from widetail.priors._parameters import Numbers, Values, show


class ScalePrior(ScaleDistribution):
    r"""A prior of the readout variance $\beta = \sigma_v^2 > 0$ (a variance, not a standard deviation).

    Parameters may be arrays: each element is then a prior of its own, and everything broadcasts over them.
    All parameters are leaves of a pytree, so that `jax.grad` of anything here gives a prior whose parameters
    are the derivatives. Called on plain numbers the methods compute in float64 and return NumPy values.
    """

    traceable: ClassVar[bool] = True
    """Whether JAX can trace the density; False for a wrapped scipy distribution."""
    runs_in_numpy: ClassVar[bool] = True
    """Whether NumPy arrays are computed with in NumPy; False for a wrapped numpyro distribution."""

    @double_precision
    def quantile(self, p: Numbers) -> Values:
        """The value below which the readout variance lies with probability `p`."""
        xp = namespace(self, p)
        p = xp.asarray(p, float)
        if not is_traced(p) and not np.all((p >= 0) & (p <= 1)):
            raise ValueError(f"quantile: p must lie in [0, 1], got {show(p)}; pass a probability, not a percentage.")
        return xp.exp(self.log_quantile(p))

    @property
    @double_precision
    def mean(self) -> Values:
        """Expectation; `inf` where it is infinite."""
        return namespace(self).asarray(self.expectation(), float)[()]

    def to_config(self) -> dict[str, Any]:
        """Name and parameters as plain numbers and lists; `prior_from_config` reads it back."""
        return {
            "name": type(self).__name__,
            "params": {name: np.asarray(v).tolist() for name, v in self._items()},
        }

    def __repr__(self) -> str:
        """The code that makes this prior."""
        return f"{type(self).__name__}({', '.join(f'{name}={show(value)}' for name, value in self._items())})"

    def _items(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]

    @staticmethod
    def wrap(dist: Any) -> "ScalePrior":
        """A frozen `scipy.stats` or a numpyro distribution on the positive reals, as a prior.

        Example:
            >>> import scipy.stats
            >>> from widetail import priors
            >>> prior = priors.ScalePrior.wrap(scipy.stats.weibull_min(1.5, scale=2.0))
            >>> round(float(prior.quantile(0.5)), 4)
            1.5664
        """
        from widetail.priors._wrapped import (
            wrap,
        )  # the wrappers are priors themselves: a cycle at import time

        return wrap(dist)

    @abc.abstractmethod
    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        """Probabilities below and above, each accurate where it is small."""

    def below_log(self, log_scale: Values) -> Values:
        return self.tails_of_log(log_scale)[0]

    @abc.abstractmethod
    def expectation(self) -> Values:
        """What `mean` returns."""

    @property
    @abc.abstractmethod
    def log_middle(self) -> Values:
        """Log of a value in the bulk: the mode of the logarithm where it is known."""

    @property
    @abc.abstractmethod
    def log_bounds(self) -> Bounds:
        """Ends of the support of the logarithm."""

    @property
    def log_cuts(self) -> Cuts:
        """Logarithms between which the density of the logarithm has one mode and no jump; most priors need none."""
        return Cuts()

    @property
    def mass_error(self) -> float:
        """One minus the mass between the cuts by quadrature: the error that integrals over this prior may have."""
        return 0.0

    @property
    @double_precision
    def support(self) -> tuple[Values, Values]:
        """Smallest and largest value that the readout variance can take."""
        lower, upper = self.log_bounds
        xp = namespace(self, lower, upper)
        return 0.0 if lower is None else xp.exp(lower), math.inf if upper is None else xp.exp(upper)


def prior_from_config(config: Mapping[str, Any]) -> ScalePrior:
    """The prior whose `to_config()` is `config`.

    Example:
        >>> from widetail import priors
        >>> priors.prior_from_config({"name": "InverseGamma", "params": {"a": 2.0, "b": 3.0}})
        InverseGamma(a=2.0, b=3.0)
    """
    try:
        described = {"kind": f"priors.{config['name']}", "fields": dict(config["params"])}
        return from_config(described, expected=ScalePrior)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"config must be a mapping with the `name` of a prior and its `params`, got {config!r} ({error}); "
            f"make it with `prior.to_config()`."
        ) from error
