"""What every likelihood can do, and the expectations that variational inference needs of it."""

import abc
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from widetail.predictive import Predictive
from widetail.sparse.predictions._latent import Latent
from widetail.sparse.predictions._observed import Integrated, Observed

# Nodes of the quadrature over one latent value: 1e-9 for a logistic function under a standard deviation of 3.
HERMITE_NODES = 32
# Equally spaced nodes of the predictive density of y, up to so many standard deviations of f.
PREDICTIVE_NODES, FARTHEST_NODE = 513, 7.0
# Keeps the root of a variance differentiable where a row is known exactly.
SMALLEST_VARIANCE = 1e-12


class Expectations(NamedTuple):
    """Expectations of the log density of rows under q(f), with weights summed over the nodes of the scale.

    Attributes:
        value: of the log density itself, shape (rows,).
        slope: of its derivative in the latent mean, shape (rows, outputs).
        curvature: of minus the second derivative in f, *times the scale*, shape (rows, outputs); equal to minus twice
            the derivative of `value` in the variance.
    """

    value: Float[Array, " rows"]
    slope: Float[Array, "rows outputs"]
    curvature: Float[Array, "rows outputs"]


class Likelihood(eqx.Module):
    """The law of a target given its latent values f and the scale of the draw.

    A new likelihood gives `log_prob`, elementwise, and `sample`; expectations then come by Gauss-Hermite quadrature and
    their derivatives by differentiation, the predictive distribution of y by quadrature and draws. Override
    `expected_log_prob` and `predictive` where there is a closed form.
    Parameters named in `learnable` are positive and are learned by empirical Bayes.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from widetail.sparse import Likelihood
        >>> class Laplace(Likelihood):
        ...     width: float = 1.0
        ...     learnable = ("width",)
        ...     def log_prob(self, f, y, scale):
        ...         return -jnp.abs(y - f) / self.width - jnp.log(2 * jnp.asarray(self.width, f.dtype))
        ...     def sample(self, key, f, scale):
        ...         return f + self.width * jax.random.laplace(key, f.shape, f.dtype)
    """

    learnable: ClassVar[tuple[str, ...]] = ()
    couples_outputs: ClassVar[bool] = False
    """Whether a target depends on all outputs together, so that expectations are taken by draws of f."""
    only_differences: ClassVar[bool] = False
    """Whether f shifted by the same number in all outputs says the same of y; gives `contrast_weights` then."""
    has_units: ClassVar[bool] = True
    """Whether y may be shifted and rescaled; False for counts and classes."""
    is_centred_at_f: ClassVar[bool] = False
    """Whether y lies symmetrically around f, so that the location of f is that of y even where y has no mean."""

    @abc.abstractmethod
    def log_prob(self, f: Any, y: Any, scale: Any) -> Any:
        """Log density of y, elementwise; `scale` is the readout variance of the draw, for noise inside of it."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray, f: Any, scale: Any) -> Any:
        """A draw of y for every f."""

    def predictive(self, latent: Latent) -> Predictive:
        """The predictive distribution of targets whose latent values have the posterior `latent`."""
        return Observed(latent, self, Integrated(latent, self))

    def guide(self, y: np.ndarray) -> np.ndarray:
        """Targets for the Gaussian evidence by which a kernel is learned: y on the scale of f, roughly."""
        return y

    def noise_at(self, scales: np.ndarray) -> np.ndarray | None:
        """Variances of the noise at some scales where y is f plus Gaussian noise; None for any other likelihood."""
        return None

    def under_scale(self, factor: float) -> "Likelihood":
        """The likelihood that says the same of y where every scale is `factor` times as large."""
        return self

    def contrast_weights(self, found: Expectations, y: Any, scale: Any) -> Any:
        r"""Where `only_differences` of outputs matter: weights w by which they do, shape (rows, outputs).

        The curvature of a row is then taken for $\mathrm{diag}(w) - w w^\top / \sum_c w_c$. None, the default, is for
        outputs that say something one by one.

        Args:
            found: `expectations` of the rows.
            y: their targets.
            scale: expectation of the scale.
        """
        return None

    def check_targets(self, y: np.ndarray) -> None:
        """Raise a ValueError that names y when it cannot come from this likelihood."""

    def expected_log_prob(self, mean: Any, variance: Any, y: Any, scale: Any, draws: Any) -> Any:
        """Expectation of the log density under N(mean, scale * variance), shape (rows,).

        Args:
            mean, variance: shape (rows, outputs).
            y: targets, shape (rows, outputs).
            scale: one readout variance.
            draws: standard normal draws, shape (rows, draws, outputs); for likelihoods that couple outputs.
        """
        nodes, weights = _hermite(mean.dtype)
        f = mean[..., None] + jnp.sqrt(scale * variance)[..., None] * nodes
        return jnp.sum(self.log_prob(f, y[..., None], scale) @ weights, axis=-1)

    def log_predictive(self, mean: Any, variance: Any, y: Any, scales: Any, weights: Any, draws: Any) -> Any:
        """Log density of the targets of a row, integrated over f and over the scale, shape (rows,).

        Outputs of a row share the scale.

        Args:
            mean, variance, y, scales, weights, draws: as in `expectations`.
        """
        variance = jnp.maximum(variance, SMALLEST_VARIANCE)

        def by_draws(scale: Any, z: Any) -> Any:
            f = mean[:, None] + jnp.sqrt(scale * variance)[:, None] * z
            log_p = self.log_prob(f, jnp.expand_dims(y, 1), scale)
            return jax.nn.logsumexp(log_p, axis=1) - math.log(z.shape[1])

        # densities may be narrow in f, and equal steps see them where few nodes of Gauss would not
        nodes = jnp.linspace(-FARTHEST_NODE, FARTHEST_NODE, PREDICTIVE_NODES, dtype=mean.dtype)
        log_weights = jax.nn.log_softmax(-0.5 * nodes**2)

        def by_nodes(scale: Any) -> Any:
            f = mean[..., None] + jnp.sqrt(scale * variance)[..., None] * nodes
            return jnp.sum(jax.nn.logsumexp(self.log_prob(f, y[..., None], scale) + log_weights, axis=-1), axis=-1)

        per_scale = jax.vmap(by_draws)(scales, draws) if self.couples_outputs else jax.lax.map(by_nodes, scales)
        return jax.nn.logsumexp(per_scale, axis=0, b=weights[:, None])

    def expectations(self, mean: Any, variance: Any, y: Any, scales: Any, weights: Any, draws: Any) -> Expectations:
        """Expectations over f and over the scale.

        Args:
            mean, variance: of f given a unit scale, shape (rows, outputs).
            y: targets.
            scales, weights: nodes of q(scale) and their probabilities, shape (nodes,).
            draws: standard normal draws, shape (nodes, rows, draws, outputs).
        """
        variance = jnp.maximum(variance, SMALLEST_VARIANCE)

        def total(mean: Any, variance: Any) -> Any:
            per_node = jax.vmap(lambda scale, z: self.expected_log_prob(mean, variance, y, scale, z))(scales, draws)
            value = weights @ per_node
            return jnp.sum(value), value

        (_, value), (slope, by_variance) = jax.value_and_grad(total, (0, 1), has_aux=True)(mean, variance)
        return Expectations(value, slope, -2 * by_variance)


def _hermite(dtype: Any) -> tuple[Any, Any]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
    return jnp.asarray(nodes, dtype), jnp.asarray(weights / weights.sum(), dtype)
