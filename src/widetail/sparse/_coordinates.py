"""The law of the scale in unconstrained coordinates, for gradients by differentiation."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widetail.sparse._scale import GridScale, InverseGammaScale, PointScale, ScaleLaw

NODES_OF_INVERSE_GAMMA = 16


def coordinates_of(law: ScaleLaw) -> dict[str, Any]:
    """The numbers of a law that are learned; none where it is held or given."""
    if isinstance(law, PointScale):
        return {"log_value": np.log(law.value)} if law.learn else {}
    if isinstance(law, InverseGammaScale):
        return {"log_a": np.log(law.a)} | ({} if law.is_held else {"log_b": np.log(law.b)})
    assert isinstance(law, GridScale)
    return {} if law.is_held else {"logits": np.log(np.maximum(law.weights, 1e-30))}


def law_at(law: ScaleLaw, coordinates: dict[str, Any]) -> ScaleLaw:
    """The law of the same family with these numbers."""
    if isinstance(law, PointScale):
        return PointScale(float(np.exp(coordinates["log_value"])), learn=True) if law.learn else law
    if isinstance(law, InverseGammaScale):
        a = float(np.exp(coordinates["log_a"]))
        b = a / law.mean_precision if law.is_held else float(np.exp(coordinates["log_b"]))
        return dataclasses.replace(law, a=a, b=b)
    assert isinstance(law, GridScale)
    if law.is_held:
        return law
    logits = coordinates["logits"] - np.max(coordinates["logits"])
    return law.with_weights(np.exp(logits) / np.sum(np.exp(logits)))


def terms_at(law: ScaleLaw, coordinates: dict[str, Any], dtype: Any) -> tuple[Any, Any, Any, Any]:
    """Scales, probabilities, expected precision and divergence, differentiable in the coordinates."""
    if isinstance(law, PointScale):
        scale = jnp.exp(coordinates["log_value"]) if law.learn else jnp.asarray(law.value, dtype)
        return scale[None], jnp.ones(1, dtype), 1 / scale, jnp.zeros((), dtype)
    if isinstance(law, InverseGammaScale):
        a = jnp.exp(coordinates["log_a"])
        b = a / law.mean_precision if law.is_held else jnp.exp(coordinates["log_b"])
        # only the weights of the nodes are differentiated
        width = 6 * jax.lax.rsqrt(jax.lax.stop_gradient(a))
        centre = jax.lax.stop_gradient(jnp.log(b / a))
        t = centre + jnp.linspace(-1.0, 1.0, NODES_OF_INVERSE_GAMMA, dtype=dtype) * jnp.minimum(width, 8.0)
        weights = jax.nn.softmax(a * (jnp.log(b) - t) - jnp.exp(jnp.log(b) - t))
        a0, b0 = jnp.asarray(law.prior_a, dtype), jnp.asarray(law.prior_b, dtype)
        gammaln, digamma = jax.scipy.special.gammaln, jax.scipy.special.digamma
        divergence = (a - a0) * digamma(a) - gammaln(a) + gammaln(a0) + a0 * jnp.log(b / b0) + a * (b0 - b) / b
        return jnp.exp(t), weights, a / b, divergence
    assert isinstance(law, GridScale)
    scales = jnp.asarray(np.exp(law.log_scales), dtype)
    # a law on a grid that is held keeps its weights: their constraint has no simple coordinates
    logits = coordinates.get("logits", np.log(np.maximum(law.weights, 1e-30)))
    log_weights = jax.nn.log_softmax(jnp.asarray(logits, dtype))
    weights = jnp.exp(log_weights)
    divergence = jnp.sum(weights * (log_weights - jnp.asarray(np.maximum(law.log_prior, -1e4), dtype)))
    return scales, weights, jnp.sum(weights / scales), divergence
