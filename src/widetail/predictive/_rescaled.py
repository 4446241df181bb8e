"""A predictive distribution in other units."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from widetail.numerics import is_traced, namespace
from widetail.predictive._base import Predictive
from widetail.predictive._elliptical import double_or_traced
from widetail.priors import Values


class Rescaled(Predictive):
    """The distribution of `shift + factor * y` for y of `base`; made by `Predictive.rescale`.

    Args:
        base: distribution in the units that the model works in.
        shift: a number, or one for each output.
        factor: a positive number, or one for each output.

    Example:
        >>> import numpy as np
        >>> from widetail import predictive
        >>> dist = predictive.Normal(np.zeros(2), np.ones(2)).rescale(shift=20.0, factor=3.0)
        >>> dist.mean.tolist(), dist.std.tolist()
        ([20.0, 20.0], [3.0, 3.0])
    """

    base: Predictive
    shift: Any
    factor: Any

    def __init__(self, base: Predictive, shift: Any, factor: Any):
        self.base = base
        self.shift, self.factor = double_or_traced(shift), double_or_traced(factor)
        allowed = ((), base.event_shape[1:])
        if jnp.shape(self.shift) not in allowed or jnp.shape(self.factor) not in allowed:
            raise ValueError(
                f"rescale: shift and factor must be numbers or have shape {base.event_shape[1:]}, one for each "
                f"output, got {jnp.shape(self.shift)} and {jnp.shape(self.factor)}; they are the same for all points."
            )
        if not is_traced(self.factor) and not np.all(np.asarray(self.factor) > 0):
            raise ValueError(f"rescale: factor must be positive, got {self.factor}; flip the sign of the targets.")

    @property
    def event_shape(self) -> tuple[int, ...]:
        return self.base.event_shape

    def __getitem__(self, index: Any) -> "Rescaled":
        return Rescaled(self.base[index], self.shift, self.factor)

    def _mean(self) -> Values:
        return self.shift + self.factor * self.base._mean()

    def _median(self) -> Values:
        return self.shift + self.factor * self.base._median()

    def _var(self) -> Values:
        return self.factor**2 * self.base._var()

    def _cov(self) -> Values:
        return self.factor**2 * self.base._cov()

    def _log_prob(self, y: Values) -> Values:
        return self.base._log_prob((y - self.shift) / self.factor) - namespace(self, y).log(self.factor)

    def _joint_log_prob(self, y: Values) -> Values:
        xp = namespace(self, y)
        log_volume = xp.sum(xp.broadcast_to(xp.log(self.factor), self.event_shape))
        return self.base._joint_log_prob((y - self.shift) / self.factor) - log_volume

    def _cdf(self, y: Values) -> Values:
        return self.base._cdf((y - self.shift) / self.factor)

    def _above(self, y: Values) -> Values:
        return self.base._above((y - self.shift) / self.factor)

    def _quantile(self, p: Values) -> Values:
        return self.shift + self.factor * self.base._quantile(p)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Values:
        return self.shift + self.factor * self.base._draw(key, shape)

    def _crps(self, y: Values) -> Values:
        return self.factor * self.base._crps((y - self.shift) / self.factor)
