"""A model's Taylor series in its parameters."""

from collections.abc import Callable
from typing import Any

import jax

from widetail.checks import check_count


def linearize(apply: Callable[..., Any], params: Any) -> Callable[..., Any]:
    r"""The model that is linear in its parameters: $f(\theta_0) + \partial_\theta f(\theta_0) (\theta - \theta_0)$.

    Args:
        apply: a function `apply(params, *arguments)`; what it returns may be any pytree.
        params: where to expand.

    Returns:
        A function of the same arguments.

    Example:
        >>> import jax.numpy as jnp
        >>> from widetail import empirical
        >>> line = empirical.linearize(lambda p, x: p**2 * x, jnp.array(1.0))
        >>> float(line(jnp.array(1.5), 2.0))
        4.0
    """
    return taylor_expand(apply, params, 1)


def taylor_expand(apply: Callable[..., Any], params: Any, degree: int) -> Callable[..., Any]:
    """The model's Taylor series in its parameters up to `degree`.

    Args:
        apply: a function `apply(params, *arguments)`; what it returns may be any pytree.
        params: where to expand.
        degree: how many derivatives; 0 is the model at `params`, whatever it is called with.

    Returns:
        A function of the same arguments.

    Example:
        >>> import jax.numpy as jnp
        >>> from widetail import empirical
        >>> square = empirical.taylor_expand(lambda p, x: p**3 * x, jnp.array(1.0), 2)
        >>> float(square(jnp.array(2.0), 1.0))  # 1 + 3 + 3, without the last 1
        7.0
    """
    if degree != 0:
        degree = check_count("degree", degree)

    def expanded(new: Any, *arguments: Any, **options: Any) -> Any:
        step = jax.tree.map(lambda after, before: after - before, new, params)

        def derivative(order: int) -> Callable[[Any], Any]:
            if order == 0:
                return lambda p: apply(p, *arguments, **options)
            below = derivative(order - 1)
            return lambda p: jax.jvp(below, (p,), (step,))[1]

        def both(order: int) -> Any:
            """Derivatives order and order + 1 in one pass."""
            return jax.jvp(derivative(order), (params,), (step,))

        terms: list[Any] = []
        for order in range(0, degree + 1, 2):
            terms += [derivative(order)(params)] if order == degree else list(both(order))
        total, factorial = terms[0], 1.0
        for order, term in enumerate(terms[1:], 1):
            factorial *= order
            total = jax.tree.map(lambda sum_, part, over=factorial: sum_ + part / over, total, term)
        return total

    return expanded
