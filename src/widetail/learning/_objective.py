"""The log evidence of a process and its gradient."""

from typing import Any

import jax
import numpy as np

from widetail.kernels import Kernel, KernelValues
from widetail.learning._parameters import Parameters
from widetail.learning._short import short_evidence
from widetail.mixing import scale_posterior
from widetail.process import IndependentPosterior, RowFactors, ScaledPosterior, ScaleMixture

ROWS_PER_BLOCK = 512


def evidence_and_gradient(
    parameters: Parameters, vector: np.ndarray, x: Any, y: np.ndarray, rows: RowFactors
) -> tuple[float, np.ndarray]:
    """Log evidence at the logs of the parameters, and its derivatives in them.

    The cotangent of the kernel matrix is formed once and pulled back tile by tile: memory stays at the factor
    and a small workspace, whatever the depth. Targets and rows have been checked: here they would be at every step.
    """
    process, parts = parameters.process(vector), {slot.part for slot in parameters.slots}
    short = None if "prior" in parts else short_evidence(process, x, y, rows, gradient=True)
    if short is not None:
        value, leaves, noise = short
        leaves = [*leaves, *jax.tree.leaves(process.prior_scale), noise]  # what the prior has nobody asks for
        return value, parameters.gradient(vector, dict(enumerate(leaves)))
    posterior = process.condition(x, y, rows)
    if isinstance(posterior, ScaledPosterior):
        cotangent, noise = _scaled_cotangent(posterior)
    else:
        if not isinstance(posterior, IndependentPosterior):
            raise ValueError(
                f"noise={process.noise!r}: the evidence has no gradient here; learn with widetail.fit_evidence."
            )
        cotangent, noise = _independent_cotangent(posterior)
    derivatives = _by_leaf(process, posterior, x, cotangent, noise, parts)
    return posterior.log_evidence, parameters.gradient(vector, derivatives)


def log_evidence(process: ScaleMixture, x: Any, y: np.ndarray, rows: RowFactors) -> float:
    """The same without derivatives, which cost three times as much; targets and rows have been checked."""
    short = short_evidence(process, x, y, rows, gradient=False)
    return process.condition(x, y, rows).log_evidence if short is None else short[0]


def _scaled_cotangent(posterior: ScaledPosterior) -> tuple[np.ndarray, float]:
    """dL/dA = (E[1/beta] A^{-1} Y Y^T A^{-1} - D A^{-1}) / 2, written over the factor; and dL/ds^2."""
    weights = posterior.weights
    precision = np.sqrt(np.broadcast_to(posterior.scale.mean_precision, weights.shape[1:]))
    scaled = weights * precision
    gradient = posterior.factor.inverse(overwrite=True)
    gradient *= -0.5 * weights.shape[1]
    for start in range(0, len(gradient), ROWS_PER_BLOCK):
        rows = slice(start, start + ROWS_PER_BLOCK)
        gradient[:, rows] += 0.5 * (scaled @ scaled[rows].T)
    repeated = 0.5 * weights.shape[1] * posterior.rows.repeats / posterior.noise if posterior.rows.repeats else 0.0
    return gradient, float(np.diagonal(gradient) @ posterior.rows.factors) - repeated


def _independent_cotangent(posterior: IndependentPosterior) -> tuple[np.ndarray, float]:
    """The same for noise outside of the scale: an average over the nodes, diagonal but for one low-rank term."""
    scales, log_weights = (np.asarray(part) for part in posterior.scale.nodes())
    nodes, rotated = scales.shape[0], posterior.rotated
    shape = (nodes, rotated.shape[1])
    scales = np.broadcast_to(scales.reshape(nodes, -1), shape)
    weights = np.broadcast_to(np.exp(log_weights).reshape(nodes, -1), shape)
    variance = scales[..., None] * posterior.eigenvalues + 1  # (nodes, outputs, n)
    solved = rotated.T / variance
    low_rank = (np.sqrt(weights * scales)[..., None] * solved).reshape(-1, len(posterior.y))
    inner = low_rank.T @ low_rank
    inner[np.diag_indices_from(inner)] -= np.einsum("jd,jdn->n", weights * scales, 1 / variance)
    root = np.sqrt(posterior.noise * posterior.rows.factors)
    vectors = posterior.vectors / root[:, None]
    gradient = 0.5 * (vectors @ inner @ vectors.T)
    change = float(np.einsum("jd,jdn->", weights, solved**2 - 1 / variance)) - shape[1] * posterior.rows.repeats
    noise = 0.5 * change / posterior.noise
    return gradient, noise


def _by_leaf(
    process: ScaleMixture, posterior: Any, x: Any, cotangent: np.ndarray, noise: float, parts: set[str]
) -> dict[int, Any]:
    """Derivatives of the evidence in the leaves of the process, by their index."""
    zero = jax.tree.map(lambda leaf: 0.0 * np.asarray(leaf, float), process.prior_scale)
    prior = _prior_gradient(process, posterior) if "prior" in parts else zero
    kernel = process.kernel
    if "kernel" in parts and isinstance(kernel, Kernel):
        kernel = kernel.pull_back(KernelValues(nngp=cotangent), x)
    leaves = [*jax.tree.leaves(kernel), *jax.tree.leaves(prior), noise]
    return dict(enumerate(leaves))


def _prior_gradient(process: ScaleMixture, posterior: Any) -> Any:
    """Derivatives of the evidence in the parameters of the prior."""
    with jax.enable_x64(True):
        evidence = lambda prior: scale_posterior(prior, posterior.likelihood).log_evidence.sum()  # noqa: E731
        return jax.grad(evidence)(process.prior_scale)
