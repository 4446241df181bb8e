"""Stochastic natural gradients: one compiled step per minibatch of cached features."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from widetail.sparse._rows import Nodes, _draws, _explained
from widetail.sparse._scale import ScaleLaw
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood

REFRESH_EVERY = 8


class Moments(NamedTuple):
    """A `Variational` on its way through minibatches, as JAX arrays in the precision of the features.

    `root` may be a few steps behind `precision`: factoring costs as much as several minibatches.
    """

    mean: Any
    precision: Any
    root: Any


def moments_of(q: Variational, dtype: Any) -> Moments:
    """Where minibatches start."""
    with jax.enable_x64(True):
        return Moments(*(jnp.asarray(np.asarray(part, dtype)) for part in (q.mean, q.precision, q.root)))


def variational_of(moments: Moments, law: ScaleLaw) -> Variational:
    """Where minibatches have come to."""
    mean, precision = (np.asarray(part, np.float64) for part in moments[:2])
    return Variational(mean, precision, precision, law).with_precision(precision)


@functools.partial(jax.jit, donate_argnums=1)
def minibatch_step(
    likelihood: Likelihood,
    moments: Moments,
    features: Any,
    residual: Any,
    y: Any,
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
        features, residual, y: of the minibatch.
        nodes: of the law of the scale.
        mean_precision: its expectation of one over the scale.
        factor: rows in all, divided by rows of the minibatch.
        rate: of the step.
    """
    mean, precision, root = moments
    inducing = mean.shape[1]
    variance = _explained(features, root) + residual[:, None]
    draws = _draws(nodes, len(features))
    found = likelihood.expectations(features @ mean.T, variance, y, nodes.scales, nodes.weights, draws)
    spread = jnp.sum(root**2) - 2 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2))) - mean.size
    divergence = 0.5 * (mean_precision * jnp.sum(mean**2) + spread)
    bound = factor * jnp.sum(found.value) - divergence
    weighted = (found.curvature * (rate * factor)).T[:, None, :] * features.T[None]
    curvature = (weighted.reshape(-1, len(features)) @ features).reshape(precision.shape)
    eye = rate * jnp.eye(inducing, dtype=mean.dtype)
    gradient = factor * (found.slope.T @ features) - mean_precision * mean
    direction = jnp.einsum("ckm,ck->cm", root, jnp.einsum("ckm,cm->ck", root, gradient)) / mean_precision
    return Moments(mean + rate * direction, (1 - rate) * precision + (curvature + eye), root), bound


@jax.jit
def refresh(moments: Moments) -> Moments:
    """Factor the precision anew."""
    factor = jnp.linalg.cholesky(moments.precision)
    eye = jnp.broadcast_to(jnp.eye(factor.shape[1], dtype=factor.dtype), factor.shape)
    return moments._replace(root=jax.lax.linalg.triangular_solve(factor, eye, left_side=True, lower=True))
