"""Activations without a closed-form dual: any function, by its Hermite expansion."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail.files import savable
from widetail.gaussian import (
    Breaks,
    coefficients_by_pieces,
    complaint,
    find_breaks,
    graded_rule,
    hermite_coefficients,
    mehler_sum,
    norm_and_inverse,
)
from widetail.nn.activations._activation import Activation


class HermiteActivation(Activation):
    r"""A dual through the coefficients $a_j(k) = E[\phi(\sqrt{k}\, u)\, h_j(u)]$ of normalised Hermite polynomials.

    For a pair with correlation $c$ the dual is $\sum_j a_j(k_{11})\, a_j(k_{22})\, c^j$ (Mehler's formula): one
    one-dimensional integral per row instead of a two-dimensional one per pair. What a truncated sum leaves
    out is known at $c = \pm 1$ from the second moments of the even and the odd part of $\phi$; it is put
    into higher powers, which keeps the kernel positive semi-definite and exact for equal and for opposite inputs.
    """

    order: eqx.AbstractVar[int]

    def breaks(self) -> Breaks:
        """Where the function, its slope or its curvature jumps."""
        return Breaks((), None)

    def statistics(self, variance):
        norm, inverse = norm_and_inverse(variance)
        jax.eval_shape(self.function, norm)  # a function that cannot be used is refused here, before it is looked at
        breaks = self.breaks()

        def both(z):
            return jax.jvp(self.function, (z,), (jnp.ones_like(z),))

        if breaks.points:
            value, slope = coefficients_by_pieces(both, breaks.distances(norm), norm, inverse, self.order)
        else:
            nodes, projection, weights = graded_rule(self.order, str(variance.dtype))
            found = both(nodes.reshape(-1, *(1,) * variance.ndim) * norm)
            value, slope = (hermite_coefficients(values, projection, weights) for values in found)
        return {"inverse": inverse, "value": value, "slope": slope}

    def dual(self, k12, first, second):
        c = jnp.clip(k12 * (first["inverse"] * second["inverse"]), -1, 1)
        return mehler_sum(c, first["value"], second["value"], self.breaks().decay())

    def dual_and_slope(self, k12, first, second):
        c = jnp.clip(k12 * (first["inverse"] * second["inverse"]), -1, 1)
        return (
            mehler_sum(c, first["value"], second["value"], self.breaks().decay()),
            mehler_sum(c, first["slope"], second["slope"], self.breaks().decay(1)),
        )

    def at_equal(self, variance):
        statistics = self.statistics(variance)
        return jnp.sum(statistics["value"] ** 2, axis=0), jnp.sum(statistics["slope"] ** 2, axis=0)


@savable("nn.Elementwise")
class Elementwise(HermiteActivation):
    r"""Any function of every feature.

    Its dual is computed by quadrature, exactly for equal and for opposite inputs. Places where the function, its slope
    or its curvature jumps are looked for (see `widetail.gaussian.find_breaks`), and integrals go from one to the
    next; not for a function of traced numbers, such as a threshold that is being learned, whose diagonal can then be
    wrong by 5 %. In between, the largest errors over all correlations, as fractions of the dual at correlation 1 (in
    brackets: of the dual of the derivative, which the tangent kernel needs), in float64:

    | function | variance | order 32 | order 64 | order 128 |
    |---|---|---|---|---|
    | tanh | 1 | 6e-9 (2e-7) | 2e-12 (2e-10) | 1e-14 (1e-14) |
    | tanh | 4 | 1e-5 (4e-4) | 2e-7 (1e-5) | 4e-10 (4e-8) |
    | tanh | 25 | 2e-3 (3e-2) | 2e-4 (6e-3) | 1e-5 (8e-4) |
    | silu | 4 | 5e-9 (1e-7) | 2e-12 (8e-11) | 1e-14 (1e-14) |
    | silu | 25 | 1e-5 (4e-4) | 3e-7 (2e-5) | 2e-9 (3e-7) |
    | relu | any | 2e-6 (2e-4) | 3e-7 (5e-5) | 2e-7 (3e-5) |
    | a step, round, floor | 0.1 to 4 | 6e-3 | 3e-3 | 2e-3 |
    | a bump of 1/4 standard deviation | | 3e-2 | 3e-2 | 1e-2 |

    The sigmoid at a variance of $4 v$ is like tanh at $v$. With jumps, inputs of correlations above 0.97 that differ
    in length have larger errors, up to 6 % for one of twice the other's variance in the same direction. What a smooth
    function does within less than a tenth of a standard deviation, other than near zero, is missed: a narrow peak has
    to be a function with jumps. Prefer a layer with a closed form where there is one.

    Args:
        fn: a JAX function that acts on every entry, such as `jax.nn.silu`.
        order: an even number of Hermite polynomials; the cost per pair is proportional to it.

    Example:
        >>> import jax
        >>> from widetail import nn
        >>> nn.Elementwise(jax.nn.silu)
        nn.Elementwise(fn=jax.nn.silu)
    """

    fn: Callable[[Any], Any] = eqx.field(static=True)
    order: int = eqx.field(static=True, default=64)

    def __check_init__(self):
        if not callable(self.fn):
            raise ValueError(f"nn.Elementwise needs a function of arrays; got {self.fn!r}.")
        wrong = complaint(self.fn)
        if wrong is not None:
            raise ValueError(f"nn.Elementwise: the function {wrong}; got {self.fn!r}.")
        _check_order(self.order)

    def breaks(self):
        return find_breaks(self.fn)

    def function(self, x):
        return self.fn(x).astype(x.dtype)


@savable("nn.Tanh")
class Tanh(HermiteActivation):
    """The hyperbolic tangent, by quadrature; accuracy as in `Elementwise`."""

    order: int = eqx.field(static=True, default=64)

    def __check_init__(self):
        _check_order(self.order)

    def function(self, x):
        return jnp.tanh(x)


@savable("nn.Sigmoid")
class Sigmoid(HermiteActivation):
    """The logistic function 1 / (1 + exp(-x)), by quadrature; accuracy as in `Elementwise`."""

    order: int = eqx.field(static=True, default=64)

    def __check_init__(self):
        _check_order(self.order)

    def function(self, x):
        return jax.nn.sigmoid(x)


# Beyond this rounding spoils what more polynomials gain; and a file must not ask for all of the memory.
_LARGEST_ORDER = 4096


def _check_order(order: Any) -> None:
    if not isinstance(order, int) or not 2 <= order <= _LARGEST_ORDER or order % 2:
        raise ValueError(f"order must be an even integer, at least 2 and at most {_LARGEST_ORDER}; got {order!r}.")
