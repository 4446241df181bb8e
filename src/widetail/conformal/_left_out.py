"""Intervals from leaving rows out in closed form: jackknife+ and full conformal prediction of a process that is given.

Rows are compared by how far they lie from their prediction in units of the standard deviation that the process gives
them, so that intervals are wide where the process knows little.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from widetail.checks import like_targets
from widetail.conformal._groups import Groups, Rows, check_coverage, in_parts
from widetail.learning import WeightedPosterior
from widetail.process import Influence, Posterior

NEW_ROWS_AT_A_TIME = 256
SMALLEST = np.finfo(float).tiny

# What every observed row says of every new one: parts of a mixture and their weights in, two arrays (n, m) out.
Says = Callable[[list["_Part"], np.ndarray], tuple[np.ndarray, np.ndarray]]


def jackknife_plus(
    posterior: Posterior | WeightedPosterior, x_new: Any, coverage: float = 0.9, groups: Groups | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Intervals of y from the predictions that leave one row out, all from the factor that the posterior holds.

    Row i says: without me the new y is predicted at $\mu_{-i}$ with standard deviation $s_{-i}$, and I was $r_i$ of my
    own standard deviations off, so expect it within $\mu_{-i} \pm r_i s_{-i}$. The interval leaves out a share of
    `1 - coverage` of the lower ends below it, and of the upper ends above it.

    Guarantee: for exchangeable rows, and a process whose numbers were fixed before they were seen, a new y is inside
    with probability `1 - 2 * (1 - coverage)` at least, whatever its distribution; 80 % for coverage=0.9. That is the
    worst case: usually it is `coverage`. Numbers that were learned from the same rows weaken it; see `CrossFits`.

    Args:
        posterior: a posterior, or a weighted mean of several.
        x_new: inputs, rows first, m of them.
        coverage: between 0 and 1.
        groups: labels of the observed rows and of the new ones, a pair of arrays of lengths n and m: the guarantee
            then holds within every group. A group of fewer than `coverage / (1 - coverage)` observed rows has infinite
            intervals, and a warning names it.

    Returns:
        Lower and upper ends, of shape (m,) or (m, outputs), one output at a time.

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 30)[:, None]
        >>> posterior = wt.ScaleMixture(wt.kernels.RBF(), noise=wt.ScaledNoise(0.1)).posterior(x, np.sin(x[:, 0]))
        >>> lower, upper = wt.conformal.jackknife_plus(posterior, np.array([[0.5]]), coverage=0.9)
        >>> bool(lower[0] < np.sin(0.5) < upper[0])
        True
    """
    return _interval(_without_one, posterior, x_new, coverage, groups)


def full(
    posterior: Posterior | WeightedPosterior, x_new: Any, coverage: float = 0.9, groups: Groups | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Intervals of y from full conformal prediction, exactly, all from the factor that the posterior holds.

    A value is in the interval if, added to the rows as that of the new point, it does not stand out: if among the rows
    and it a share of more than `1 - coverage` lies as far as it from its prediction by all the others, in standard
    deviations of that prediction. Of one process the values that row i lets in are an interval in closed form, so no
    grid of values is tried.

    Guarantee: for exchangeable rows, and a process whose numbers were fixed before they were seen, a new y is inside
    with probability `coverage` at least, whatever its distribution. Numbers that were learned from the same rows weaken
    it; see `CrossFits`.

    Args:
        posterior, x_new, coverage, groups: as in `jackknife_plus`.

    Returns:
        Lower and upper ends, of shape (m,) or (m, outputs), one output at a time.

    Example:
        >>> import numpy as np, widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 30)[:, None]
        >>> posterior = wt.ScaleMixture(wt.kernels.RBF(), noise=wt.ScaledNoise(0.1)).posterior(x, np.sin(x[:, 0]))
        >>> lower, upper = wt.conformal.full(posterior, np.array([[0.5]]), coverage=0.9)
        >>> bool(lower[0] < np.sin(0.5) < upper[0])
        True
    """
    return _interval(_with_new, posterior, x_new, coverage, groups)


class _Part:
    """The influence of rows on new points, of one output."""

    def __init__(self, influence: Influence, output: int):
        def of(array: np.ndarray) -> np.ndarray:
            return array[..., output if array.shape[-1] > 1 else 0]

        self.location, self.variance = of(influence.location), np.maximum(of(influence.variance), SMALLEST)
        self.weights, self.precision, self.reach = (
            of(part)[:, None] if part.ndim == 2 else of(part)
            for part in (influence.weights, influence.precision, influence.reach)
        )


def _without_one(parts: list[_Part], shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What row i says of a new y when it is left out itself."""
    residual = _mean(shares, [part.weights / part.precision for part in parts])
    score = np.abs(residual) / np.sqrt(_mean(shares, [1 / part.precision for part in parts]))
    centre = _mean(shares, [part.location - part.reach * (part.weights / part.precision) for part in parts])
    width = score * np.sqrt(_mean(shares, [part.variance + part.reach**2 / part.precision for part in parts]))
    return centre - width, centre + width


