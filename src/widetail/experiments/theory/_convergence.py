"""How fast the law of finite networks approaches its limit as the width grows."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from widetail.finite import body_covariances
from widetail.mixing import scale_posterior
from widetail.nn import Layer
from widetail.predictive import from_scale
from widetail.priors import ScalePrior
from widetail.process import ScaleMixture

BATCHES = 20
PROBABILITIES = np.linspace(0.01, 0.99, 99)


@dataclasses.dataclass(frozen=True, eq=False)
class Convergence:
    """Distances between the law at finite widths and the limit, and the power of the width that they follow.

    Attributes:
        name: what was trained.
        widths: the widths.
        distances: largest difference between the cdfs over all inputs, shape (widths,).
        errors: standard errors of the distances.
        networks: how many bodies each distance was computed from.
        rate: fitted r in distance = c * width**r.
        rate_error: its standard error.
        constant: fitted c.
    """

    name: str
    widths: Float[np.ndarray, " widths"]
    distances: Float[np.ndarray, " widths"]
    errors: Float[np.ndarray, " widths"]
    networks: tuple[int, ...]
    rate: float
    rate_error: float
    constant: float

    def __str__(self) -> str:
        lines = [f"{self.name}: distance = {self.constant:.3g} x width^({self.rate:.2f} ± {self.rate_error:.2f})"]
        rows = zip(self.widths, self.distances, self.errors, self.networks, strict=True)
        lines += [f"  width {w:5.0f}: {d:.5f} ± {e:.5f}  ({n} bodies)" for w, d, e, n in rows]
        return "\n".join(lines)


def fit_rate(widths: Any, distances: Any, errors: Any) -> tuple[float, float, float]:
    """Weighted least squares of log distance on log width: rate, its standard error, constant.

    The error is that of the distances, or of the scatter around the line where that is larger.
    """
    x, y = np.log(np.asarray(widths, float)), np.log(np.asarray(distances, float))
    weights = (np.asarray(distances) / np.asarray(errors)) ** 2
    design = np.stack([x, np.ones_like(x)], axis=1)
    normal = design.T @ (weights[:, None] * design)
    slope, intercept = np.linalg.solve(normal, design.T @ (weights * y))
    scatter = np.sum(weights * (y - slope * x - intercept) ** 2) / max(len(x) - 2, 1)
    error = math.sqrt(np.linalg.inv(normal)[0, 0] * max(1.0, scatter))
    return float(slope), error, float(math.exp(intercept))


def convergence_in_width(
    net: Layer,
    prior: ScalePrior,
    x: Any,
    y: Any,
    x_new: Any,
    *,
    widths: Sequence[int],
    normals: float,
    most_networks: int,
    seed: int,
) -> tuple[Convergence, Convergence]:
    """Distances at initialisation, and after training of the readout, at the inputs `x_new`.

    Given its body a network's output is location plus a normal variable times the root of the readout variance; the
    law at a finite width is the average of these over bodies. It is computed from bodies alone: no readout is
    drawn, so that differences far below the resolution of any sample of networks are seen.

    Args:
        net: Dense layers and activations.
        prior: prior of the readout variance.
        x: training inputs.
        y: training targets, shape (n,).
        x_new: inputs at which laws are compared.
        widths: the widths.
        normals: how many random numbers to spend on each width.
        most_networks: most bodies of one width.
        seed: of the bodies.
    """
    n, together = len(x), np.concatenate([x, x_new])
    scale = scale_posterior(prior)
    unit = from_scale(scale, np.zeros(1), np.ones(1))
    table_p = np.concatenate([np.geomspace(1e-7, 0.01, 400), np.linspace(0.01, 0.5, 1500)[1:]])
    table_p = np.concatenate([table_p, 1 - table_p[-2::-1]])
    table_z = np.asarray(unit.quantile(table_p))[:, 0]
    process = ScaleMixture(net, prior)
    limits = process.prior(x_new), process.trained(x, y)(x_new)
    grids = [np.asarray(limit.quantile(PROBABILITIES)) for limit in limits]
    found: tuple[list[Any], list[Any]] = ([], [])
    counts = []
    for number, width in enumerate(widths):
        networks = int(np.clip(normals / (2 * width * len(together)), BATCHES, most_networks)) // BATCHES * BATCHES
        counts.append(networks)
        k = body_covariances(net, together, width=width, networks=networks, seed=seed + number)
        own = np.diagonal(k[:, n:, n:], axis1=1, axis2=2)
        gain = np.swapaxes(np.linalg.solve(k[:, :n, :n], k[:, :n, n:]), 1, 2)
        left = own - np.einsum("jmn,jmn->jm", gain, k[:, n:, :n])
        laws = (np.zeros_like(own), own), (gain @ y, np.maximum(left, np.finfo(float).tiny))
        for results, grid, (location, variance) in zip(found, grids, laws, strict=True):
            results.append(_largest_difference(grid, location, np.sqrt(variance), table_z, table_p))
    names = "at initialisation", "readout trained"
    convergences = []
    for name, results in zip(names, found, strict=True):
        distances, errors = np.array(results).T
        rate, rate_error, constant = fit_rate(widths, distances, errors)
        convergences.append(
            Convergence(name, np.asarray(widths, float), distances, errors, tuple(counts), rate, rate_error, constant)
        )
    return convergences[0], convergences[1]


def _largest_difference(
    grid: np.ndarray, location: np.ndarray, std: np.ndarray, table_z: np.ndarray, table_p: np.ndarray
) -> tuple[float, float]:
    """KS distance over all inputs between the average of the laws given bodies and the limit, and its error."""
    best = (0.0, 0.0)
    for column in range(grid.shape[1]):
        batches = []
        for part_location, part_std in zip(
            np.array_split(location[:, column], BATCHES), np.array_split(std[:, column], BATCHES), strict=True
        ):
            z = (grid[:, column, None] - part_location) / part_std
            batches.append(np.interp(z, table_z, table_p).mean(axis=1))
        difference = np.mean(batches, axis=0) - PROBABILITIES
        at = int(np.argmax(np.abs(difference)))
        error = float(np.std([batch[at] for batch in batches], ddof=1) / math.sqrt(BATCHES))
        best = max(best, (float(abs(difference[at])), error))
    return best
