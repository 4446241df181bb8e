"""Ordinary scales, and a few that are far larger."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from widetail.files import savable
from widetail.numerics import Bounds, is_traced, namespace
from widetail.priors._base import ScalePrior
from widetail.priors._gammas import InverseGamma
from widetail.priors._inversion import log_quantile_by_root
from widetail.priors._parameters import Parameter, Values, parameter, show


@savable("priors.Contaminated")
class Contaminated(ScalePrior):
    r"""Two inverse gamma laws: $(1 - p)\,\mathrm{IG}(a, a) + p\,\mathrm{IG}(t, t c)$.

    Made for the scales of rows (`RowNoise`): most rows are ordinary, with noise that is normal for a large a, and a
    share p of them has a variance about c times as large. A single inverse gamma law that holds a few outliers has a
    heavy tail for all rows, and then no row says much of the noise.

    Args:
        share: p, between 0 and 1.
        a: shape of the ordinary part; their noise is Student's t with 2a degrees of freedom.
        far: c.
        tail: t; the noise of the others is Student's t with 2t degrees of freedom.

    Example:
        >>> from widetail import priors
        >>> prior = priors.Contaminated(0.1, a=50.0, far=100.0)
        >>> round(float(1 - prior.cdf(10.0)), 2)
        0.1
    """

    share: Parameter
    a: Parameter
    far: Parameter
    tail: Parameter

    def __init__(self, share: Any = 0.05, a: Any = 50.0, far: Any = 100.0, tail: Any = 1.5):
        self.share = parameter(share, "Contaminated", "share")
        self.a = parameter(a, "Contaminated", "a")
        self.far = parameter(far, "Contaminated", "far")
        self.tail = parameter(tail, "Contaminated", "tail")
        if not is_traced(self.share) and not np.all(self.share < 1):
            raise ValueError(f"Contaminated: share must lie between 0 and 1, got {show(share)}; it is a probability.")

    @property
    def parts(self) -> tuple[tuple[Values, InverseGamma], tuple[Values, InverseGamma]]:
        """Log probability and law of ordinary scales, and of the others."""
        xp = namespace(self)
        ordinary, rest = InverseGamma(self.a, self.a), InverseGamma(self.tail, self.tail * self.far)
        return (xp.log1p(-self.share), ordinary), (xp.log(self.share), rest)

    def log_prob_of_log(self, log_scale: Values) -> Values:
        xp = namespace(self, log_scale)
        return xp.logaddexp(*(log_share + part.log_prob_of_log(log_scale) for log_share, part in self.parts))

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        xp = namespace(self, log_scale)
        (log_most, ordinary), (log_few, rest) = self.parts
        pairs = zip(ordinary.tails_of_log(log_scale), rest.tails_of_log(log_scale), strict=True)
        below, above = (xp.exp(log_most) * one + xp.exp(log_few) * other for one, other in pairs)
        return below, above

    def log_quantile(self, p: Values) -> Values:
        if is_traced(self, p):
            return log_quantile_by_root(self, p)
        with jax.enable_x64(True):
            return np.asarray(log_quantile_by_root(self, jnp.asarray(p)))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        which, first, second = jax.random.split(key, 3)
        (_, ordinary), (_, rest) = self.parts
        here, there = ordinary.draw_log(first, shape), rest.draw_log(second, shape)
        chance = jnp.broadcast_to(self.share, shape + jnp.broadcast_shapes(*map(jnp.shape, jax.tree.leaves(self))))
        return jnp.where(jax.random.uniform(which, chance.shape) < chance, there, here)

    def expectation(self) -> Values:
        (_, ordinary), (_, rest) = self.parts
        return (1 - self.share) * ordinary.expectation() + self.share * rest.expectation()

    @property
    def tail_index(self) -> Values:
        return namespace(self).minimum(self.a, self.tail)

    @property
    def log_middle(self) -> Values:
        return 0.0 * (self.share + self.a + self.far + self.tail)

    @property
    def log_bounds(self) -> Bounds:
        return Bounds()