def _with_new(parts: list[_Part], shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""The values of a new y beside which row i is at least as odd.

    With u the distance of the new y from its prediction, in its standard deviations, the oddness of row i is
    $|a + b u|$, that of the new row $|u|$.
    """
    centre = _mean(shares, [part.location for part in parts])
    deviation = np.sqrt(_mean(shares, [part.variance for part in parts]))
    precision = [part.precision + part.reach**2 / part.variance for part in parts]
    own = np.sqrt(_mean(shares, [1 / one for one in precision]))
    slopes = [-part.reach / part.variance for part in parts]
    pairs = list(zip(parts, slopes, precision, strict=True))
    at_centre = _mean(shares, [(p.weights + slope * (centre - p.location)) / one for p, slope, one in pairs]) / own
    slope = _mean(shares, [slope / one for _, slope, one in pairs]) * deviation / own
    along = np.where(at_centre < 0, -slope, slope)
    with np.errstate(divide="ignore", invalid="ignore"):
        upper = np.abs(at_centre) / (1 - along)
        lower = -np.abs(at_centre) / (1 + along)
    # of one process the slope is below one; where several disagree it may not be, and the row lets far values in
    far = np.abs(slope) >= 1
    upper, lower = np.where(far, np.inf, upper), np.where(far, -np.inf, lower)
    return centre + deviation * lower, centre + deviation * upper


def _mean(shares: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    return sum((share * value for share, value in zip(shares, values, strict=True)), start=np.zeros(()))


def _interval(
    says: Says, posterior: Posterior | WeightedPosterior, x_new: Any, coverage: float, groups: Groups | None
) -> tuple[np.ndarray, np.ndarray]:
    coverage = check_coverage(coverage)
    several = isinstance(posterior, WeightedPosterior)
    posteriors = posterior.posteriors if several else [posterior]
    shares = np.asarray(posterior.weights) if several else np.ones(1)
    x_new = x_new if hasattr(x_new, "dtype") else np.asarray(x_new)
    y, counts = posteriors[0].y, posteriors[0].rows.counts
    rows = Rows(len(y), len(x_new), counts, groups)
    rows.warn_of_few(coverage)

    def work(part: slice) -> tuple[np.ndarray, np.ndarray]:
        influences = [one.influence(x_new[part]) for one in posteriors]
        ends = [
            rows.ends(*says([_Part(influence, output) for influence in influences], shares), coverage, part)
            for output in range(influences[0].weights.shape[1])
        ]
        lower, upper = (np.stack(side, axis=-1) for side in zip(*ends, strict=True))
        return like_targets(lower, y), like_targets(upper, y)

    return in_parts(len(x_new), NEW_ROWS_AT_A_TIME, work)
