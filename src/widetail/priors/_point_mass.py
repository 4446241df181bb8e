"""A readout variance that is known."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from widetail._integrate import Bounds
from widetail.priors._base import ScalePrior
from widetail.priors._parameters import Parameter, parameter


class PointMass(ScalePrior):
    r"""$\beta = v$ with certainty: the plain NNGP.

    There is no density: `log_prob` is `inf` at v and `-inf` elsewhere.

    Args:
        v: the readout variance.

    Example:
        >>> from widetail import priors
        >>> float(priors.PointMass(1.5).mean)
        1.5
    """

    v: Parameter

    def __init__(self, v: Any):
        self.v = parameter(v, "PointMass", "v")

    def log_prob_of_log(self, log_scale: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        return jnp.where(log_scale == jnp.log(self.v), jnp.inf, -jnp.inf)

    def tails_of_log(self, log_scale: Float[Array, "..."]) -> tuple[Array, Array]:
        """See `ScalePrior`."""
        below = jnp.where(log_scale >= jnp.log(self.v), 1.0, 0.0)
        return below, 1 - below

    def log_quantile(self, p: Float[Array, "..."]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        return jnp.zeros_like(p) + jnp.log(self.v)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        return jnp.broadcast_to(jnp.log(self.v), shape + jnp.shape(self.v))

    def expectation(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return self.v

    @property
    def tail_index(self) -> Float[Array, "..."]:
        """See `ScalePrior`."""
        return jnp.full(jnp.shape(self.v), jnp.inf)

    @property
    def log_middle(self) -> Float[ArrayLike, "..."]:
        """See `ScalePrior`."""
        return jnp.log(self.v)

    @property
    def log_bounds(self) -> Bounds:
        """See `ScalePrior`."""
        return Bounds()
