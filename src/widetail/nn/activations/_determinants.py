"""Activations whose duals hold the determinant of a covariance plus a multiple of the identity."""

import abc
from typing import Any

import jax.numpy as jnp

from widetail.nn._covariance import Apart
from widetail.nn.activations._activation import Activation


class OfDeterminant(Activation):
    r"""An activation with $D = (1 + r k_{11})(1 + r k_{22}) - r^2 k_{12}^2$ in its dual.

    That is $1 + r (k_{11} + k_{22}) + r^2 d$ with the determinant $d = k_{11} k_{22} - k_{12}^2$. Of large inputs, or
    of inputs far from the origin, the products hold few digits of d or none, so the first layer gets it from
    differences of the inputs; see `Apart`. Behind a layer that does not bound its inputs d is what the covariance holds
    of it: of opposite inputs of 1e6 behind a cubic, say, it holds nothing of a bias, and tangent kernels are off by a
    factor of up to $\sqrt{1 + 2 r\, \mathrm{bias\_var}}$.
    """

    @abc.abstractmethod
    def _rate(self) -> Any:
        """The number r."""

    @abc.abstractmethod
    def _value_and_slope(self, k12: Any, first: Any, second: Any, d: Any, whole: Any) -> tuple[Any, Any]:
        """The dual and its derivative in the covariance, given d and D."""

    def needs_distances(self, wanted: bool) -> bool:
        return True

    def statistics(self, variance):
        """The variance, and one over the root of 1 + r k."""
        return variance, 1 / jnp.sqrt(1 + jnp.asarray(self._rate(), variance.dtype) * variance)

    def dual(self, k12, first, second):
        return self.dual_and_slope(k12, first, second)[0]

    def dual_and_slope(self, k12, first, second):
        return self._value_and_slope(k12, first, second, *self._determinants(k12, first, second, None))

    def limit_cross(self, k, statistics1, statistics2):
        (k11, root1), (k22, root2) = statistics1, statistics2
        (k11, k22), (root1, root2) = k.align(k11, k22), k.align(root1, root2)
        first, second = (k11, root1), (k22, root2)
        determinants = self._determinants(k.nngp, first, second, k.apart)
        value, slope = self._value_and_slope(k.nngp, first, second, *determinants)
        return k.with_values(value, None if k.ntk is None else k.ntk * slope)

    def _determinants(self, k12: Any, first: Any, second: Any, apart: Apart | None) -> tuple[Any, Any]:
        """d and D, the latter never below half of what it is where d is zero.

        At huge variances rounding may use it up; the half keeps the bound out of derivatives where equal inputs attain
        it.
        """
        rate = jnp.asarray(self._rate(), k12.dtype)
        (k11, _), (k22, _) = first, second
        both = k11 * k22
        d = both - k12 * k12
        # zero where only rounding may have kept it from being so: equal inputs behind a layer that does not bound them
        d = jnp.where(jnp.abs(d) > 8 * jnp.finfo(k12.dtype).eps * both, d, 0)
        if apart is not None:  # each has rounding errors as large as its products
            d = jnp.where(apart.minus * apart.plus < both, apart.determinant, d)
        least = 1 + rate * (k11 + k22)
        return d, jnp.maximum(least + rate * rate * d, 0.5 * least)
