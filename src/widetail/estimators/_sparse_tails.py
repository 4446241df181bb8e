"""Left-out predictions of sparse models with Gaussian noise, from which their tails are measured."""

import numpy as np

from widetail.process import LeftOut
from widetail.sparse import CachedRows, SparseModel, variances
from widetail.sparse.likelihoods import Gaussian


def left_out(model: SparseModel, x: np.ndarray, y: np.ndarray) -> LeftOut:
    r"""What the model says of rows that it was trained on, without one observation of each.

    Given the scale the posterior of $f_i$ has a variance $v_i$, of which an observation with noise $\sigma^2$ is a
    factor: without it residuals are $1 / (1 - v_i / \sigma^2)$ times as large. Hyperparameters and scale stay.

    Args:
        model: with Gaussian noise.
        x: inputs of its rows, in standard units.
        y: their targets, shape (n, outputs).
    """
    likelihood = model.likelihood
    assert isinstance(likelihood, Gaussian)
    features, residual = model.whitening.features(x)
    scale = 1 / model.q.law.mean_precision
    noise = float(likelihood.noise_at(np.array([scale]))[0])
    rows = CachedRows.of(features, np.zeros(len(x)), np.zeros(len(x)))
    known = scale * variances(rows, model.q).astype(np.float64)
    rest = np.maximum(1 - known / noise, 1e-6)
    error = (y - features.astype(np.float64) @ model.q.mean.T) / rest
    open_variance = scale * model.residual_share * np.asarray(residual, np.float64)[:, None]
    location, deviation = y - error, np.sqrt(noise / rest + open_variance)
    return LeftOut(location, np.broadcast_to(deviation, location.shape))
