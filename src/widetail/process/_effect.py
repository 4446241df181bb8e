"""Parts and averages of the function: one summand given the targets of the whole, means over sets of rows."""

from collections.abc import Callable

import numpy as np

from widetail.checks import like_targets
from widetail.predictive import Predictive, from_scale
from widetail.process._base import Posterior
from widetail.process._inferred import InferredNoisePosterior
from widetail.process._scaled import ScaledPosterior


def effect(posterior: Posterior, part: Callable[[np.ndarray, np.ndarray], np.ndarray], x_new: np.ndarray) -> Predictive:
    r"""The law of one summand of the function at new rows, less its mean over the observed rows.

    The function is a sum of independent ones and its kernel the sum of theirs, so targets of the sum tell of each. What
    is constant in a summand cannot be told from what is constant in another: their means over the observed rows are
    taken out, which makes effects of different features comparable.

    Args:
        posterior: with noise inside of the scale; where that of the rows is inferred, given what was.
        part: covariances of the summand between two sets of rows, one of the summands of `posterior.kernel`.
        x_new: inputs, rows first.

    Example:
        >>> import numpy as np, widetail as wt
        >>> from widetail.process import effect
        >>> line, wave = wt.kernels.Linear(), wt.kernels.RBF(0.3)
        >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
        >>> process = wt.ScaleMixture(line + wave, noise=wt.ScaledNoise(0.01))
        >>> posterior = process.posterior(x, 2.0 * x[:, 0] + np.sin(9.0 * x[:, 0]))
        >>> dist = effect(posterior, lambda a, b: line.kernel(a, b, get="nngp").nngp, np.array([[-1.0], [1.0]]))
        >>> dist.median.round(0).tolist()
        [-2.0, 2.0]
    """
    posterior = _with_noise_inside(posterior, "effects")
    x = np.asarray(posterior.x)
    shares = posterior.rows.counts / np.sum(posterior.rows.counts)
    cross, inner = np.asarray(part(x_new, x), np.float64), np.asarray(part(x, x), np.float64)
    means = shares @ inner  # of every observed row with the mean
    both = cross - means
    own = np.array([float(part(row[None], row[None])[0, 0]) for row in x_new])
    own = own - 2 * cross @ shares + means @ shares
    solved = posterior.factor.solve_lower(both.T.copy())
    variance = np.maximum(own - np.einsum("nm,nm->m", solved, solved), 0.0)
    return from_scale(posterior.scale, like_targets(both @ posterior.weights, posterior.y), variance)


def average(posterior: Posterior, sets: np.ndarray) -> Predictive:
    """The laws of the means of the noise-free function over sets of rows.

    Args:
        posterior: with noise inside of the scale; where that of the rows is inferred, given what was.
        sets: inputs, shape (m, rows, ...).

    Returns:
        A predictive of m values: what is not known of the function is in it, errors of single rows cancel.

    Example:
        >>> import numpy as np, widetail as wt
        >>> from widetail.process import average
        >>> x = np.linspace(-1.0, 1.0, 30)[:, None]
        >>> posterior = wt.ScaleMixture(wt.kernels.RBF(), noise=wt.ScaledNoise(0.01)).posterior(x, 3.0 + x[:, 0])
        >>> average(posterior, np.array([[[-0.9], [0.9]]])).median.round(1).tolist()
        [3.0]
    """
    posterior = _with_noise_inside(posterior, "averages")
    kernel, x = posterior.kernel, posterior.x
    cross = np.stack([np.asarray(kernel.kernel(rows, x, get="nngp").nngp, np.float64).mean(axis=0) for rows in sets])
    own = np.array([np.mean(np.asarray(kernel.kernel(rows, get="nngp").nngp, np.float64)) for rows in sets])
    solved = posterior.factor.solve_lower(cross.T.copy())
    variance = np.maximum(own - np.einsum("nm,nm->m", solved, solved), 0.0)
    return from_scale(posterior.scale, like_targets(cross @ posterior.weights, posterior.y), variance)


def _with_noise_inside(posterior: Posterior, what: str) -> ScaledPosterior:
    posterior = posterior.given if isinstance(posterior, InferredNoisePosterior) else posterior
    if not isinstance(posterior, ScaledPosterior):
        raise ValueError(f"{what} need noise inside of the scale (wt.ScaledNoise); got a {type(posterior).__name__}.")
    return posterior
