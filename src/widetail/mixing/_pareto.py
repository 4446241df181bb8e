"""The tail index of importance weights."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float


def pareto_k(log_weights: Float[Array, "draws *batch"]) -> Float[Array, "*batch"]:
    """Shape of a generalised Pareto distribution fitted to the largest weights.

    The estimator of Zhang and Stephens (2009), with the weakly informative prior and the number of largest
    weights of Vehtari et al. (2024, Pareto smoothed importance sampling). Above 0.7 the weights have no
    useful mean.
    """
    draws = log_weights.shape[0]
    tail = max(5, math.ceil(min(0.2 * draws, 3 * math.sqrt(draws))))
    largest = jnp.sort(log_weights, axis=0)[-min(tail, draws - 1) - 1 :]
    weights = jnp.exp(largest - largest[-1])
    excess = weights[1:] - weights[0]
    fitted = _fit_shape(jnp.maximum(excess, jnp.finfo(excess.dtype).tiny))
    return (excess.shape[0] * fitted + 10 * 0.5) / (excess.shape[0] + 10)


def _fit_shape(excess: Float[Array, "tail *batch"]) -> Float[Array, "*batch"]:
    size = excess.shape[0]
    candidates = 30 + int(math.sqrt(size))
    index = (jnp.arange(candidates, dtype=float) + 0.5).reshape((-1,) + (1,) * (excess.ndim - 1))
    quarter = excess[int(size / 4 + 0.5) - 1]
    theta = 1 / excess[-1] + (1 - jnp.sqrt(candidates / index)) / (3 * quarter)
    shape = jnp.mean(jnp.log1p(-theta[:, None] * excess), axis=1)
    log_likelihood = size * (jnp.log(-theta / shape) - shape - 1)
    log_likelihood = jnp.where(jnp.isnan(log_likelihood), -jnp.inf, log_likelihood)
    relative = jnp.exp(log_likelihood - jnp.max(log_likelihood, axis=0))
    best = jnp.sum(theta * relative, axis=0) / jnp.sum(relative, axis=0)
    return jnp.mean(jnp.log1p(-best * excess), axis=0)
