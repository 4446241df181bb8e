"""Activations without a closed-form dual: any function, by its Hermite expansion."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from widetail.files import savable
from widetail.gaussian import hermite_coefficients, hermite_rule, mehler_sum, norm_and_inverse
from widetail.nn._activation import Activation


class HermiteActivation(Activation):
    r"""A dual through the coefficients $a_j(k) = E[\phi(\sqrt{k}\, u)\, h_j(u)]$ of normalised Hermite polynomials.

    For a pair with correlation $c$ the dual is $\sum_j a_j(k_{11})\, a_j(k_{22})\, c^j$ (Mehler's formula): one
    one-dimensional integral per row instead of a two-dimensional one per pair. What a truncated sum leaves
    out is known at $c = \pm 1$ from the second moments of the even and the odd part of $\phi$; it is put
    into the next two powers, which keeps the kernel positive semi-definite and exact for equal and for
    opposite inputs.
    """

    order: eqx.AbstractVar[int]

    def statistics(self, variance):
        norm, inverse = norm_and_inverse(variance)
        nodes, projection, weights = hermite_rule(self.order, str(variance.dtype))
        z = nodes.reshape(-1, *(1,) * variance.ndim) * norm
        values, slopes = jax.jvp(self.function, (z,), (jnp.ones_like(z),))
        return {
            "inverse": inverse,
            "value": hermite_coefficients(values, projection, weights),
            "slope": hermite_coefficients(slopes, projection, weights),
        }

    def dual(self, k12, first, second):
        c = jnp.clip(k12 * (first["inverse"] * second["inverse"]), -1, 1)
        return mehler_sum(c, first["value"], second["value"])

    def dual_and_slope(self, k12, first, second):
        c = jnp.clip(k12 * (first["inverse"] * second["inverse"]), -1, 1)
        return (
            mehler_sum(c, first["value"], second["value"]),
            mehler_sum(c, first["slope"], second["slope"]),
        )

    def at_equal(self, variance):
        statistics = self.statistics(variance)
        return jnp.sum(statistics["value"] ** 2, axis=0), jnp.sum(statistics["slope"] ** 2, axis=0)


@savable("nn.Elementwise")
class Elementwise(HermiteActivation):
    r"""Any function of every feature.

    Its dual is computed by quadrature. For a function without jumps it is exact for equal and for opposite inputs. A
    jump lies between two nodes, a tenth of a standard deviation apart (26 standard deviations over 4 `order`
    nodes): a step or `jnp.round` has errors up to 5 %, for equal inputs too, which fall as 1 / `order`. In between, the
    largest errors over all correlations, as fractions of the dual at correlation 1 (in brackets: of the dual of the
    derivative, which the tangent kernel needs), in float64:

    | function | variance | order 32 | order 64 | order 128 |
    |---|---|---|---|---|
    | tanh | 1 | 6e-9 (2e-7) | 2e-12 (2e-10) | 1e-14 (1e-14) |
    | tanh | 4 | 1e-5 (4e-4) | 2e-7 (1e-5) | 4e-10 (4e-8) |
    | tanh | 25 | 2e-3 (3e-2) | 2e-4 (6e-3) | 1e-5 (8e-4) |
    | silu | 4 | 5e-9 (1e-7) | 2e-12 (8e-11) | 1e-14 (1e-14) |
    | silu | 25 | 1e-5 (4e-4) | 3e-7 (2e-5) | 2e-9 (3e-7) |
    | relu | any | 1e-3 (1e-2) | 3e-4 (1e-2) | 7e-5 (9e-3) |

    The sigmoid at a variance of $4 v$ is like tanh at $v$. Functions with kinks or jumps converge slowly: prefer a
    layer with a closed form where there is one.

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
        _check_order(self.order)

    def function(self, x):
        try:
            y = self.fn(x)
        except jax.errors.TracerArrayConversionError:
            raise ValueError(
                f"nn.Elementwise: the function must be made of JAX operations (jnp.tanh, not np.tanh); got {self.fn!r}."
            ) from None
        if jnp.shape(y) != x.shape:
            raise ValueError(
                f"nn.Elementwise: the function must act entry by entry, but it maps shape {x.shape} to {jnp.shape(y)}."
            )
        return y.astype(x.dtype)


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


def _check_order(order: Any) -> None:
    if not isinstance(order, int) or order < 2 or order % 2:
        raise ValueError(f"order must be an even integer, at least 2; got {order!r}.")
