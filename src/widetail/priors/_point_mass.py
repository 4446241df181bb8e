"""A readout variance that is known."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from widetail.files import savable
from widetail.numerics import Bounds, namespace
from widetail.priors._base import ScalePrior
from widetail.priors._parameters import Parameter, Values, parameter


@savable("priors.PointMass")
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

    def log_prob_of_log(self, log_scale: Values) -> Values:
        xp = namespace(self, log_scale)
        return xp.where(log_scale == xp.log(self.v), xp.inf, -xp.inf)

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        xp = namespace(self, log_scale)
        below = xp.where(log_scale >= xp.log(self.v), 1.0, 0.0)
        return below, 1 - below

    def log_quantile(self, p: Values) -> Values:
        xp = namespace(self, p)
        return xp.zeros_like(p) + xp.log(self.v)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        return jnp.broadcast_to(jnp.log(self.v), shape + jnp.shape(self.v))

    def expectation(self) -> Values:
        return self.v

    @property
    def tail_index(self) -> Values:
        xp = namespace(self)
        return xp.full(jnp.shape(self.v), xp.inf)

    @property
    def log_middle(self) -> Values:
        xp = namespace(self)
        return xp.log(self.v)

    @property
    def log_bounds(self) -> Bounds:
        return Bounds()
