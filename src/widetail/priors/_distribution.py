"""What distributions of the readout variance have in common, before data and after: they are those of its logarithm."""

import abc

import equinox as eqx
from jaxtyping import Array, PRNGKeyArray

from widetail.numerics import double_precision, namespace
from widetail.priors._parameters import Numbers, Values


class ScaleDistribution(eqx.Module):
    """A distribution of the readout variance, computed on the logarithm; priors and posteriors derive from it."""

    @double_precision
    def log_prob(self, scale: Numbers) -> Values:
        """Log density at `scale`; `-inf` outside of the support."""
        xp = namespace(self, scale)
        scale = xp.asarray(scale, float)
        log_scale = xp.log(xp.where(scale > 0, scale, 1.0))
        return xp.where(scale > 0, self.log_prob_of_log(log_scale) - log_scale, -xp.inf)[()]

    @double_precision
    def cdf(self, scale: Numbers) -> Values:
        """Probability that the readout variance is at most `scale`."""
        xp = namespace(self, scale)
        scale = xp.asarray(scale, float)
        below = self.below_log(xp.log(xp.where(scale > 0, scale, 1.0)))
        return xp.where(scale > 0, below, 0.0)[()]

    @double_precision
    def sample(self, key: PRNGKeyArray | Array, shape: tuple[int, ...] = ()) -> Values:
        """Independent draws, of shape `shape` followed by that of the distribution."""
        log_scale = self.draw_log(key, shape)
        return namespace(log_scale).exp(log_scale)

    @abc.abstractmethod
    def log_prob_of_log(self, log_scale: Values) -> Values:
        """Log density of the *logarithm* of the readout variance; finite far beyond where its exp is."""

    @abc.abstractmethod
    def below_log(self, log_scale: Values) -> Values:
        """Probability of a logarithm at most this."""

    @abc.abstractmethod
    def log_quantile(self, p: Values) -> Values:
        """Log of the quantile."""

    @abc.abstractmethod
    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        """Draws of the logarithm, of shape `shape` followed by that of the distribution."""

    @property
    @abc.abstractmethod
    def tail_index(self) -> Values:
        """Supremum of the powers of the readout variance that have a finite expectation."""
