"""Stochastic natural gradients: one compiled step per minibatch of cached features."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from widetail.sparse._draws import Nodes, draws_for
from widetail.sparse._triangles import explained, lower_gram, mirrored
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.scales import ScaleLaw

REFRESH_EVERY = 16


class Moments(NamedTuple):
    """A `Variational` on its way through minibatches, as JAX arrays.

    `mean` and `root` are in the precision of the features; `precision`, of which the lower half counts, is in float64,
    as its eigenvalues go from one to the number of rows. `root` may be a few steps behind it: factoring costs as much
    as several minibatches.
    """

    mean: Any
    precision: Any
    root: Any


def moments_of(q: Variational, dtype: Any) -> Moments:
    """Where minibatches start."""
    with jax.enable_x64(True):
        mean, root = (jnp.asarray(np.asarray(part, dtype)) for part in (q.mean, q.root))
        return Moments(mean, jnp.asarray(q.precision), root)


def variational_of(moments: Moments, law: ScaleLaw) -> Variational:
    """Where minibatches have come to."""
    mean = np.asarray(moments.mean, np.float64)
    with jax.enable_x64(True):
        precision = np.asarray(mirrored(jnp.asarray(moments.precision)))
    return Variational(mean, precision, precision, law).with_precision(precision)


@functools.partial(jax.jit, donate_argnums=1)
def minibatch_step(
    likelihood: Likelihood,
    moments: Moments,
    features: Any,
    residual: Any,
    y: Any,
    counts: Any,
    nodes: Nodes,
    mean_precision: Any,
    factor: Any,
    rate: Any,
) -> tuple[Moments, Any]:
    """A natural-gradient step from one minibatch; the moments after it, and an estimate of the bound before it.

    The precision takes its step at once; means move along the covariance of the last `refresh`.

    Args:
        likelihood: with parameters as arrays.
        moments: consumed.
        features, residual, y, counts: of the minibatch.
        nodes: of the law of the scale.
        mean_precision: its expectation of one over the scale.
        factor: rows in all, divided by rows of the minibatch.
        rate: of the step.
    """
    mean, precision, root = moments
    inducing = mean.shape[1]
    variance = explained(features, root) + residual[:, None]
    draws = draws_for(nodes, len(features))
    found = likelihood.expectations(features @ mean.T, variance, y, nodes.scales, nodes.weights, draws)
    spread = jnp.sum(root**2) - 2 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2))) - mean.size
    divergence = 0.5 * (mean_precision * jnp.sum(mean**2) + spread)
    weights = factor * counts[:, None]
    bound = factor * jnp.sum(found.value * counts) - divergence
    curvature = lower_gram(features, found.curvature * (rate * weights))
    target = curvature.astype(precision.dtype) + rate.astype(precision.dtype) * jnp.eye(inducing, dtype=precision.dtype)
    gradient = (found.slope * weights).T @ features - mean_precision * mean
    direction = jnp.einsum("ckm,ck->cm", root, jnp.einsum("ckm,cm->ck", root, gradient)) / mean_precision
    precision = (1 - rate.astype(precision.dtype)) * precision + target
    return Moments(mean + rate * direction, precision, root), bound


@jax.jit
def refresh(moments: Moments) -> Moments:
    """Factor the precision anew; where log densities that are not concave have spoilt it, later steps may mend it."""
    factor = jnp.linalg.cholesky(moments.precision, symmetrize_input=False)
    eye = jnp.broadcast_to(jnp.eye(factor.shape[1], dtype=factor.dtype), factor.shape)
    root = jax.lax.linalg.triangular_solve(factor, eye, left_side=True, lower=True).astype(moments.root.dtype)
    is_definite = jnp.all(jnp.isfinite(root), axis=(1, 2), keepdims=True)
    return moments._replace(root=jnp.where(is_definite, root, moments.root))
