"""The evidence of processes that are closed formulas in NumPy, with nothing else between kernel and gradient.

Learning from a few hundred rows asks for it some hundred times, and what stands around the formulas in general (objects
for every step, JAX's contexts) takes several times as long as they do.
"""

import math
from typing import Any

import numpy as np
import scipy.linalg

from widetail.kernels import Kernel, evaluate_by_hand, gradient_by_hand
from widetail.mixing import log_inverse_gamma_integral
from widetail.numerics import CholeskyFactor, one_thread
from widetail.priors import InverseGamma, PointMass
from widetail.process import RowFactors, ScaledNoise, ScaleMixture

MOST_ROWS = 1500  # of more, the formulas take the time

(_dgemm,) = scipy.linalg.get_blas_funcs(("gemm",), dtype=np.float64)


def short_evidence(
    process: ScaleMixture, x: Any, y: np.ndarray, rows: RowFactors, *, gradient: bool
) -> tuple[float, list[Any], float] | None:
    """Log evidence, derivatives in the leaves of the kernel and in the noise; None where there is no short way.

    Args:
        process: an inverse gamma law or a point mass of the scale, noise inside of it, a kernel with `by_hand`.
        x: inputs, rows first.
        y: targets, shape (n,) or (n, outputs), checked.
        rows: noise factors and counts.
        gradient: whether to take derivatives, which cost three times as much; else there are none, and 0.
    """
    kernel, prior = process.kernel, process.prior_scale
    is_plain = isinstance(process.noise, ScaledNoise) and isinstance(prior, (InverseGamma, PointMass))
    if not is_plain or not isinstance(kernel, Kernel) or len(y) > MOST_ROWS:
        return None
    hand = kernel.for_numpy(x, None, "nngp")
    if hand is None:
        return None
    kernel.check_shape("x", x.shape[1:])
    with one_thread():
        return _evidence(hand, process, float(process.noise.variance), x, y.reshape(len(y), -1), rows, gradient)


def _evidence(
    hand: Any, process: ScaleMixture, noise: float, x: np.ndarray, y: np.ndarray, rows: RowFactors, gradient: bool
) -> tuple[float, list[Any], float]:
    matrix = evaluate_by_hand(hand, x, None)
    diagonal = np.arange(len(x))
    matrix[diagonal, diagonal] += noise * rows.factors
    factor = CholeskyFactor.of(matrix)
    whitened = factor.solve_lower(y)
    outputs = y.shape[1]
    quad = np.sum(whitened**2, axis=0)
    log_det = factor.log_det() + rows.repeated_log_det(noise)
    count: float = rows.observations
    if process.scale_sharing == "shared":
        quad, log_det, count = np.sum(quad), outputs * log_det, outputs * count
    constant = 0.5 * (count * math.log(2 * math.pi) + log_det)
    prior: Any = process.prior_scale
    if isinstance(prior, PointMass):
        precision = 1 / np.asarray(prior.v, float)
        evidence = 0.5 * (count * np.log(precision) - precision * quad) - constant
    else:
        a, b = np.asarray(prior.a, float), np.asarray(prior.b, float)
        precision = (a + 0.5 * count) / (b + 0.5 * quad)
        evidence = log_inverse_gamma_integral(a, b, 0.5 * count, 0.5 * quad) - constant
    total = float(np.sum(evidence))
    if not gradient:
        return total, [], 0.0
    # dL/dA = (E[1/beta] A^{-1} Y Y^T A^{-1} - D A^{-1}) / 2
    scaled = factor.solve_upper(whitened) * np.sqrt(np.broadcast_to(precision, outputs))
    inverse = factor.inverse(overwrite=True)
    cotangent = _dgemm(0.5, scaled, scaled, trans_b=1, beta=-0.5 * outputs, c=inverse, overwrite_c=1)
    repeated = 0.5 * outputs * rows.repeats / noise if rows.repeats else 0.0
    by_noise = float(cotangent[diagonal, diagonal] @ rows.factors) - repeated
    return total, gradient_by_hand(hand, cotangent, x), by_noise
