r"""Functions of a Gaussian variable in normalised Hermite polynomials.

With coefficients $a_j = E[\phi(u)\, h_j(u)]$ of $\phi$ and $b_j$ of $\psi$, and unit variables of correlation $c$,
$E[\phi(u)\, \psi(u')] = \sum_j a_j b_j c^j$ (Mehler's formula): one one-dimensional integral per row instead of a
two-dimensional one per pair.
"""

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@functools.lru_cache
def hermite_rule(order: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, the matrix that gives the coefficients of a function on them, and the plain weights.

    The trapezoidal rule converges exponentially for a smooth function under a Gaussian weight, and takes
    steep functions better than Gauss-Hermite with as many nodes.

    Args:
        order: how many polynomials, an even number.
        dtype: the name of a floating-point type.

    Returns:
        Nodes (m,), projection (order, m) and weights (m,).
    """
    nodes = np.linspace(-13, 13, max(4 * order, 128))
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    rows = [np.ones_like(nodes), nodes]
    for j in range(1, order - 1):
        rows.append((nodes * rows[j] - np.sqrt(j) * rows[j - 1]) / np.sqrt(j + 1))
    projection = np.stack(rows[:order]) * weights
    return nodes.astype(dtype), projection.astype(dtype), weights.astype(dtype)


def hermite_coefficients(
    values: Float[Array, "m ..."], projection: np.ndarray, weights: np.ndarray
) -> Float[Array, "terms ..."]:
    """Coefficients of the first `order` polynomials, and the remainders of the even and the odd part.

    What a truncated series leaves out is known at correlations 1 and -1, from the second moments of the even and the
    odd part of the function. Put into the next two powers, it keeps a kernel positive semi-definite, and exact for
    equal and for opposite variables.
    """
    found = jnp.tensordot(projection, values, 1)
    reflected = values[::-1]
    remainders = []
    for parity, part in ((0, 0.5 * (values + reflected)), (1, 0.5 * (values - reflected))):
        moment = jnp.tensordot(weights, part**2, 1)
        missing = moment - jnp.sum(found[parity::2] ** 2, axis=0)
        is_left = missing > 32 * jnp.finfo(values.dtype).eps * moment
        remainders.append(jnp.where(is_left, jnp.sqrt(jnp.where(is_left, missing, 1)), 0))
    return jnp.concatenate([found, jnp.stack(remainders)])


def mehler_sum(
    c: Float[Array, "..."], first: Float[Array, "terms ..."], second: Float[Array, "terms ..."]
) -> Float[Array, "..."]:
    """The sum of `first[j] * second[j] * c**j`: the expectation of a product, from both sides' coefficients."""
    total = first[-1] * second[-1]
    for j in reversed(range(first.shape[0] - 1)):
        total = total * c + first[j] * second[j]
    return total
