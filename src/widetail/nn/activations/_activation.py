"""What every activation does with covariances."""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from widetail.nn._base import Leaf
from widetail.nn._covariance import Covariance
from widetail.nn._signal import Signal

Values = Float[Array, "..."]


class Activation(Leaf):
    r"""A function $\phi$ of every feature.

    A new activation gives the function and its dual, $E[\phi(z)\, \phi(z')]$ for a Gaussian pair with
    covariance `k12`. What depends on one side only goes into `statistics`, computed once per row. The
    tangent kernel needs $E[\phi'(z)\, \phi'(z')]$, which is the derivative of the dual in `k12`
    (Price's theorem), so it comes for free; override `dual_and_slope` where a closed form is faster.
    """

    is_elementwise: ClassVar[bool] = True
    # Whether phi(t x) = t phi(x) for t > 0, so that a factor passes through to the readout.
    is_homogeneous: ClassVar[bool] = False

    @abc.abstractmethod
    def function(self, x: Values) -> Values:
        """The activation itself, entry by entry."""

    @abc.abstractmethod
    def statistics(self, variance: Values) -> Any:
        """Per-row numbers of a pre-activation variance: a pytree of arrays `(..., *variance.shape)`."""

    @abc.abstractmethod
    def dual(self, k12: Values, first: Any, second: Any) -> Values:
        """The expectation of the product, from the covariance and both sides' statistics."""

    def dual_and_slope(self, k12: Values, first: Any, second: Any) -> tuple[Values, Values]:
        """The dual and its derivative in the covariance."""
        return jax.jvp(lambda k: self.dual(k, first, second), (k12,), (jnp.ones_like(k12),))

    def at_equal(self, variance: Values) -> tuple[Values, Values]:
        """`dual_and_slope` of a variable with itself; override where rounding of k12 would be felt."""
        statistics = self.statistics(variance)
        return self.dual_and_slope(variance, statistics, statistics)

    def signal(self, signal: Signal) -> Signal:
        if not signal.is_gaussian:
            raise ValueError(
                f"nn.{type(self).__name__} must act on the output of nn.Dense or nn.Conv (a Gaussian in the limit); "
                f"here it acts on {signal.source}"
            )
        return signal.replace(is_gaussian=False, is_fresh=False)

    def limit_rows(self, k: Covariance) -> tuple[Covariance, Any]:
        equal = k.equal_positions()
        variance = equal.nngp
        statistics = self.statistics(variance)
        value, slope = self.at_equal(variance)
        equal = equal.with_values(value, None if equal.ntk is None else equal.ntk * slope)
        if not (k.all_pairs and k.rank):
            return equal, statistics
        return self.limit_cross(k, statistics, statistics).with_equal_positions(equal), statistics

    def limit_cross(self, k: Covariance, statistics1: Any, statistics2: Any) -> Covariance:
        leaves1, structure = jax.tree.flatten(statistics1)
        aligned = [k.align(a, b) for a, b in zip(leaves1, jax.tree.leaves(statistics2), strict=True)]
        first = structure.unflatten([a for a, _ in aligned])
        second = structure.unflatten([b for _, b in aligned])
        if k.ntk is None:
            return k.with_values(self.dual(k.nngp, first, second), None)
        value, slope = self.dual_and_slope(k.nngp, first, second)
        return k.with_values(value, k.ntk * slope)

    def init(self, key, signal, parametrisation):
        return {}

    def apply(self, parameters, x, parametrisation, key):
        return self.function(x)
