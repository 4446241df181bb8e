"""From a prior and a likelihood to the posterior of the readout variance."""

from typing import Literal

from jaxtyping import Array, PRNGKeyArray

from widetail.mixing._closed import closed_posterior
from widetail.mixing._importance import importance_posterior
from widetail.mixing._likelihoods import ScaledNoiseLikelihood, ScaleLikelihood
from widetail.mixing._parts import TwoParts
from widetail.mixing._posterior import ScalePosterior
from widetail.mixing._quadrature import quadrature_posterior
from widetail.numerics import double_precision
from widetail.priors import Contaminated, PointMass, ScalePrior

Method = Literal["auto", "closed", "quadrature", "importance"]


@double_precision
def scale_posterior(
    prior: ScalePrior,
    likelihood: ScaleLikelihood | None = None,
    method: Method = "auto",
    *,
    nodes: int = 64,
    draws: int = 1000,
    key: PRNGKeyArray | Array | None = None,
) -> ScalePosterior:
    """Condition the readout variance on data.

    Args:
        prior: prior of the readout variance.
        likelihood: what the data say about it; None for no data, the prior itself as mixing law.
        method: "closed" (inverse gamma with scaled noise; point mass), "quadrature" (any prior with a
            density), "importance" (weighted draws of the prior, for comparison), or "auto": closed where
            possible, otherwise quadrature.
        nodes: nodes of the quadrature. Outside of `jax.jit` they are doubled until it has converged.
        draws: draws of the importance sampler.
        key: random key of the importance sampler.

    Raises:
        ValueError: the method does not fit the prior, or the posterior does not exist (targets that are all
            zero, with a prior that has much mass near zero). Inside of `jax.jit` the log evidence is then
            `inf`.

    Example:
        >>> from widetail import mixing, priors
        >>> data = mixing.ScaledNoiseLikelihood(count=10, quad=5.0)
        >>> closed = mixing.scale_posterior(priors.InverseGamma(2.0, 2.0), data)
        >>> by_quadrature = mixing.scale_posterior(priors.InverseGamma(2.0, 2.0), data, "quadrature")
        >>> bool(abs(closed.log_evidence - by_quadrature.log_evidence) < 1e-10)
        True
    """
    if likelihood is None:
        likelihood = ScaledNoiseLikelihood(0.0, 0.0)
    if isinstance(prior, Contaminated) and method in ("auto", "closed", "quadrature"):
        (log_most, ordinary), (log_few, rest) = prior.parts
        most, few = (scale_posterior(part, likelihood, method, nodes=nodes) for part in (ordinary, rest))
        return TwoParts.of(most, few, log_most, log_few)
    if method in ("auto", "closed"):
        closed = closed_posterior(prior, likelihood)
        if closed is not None:
            return closed
        if method == "closed":
            raise ValueError(
                f"method='closed' needs an InverseGamma prior with noise inside the scale, or a PointMass "
                f"prior, got {prior!r} with {type(likelihood).__name__}; use method='quadrature' or 'auto'."
            )
    if method in ("auto", "quadrature"):
        if isinstance(prior, PointMass):
            raise ValueError(f"method='quadrature' needs a density, {prior!r} has none; use method='auto'.")
        return quadrature_posterior(prior, likelihood, nodes)
    if method == "importance":
        if key is None:
            raise ValueError("method='importance' needs a random key, got key=None; pass key=jax.random.key(0).")
        return importance_posterior(prior, likelihood, key, draws)
    raise ValueError(f"method must be 'auto', 'closed', 'quadrature' or 'importance', got {method!r}; 'auto' is exact.")
