"""Where learning with a scale for every row begins: outliers hide in several ways, and there are several optima."""

import dataclasses

import numpy as np

from widetail.checks import two_dimensional
from widetail.learning._row_turns import Table, with_noise
from widetail.process import RowNoise, ScaledNoise, ScaledPosterior, ScaleMixture

# Shares of the rows that a fit may use, one fit after the other: those that are nearest to the one before.
FEW_TO_MANY = (0.5, 0.6, 0.7, 0.75)
MANY_TO_FEW = (0.8, 0.7, 0.6, 0.7)
FEWEST_ROWS = 8
ROUGH = 1e-3  # nats per observation


@dataclasses.dataclass(frozen=True, eq=False)
class Beginning:
    """A process with `RowNoise`, the misfits of the rows or None, and evaluations of the evidence so far."""

    process: ScaleMixture
    misfit: np.ndarray | None
    evaluations: int


def beginnings(process: ScaleMixture, table: Table, iterations: int) -> dict[str, Beginning]:
    """The process as it is given; as it is learned with constant noise; and from rows that agree with each other.

    Outliers spoil what is learned with constant noise, and without them it is as good as right. Rows that agree are
    found as in least trimmed squares: fit the share of them that is nearest to the last fit, the first being one so
    smooth that single rows hardly move it.
    """
    noise = process.noise
    assert isinstance(noise, RowNoise)
    constant = table.constant(process, max_iterations=iterations, tolerance=ROUGH)
    learned = with_noise(constant.process, RowNoise(noise.prior, constant.process.noise.variance))
    found = {"given": Beginning(process, None, 0), "constant": Beginning(learned, None, constant.evaluations)}
    if len(table.y) * min(FEW_TO_MANY) >= FEWEST_ROWS:
        found["few to many"] = _agreeing(process, noise, table, FEW_TO_MANY, iterations)
        found["many to few"] = _agreeing(process, noise, table, MANY_TO_FEW, iterations)
    return found


def _agreeing(
    process: ScaleMixture, noise: RowNoise, table: Table, shares: tuple[float, ...], iterations: int
) -> Beginning:
    distance, evaluations = _from_smooth(process, table), 0
    process = with_noise(process, ScaledNoise(noise.variance))
    for share in shares:
        kept = np.sort(np.argsort(distance, kind="stable")[: int(share * len(distance))])
        fit = table.part(kept).constant(process, max_iterations=iterations, tolerance=ROUGH)
        process, evaluations = fit.process, evaluations + fit.evaluations
        distance = _from_others(process, table, kept)
    return Beginning(with_noise(process, RowNoise(noise.prior, process.noise.variance)), distance, evaluations)


def _from_smooth(process: ScaleMixture, table: Table) -> np.ndarray:
    """How far each row is from a fit that hardly sees single rows, squared."""
    diagonal = process.kernel.diagonal(table.x, get="nngp").nngp
    heavy = with_noise(process, ScaledNoise(float(np.mean(np.asarray(diagonal)))))
    y = two_dimensional(table.y)
    middle = np.median(y, axis=0)
    smooth = heavy.condition(table.x, y - middle, table.rows).f(table.x).median
    residual = y - middle - two_dimensional(np.asarray(smooth))
    return np.sum((residual - np.median(residual, axis=0)) ** 2, axis=1)


def _from_others(process: ScaleMixture, table: Table, kept: np.ndarray) -> np.ndarray:
    """How far each row is from what the kept ones without it say, squared, over what is expected."""
    part, rest = table.part(kept), np.setdiff1d(np.arange(len(table.y)), kept)
    posterior = process.condition(part.x, part.y, part.rows)
    assert isinstance(posterior, ScaledPosterior)
    location, scale = np.empty_like(table.y), np.empty_like(table.y)
    location[kept], scale[kept] = posterior.left_out()
    parts = posterior.parts(table.x[rest])
    variance = np.asarray(parts.dispersion()) + posterior.noise * table.rows.single[rest]
    location[rest] = parts.location
    width = np.sqrt(two_dimensional(variance) / posterior.scale.mean_precision)
    scale[rest] = np.broadcast_to(width, (len(rest), two_dimensional(table.y).shape[1])).reshape(scale[rest].shape)
    return np.sum(two_dimensional((table.y - location) / scale) ** 2, axis=1)
